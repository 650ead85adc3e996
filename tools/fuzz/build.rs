// SPDX-License-Identifier: GPL-2.0

//! Takes the tables of methods out of the module's source, so that the fuzzer knows what
//! the module knows. The macro that they are written with is another one here:
//! `src/table.rs`.

use std::{env, fs, path::PathBuf};

/// What a table begins with, at the start of a line. It ends with a line `}`.
const TABLE: &str = "uverbs::method! {";
/// The list of objects, which ends with a line `];`.
const OBJECTS: &str = "pub(crate) static OBJECTS: &[ObjectSpec<Context>] = &[";

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let methods = root.join("../../rust/xrc/methods");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", methods.display());

    let mut files: Vec<_> = fs::read_dir(&methods)
        .expect("the module's source is there")
        .map(|entry| entry.expect("it can be read").path())
        .collect();
    files.sort();

    let mut text = String::new();
    for file in files {
        let name = file.file_stem().and_then(|stem| stem.to_str());
        let name = name.expect("source files have names");
        let source = fs::read_to_string(&file).expect("it can be read");
        if name == "mod" {
            let objects = blocks(&source, OBJECTS, "];");
            assert_eq!(objects.len(), 1, "no list of objects in {}", file.display());
            text += &objects[0].replace("ObjectSpec<Context>", "ObjectSpec");
        } else {
            let tables = blocks(&source, TABLE, "}");
            assert!(!tables.is_empty(), "no table in {}", file.display());
            text += &format!(
                "mod {name} {{\nuse super::shim::*;\n{}}}\n",
                tables.concat()
            );
        }
    }
    fs::write(out.join("table.rs"), text).expect("OUT_DIR is writable");
}

/// The parts of `source` from a line `first` to the next line `last`.
fn blocks(source: &str, first: &str, last: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = source.lines();
    while lines.any(|line| line == first) {
        let mut block = format!("{first}\n");
        for line in lines.by_ref() {
            block += line;
            block.push('\n');
            if line == last {
                break;
            }
        }
        found.push(block);
    }
    found
}
