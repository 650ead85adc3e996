// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! What an asynchronous event is about, and whether the program has acknowledged those that
//! libibverbs does not know.

use std::{
    collections::HashMap,
    sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError},
};

use ibxrc::verbs::*;

/// An object of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Element {
    Cq(*mut ibv_cq),
    Qp(*mut ibv_qp),
    Srq(*mut ibv_srq),
}

// SAFETY: The pointers are only told apart here.
unsafe impl Send for Element {}

impl Element {
    /// What an event is about; `None`: a port, the device, or a WQ.
    ///
    /// # Safety
    ///
    /// An event of libibverbs.
    pub(crate) unsafe fn of(event: &ibv_async_event) -> Option<Self> {
        let element = &event.element;
        // SAFETY: The caller's word: the type of the event tells which one it has.
        unsafe {
            match event.event_type {
                IBV_EVENT_CQ_ERR => Some(Element::Cq(element.cq)),
                IBV_EVENT_QP_FATAL
                | IBV_EVENT_QP_REQ_ERR
                | IBV_EVENT_QP_ACCESS_ERR
                | IBV_EVENT_COMM_EST
                | IBV_EVENT_SQ_DRAINED
                | IBV_EVENT_PATH_MIG
                | IBV_EVENT_PATH_MIG_ERR
                | IBV_EVENT_QP_LAST_WQE_REACHED => Some(Element::Qp(element.qp)),
                IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => Some(Element::Srq(element.srq)),
                _ => None,
            }
        }
    }

    /// An event about it.
    pub(crate) fn event(self, event_type: ibv_event_type) -> ibv_async_event {
        let mut event = ibv_async_event {
            event_type,
            ..Default::default()
        };
        match self {
            Element::Cq(cq) => event.element.cq = cq,
            Element::Qp(qp) => event.element.qp = qp,
            Element::Srq(srq) => event.element.srq = srq,
        }
        event
    }
}

/// Events that the program has, and has not acknowledged.
#[derive(Default)]
struct Open {
    events: Mutex<HashMap<Element, u32>>,
    acknowledged: Condvar,
}

static OPEN: LazyLock<Open> = LazyLock::new(Open::default);

pub(crate) type OpenGuard = MutexGuard<'static, HashMap<Element, u32>>;

/// No event is got or acknowledged as long as the guard is there.
pub(crate) fn open() -> OpenGuard {
    OPEN.events.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program gets an event.
pub(crate) fn taken(element: Element) {
    *open().entry(element).or_default() += 1;
}

/// The program acknowledges an event. Returns whether it was one of these.
pub(crate) fn acknowledge(element: Element) -> bool {
    let mut open = open();
    let Some(count) = open.get_mut(&element) else {
        return false;
    };
    *count -= 1;
    if *count == 0 {
        open.remove(&element);
        OPEN.acknowledged.notify_all();
    }
    true
}

/// Waits until all events about it are acknowledged. It gets no more.
pub(crate) fn wait_acknowledged(element: Element) {
    let mut open = open();
    while open.contains_key(&element) {
        open = OPEN
            .acknowledged
            .wait(open)
            .unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    #[test]
    fn an_event_names_its_element() {
        let qp = Element::Qp(16 as *mut ibv_qp);
        let fatal = qp.event(IBV_EVENT_QP_FATAL);
        // SAFETY: It is one.
        assert_eq!(unsafe { Element::of(&fatal) }, Some(qp));
        let srq = Element::Srq(16 as *mut ibv_srq);
        let limit = srq.event(IBV_EVENT_SRQ_LIMIT_REACHED);
        // SAFETY: As above.
        assert_eq!(unsafe { Element::of(&limit) }, Some(srq));
        let port = ibv_async_event {
            event_type: IBV_EVENT_PORT_ERR,
            ..Default::default()
        };
        // SAFETY: As above.
        assert_eq!(unsafe { Element::of(&port) }, None);
    }

    #[test]
    fn who_destroys_waits_for_all() {
        let cq = Element::Cq(0x1230 as *mut ibv_cq);
        assert!(!acknowledge(cq));
        wait_acknowledged(cq);
        taken(cq);
        taken(cq);
        let waiting = thread::spawn(move || wait_acknowledged(cq));
        assert!(acknowledge(cq));
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        assert!(acknowledge(cq));
        waiting.join().unwrap();
        assert!(!acknowledge(cq));
    }
}
