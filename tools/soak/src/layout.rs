// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Who has what: processes, domains and SRQs, and the memory that goes with an SRQ.
//!
//! Each sender has one connection to each domain. Each SRQ has memory which those who
//! send to it write and read by RDMA: for each of them a mailbox and an area, and some
//! words.

use std::ops::Range;

use crate::size::MAX_LEN;

/// Sending processes.
pub const SENDERS: usize = 4;
/// Receiving processes.
pub const PROCESSES: usize = 4;
/// SRQs of each of them, of different domains.
pub const SRQS_EACH: usize = 2;
/// SRQs.
pub const SRQS: usize = PROCESSES * SRQS_EACH;
/// Domains.
pub const DOMAINS: usize = 3;

/// The process that has an SRQ.
pub fn process_of(srq: usize) -> usize {
    srq / SRQS_EACH
}

/// The domain that an SRQ is in.
pub fn domain_of(srq: usize) -> usize {
    (process_of(srq) + srq % SRQS_EACH) % DOMAINS
}

/// The SRQs of a process.
pub fn srqs_of(process: usize) -> Range<usize> {
    process * SRQS_EACH..(process + 1) * SRQS_EACH
}

/// The SRQs of a domain.
pub fn srqs_in(domain: usize) -> Vec<usize> {
    (0..SRQS).filter(|srq| domain_of(*srq) == domain).collect()
}

/// The processes of a domain.
pub fn members_of(domain: usize) -> Vec<usize> {
    srqs_in(domain).into_iter().map(process_of).collect()
}

/// The process that makes the TGT QP for a connection.
pub fn creator_of(sender: usize, domain: usize) -> usize {
    let members = members_of(domain);
    members[(sender + domain) % members.len()]
}

/// Whether the creator gives its registration back once the others have theirs.
pub fn creator_leaves(sender: usize, domain: usize) -> bool {
    (sender + domain) % 2 == 1
}

const PAGE: usize = 4096;

/// Bytes of an SRQ's memory.
pub const MEMORY: usize = PAGE + SENDERS * 2 * MAX_LEN;

/// A word that all add to.
pub const ADDED: usize = 0;
/// A word that all swap.
pub const SWAPPED: usize = 64;

/// The byte that counts what was taken from a sender's mailbox.
pub fn taken(sender: usize) -> usize {
    256 + sender * 64
}

/// Where a sender's mailbox is: RDMA_WRITE_WITH_IMM goes there.
pub fn mailbox(sender: usize) -> Range<usize> {
    let start = PAGE + sender * 2 * MAX_LEN;
    start..start + MAX_LEN
}

/// Where a sender's area is: RDMA WRITE goes there, and RDMA READ reads it.
pub fn area(sender: usize) -> Range<usize> {
    let start = mailbox(sender).end;
    start..start + MAX_LEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_shared() {
        for domain in 0..DOMAINS {
            let members = members_of(domain);
            assert!(members.len() >= 2, "domain {domain}");
            for sender in 0..SENDERS {
                assert!(members.contains(&creator_of(sender, domain)));
            }
        }
        for process in 0..PROCESSES {
            let mut domains: Vec<_> = srqs_of(process).map(domain_of).collect();
            domains.dedup();
            assert_eq!(domains.len(), SRQS_EACH);
            // One who does nothing but look on would be no test.
            let creates = |(s, d): &(usize, usize)| creator_of(*s, *d) == process;
            let all = (0..SENDERS).flat_map(|s| (0..DOMAINS).map(move |d| (s, d)));
            assert!(all.filter(creates).count() > 0, "process {process}");
        }
    }

    #[test]
    fn memory_is_nobody_elses() {
        let mut ranges = vec![ADDED..ADDED + 8, SWAPPED..SWAPPED + 8];
        for sender in 0..SENDERS {
            ranges.push(taken(sender)..taken(sender) + 1);
            ranges.extend([mailbox(sender), area(sender)]);
        }
        for (i, a) in ranges.iter().enumerate() {
            assert!(a.end <= MEMORY);
            for b in &ranges[..i] {
                assert!(a.end <= b.start || b.end <= a.start);
            }
        }
    }
}
