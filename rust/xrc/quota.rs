// SPDX-License-Identifier: GPL-2.0

//! What the TGT QPs, SRQs and MRs of a domain may use in all.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

use super::policy::Policy;

/// An amount.
#[derive(Clone, Copy, Default)]
pub(crate) struct Amount {
    /// TGT QPs.
    pub(crate) tgt_qps: u32,
    /// SRQs.
    pub(crate) srqs: u32,
    /// Bytes of receive buffers and of pages pinned.
    pub(crate) bytes: u64,
}

/// What may be used, and what is.
#[pin_data]
pub(crate) struct Quota {
    limit: Amount,
    #[pin]
    used: Mutex<Amount>,
}

impl Quota {
    /// Nothing is used.
    pub(crate) fn new(policy: &Policy) -> Result<Arc<Self>> {
        /// 0 is no limit.
        fn limit<T: Default + PartialEq>(limit: T, max: T) -> T {
            if limit == T::default() {
                max
            } else {
                limit
            }
        }

        let policy = policy.raw();
        let limit = Amount {
            tgt_qps: limit(policy.max_tgt_qps, u32::MAX),
            srqs: limit(policy.max_srqs, u32::MAX),
            bytes: limit(policy.max_bytes, u64::MAX),
        };

        Arc::pin_init(
            pin_init!(Self {
                limit,
                used <- new_mutex!(Amount::default(), "Quota::used"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// What is used.
    pub(crate) fn used(&self) -> Amount {
        *self.used.lock()
    }

    /// Takes an amount. `EDQUOT`: it would be too much.
    pub(crate) fn charge(quota: &Arc<Self>, amount: Amount) -> Result<Charge> {
        let mut used = quota.used.lock();
        let sum = Amount {
            tgt_qps: used.tgt_qps.checked_add(amount.tgt_qps).ok_or(EDQUOT)?,
            srqs: used.srqs.checked_add(amount.srqs).ok_or(EDQUOT)?,
            bytes: used.bytes.checked_add(amount.bytes).ok_or(EDQUOT)?,
        };

        if sum.tgt_qps > quota.limit.tgt_qps
            || sum.srqs > quota.limit.srqs
            || sum.bytes > quota.limit.bytes
        {
            return Err(EDQUOT);
        }
        *used = sum;
        drop(used);

        Ok(Charge {
            quota: quota.clone(),
            amount,
        })
    }
}

/// An amount that is taken; dropping this gives it back.
pub(crate) struct Charge {
    quota: Arc<Quota>,
    amount: Amount,
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut used = self.quota.used.lock();

        used.tgt_qps = used.tgt_qps.saturating_sub(self.amount.tgt_qps);
        used.srqs = used.srqs.saturating_sub(self.amount.srqs);
        used.bytes = used.bytes.saturating_sub(self.amount.bytes);
    }
}
