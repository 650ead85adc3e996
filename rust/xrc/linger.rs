// SPDX-License-Identifier: GPL-2.0

//! The timer by which TGT QPs go that nobody is registered with.

use kernel::{
    impl_has_hr_timer, impl_has_work, new_mutex, new_work,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow,
        Mutex, //
    },
    time::{
        hrtimer::{
            ArcHrTimerHandle,
            HrTimer,
            HrTimerCallback,
            HrTimerCallbackContext,
            HrTimerExpires,
            HrTimerPointer,
            HrTimerRestart,
            RelativeSoftMode, //
        },
        Delta,
        Instant,
        Monotonic, //
    },
    workqueue::{
        Work,
        WorkItem, //
    },
};

use super::device::Services;

/// The time on the timer's clock, nanoseconds.
pub(crate) fn now_ns() -> i64 {
    HrTimerExpires::as_nanos(&Instant::<Monotonic>::now())
}

/// What has something to do when time has passed.
pub(crate) trait Expire: Send + Sync {
    /// It is `now_ns`. Returns when there will be more to do. Sleeps.
    fn expire(&self, now_ns: i64) -> Option<i64>;
}

/// One timer for all TGT QPs of a domain, which runs only while there is something to wait for.
///
/// It fires late by up to a part of the time that it is for, so that what expires at about the same
/// time is seen to at once.
#[pin_data]
pub(crate) struct LingerTimer {
    services: Arc<Services>,
    slack_ns: i64,
    #[pin]
    state: Mutex<State>,
    #[pin]
    timer: HrTimer<Self>,
    #[pin]
    work: Work<Self>,
}

struct State {
    armed: Option<Armed>,
    closed: bool,
}

/// What is waited for. It refers to the timer itself: [`LingerTimer::close`] ends the cycle.
struct Armed {
    at_ns: i64,
    owner: Arc<dyn Expire>,
    /// Dropping it cancels the timer and waits for the callback, which takes no lock.
    handle: ArcHrTimerHandle<LingerTimer>,
}

impl_has_hr_timer! {
    impl HasHrTimer<Self> for LingerTimer {
        mode: RelativeSoftMode<Monotonic>, field: self.timer
    }
}

impl_has_work! {
    impl HasWork<Self> for LingerTimer { self.work }
}

impl LingerTimer {
    /// A timer for times of `linger_ns`, which is not armed.
    pub(crate) fn new(services: &Arc<Services>, linger_ns: i64) -> Result<Arc<Self>> {
        const SLACK: i64 = 16;

        let services = services.clone();

        Arc::pin_init(
            pin_init!(Self {
                services,
                slack_ns: linger_ns / SLACK,
                state <- new_mutex!(
                    State {
                        armed: None,
                        closed: false,
                    },
                    "LingerTimer::state"
                ),
                timer <- HrTimer::new(),
                work <- new_work!("LingerTimer::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Has `owner`, always the same, told once it is `deadline_ns`, and not much later. Sleeps.
    pub(crate) fn arm(timer: &Arc<Self>, owner: Arc<dyn Expire>, deadline_ns: i64) {
        let at_ns = deadline_ns.saturating_add(timer.slack_ns);
        let mut state = timer.state.lock();

        if state.closed
            || state
                .armed
                .as_ref()
                .is_some_and(|armed| armed.at_ns <= at_ns)
        {
            return;
        }

        // Cancels it: a timer that runs is not to be started.
        let old = state.armed.take();

        drop(old);

        let delay = Delta::from_nanos(at_ns.saturating_sub(now_ns()).max(0));

        state.armed = Some(Armed {
            at_ns,
            owner,
            handle: timer.clone().start(delay),
        });
    }

    /// Stops for good. Sleeps. What has begun to expire may still do so.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();

        state.closed = true;

        let armed = state.armed.take();

        // The owner may be freed here, outside the lock.
        drop(state);
        drop(armed);
    }
}

impl HrTimerCallback for LingerTimer {
    type Pointer<'a> = Arc<Self>;

    fn run(
        this: ArcBorrow<'_, Self>,
        _context: HrTimerCallbackContext<'_, Self>,
    ) -> HrTimerRestart {
        // If the work is queued already it will do. This is not the last reference: the timer's
        // handle has one.
        let _ = this
            .services
            .workqueues()
            .errors()
            .enqueue::<Arc<Self>, 0>(this.into());
        HrTimerRestart::NoRestart
    }
}

impl WorkItem for LingerTimer {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut state = this.state.lock();
        let Some(Armed { owner, handle, .. }) = state.armed.take() else {
            return;
        };

        // With the lock held: it would cancel the timer that somebody arms after this.
        drop(handle);
        drop(state);
        if let Some(next_ns) = owner.expire(now_ns()) {
            Self::arm(&this, owner, next_ns);
        }
    }
}
