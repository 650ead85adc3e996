// SPDX-License-Identifier: GPL-2.0

//! TGT QPs of the soft backend: RC QPs that receive.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    rdma::{
        gate::GateGuard,
        qp::Qp,
        qp_attr::{
            QpAttr,
            QpState, //
        }, //
    },
    xrc::{
        backend::{
            Arrivals,
            Target,
            TgtQp,
            Transition, //
        },
        tgt_qp::JobKey, //
    },
};

use super::{
    domain::SoftDomain,
    receiver::Receiver,
    RECV_WR, //
};

/// A TGT QP on the soft backend.
pub(crate) struct SoftTgtQp {
    qp: Qp<Receiver>,
    /// Dropped after the QP.
    end: End,
}

/// Nothing arrives any more when this is dropped.
struct End(Arc<Receiver>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.cut();
    }
}

impl SoftTgtQp {
    /// Makes an RC QP in the RESET state. Sleeps.
    pub(super) fn new(
        domain: &Arc<SoftDomain>,
        gate: &GateGuard<'_>,
        target: Arc<dyn Target>,
        key: Option<JobKey>,
    ) -> Result<Self> {
        let receiver = Receiver::new(domain, target, key)?;
        let qp = Qp::new(gate, &domain.pd()?, receiver.clone(), RECV_WR)?;

        receiver.attach(qp.num(), qp.queue().clone());
        Ok(Self {
            qp,
            end: End(receiver),
        })
    }

    fn receiver(&self) -> &Arc<Receiver> {
        &self.end.0
    }
}

impl TgtQp for SoftTgtQp {
    fn num(&self) -> u32 {
        self.qp.num()
    }

    fn port(&self) -> u32 {
        self.qp.port()
    }

    fn modify(&self, gate: &GateGuard<'_>, transition: Transition, mut attr: QpAttr) -> Result {
        let Transition { from, to, mask } = transition;
        let mask = attr.complete_for_rc(from, to, mask);

        // From here on buffers that come back unused are no error.
        if matches!(to, QpState::Err | QpState::Reset) {
            self.receiver().set_leaving(true);
        }
        self.qp.modify(gate, &attr, mask).inspect_err(|_| {
            if to == QpState::Err && from != QpState::Err {
                self.receiver().set_leaving(false);
            }
        })?;
        if to == QpState::Reset {
            self.receiver().cut();
        }
        if to == QpState::Init {
            self.receiver().set_leaving(false);
        }
        if from == QpState::Reset && to == QpState::Init {
            if let Err(error) = self.receiver().fill() {
                let (attr, mask) = QpAttr::to_state(QpState::Reset);

                self.receiver().set_leaving(true);
                self.qp.modify(gate, &attr, mask)?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn query(&self, gate: &GateGuard<'_>) -> Result<QpAttr> {
        self.qp.query(gate)
    }

    fn arrivals(&self) -> Arc<dyn Arrivals> {
        self.receiver().clone()
    }
}
