// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The rules of a domain.

use std::{fmt, ops::BitOr, time::Duration};

use crate::{
    error::{Error, Result},
    time::millis,
    uapi::*,
};

/// When a TGT QP dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// With its last registration: closed, or its process gone.
    #[default]
    Refs,
    /// With the domain. Without registrations also before: at once if it is in error or
    /// when an error hits it, or once [`DomainPolicy::linger`] has passed.
    Domain,
    /// One that this library does not know.
    Other(u32),
}

impl Policy {
    pub(crate) fn from_raw(raw: u32) -> Self {
        match raw {
            IB_XRC_POLICY_REFS => Policy::Refs,
            IB_XRC_POLICY_DOMAIN => Policy::Domain,
            other => Policy::Other(other),
        }
    }

    fn to_raw(self) -> u32 {
        match self {
            Policy::Refs => IB_XRC_POLICY_REFS,
            Policy::Domain => IB_XRC_POLICY_DOMAIN,
            Policy::Other(raw) => raw,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Refs => f.write_str("refs"),
            Policy::Domain => f.write_str("domain"),
            Policy::Other(raw) => write!(f, "policy-{raw}"),
        }
    }
}

/// More rules of a domain (`enum ib_xrc_domain_flags`); they are put together with `|`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DomainFlags(pub u32);

impl DomainFlags {
    /// None of them.
    pub const NONE: Self = DomainFlags(0);
    /// An error destroys a TGT QP even while there are registrations, which from then on
    /// answer ESTALE.
    pub const RECLAIM_REFERENCED: Self = DomainFlags(IB_XRC_DOMAIN_RECLAIM_REFERENCED);
    /// While the domain has no SRQ, it has no TGT QPs without registrations: they go with its
    /// last SRQ, and later ones with their last registration. [`Policy::Domain`] only.
    pub const RECLAIM_WITH_LAST_SRQ: Self = DomainFlags(IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ);
    /// Who uses the domain needs to have its file open for writing; others may look at it.
    pub const USE_NEEDS_WRITE: Self = DomainFlags(IB_XRC_DOMAIN_USE_NEEDS_WRITE);

    /// Whether it has all of these.
    pub fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The name of each, in the order of their bits.
    pub fn names(self) -> Vec<String> {
        const NAMES: [(DomainFlags, &str); 3] = [
            (DomainFlags::RECLAIM_REFERENCED, "reclaim-referenced"),
            (DomainFlags::RECLAIM_WITH_LAST_SRQ, "reclaim-with-last-srq"),
            (DomainFlags::USE_NEEDS_WRITE, "use-needs-write"),
        ];
        let known = NAMES.iter().fold(0, |bits, (flag, _)| bits | flag.0);
        let mut names: Vec<String> = NAMES
            .iter()
            .filter(|(flag, _)| self.contains(*flag))
            .map(|(_, name)| name.to_string())
            .collect();
        if self.0 & !known != 0 {
            names.push(format!("{:#x}", self.0 & !known));
        }
        names
    }
}

impl BitOr for DomainFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        DomainFlags(self.0 | other.0)
    }
}

/// The rules of a domain: chosen by who makes it, never changed after that. The default
/// is what a domain gets whose maker asks for nothing.
///
/// ```
/// use std::time::Duration;
/// use ibxrc::{DomainFlags, DomainPolicy, Policy};
///
/// let policy = DomainPolicy {
///     policy: Policy::Domain,
///     flags: DomainFlags::RECLAIM_REFERENCED | DomainFlags::USE_NEEDS_WRITE,
///     linger: Duration::from_secs(60),
///     max_tgt_qps: 1000,
///     ..Default::default()
/// };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainPolicy {
    /// When a TGT QP dies.
    pub policy: Policy,
    /// More rules.
    pub flags: DomainFlags,
    /// How long a TGT QP stays without registrations, and up to a sixteenth more; zero: as
    /// long as the domain. The kernel counts milliseconds. [`Policy::Domain`] only.
    pub linger: Duration,
    /// TGT QPs of the domain at a time; 0: not limited.
    pub max_tgt_qps: u32,
    /// SRQs of the domain at a time; 0: not limited.
    pub max_srqs: u32,
    /// Bytes of receive buffers that the kernel keeps for TGT QPs and SRQs of the domain, see
    /// [`crate::Limits::tgt_qp_bytes`]; 0: not limited.
    pub max_bytes: u64,
}

impl DomainPolicy {
    /// EINVAL: the time has more than 32 bits of milliseconds.
    pub(crate) fn to_raw(self) -> Result<ib_xrc_policy> {
        let linger_ms = millis(self.linger).ok_or_else(|| {
            Error::invalid(
                "a linger time of more than 4294967295 ms: zero is as long as the domain",
            )
        })?;
        Ok(ib_xrc_policy {
            type_: self.policy.to_raw(),
            flags: self.flags.0,
            linger_ms,
            max_tgt_qps: self.max_tgt_qps,
            max_srqs: self.max_srqs,
            reserved: 0,
            max_bytes: self.max_bytes,
        })
    }
}

impl From<&ib_xrc_policy> for DomainPolicy {
    fn from(raw: &ib_xrc_policy) -> Self {
        DomainPolicy {
            policy: Policy::from_raw(raw.type_),
            flags: DomainFlags(raw.flags),
            linger: Duration::from_millis(raw.linger_ms.into()),
            max_tgt_qps: raw.max_tgt_qps,
            max_srqs: raw.max_srqs,
            max_bytes: raw.max_bytes,
        }
    }
}

/// A secret that the processes of a job have in common: a message is accepted only if TGT
/// QP and SRQ were made with the same key, or both without one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JobKey(pub u64);

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_ways_are_the_same(
            words in prop::array::uniform5(any::<u32>()),
            max_bytes in any::<u64>(),
        ) {
            let raw = ib_xrc_policy {
                type_: words[0],
                flags: words[1],
                linger_ms: words[2],
                max_tgt_qps: words[3],
                max_srqs: words[4],
                reserved: 0,
                max_bytes,
            };
            prop_assert_eq!(DomainPolicy::from(&raw).to_raw(), Ok(raw));
        }
    }

    #[test]
    fn the_default_is_all_zero() {
        assert_eq!(
            DomainPolicy::default().to_raw(),
            Ok(ib_xrc_policy::default())
        );
    }

    #[test]
    fn linger_times_are_at_most_what_the_kernel_counts() {
        let policy = |linger| DomainPolicy {
            linger,
            ..Default::default()
        };
        let raw = policy(Duration::from_nanos(1)).to_raw().unwrap();
        assert_eq!(raw.linger_ms, 1);
        let error = policy(Duration::from_secs(1 << 32)).to_raw().unwrap_err();
        assert_eq!(error.errno(), crate::Errno::EINVAL);
    }

    #[test]
    fn flags_have_names() {
        let flags = DomainFlags::USE_NEEDS_WRITE | DomainFlags::RECLAIM_REFERENCED;
        assert_eq!(flags.names(), ["reclaim-referenced", "use-needs-write"]);
        assert!(!flags.contains(DomainFlags::RECLAIM_WITH_LAST_SRQ));
        assert!(flags.contains(DomainFlags::NONE));
        assert_eq!(DomainFlags(0x12).names(), ["reclaim-with-last-srq", "0x10"]);
    }

    #[test]
    fn keys_are_not_shown() {
        assert_eq!(format!("{:?}", JobKey(1234)), "JobKey(..)");
    }
}
