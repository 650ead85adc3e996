// SPDX-License-Identifier: GPL-2.0

//! The ring of an SRQ, with both its sides.

use std::{
    collections::VecDeque,
    mem::offset_of,
    thread,
    time::{Duration, Instant},
};

use ibxrc::uapi::{ib_xrc_srq_ring, IB_XRC_SRQ_RING_ERROR, IB_XRC_SRQ_RING_NEED_KICK};
use kernel::prelude::*;
use proptest::prelude::*;
use ring_tests::soft::receives::{srq, Scattered};

/// Where the memory of the process is, and how much.
const START: u64 = 1 << 32;
const LEN: usize = 100;

const ENTRIES: usize = size_of::<ib_xrc_srq_ring>();

fn sge() -> impl Strategy<Value = (u64, u32)> {
    prop_oneof![
        8 => (START..START + LEN as u64, 0u32..30),
        1 => any::<(u64, u32)>(),
        1 => (u64::MAX - 30..=u64::MAX, 0u32..60),
    ]
}

/// What becomes of `memory` if `data` is written to `sges` behind their first `skip` bytes.
fn scatter(sges: &[(u64, u32)], memory: &mut [u8], skip: u64, data: &[u8]) -> Scattered {
    let room: u64 = sges.iter().map(|(_, length)| u64::from(*length)).sum();
    if room.saturating_sub(skip) < data.len() as u64 {
        return Scattered::TooLong;
    }
    // An entry at the end of all addresses cannot have been filled before.
    let mut left = skip;
    for (addr, length) in sges {
        let skipped = left.min(u64::from(*length));
        if addr.checked_add(skipped).is_none() {
            return Scattered::Fault;
        }
        left -= skipped;
    }
    let places = sges
        .iter()
        .flat_map(|(addr, length)| (0..u64::from(*length)).map(|i| addr.checked_add(i)));
    // What comes after skip and before the end only.
    let places: Vec<_> = places.skip(skip as usize).take(data.len()).collect();
    let at = |place: &Option<u64>| {
        let at = usize::try_from(place.as_ref()?.checked_sub(START)?).ok()?;
        (at < memory.len()).then_some(at)
    };
    let Some(places) = places.iter().map(at).collect::<Option<Vec<_>>>() else {
        return Scattered::Fault;
    };
    for (place, byte) in places.into_iter().zip(data) {
        memory[place] = *byte;
    }
    Scattered::All
}

