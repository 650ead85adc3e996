// SPDX-License-Identifier: GPL-2.0

//! What handles stand for.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    linux::shared_memory::SharedMemory,
    rdma::{
        gate::GateGuard,
        mr::Pinnable, //
    },
    uverbs::FromObject, //
};

use super::{
    backend::{
        Backend,
        Cq as _,
        Mr as _,
        Srq as _,
        SrqAttr, //
    },
    comp_channel::CqNotifier,
    device::{
        DomainHandle,
        Services, //
    },
    domain::Domain,
    event_file::EventSource,
    quota::Charge,
    removal::{
        Listening,
        RemovalListeners, //
    },
    subscribers::{
        Subscribers,
        Subscription, //
    },
    tgt_qp::{
        JobKey,
        Registration, //
    },
    users::{
        InUse,
        Users, //
    }, //
};

/// A handle on a domain.
pub(crate) struct Xrcd<B: Backend> {
    handle: DomainHandle<B>,
    key: Option<JobKey>,
    may_use: bool,
    users: Users,
    _subscription: Option<Subscription>,
}

impl<B: Backend> Xrcd<B> {
    /// A handle that nothing was made with yet. `writable` says how its file was opened, `source`
    /// is told of the domain's TGT QPs. Sleeps.
    pub(crate) fn new(
        handle: DomainHandle<B>,
        writable: bool,
        key: Option<JobKey>,
        source: Option<EventSource>,
    ) -> Result<Arc<Self>> {
        let domain = handle.domain();
        let may_use = writable || !domain.policy().use_needs_write();
        let subscription = match source {
            Some(source) => Some(Subscribers::subscribe(domain.subscribers(), source)?),
            None => None,
        };
        let xrcd = Self {
            handle,
            key,
            may_use,
            users: Users::new(),
            _subscription: subscription,
        };

        Ok(Arc::new(xrcd, GFP_KERNEL_ACCOUNT)?)
    }

    /// The handle on the domain.
    pub(crate) fn handle(&self) -> &DomainHandle<B> {
        &self.handle
    }

    /// The domain, to look at.
    pub(crate) fn domain(&self) -> &Arc<Domain<B>> {
        self.handle.domain()
    }

    /// The domain, to use it. `EACCES`: its file was not opened in a mode that allows it.
    pub(crate) fn domain_to_use(&self) -> Result<&Arc<Domain<B>>> {
        if self.may_use {
            Ok(self.domain())
        } else {
            Err(EACCES)
        }
    }

    /// What is made with the handle belongs to this job.
    pub(crate) fn key(&self) -> Option<JobKey> {
        self.key
    }
}

impl<B: Backend> AsRef<Users> for Xrcd<B> {
    fn as_ref(&self) -> &Users {
        &self.users
    }
}

/// A registration with a TGT QP, made with an [`Xrcd`].
pub(crate) struct TgtQpHandle<B: Backend> {
    registration: Registration<B>,
    _xrcd: InUse<Xrcd<B>>,
}

impl<B: Backend> TgtQpHandle<B> {
    /// Puts a registration behind a handle.
    pub(crate) fn new(registration: Registration<B>, xrcd: &Arc<Xrcd<B>>) -> Result<Arc<Self>> {
        let handle = Self {
            registration,
            _xrcd: InUse::new(xrcd),
        };

        Ok(Arc::new(handle, GFP_KERNEL_ACCOUNT)?)
    }

    /// The registration.
    pub(crate) fn registration(&self) -> &Registration<B> {
        &self.registration
    }
}

/// A CQ.
pub(crate) struct CqHandle<B: Backend> {
    cq: Arc<B::Cq>,
    users: Users,
    _listening: Listening,
}

impl<B: Backend> CqHandle<B> {
    /// Makes a CQ of `cqe` entries, which notifies `notifier`. Sleeps.
    pub(crate) fn new(
        services: &Services,
        cqe: u32,
        notifier: Option<CqNotifier>,
    ) -> Result<Arc<Self>> {
        let cq = B::create_cq(cqe, notifier)?;
        let handle = Self {
            _listening: RemovalListeners::listen(services.removal(), cq.clone())?,
            cq,
            users: Users::new(),
        };

        Ok(Arc::new(handle, GFP_KERNEL_ACCOUNT)?)
    }

    /// The CQ.
    pub(crate) fn cq(&self) -> &Arc<B::Cq> {
        &self.cq
    }
}

impl<B: Backend> AsRef<Users> for CqHandle<B> {
    fn as_ref(&self) -> &Users {
        &self.users
    }
}

/// An SRQ, made with an [`Xrcd`] and a [`CqHandle`]; it is closed when this is dropped.
pub(crate) struct SrqHandle<B: Backend> {
    srq: Arc<B::Srq>,
    domain: Arc<Domain<B>>,
    _charge: Charge,
    _xrcd: InUse<Xrcd<B>>,
    _cq: InUse<CqHandle<B>>,
}

