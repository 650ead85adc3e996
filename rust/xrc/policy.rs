// SPDX-License-Identifier: GPL-2.0

//! The rules of a domain.

use kernel::{
    prelude::*,
    time::NSEC_PER_MSEC,
    transmute::AsBytes, //
};

use crate::bindings;

use super::lifetime::members::Rules;

/// All of `enum ib_xrc_domain_flags`.
const FLAGS: u32 = bindings::IB_XRC_DOMAIN_RECLAIM_REFERENCED
    | bindings::IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ
    | bindings::IB_XRC_DOMAIN_USE_NEEDS_WRITE;

/// The rules of a domain.
///
/// # Invariants
///
/// The type and the flags are known, and go with each other.
#[derive(Clone, Copy)]
pub(crate) struct Policy(bindings::ib_xrc_policy);

impl Policy {
    /// Takes what userspace has written. `EINVAL`: it makes no sense.
    pub(crate) fn new(policy: bindings::ib_xrc_policy) -> Result<Self> {
        let keeps = match policy.type_ {
            bindings::IB_XRC_POLICY_REFS => false,
            bindings::IB_XRC_POLICY_DOMAIN => true,
            _ => return Err(EINVAL),
        };

        if policy.flags & !FLAGS != 0 || policy.reserved != 0 {
            return Err(EINVAL);
        }
        if !keeps
            && (policy.linger_ms != 0
                || policy.flags & bindings::IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ != 0)
        {
            return Err(EINVAL);
        }

        // INVARIANT: Just checked.
        Ok(Self(policy))
    }

    /// As userspace sees it.
    pub(crate) fn raw(&self) -> &bindings::ib_xrc_policy {
        &self.0
    }

    fn has(&self, flag: u32) -> bool {
        self.0.flags & flag != 0
    }

    /// Using the domain needs its file opened for writing.
    pub(crate) fn use_needs_write(&self) -> bool {
        self.has(bindings::IB_XRC_DOMAIN_USE_NEEDS_WRITE)
    }

    /// When TGT QPs go.
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            keep: self.0.type_ == bindings::IB_XRC_POLICY_DOMAIN,
            linger_ns: i64::from(self.0.linger_ms).saturating_mul(NSEC_PER_MSEC),
            reclaim_referenced: self.has(bindings::IB_XRC_DOMAIN_RECLAIM_REFERENCED),
            reclaim_with_last_srq: self.has(bindings::IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ),
        }
    }
}

impl Default for Policy {
    /// What a domain has if its creator asks for nothing: all fields 0.
    fn default() -> Self {
        // INVARIANT: `IB_XRC_POLICY_REFS` is 0.
        Self(bindings::ib_xrc_policy::default())
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        AsBytes::as_bytes(&self.0) == AsBytes::as_bytes(&other.0)
    }
}
