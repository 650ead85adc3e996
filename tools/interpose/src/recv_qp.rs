// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! QPs of type XRC_RECV: registrations with TGT QPs.

use std::ffi::c_int;

use ibxrc::{verbs::*, QpAttr, TgtQp, TgtQpOptions};

use crate::{context::Context, element::Element, events::Subject, report, xrcd::Member};

pub(crate) struct RecvQp {
    tgt: TgtQp,
    _domain: Member,
    /// Dropped after the registration, which reports to it.
    _subject: Option<Subject>,
}

impl RecvQp {
    /// An errno value.
    ///
    /// # Safety
    ///
    /// See ibv_create_qp_ex(3).
    pub(crate) unsafe fn create(
        context: &Context,
        attr: &ibv_qp_init_attr_ex,
        element: Element,
        shell: &mut ibv_qp_ex,
    ) -> Result<Self, c_int> {
        if attr.comp_mask & IBV_QP_INIT_ATTR_XRCD == 0 {
            return Err(libc::EINVAL);
        }
        let verbs = context.verbs();
        // SAFETY: The caller's word.
        let domain = unsafe { Member::new(verbs, attr.xrcd) }.ok_or(libc::EINVAL)?;
        let subject = Subject::new(context, element, None);
        let tgt = options(context, &subject)
            .and_then(|options| domain.xrcd().domain.create_tgt_qp_with(options));
        let tgt = tgt.map_err(|error| report::failed("ibv_create_qp_ex", &error))?;
        shell.qp_base.qp_num = tgt.qp_num();
        // As libibverbs: librdmacm takes the one that it gave from there.
        shell.qp_base.pd = attr.pd;
        Ok(RecvQp {
            tgt,
            _domain: domain,
            _subject: subject,
        })
    }

    /// An errno value.
    ///
    /// # Safety
    ///
    /// See ibv_open_qp(3).
    pub(crate) unsafe fn open(
        context: &Context,
        attr: &ibv_qp_open_attr,
        element: Element,
        shell: &mut ibv_qp_ex,
    ) -> Result<Self, c_int> {
        const NEEDED: u32 = IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_TYPE;
        if attr.comp_mask & !(NEEDED | IBV_QP_OPEN_ATTR_CONTEXT) != 0 {
            return Err(libc::ENOSYS);
        }
        if attr.comp_mask & NEEDED != NEEDED || attr.qp_type != IBV_QPT_XRC_RECV {
            return Err(libc::EINVAL);
        }
        let verbs = context.verbs();
        // SAFETY: The caller's word.
        let domain = unsafe { Member::new(verbs, attr.xrcd) }.ok_or(libc::EINVAL)?;
        let subject = Subject::new(context, element, None);
        let tgt = options(context, &subject)
            .and_then(|options| domain.xrcd().domain.open_tgt_qp_with(attr.qp_num, options));
        let tgt = tgt.map_err(|error| report::failed("ibv_open_qp", &error))?;
        let base = &mut shell.qp_base;
        base.qp_num = tgt.qp_num();
        base.qp_type = attr.qp_type;
        if attr.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT != 0 {
            base.qp_context = attr.qp_context;
        }
        if let Ok((_, info)) = tgt.query() {
            base.state = info.state as ibv_qp_state;
        }
        Ok(RecvQp {
            tgt,
            _domain: domain,
            _subject: subject,
        })
    }

    /// An errno value.
    pub(crate) fn modify(&self, attr: &ibv_qp_attr, mask: c_int) -> c_int {
        let attr = QpAttr::from_verbs(attr, mask as u32);
        match attr.and_then(|attr| self.tgt.modify(&attr)) {
            Ok(()) => 0,
            Err(error) => {
                report::note(format_args!("ibv_modify_qp: {error}"));
                error.errno().raw()
            }
        }
    }

    /// An errno value.
    pub(crate) fn query(&self, attr: &mut ibv_qp_attr, init: &mut ibv_qp_init_attr) -> c_int {
        match self.tgt.query() {
            Ok((found, _)) => {
                *attr = found.to_verbs();
                init.cap = attr.cap;
                0
            }
            Err(error) => error.errno().raw(),
        }
    }
}

fn options(context: &Context, subject: &Option<Subject>) -> ibxrc::Result<TgtQpOptions<'static>> {
    let to = subject.as_ref().map(|subject| subject.report_to(context));
    Ok(TgtQpOptions {
        events: to.transpose()?,
    })
}