impl<B: Backend> SrqHandle<B> {
    /// Makes an SRQ whose posted addresses are those of the calling process. `EACCES`: the handle
    /// may only look. `EDQUOT`: the domain has too many. Sleeps.
    pub(crate) fn new(
        _gate: &GateGuard<'_>,
        xrcd: &Arc<Xrcd<B>>,
        cq: &Arc<CqHandle<B>>,
        attr: SrqAttr,
    ) -> Result<Arc<Self>> {
        let domain = xrcd.domain_to_use()?.clone();
        let charge = domain.charge_srq()?;
        let srq = B::create_srq(domain.backend(), &cq.cq, attr)?;

        domain.add_srq(&srq).inspect_err(|_| srq.close())?;

        let handle = Self {
            srq,
            domain,
            _charge: charge,
            _xrcd: InUse::new(xrcd),
            _cq: InUse::new(cq),
        };

        Ok(Arc::new(handle, GFP_KERNEL_ACCOUNT)?)
    }

    /// The SRQ.
    pub(crate) fn srq(&self) -> &Arc<B::Srq> {
        &self.srq
    }
}

impl<B: Backend> Drop for SrqHandle<B> {
    fn drop(&mut self) {
        self.srq.close();
        self.domain.remove_srq(&self.srq);
    }
}

/// An MR, made with an [`Xrcd`]; it is deregistered when this is dropped.
pub(crate) struct MrHandle<B: Backend> {
    mr: Arc<B::Mr>,
    _charge: Charge,
    _xrcd: InUse<Xrcd<B>>,
}

impl<B: Backend> MrHandle<B> {
    /// Makes room for so many bytes. `EACCES`: the handle may only look. `EDQUOT`: the domain has
    /// too much.
    pub(crate) fn charge(xrcd: &Xrcd<B>, bytes: u64) -> Result<Charge> {
        xrcd.domain_to_use()?.charge_mr(bytes)
    }

    /// Registers memory of the calling process, for which `charge` is. `EACCES`: the handle may only
    /// look. Sleeps.
    pub(crate) fn new(
        gate: &GateGuard<'_>,
        xrcd: &Arc<Xrcd<B>>,
        memory: Pinnable<'_>,
        charge: Charge,
    ) -> Result<Arc<Self>> {
        let domain = xrcd.domain_to_use()?;
        let handle = Self {
            mr: B::reg_mr(domain.backend(), gate, memory)?,
            _charge: charge,
            _xrcd: InUse::new(xrcd),
        };

        Ok(Arc::new(handle, GFP_KERNEL_ACCOUNT)?)
    }

    /// The MR.
    pub(crate) fn mr(&self) -> &Arc<B::Mr> {
        &self.mr
    }
}

impl<B: Backend> Drop for MrHandle<B> {
    fn drop(&mut self) {
        self.mr.close();
    }
}

/// What a handle stands for.
pub(crate) enum Object<B: Backend> {
    /// `IB_XRC_OBJECT_XRCD`
    Xrcd(Arc<Xrcd<B>>),
    /// `IB_XRC_OBJECT_TGT_QP`
    TgtQp(Arc<TgtQpHandle<B>>),
    /// `IB_XRC_OBJECT_CQ`
    Cq(Arc<CqHandle<B>>),
    /// `IB_XRC_OBJECT_SRQ`
    Srq(Arc<SrqHandle<B>>),
    /// `IB_XRC_OBJECT_MR`
    Mr(Arc<MrHandle<B>>),
}

impl<B: Backend> Object<B> {
    /// The memory that the object shares with userspace. `EINVAL`: it has none. `EACCES`: the
    /// calling process may not have it.
    pub(crate) fn ring_to_map(&self) -> Result<&SharedMemory> {
        match self {
            Object::Cq(cq) => Ok(cq.cq.ring()),
            // Who can post can have the memory written to of the process that made the SRQ: not
            // every process that a file was passed to may do that to the one which passed it.
            Object::Srq(srq) if !srq.srq.is_of_current() => Err(EACCES),
            Object::Srq(srq) => Ok(srq.srq.ring()),
            Object::Xrcd(_) | Object::TgtQp(_) | Object::Mr(_) => Err(EINVAL),
        }
    }
}

// Not derived: that would ask for `B: Clone`.
impl<B: Backend> Clone for Object<B> {
    fn clone(&self) -> Self {
        match self {
            Object::Xrcd(xrcd) => Object::Xrcd(xrcd.clone()),
            Object::TgtQp(tgt_qp) => Object::TgtQp(tgt_qp.clone()),
            Object::Cq(cq) => Object::Cq(cq.clone()),
            Object::Srq(srq) => Object::Srq(srq.clone()),
            Object::Mr(mr) => Object::Mr(mr.clone()),
        }
    }
}

macro_rules! from_object {
    ($($variant:ident($type:ident)),* $(,)?) => {
        $(
            impl<B: Backend> FromObject<Object<B>> for Arc<$type<B>> {
                fn from_object(object: &Object<B>) -> Option<&Self> {
                    match object {
                        Object::$variant(object) => Some(object),
                        _ => None,
                    }
                }
            }
        )*
    };
}

from_object!(
    Xrcd(Xrcd),
    TgtQp(TgtQpHandle),
    Cq(CqHandle),
    Srq(SrqHandle),
    Mr(MrHandle),
);