proptest! {
    #[test]
    fn it_is_a_bounded_queue(
        max_wr in 1u32..20,
        max_sge in 0u32..=16,
        start in prop_oneof![any::<u32>(), u32::MAX - 40..=u32::MAX],
        steps in prop::collection::vec(
            prop::option::of(prop::collection::vec((START..START + 50, 0u32..6), 0..18)),
            0..200,
        ),
    ) {
        let (mut user, mut kernel) = srq(max_wr, max_sge, start);
        let mut waiting = VecDeque::new();
        for (wr_id, step) in (0u64..).zip(steps) {
            prop_assert_eq!(kernel.posted() as usize, waiting.len());
            if let Some(sges) = step {
                let fits = waiting.len() < user.entries() as usize && sges.len() <= max_sge as usize;
                prop_assert_eq!(user.post(wr_id, &sges), fits);
                if fits {
                    waiting.push_back((wr_id, sges));
                }
            } else if let Some((wr_id, sges)) = waiting.pop_front() {
                let request = kernel.read().unwrap().unwrap();
                prop_assert_eq!(request.wr_id(), wr_id);
                // Each of its bytes goes where it should.
                let len = sges.iter().map(|(_, length)| *length).sum::<u32>();
                let data: Vec<_> = (1..=len as u8).collect();
                let (mut got, mut wanted) = (vec![0; LEN], vec![0; LEN]);
                prop_assert_eq!(request.scatter(START, &mut got, 0, &data), Scattered::All);
                prop_assert_eq!(scatter(&sges, &mut wanted, 0, &data), Scattered::All);
                prop_assert_eq!(got, wanted);
                kernel.take();
            } else {
                prop_assert!(kernel.read().unwrap().is_none());
            }
        }
    }

    #[test]
    fn data_goes_to_the_buffers_or_nowhere_else(
        sges in prop::collection::vec(sge(), 0..=16),
        skip in 0u64..60,
        data in prop::collection::vec(1u8.., 0..60),
    ) {
        let (mut user, kernel) = srq(1, 16, 0);
        prop_assert!(user.post(1, &sges));
        let request = kernel.read().unwrap().unwrap();
        let (mut got, mut wanted) = (vec![0; LEN], vec![0; LEN]);
        let result = request.scatter(START, &mut got, skip, &data);
        prop_assert_eq!(result, scatter(&sges, &mut wanted, skip, &data));
        // One that faults has written what comes before.
        if result != Scattered::Fault {
            prop_assert_eq!(got, wanted);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused(
        max_wr in 1u32..20,
        max_sge in 0u32..=16,
        start in any::<u32>(),
        steps in prop::collection::vec(
            (
                0usize..200,
                prop_oneof![any::<u32>(), 0u32..40],
                prop_oneof![any::<u32>(), 0u32..40],
                prop_oneof![3 => Just(0), 1 => any::<u32>()],
            ),
            0..100,
        ),
    ) {
        let (user, mut kernel) = srq(max_wr, max_sge, start);
        let stride = 16 + 16 * max_sge as usize;
        let mut index = start;
        for (word, value, posted, reserved) in steps {
            // Anything anywhere, then what matters of the next work request, then its index.
            user.scribble(word * 4 % user.size(), value);
            let at = ENTRIES + (index % user.entries()) as usize * stride;
            user.scribble(at, value);
            user.scribble(at + 4, !value);
            let num_sge = if value % 2 == 0 { value } else { value % (max_sge + 2) };
            user.scribble(at + 8, num_sge);
            user.scribble(at + 12, reserved);
            user.scribble(offset_of!(ib_xrc_srq_ring, producer), index.wrapping_add(posted));

            prop_assert_eq!(kernel.posted(), posted);
            match kernel.read() {
                Ok(None) => prop_assert_eq!(posted, 0),
                Err(error) => {
                    prop_assert_eq!(error, EINVAL);
                    prop_assert!(
                        posted != 0
                            && (posted > user.entries() || num_sge > max_sge || reserved != 0)
                    );
                }
                Ok(Some(request)) => {
                    prop_assert!((1..=user.entries()).contains(&posted));
                    prop_assert!(num_sge <= max_sge && reserved == 0);
                    let wr_id = u64::from(value) | (u64::from(!value) << 32);
                    prop_assert_eq!(request.wr_id(), wr_id);
                    kernel.take();
                    index = index.wrapping_add(1);
                }
            }
        }
    }
}

#[test]
fn flags_reach_the_library() {
    let (mut user, kernel) = srq(4, 1, 0);
    assert!(!user.need_kick());
    kernel.set_flags(IB_XRC_SRQ_RING_NEED_KICK);
    assert!(user.need_kick() && user.post(1, &[]));
    kernel.set_flags(IB_XRC_SRQ_RING_ERROR);
    assert!(!user.post(2, &[]));
}

#[test]
fn threads_pass_on_each_work_request_whole_and_in_order() {
    const LAST: u64 = 10_000;
    // The indices wrap around on the way.
    let (mut user, mut kernel) = srq(8, 2, u32::MAX - 5_000);
    let end = Instant::now() + Duration::from_secs(60);
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..LAST {
                let at = START + number % 50;
                while !user.post(number, &[(at, 1), (at + 1, 1)]) {
                    assert!(Instant::now() < end, "no room for {number}");
                    // Also, if it did much more, ThreadSanitizer would forget what was before.
                    thread::yield_now();
                }
            }
        });
        let mut number = 0;
        while number < LAST {
            assert!(Instant::now() < end, "{number} came");
            let Some(request) = kernel.read().unwrap() else {
                thread::yield_now();
                continue;
            };
            assert_eq!(request.wr_id(), number);
            let mut memory = vec![0; LEN];
            assert_eq!(
                request.scatter(START, &mut memory, 0, &[1, 2]),
                Scattered::All
            );
            let at = (number % 50) as usize;
            assert_eq!(memory[at..at + 2], [1, 2]);
            kernel.take();
            number += 1;
        }
    });
}
