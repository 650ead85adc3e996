// SPDX-License-Identifier: GPL-2.0

//! The ring of a CQ, with both its sides.

use std::{
    collections::VecDeque,
    mem::offset_of,
    thread,
    time::{Duration, Instant},
};

use ibxrc::uapi::ib_xrc_cq_ring;
use kernel::prelude::*;
use proptest::prelude::*;
use ring_tests::soft::completions::{completion, cq};

#[derive(Clone, Debug)]
enum Step {
    Complete(bool),
    Poll(usize),
    Arm(bool),
    Disarm,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<bool>().prop_map(Step::Complete),
        2 => (0usize..20).prop_map(Step::Poll),
        1 => any::<bool>().prop_map(Step::Arm),
        1 => Just(Step::Disarm),
    ]
}

proptest! {
    #[test]
    fn it_is_a_bounded_queue_that_raises_events(
        cqe in 1u32..20,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let (kernel, mut user) = cq(cqe);
        let entries = user.entries() as usize;
        prop_assert_eq!(entries, cqe.next_power_of_two() as usize);
        let mut waiting = VecDeque::new();
        // What was asked for, if it was for solicited ones only.
        let mut armed: Option<bool> = None;
        let mut lost = false;
        for (number, step) in (0u64..).zip(steps) {
            match step {
                Step::Complete(solicited) => {
                    let fits = !lost && waiting.len() < entries;
                    let done = kernel.complete(number, solicited);
                    prop_assert_eq!(done, if fits { Ok(()) } else { Err(EOVERFLOW) });
                    // The first one that is lost is told to whoever waits for any.
                    let tells = !lost && armed.is_some_and(|only| solicited || !only || !fits);
                    prop_assert_eq!(user.events(), usize::from(tells));
                    if tells {
                        armed = None;
                    }
                    if fits {
                        waiting.push_back(completion(number));
                    }
                    lost = !fits;
                }
                Step::Poll(max) => {
                    let n = max.min(waiting.len());
                    prop_assert_eq!(user.poll(max), waiting.drain(..n).collect::<Vec<_>>());
                }
                Step::Arm(solicited_only) => {
                    prop_assert_eq!(user.arm(solicited_only), !waiting.is_empty());
                    armed = Some(armed.unwrap_or(true) && solicited_only);
                }
                Step::Disarm => {
                    user.disarm();
                    armed = None;
                }
            }
            prop_assert_eq!(user.overflown(), lost);
        }
        kernel.device_removed();
        prop_assert!(user.dead());
        prop_assert_eq!(kernel.complete(0, true), Err(if lost { EOVERFLOW } else { EIO }));
        // What was there stays.
        prop_assert_eq!(user.poll(usize::MAX), Vec::from(waiting));
    }

    #[test]
    fn the_kernel_goes_by_what_it_wrote_itself(
        cqe in 1u32..20,
        steps in prop::collection::vec(
            (0usize..32, prop_oneof![any::<u32>(), 0u32..40, u32::MAX - 40..=u32::MAX]),
            0..100,
        ),
    ) {
        let (kernel, user) = cq(cqe);
        let entries = user.entries();
        let (mut producer, mut lost) = (0u32, false);
        for (word, value) in steps {
            user.scribble(word * 4, value);
            let consumer = user.word(offset_of!(ib_xrc_cq_ring, consumer));
            lost |= producer.wrapping_sub(consumer) >= entries;
            let done = kernel.complete(producer.into(), false);
            prop_assert_eq!(done, if lost { Err(EOVERFLOW) } else { Ok(()) });
            if !lost {
                producer += 1;
                prop_assert_eq!(user.word(offset_of!(ib_xrc_cq_ring, producer)), producer);
            }
        }
    }
}

/// Longer than any machine is busy.
const FOREVER: Duration = Duration::from_secs(60);

#[test]
fn threads_pass_on_each_completion_whole_and_in_order() {
    const LAST: u64 = 10_000;
    let (kernel, mut user) = cq(8);
    thread::scope(|scope| {
        // In here, so that the thread does not wait for one that has failed.
        let (room, has_room) = std::sync::mpsc::sync_channel(8);
        scope.spawn(move || {
            for number in 0..LAST {
                // As many as are in the ring at most.
                room.send(()).unwrap();
                kernel.complete(number, number % 3 == 0).unwrap();
            }
        });
        let (mut next, end) = (0, Instant::now() + FOREVER);
        while next < LAST {
            assert!(Instant::now() < end, "{next} came");
            for cqe in user.poll(3) {
                assert_eq!(cqe, completion(next));
                next += 1;
                has_room.recv().unwrap();
            }
            thread::yield_now();
        }
        assert!(!user.overflown());
    });
}

#[test]
fn no_event_is_missed() {
    const LAST: u64 = 2_000;
    let (kernel, mut user) = cq(1);
    thread::scope(|scope| {
        let (next, wanted) = std::sync::mpsc::channel();
        scope.spawn(move || {
            for number in wanted {
                kernel.complete(number, false).unwrap();
            }
        });
        for number in 0..LAST {
            next.send(number).unwrap();
            // The completion comes before, while or after it is armed for it.
            for _ in 0..number % 64 {
                std::hint::spin_loop();
            }
            // An event may be that of the one before, which came when it was polled already.
            while !user.arm(false) {
                assert!(user.event(FOREVER), "none for {number}");
            }
            assert_eq!(user.poll(2), [completion(number)]);
            user.disarm();
        }
    });
}
