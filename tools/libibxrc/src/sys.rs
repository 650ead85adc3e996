// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What bindgen makes of the C headers.

/// The ABI: `uapi/rdma/ib_user_xrc.h` and the uverbs headers it uses.
#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    missing_docs,
    non_camel_case_types,
    unsafe_op_in_unsafe_fn
)]
pub mod uapi {
    include!(concat!(env!("OUT_DIR"), "/uapi.rs"));
}

/// `infiniband/verbs.h` of libibverbs and `infiniband/xrc.h`, our C API.
///
/// This crate uses the types only and does not link libibverbs; who calls its
/// functions has to.
#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unsafe_op_in_unsafe_fn
)]
pub mod verbs {
    include!(concat!(env!("OUT_DIR"), "/verbs.rs"));
}
