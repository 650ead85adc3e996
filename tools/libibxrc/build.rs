// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Generates the types of the ABI, of libibverbs and of our own C header, so that
//! each has one definition: the header.

use std::{env, path::PathBuf};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let uapi = root.join("../../uapi");
    let include = root.join("include");

    let bindings = |header: &str| {
        let header = root.join("src/sys").join(header);
        println!("cargo::rerun-if-changed={}", header.display());
        bindgen::Builder::default()
            .header(header.to_str().expect("the path is UTF-8"))
            .clang_arg(format!("-I{}", uapi.display()))
            .clang_arg(format!("-I{}", include.display()))
            .default_enum_style(bindgen::EnumVariation::Consts)
            .prepend_enum_name(false)
            .derive_default(true)
            .generate_comments(false)
            .layout_tests(true)
    };

    bindings("uapi.h")
        .allowlist_item("(ib_xrc|IB_XRC|UVERBS|IBXRC)_.*|RDMA_DRIVER_UNKNOWN")
        .allowlist_type("rdma_driver_id")
        .allowlist_type("ib_uverbs_(attr|ioctl_hdr|qp_attr|ah_attr|global_route|sge)")
        .allowlist_type("ib_uverbs_comp_event_desc")
        .derive_eq(true)
        .generate()
        .expect("the ABI header is C; libclang and linux-libc-dev are installed")
        .write_to_file(out.join("uapi.rs"))
        .expect("OUT_DIR is writable");

    bindings("verbs.h")
        .allowlist_item("(ibv|IBV|ibxrc|IBXRC)_.*")
        .blocklist_type("ib_xrc_.*")
        // Made of these are deprecated or inline calls that nobody here needs.
        .blocklist_item("_?ibv_(flow|exp|cm|values|alloc_parent).*")
        .raw_line("use super::uapi::*;")
        // A thread that waits in these may be cancelled.
        .override_abi(bindgen::Abi::CUnwind, "ibxrc_ofed_get_(async|cq)_event")
        .generate()
        .expect("libibverbs-dev is installed")
        .write_to_file(out.join("verbs.rs"))
        .expect("OUT_DIR is writable");

    println!("cargo::rerun-if-changed=build.rs");
    for dir in [uapi.join("rdma"), include.join("infiniband")] {
        println!("cargo::rerun-if-changed={}", dir.display());
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libibxrc.so.1");
}
