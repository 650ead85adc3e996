// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Generates the one type of libibverbs that `ibxrc::verbs` lacks.

use std::{env, path::PathBuf};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed=build.rs");
    bindgen::Builder::default()
        .header_contents("verbs_context.h", "#include <infiniband/verbs.h>")
        .allowlist_type("verbs_context")
        .allowlist_recursively(false)
        .generate_comments(false)
        .generate()
        .expect("libibverbs-dev is installed")
        .write_to_file(out.join("verbs_context.rs"))
        .expect("OUT_DIR is writable");
}
