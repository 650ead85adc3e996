// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The RC QP behind an XRC_SEND QP, and what it takes to post to it.

use std::{
    collections::VecDeque,
    ffi::c_int,
    iter,
    ptr::NonNull,
    sync::{
        atomic::{AtomicBool, Ordering},
        Mutex, MutexGuard, PoisonError,
    },
};

use ibxrc::{verbs::*, IniQp};

pub(crate) struct Sender {
    pub(crate) real: NonNull<ibv_qp>,
    qp_num: u32,
    /// `None`: the RC QP is being destroyed.
    ini: Mutex<Option<IniQp>>,
    /// Has work requests that wait for others to complete.
    behind: AtomicBool,
}

// SAFETY: The pointer is used in calls of libibverbs, which is thread-safe.
unsafe impl Send for Sender {}
// SAFETY: As above.
unsafe impl Sync for Sender {}

impl Sender {
    /// # Safety
    ///
    /// The QP that `ini` was made of, which stays until [`Self::stop`].
    pub(crate) unsafe fn new(real: NonNull<ibv_qp>, ini: IniQp) -> Self {
        Sender {
            real,
            // SAFETY: The caller's word.
            qp_num: unsafe { real.as_ref() }.qp_num,
            ini: Mutex::new(Some(ini)),
            behind: AtomicBool::new(false),
        }
    }

    pub(crate) fn qp_num(&self) -> u32 {
        self.qp_num
    }

    fn ini(&self) -> MutexGuard<'_, Option<IniQp>> {
        self.ini.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Relaxed)
    }

    /// Posts a list of work requests; with `whole` all of them or, if one is bad, none. Returns
    /// whether somebody has to see to it that all of them get on, and an errno value.
    ///
    /// # Safety
    ///
    /// See ibv_post_send(3).
    pub(crate) unsafe fn post(
        &self,
        mut wr: *mut ibv_send_wr,
        bad: *mut *mut ibv_send_wr,
        whole: bool,
    ) -> (bool, c_int) {
        let mut guard = self.ini();
        let Some(ini) = guard.as_mut() else {
            return (false, libc::EINVAL);
        };
        let mut result = 0;
        if whole {
            // SAFETY: The caller's word.
            let list = iter::successors(unsafe { wr.as_ref() }, |wr| unsafe { wr.next.as_ref() });
            // SAFETY: As above.
            if let Err(error) = unsafe { ini.check(list) } {
                return (ini.is_behind(), error.errno().raw());
            }
        }
        // SAFETY: The caller's word.
        while let Some(request) = unsafe { wr.as_ref() } {
            // SAFETY: As above.
            if let Err(error) = unsafe { ini.post(request) } {
                // SAFETY: As above.
                if let Some(bad) = unsafe { bad.as_mut() } {
                    *bad = wr;
                }
                result = error.errno().raw();
                break;
            }
            wr = request.next;
        }
        let behind = ini.is_behind();
        self.behind.store(behind, Ordering::Relaxed);
        (behind, result)
    }

    /// Takes a completion of the RC QP, and adds what it means to those of the program.
    pub(crate) fn completed(&self, wc: &ibv_wc, done: &mut VecDeque<ibv_wc>) {
        let mut guard = self.ini();
        let Some(ini) = guard.as_mut() else {
            return;
        };
        done.extend(ini.completed(wc));
        while let Some(flushed) = ini.flushed() {
            done.push_back(flushed);
        }
        self.behind.store(ini.is_behind(), Ordering::Relaxed);
    }

    /// The RC QP was moved to RESET.
    pub(crate) fn reset(&self) {
        if let Some(ini) = self.ini().as_mut() {
            ini.reset();
        }
        self.behind.store(false, Ordering::Relaxed);
    }

    /// The RC QP is going to be destroyed: nothing is posted any more.
    pub(crate) fn stop(&self) -> Option<IniQp> {
        self.behind.store(false, Ordering::Relaxed);
        self.ini().take()
    }

    /// It was not.
    pub(crate) fn go_on(&self, ini: Option<IniQp>) {
        *self.ini() = ini;
    }
}
