// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Links libibverbs, whose functions `ibxrc::verbs` declares.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-lib=ibverbs");
}
