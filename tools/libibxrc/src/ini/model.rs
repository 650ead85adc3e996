// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The engine against a model of the RC QP and of what the user is to see: whatever
//! happens in whichever order, requests complete once each and in order.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::engine::{Done, Engine, Queue, Request, Step};
use crate::Errno;

const MAX: usize = 8;

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    /// The user posts a request.
    Submit(Kind),
    /// The RC QP executes up to so many steps.
    Execute(usize),
    /// The user polls up to so many completions.
    Poll(usize),
    /// The step that is executed next fails.
    Fail,
    /// The QP is put in error by somebody else.
    Error,
    /// So many steps cannot be posted.
    Refuse { times: usize, errno: Errno },
    /// The QP cannot be put in error by the engine.
    NoGivingUp,
    /// The user resets the QP.
    Reset,
}

/// What the user submits.
#[derive(Clone, Copy, Debug)]
struct Kind {
    steps: usize,
    signaled: bool,
    fetches: bool,
    fence: bool,
}

fn kind() -> impl Strategy<Value = Kind> {
    (1..12usize, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(steps, signaled, fetches, fence)| Kind {
            steps: if fetches { 1 } else { steps },
            signaled,
            fetches,
            fence,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => kind().prop_map(Event::Submit),
        8 => (1..8usize).prop_map(Event::Execute),
        8 => (1..4usize).prop_map(Event::Poll),
        1 => Just(Event::Fail),
        1 => Just(Event::Error),
        1 => (1..3usize).prop_map(|times| Event::Refuse { times, errno: Errno::ENOMEM }),
        1 => (1..3usize).prop_map(|times| Event::Refuse { times, errno: Errno::EIO }),
        1 => Just(Event::NoGivingUp),
        1 => Just(Event::Reset),
    ]
}

/// The RC QP and its CQ.
struct Qp {
    depth: u64,
    /// Steps that are not executed, with the number of their request.
    queue: VecDeque<(usize, Step)>,
    /// What the user did not poll yet.
    completions: VecDeque<(u64, bool)>,
    /// What comes first of what the user did not hear of.
    tail: u64,
    /// The request of every step that was ever posted.
    owners: Vec<usize>,
    /// How many steps of each request succeeded.
    executed: Vec<usize>,
    /// Each request.
    kinds: Vec<Kind>,
    /// It cannot have RDMA READs behind others, and knows no fences.
    fragile: bool,
    /// Those of them that the user did not hear of, with their numbers.
    unheard: VecDeque<(usize, u64)>,
    in_error: bool,
    fail_next: bool,
    refuse: (usize, Errno),
    gives_up: bool,
}

/// The request of the marker.
const NOBODY: usize = usize::MAX;

impl Qp {
    fn new(depth: u64, fragile: bool) -> Self {
        Qp {
            depth,
            kinds: Vec::new(),
            fragile,
            queue: VecDeque::new(),
            completions: VecDeque::new(),
            tail: 0,
            owners: Vec::new(),
            executed: Vec::new(),
            unheard: VecDeque::new(),
            in_error: false,
            fail_next: false,
            refuse: (0, Errno::EIO),
            gives_up: true,
        }
    }

    /// Number of the next step.
    fn next(&self) -> u64 {
        self.owners.len() as u64
    }

    /// The user hears of what is done up to this number.
    fn hear(&mut self, number: u64) {
        self.tail = number + 1;
        self.unheard.retain(|(_, unheard)| *unheard > number);
    }

    fn execute(&mut self) {
        let Some((request, step)) = self.queue.pop_front() else {
            return;
        };
        self.in_error |= std::mem::take(&mut self.fail_next);
        if self.in_error {
            self.completions.push_back((step.number, false));
            return;
        }
        self.executed[request] += 1;
        self.unheard.push_back((request, step.number));
        if step.signaled {
            self.completions.push_back((step.number, true));
        }
    }
}

impl Queue<usize> for Qp {
    fn post(&mut self, request: &usize, step: Step) -> Result<(), Errno> {
        assert_eq!(step.number, self.next(), "a number is left out");
        assert!(
            self.next() - self.tail < self.depth,
            "the send queue overflows"
        );
        if self.refuse.0 > 0 {
            self.refuse.0 -= 1;
            return Err(self.refuse.1);
        }
        let before = self.queue.iter().filter(|(of, _)| of == request).count();
        if !self.in_error {
            assert_eq!(step.index, self.executed[*request] + before);
        }
        if self.fragile && !self.in_error && step.index == 0 {
            let kind = self.kinds[*request];
            let any = |fetches| {
                let mut outstanding = self.owners[self.tail as usize..].iter();
                outstanding.any(|of| *of != NOBODY && self.kinds[*of].fetches == fetches)
            };
            assert!(!(kind.fetches && any(false)), "something is before it");
            assert!(!(kind.fence && any(true)), "the fence is ignored");
        }
        self.owners.push(*request);
        self.queue.push_back((*request, step));
        Ok(())
    }

    fn give_up(&mut self, number: u64) -> bool {
        assert_eq!(number, self.next(), "a number is left out");
        self.in_error = true;
        if !self.gives_up {
            // What is there is not heard of any more, and may as well have failed.
            for (request, _) in self.unheard.drain(..) {
                self.executed[request] -= 1;
            }
            self.queue.clear();
            self.completions.clear();
            self.tail = number;
            return false;
        }
        assert!(number - self.tail < self.depth, "the send queue overflows");
        let (index, signaled) = (0, true);
        self.owners.push(NOBODY);
        self.queue.push_back((
            NOBODY,
            Step {
                index,
                number,
                signaled,
            },
        ));
        true
    }
}

struct User {
    qp: Qp,
    engine: Engine<usize>,
    /// Steps, and whether it is signaled, of each request that was accepted.
    accepted: Vec<(usize, bool)>,
    /// Which completed, and how.
    seen: Vec<(usize, bool)>,
    /// Requests before this one have no say: the QP was reset since.
    start: usize,
}

impl User {
    fn submit(&mut self, kind: Kind) {
        let Kind {
            steps,
            signaled,
            fetches,
            fence,
        } = kind;
        let work = self.accepted.len();
        self.qp.executed.push(0);
        self.qp.kinds.push(kind);
        let request = Request {
            work,
            steps,
            signaled,
            fetches,
            fence,
        };
        let full = !self.engine.has_room_for(1);
        match self.engine.submit(&mut self.qp, request) {
            Ok(()) => {
                assert!(!full);
                self.accepted.push((steps, signaled));
            }
            Err(_) => {
                self.qp.executed.pop();
                self.qp.kinds.pop();
            }
        }
    }

    fn see(&mut self, done: Option<Done<usize>>, success: bool) -> bool {
        let Some(done) = done else {
            return false;
        };
        assert!(done.broken.is_none() || !success);
        self.seen.push((done.work, success));
        true
    }

    fn flush(&mut self) {
        loop {
            let done = self.engine.flush();
            if !self.see(done, false) {
                return;
            }
        }
    }

    fn poll(&mut self) -> bool {
        let Some((number, success)) = self.qp.completions.pop_front() else {
            return false;
        };
        self.qp.hear(number);
        let done = self.engine.complete(&mut self.qp, number, success);
        if let Some(done) = &done {
            let owner = self.qp.owners[number as usize];
            let marker = owner == NOBODY && done.broken.is_some();
            assert!(owner == done.work || marker, "it was not this one");
        }
        self.see(done, success);
        self.flush();
        true
    }

    /// Everything that is under way comes to its end.
    fn settle(&mut self) {
        self.flush();
        loop {
            while !self.qp.queue.is_empty() {
                self.qp.execute();
            }
            if !self.poll() && self.qp.queue.is_empty() {
                return;
            }
        }
    }

    /// What the user saw is what he should have seen.
    fn check(&self) {
        let mut seen = self.seen.iter();
        let mut failed = false;
        for (request, (steps, signaled)) in self.accepted.iter().enumerate().skip(self.start) {
            failed |= self.qp.executed[request] < *steps;
            if failed || *signaled {
                assert_eq!(seen.next(), Some(&(request, !failed)));
            }
        }
        assert_eq!(seen.next(), None, "there is something that should not be");
        assert!(!failed || self.qp.in_error, "something was never posted");
    }

    fn reset(&mut self) {
        self.engine.reset();
        let old = std::mem::replace(&mut self.qp, Qp::new(0, false));
        self.qp = Qp {
            tail: old.next(),
            owners: old.owners,
            executed: old.executed,
            kinds: old.kinds,
            ..Qp::new(old.depth, old.fragile)
        };
        // What is in the CQ stays there.
        let completions = old.completions;
        for (number, success) in completions {
            assert_eq!(self.engine.complete(&mut self.qp, number, success), None);
        }
        self.start = self.accepted.len();
        self.seen.clear();
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Submit(kind) => self.submit(kind),
            Event::Execute(n) => (0..n).for_each(|_| self.qp.execute()),
            Event::Poll(n) => (0..n).for_each(|_| {
                self.poll();
            }),
            Event::Fail => self.qp.fail_next = true,
            Event::Error => self.qp.in_error = true,
            Event::Refuse { times, errno } => self.qp.refuse = (times, errno),
            Event::NoGivingUp => self.qp.gives_up = false,
            Event::Reset => self.reset(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn requests_complete_once_and_in_order(
        depth in 1..9u32,
        fragile in any::<bool>(),
        events in prop::collection::vec(event(), 1..80),
    ) {
        let mut user = User {
            qp: Qp::new(depth.into(), fragile),
            engine: Engine::new(MAX as u32, depth, fragile).unwrap(),
            accepted: Vec::new(),
            seen: Vec::new(),
            start: 0,
        };
        for event in events {
            user.take(event);
        }
        user.settle();
        user.check();
    }
}
