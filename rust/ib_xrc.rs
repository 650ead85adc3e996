// SPDX-License-Identifier: GPL-2.0

//! XRC domains on any RC-capable RDMA device.

// A panic in the kernel takes the host down.
#![deny(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::todo,
    clippy::unimplemented,
    clippy::unreachable,
    clippy::unwrap_used
)]

use kernel::prelude::*;

use crate::{
    linux::chardev,
    rdma::client::ClientRegistration,
    xrc::{
        context::Context,
        registry::{
            ModuleWorkqueues,
            XrcClient,
            REGISTRY, //
        }, //
    },
};

mod bindings;
mod linux;
mod rdma;
mod soft;
mod uverbs;
mod xrc;

module! {
    type: IbXrc,
    name: "ib_xrc",
    authors: ["The ib_xrc authors"],
    description: "XRC domains on any RC-capable RDMA device",
    license: "GPL",
}

/// What the module has registered; undone in this order when it goes.
#[pin_data]
struct IbXrc {
    #[pin]
    _chardev: chardev::Registration<Context>,
    #[pin]
    _client: ClientRegistration<XrcClient>,
    _workqueues: ModuleWorkqueues,
}

impl kernel::InPlaceModule for IbXrc {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // SAFETY: The kernel calls this once, before anything else of the module.
        unsafe { REGISTRY.init() };

        // Made in the order of the dependencies, which is not that of the fields.
        try_pin_init!(Self {
            _workqueues: ModuleWorkqueues::new()?,
            _client <- ClientRegistration::new(),
            _chardev <- chardev::Registration::register(chardev::Options {
                name: c"ib_xrc",
                nodename: c"infiniband/xrc",
                mode: 0o666,
            }),
        })
    }
}
