// SPDX-License-Identifier: GPL-2.0

//! Makes the mutants: the core once more for each, with one thing wrong.

mod mutants;

use std::{env, fmt::Write, fs, path::Path};

use mutants::{Mutant, MUTANTS};

/// The files of the core: where they are in the module, and where in a mutant.
const FILES: [(&str, &str); 4] = [
    ("rdma/gate.rs", "gate.rs"),
    ("xrc/lifetime/mod.rs", "lifetime/mod.rs"),
    ("xrc/lifetime/members.rs", "lifetime/members.rs"),
    ("xrc/lifetime/state.rs", "lifetime/state.rs"),
];

fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let here = Path::new(&here);
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let out = Path::new(&out);
    let module = here.join("../../rust");
    let mut code = String::from("pub(crate) const MUTANTS: &[Mutant] = &[\n");

    for mutant in MUTANTS {
        let Mutant {
            name,
            what,
            protocol,
            scenario,
            finds,
            ..
        } = mutant;

        write(&module, &out.join(name), mutant);
        writeln!(
            code,
            "Mutant {{ name: {name:?}, what: {what:?}, scenario: \"{protocol}/{scenario}\", \
             finds: {finds:?}, run: {name}::protocols::{protocol}::{scenario} }},",
        )
        .expect("strings take it");
    }
    code.push_str("];\n");

    for Mutant { name, .. } in MUTANTS {
        let mutant = out.join(name);

        writeln!(code, "mod {name} {{").expect("strings take it");
        for (name, path) in [
            ("gate", mutant.join("gate.rs")),
            ("lifetime", mutant.join("lifetime/mod.rs")),
            ("protocols", here.join("src/protocols/mod.rs")),
            ("world", here.join("src/world/mod.rs")),
        ] {
            writeln!(code, "#[path = {path:?}] pub(crate) mod {name};").expect("strings take it");
        }
        code.push_str("}\n");
    }
    fs::write(out.join("mutants.rs"), code).expect("OUT_DIR is writable");

    for (file, _) in FILES {
        println!("cargo::rerun-if-changed={}", module.join(file).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=mutants.rs");
}

/// Writes the files of a mutant.
fn write(module: &Path, mutant_dir: &Path, mutant: &Mutant) {
    let mut count = 0;

    fs::create_dir_all(mutant_dir.join("lifetime")).expect("OUT_DIR is writable");
    for (file, copy) in FILES {
        let mut text = fs::read_to_string(module.join(file)).expect("the module is there");

        if file == mutant.file {
            count = text.matches(mutant.old).count();
            text = text.replace(mutant.old, mutant.new);
        }
        fs::write(mutant_dir.join(copy), text).expect("OUT_DIR is writable");
    }
    assert_eq!(
        count, 1,
        "{}: what it replaces is there {count} times",
        mutant.name
    );
}
