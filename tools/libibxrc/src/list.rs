// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Listings that take more than one call.

use crate::{
    error::{Error, Result},
    framing::{Plain, Request},
};

/// Fills `elements` by calls that fill a part of an array, with those after a number,
/// and tell how many come after it. Returns how many there are in all.
pub(crate) fn fill<T: Plain, N: Copy + Ord>(
    elements: &mut [T],
    number: impl Fn(&T) -> N,
    call: impl FnMut(Option<N>, &mut [T]) -> Result<u32>,
) -> Result<u32> {
    fill_in_parts(elements, Request::max_elements::<T>(), number, call)
}

fn fill_in_parts<T, N: Copy + Ord>(
    elements: &mut [T],
    max: usize,
    number: impl Fn(&T) -> N,
    mut call: impl FnMut(Option<N>, &mut [T]) -> Result<u32>,
) -> Result<u32> {
    let mut after = None;
    let mut done = 0;
    loop {
        let part = &mut elements[done..];
        let room = part.len().min(max);
        let there = call(after, &mut part[..room])?;
        let total = u32::try_from(done)
            .unwrap_or(u32::MAX)
            .saturating_add(there);
        done += room;
        if there as usize <= room || done == elements.len() {
            return Ok(total);
        }
        let last = elements.get(done - 1).map(&number);
        if last <= after {
            return Err(Error::Unexpected("a list out of order".into()));
        }
        after = last;
    }
}

/// All that there is, of calls that fill an array and tell how many there are.
pub(crate) fn all<T: Clone + Default>(
    mut fill: impl FnMut(&mut [T]) -> Result<u32>,
) -> Result<Vec<T>> {
    let mut elements = vec![T::default(); 32];
    loop {
        let n = fill(&mut elements)? as usize;
        if n <= elements.len() {
            elements.truncate(n);
            return Ok(elements);
        }
        // A few more, since there may be more by then.
        elements.resize(n + n / 8 + 8, T::default());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn long_lists_come_in_parts(
            there in prop::collection::btree_set(1u32..1000, 0..50),
            room in 0usize..60,
            max in 1usize..20,
        ) {
            let there: Vec<u32> = there.into_iter().collect();
            let mut got = vec![0; room];
            let count = fill_in_parts(&mut got, max, |n| *n, |after, part| {
                assert!(part.len() <= max);
                let rest: Vec<_> = there.iter().filter(|n| Some(**n) > after).collect();
                for (to, from) in part.iter_mut().zip(&rest) {
                    *to = **from;
                }
                Ok(rest.len() as u32)
            });
            prop_assert_eq!(count, Ok(there.len() as u32));
            let n = room.min(there.len());
            prop_assert_eq!(&got[..n], &there[..n]);
        }
    }

    #[test]
    fn a_kernel_that_goes_in_circles_is_not_followed() {
        let mut got = [0u32; 10];
        let result = fill_in_parts(
            &mut got,
            2,
            |n| *n,
            |_, part| {
                part.fill(7);
                Ok(100)
            },
        );
        assert!(matches!(result, Err(Error::Unexpected(_))));
    }

    #[test]
    fn all_is_asked_for_until_it_fits() {
        let mut sizes = Vec::new();
        let got = all(|elements: &mut [u32]| {
            sizes.push(elements.len());
            for (i, e) in elements.iter_mut().enumerate() {
                *e = i as u32;
            }
            Ok(40)
        })
        .unwrap();
        assert_eq!(sizes, [32, 53]);
        assert_eq!(got, (0..40).collect::<Vec<u32>>());
    }
}
