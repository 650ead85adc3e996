// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The rules of a domain.

use std::fmt;

use ibxrc::DomainPolicy;
use serde::Serialize;

/// The rules of a domain. Numbers that are 0 do not limit anything.
#[derive(Serialize)]
pub struct Rules {
    policy: String,
    flags: Vec<String>,
    linger_ms: u64,
    max_tgt_qps: u32,
    max_srqs: u32,
    max_bytes: u64,
}

impl From<&DomainPolicy> for Rules {
    fn from(policy: &DomainPolicy) -> Self {
        Rules {
            policy: policy.policy.to_string(),
            flags: policy.flags.names(),
            linger_ms: policy.linger.as_millis().try_into().unwrap_or(u64::MAX),
            max_tgt_qps: policy.max_tgt_qps,
            max_srqs: policy.max_srqs,
            max_bytes: policy.max_bytes,
        }
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy {}", self.policy)?;
        if !self.flags.is_empty() {
            write!(f, " flags {}", self.flags.join(","))?;
        }
        let limits = [
            ("linger-ms", self.linger_ms),
            ("max-tgt-qps", self.max_tgt_qps.into()),
            ("max-srqs", self.max_srqs.into()),
            ("max-bytes", self.max_bytes),
        ];
        limits
            .iter()
            .filter(|(_, value)| *value != 0)
            .try_for_each(|(name, value)| write!(f, " {name} {value}"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ibxrc::{DomainFlags, Policy};

    use super::*;

    #[test]
    fn rules_are_told_if_there_are_any() {
        let rules = Rules::from(&DomainPolicy {
            policy: Policy::Domain,
            flags: DomainFlags::RECLAIM_REFERENCED | DomainFlags::USE_NEEDS_WRITE,
            linger: Duration::from_secs(2),
            max_tgt_qps: 3,
            max_srqs: 0,
            max_bytes: 5,
        });
        assert_eq!(
            rules.to_string(),
            "policy domain flags reclaim-referenced,use-needs-write linger-ms 2000 max-tgt-qps 3 \
             max-bytes 5"
        );
    }
}
