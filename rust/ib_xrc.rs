// SPDX-License-Identifier: GPL-2.0

//! XRC domains on any RC-capable RDMA device.

use kernel::prelude::*;

mod bindings;

module! {
    type: IbXrc,
    name: "ib_xrc",
    authors: ["The ib_xrc authors"],
    description: "XRC domains on any RC-capable RDMA device",
    license: "GPL",
}

struct IbXrc;

impl kernel::Module for IbXrc {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
