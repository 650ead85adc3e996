// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Generates the one type of libibverbs that `ibxrc::verbs` lacks, and what it takes to know
//! some of its calls of the kernel.

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
    const IOCTL: &str = "
        #include <rdma/ib_user_ioctl_cmds.h>
        #include <rdma/rdma_user_ioctl_cmds.h>
        static const unsigned long IBXRC_RDMA_VERBS_IOCTL = RDMA_VERBS_IOCTL;
    ";
    bindgen::Builder::default()
        .header_contents("ioctl.h", IOCTL)
        .allowlist_type("ib_uverbs_ioctl_hdr")
        .allowlist_var("IBXRC_.*")
        .allowlist_type("uverbs_default_objects|uverbs_(attrs_create|methods)_(cq|qp|srq|wq).*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .generate_comments(false)
        .layout_tests(false)
        .generate()
        .expect("linux-libc-dev is installed")
        .write_to_file(out.join("ioctl.rs"))
        .expect("OUT_DIR is writable");
}
