// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! `struct verbs_context`: what the inline functions of libibverbs call through.

#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    unsafe_op_in_unsafe_fn
)]

use ibxrc::verbs::*;

/// Only pointed to.
macro_rules! opaque {
    ($($name:ident)*) => {
        $(pub enum $name {})*
    };
}

opaque! {
    ibv_flow ibv_flow_attr ibv_flow_action ibv_flow_action_esp_attr
    ibv_values_ex ibv_parent_domain_init_attr verbs_ex_private
}

type ib_uverbs_advise_mr_advice = u32;

include!(concat!(env!("OUT_DIR"), "/verbs_context.rs"));

/// Calls of the kernel.
pub mod uverbs {
    include!(concat!(env!("OUT_DIR"), "/ioctl.rs"));
}
