// SPDX-License-Identifier: GPL-2.0

//! What the rings need of the module's RDMA layer.

pub(crate) mod qp {
    /// As the module's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum QpError {
        Request,
        Access,
    }
}
