// SPDX-License-Identifier: GPL-2.0

//! What is changed for each mutant.

/// The core with one thing wrong.
pub struct Mutant {
    pub name: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// In the module.
    pub file: &'static str,
    /// Is there once.
    pub old: &'static str,
    pub new: &'static str,
    /// What finds it: a function in `src/protocols`.
    pub protocol: &'static str,
    pub scenario: &'static str,
    /// A part of what is said then.
    pub finds: &'static str,
}

const MEMBERS: &str = "xrc/lifetime/members.rs";
const STATE: &str = "xrc/lifetime/state.rs";
const GATE: &str = "rdma/gate.rs";

const STAYS: &str = "an unreferenced QP stays";
const TAKEN: &str = "reclaimed with registrations";
const ESTALE: &str = "a QP with holders stays";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "get_counts_later",
        what: "a registration is counted after the lookup, with the lock taken anew",
        file: MEMBERS,
        old: "
        entry.refs = entry.refs.checked_add(1).ok_or(EOVERFLOW)?;
        Ok(entry.member.clone())",
        new: "
        let member = entry.member.clone();
        drop(table);
        if let Some(entry) = self.table.lock().find(&member) {
            entry.refs = entry.refs.checked_add(1).ok_or(EOVERFLOW)?;
        }
        Ok(member)",
        protocol: "register",
        scenario: "refs_open_close",
        finds: ESTALE,
    },
    Mutant {
        name: "put_removes_later",
        what: "the lock is given up between the judgement and the removal",
        file: MEMBERS,
        old: "
            return self.deadline(now_ns);
        };
        let node = table.entries.remove_node(&member.num());
",
        new: "
            return self.deadline(now_ns);
        };
        drop(table);
        let mut table = self.table.lock();
        let node = table.entries.remove_node(&member.num());
",
        protocol: "register",
        scenario: "refs_open_close",
        finds: "reclaimed twice",
    },
    Mutant {
        name: "put_destroys_first",
        what: "the QP is destroyed before nobody can find it any more",
        file: MEMBERS,
        old: "
            return self.deadline(now_ns);
        };
        let node = table.entries.remove_node(&member.num());

        drop(table);
        member.reclaim(reason);
",
        new: "
            return self.deadline(now_ns);
        };
        drop(table);
        member.reclaim(reason);
        let node = self.table.lock().entries.remove_node(&member.num());
",
        protocol: "register",
        scenario: "refs_open_close",
        finds: ESTALE,
    },
    Mutant {
        name: "put_judges_before",
        what: "the count is judged before it is lowered",
        file: MEMBERS,
        old: "
        entry.refs = entry.refs.saturating_sub(1);
        if entry.refs != 0 {
            return None;
        }
",
        new: "
        let others = entry.refs > 1;
        drop(table);
        let mut table = self.table.lock();
        let entry = table.find(member)?;
        entry.refs = entry.refs.saturating_sub(1);
        if others {
            return None;
        }
",
        protocol: "register",
        scenario: "refs_open_close",
        finds: TAKEN,
    },
    Mutant {
        name: "find_by_number_only",
        what: "a member is taken for another that had its number",
        file: MEMBERS,
        old: "
            .filter(|entry| core::ptr::eq(&*entry.member, member))",
        new: "
            .filter(|_| true)",
        protocol: "error",
        scenario: "referenced_number_again",
        finds: "reclaimed twice",
    },
    Mutant {
        name: "put_ignores_error",
        what: "who gives the last registration back does not look for an error",
        file: MEMBERS,
        old: "judge_idle(member.is_failed(), srqs) else {
            return self.deadline",
        new: "judge_idle(false, srqs) else {
            return self.deadline",
        protocol: "error",
        scenario: "domain_close",
        finds: STAYS,
    },
    Mutant {
        name: "put_looks_for_error_before",
        what: "who gives the last registration back looks for an error before it takes the lock",
        file: MEMBERS,
        old: "
        let mut table = self.table.lock();
        let srqs = table.srqs;
        // Without an entry it was reclaimed.
        let entry = table.find(member)?;

        entry.refs = entry.refs.saturating_sub(1);
        if entry.refs != 0 {
            return None;
        }
        entry.idle_since_ns = now_ns;

        // An error that is noted after this is followed by `failed`, which takes the lock.
        let Some(reason) = self.rules.judge_idle(member.is_failed(), srqs) else {
",
        new: "
        let is_failed = member.is_failed();
        let mut table = self.table.lock();
        let srqs = table.srqs;
        let entry = table.find(member)?;

        entry.refs = entry.refs.saturating_sub(1);
        if entry.refs != 0 {
            return None;
        }
        entry.idle_since_ns = now_ns;

        let Some(reason) = self.rules.judge_idle(is_failed, srqs) else {
",
        protocol: "error",
        scenario: "domain_close",
        finds: STAYS,
    },
    Mutant {
        name: "failed_ignores_refs",
        what: "an error takes a QP from those who are registered",
        file: MEMBERS,
        old: "!member.is_failed() || (entry.refs != 0 && !self.rules.reclaim_referenced)",
        new: "!member.is_failed() || (entry.refs == u32::MAX)",
        protocol: "error",
        scenario: "domain_open",
        finds: TAKEN,
    },
    Mutant {
        name: "failed_removes_later",
        what: "the lock is given up between the judgement of an error and the removal",
        file: MEMBERS,
        old: "
        if !member.is_failed() || (entry.refs != 0 && !self.rules.reclaim_referenced) {
            return;
        }

        let node",
        new: "
        if !member.is_failed() || (entry.refs != 0 && !self.rules.reclaim_referenced) {
            return;
        }

        drop(table);
        let mut table = self.table.lock();
        let node",
        protocol: "error",
        scenario: "domain_open",
        finds: "reclaimed twice",
    },
    Mutant {
        name: "failed_does_not_look_again",
        what: "an error takes a QP that was reset since",
        file: MEMBERS,
        old: "if !member.is_failed() || (entry.refs",
        new: "if (entry.refs",
        protocol: "error",
        scenario: "reset_open",
        finds: "a QP is gone that stays",
    },
    Mutant {
        name: "changed_does_nothing",
        what: "an unreferenced QP may be put in ERR and stay",
        file: MEMBERS,
        old: "
        if !member.is_failed() {
            return;
        }
",
        new: "
        if !member.is_failed() || true {
            return;
        }
",
        protocol: "error",
        scenario: "asked_close",
        finds: STAYS,
    },
    Mutant {
        name: "changed_ignores_refs",
        what: "a modify to ERR takes a QP from those who are registered",
        file: MEMBERS,
        old: "
        if entry.refs != 0 {
            return;
        }
",
        new: "
        let _ = &entry.refs;
",
        protocol: "error",
        scenario: "asked_close",
        finds: TAKEN,
    },
    Mutant {
        name: "fail_at_any_connection",
        what: "a late error hits the next connection",
        file: STATE,
        old: "(known.connection == connection && known.error == 0)",
        new: "(known.error == 0)",
        protocol: "error",
        scenario: "reset_late_error",
        finds: "left == right",
    },
    Mutant {
        name: "reset_keeps_connection",
        what: "a RESET does not begin a connection",
        file: STATE,
        old: "known.connection.wrapping_add(1)",
        new: "known.connection",
        protocol: "error",
        scenario: "reset_late_error",
        finds: "left == right",
    },
    Mutant {
        name: "reset_keeps_error",
        what: "the error of the old connection stays",
        file: STATE,
        old: "
                    state,
                    error: 0,
",
        new: "
                    state,
                    error: known.error,
",
        protocol: "error",
        scenario: "reset_late_error",
        finds: "left == right",
    },
    Mutant {
        name: "reset_in_two_steps",
        what: "the new connection has the old state for a moment",
        file: STATE,
        old: "
        self.update(|known| {
            Some(if state == RESET {",
        new: "
        if state == RESET {
            self.update(|known| Some(Known { error: 0, ..known }));
        }
        self.update(|known| {
            Some(if state == RESET {",
        protocol: "error",
        scenario: "states_in_order",
        finds: "states go back",
    },
    Mutant {
        name: "entered_overwrites",
        what: "a modify overwrites an error that is noted at the same time",
        file: STATE,
        old: "
            match self.0.cmpxchg(old, new.pack(), Full) {
                Ok(_) => return true,
                Err(current) => old = current,
            }
",
        new: "
            self.0.store(new.pack(), Relaxed);
            old = self.0.load(Relaxed);
            return true;
",
        protocol: "error",
        scenario: "domain_modify_close",
        finds: STAYS,
    },
    Mutant {
        name: "last_srq_ignores_srqs",
        what: "it is not looked again whether there is an SRQ",
        file: MEMBERS,
        old: "|entry, srqs| entry.refs == 0 && srqs == 0",
        new: "|entry, _| entry.refs == 0",
        protocol: "srq",
        scenario: "again_open",
        finds: "a QP is gone that stays",
    },
    Mutant {
        name: "last_srq_ignores_refs",
        what: "the last SRQ takes a QP from those who are registered",
        file: MEMBERS,
        old: "|entry, srqs| entry.refs == 0 && srqs == 0",
        new: "|_, srqs| srqs == 0",
        protocol: "srq",
        scenario: "last_open",
        finds: TAKEN,
    },
    Mutant {
        name: "put_counts_srqs_before",
        what: "who gives the last registration back counts SRQs before it takes the lock",
        file: MEMBERS,
        old: "
        let mut table = self.table.lock();
        let srqs = table.srqs;
        // Without",
        new: "
        let srqs = self.srqs();
        let mut table = self.table.lock();
        // Without",
        protocol: "srq",
        scenario: "last_close",
        finds: STAYS,
    },
    Mutant {
        name: "pick_removes_later",
        what: "the lock is given up between picking a QP and the removal",
        file: MEMBERS,
        old: "
        let (_, node) = cursor.remove_current();

        Some(node.to_key_value().1.member)
",
        new: "
        let num = *cursor.current().0;
        drop(table);
        let node = self.table.lock().entries.remove_node(&num)?;

        Some(node.to_key_value().1.member)
",
        protocol: "linger",
        scenario: "open",
        finds: "a QP is gone that stays",
    },
    Mutant {
        name: "expire_ignores_refs",
        what: "the time takes a QP from those who are registered",
        file: MEMBERS,
        old: "
            if entry.refs != 0 {
                return false;
            }
",
        new: "
            let _ = entry.refs;
",
        protocol: "linger",
        scenario: "open",
        finds: "right: Some(15)",
    },
    Mutant {
        name: "linger_from_the_first",
        what: "the time does not begin anew",
        file: MEMBERS,
        old: "
        entry.idle_since_ns = now_ns;
",
        new: "
        entry.idle_since_ns = entry.idle_since_ns.min(now_ns);
",
        protocol: "linger",
        scenario: "open",
        finds: "a QP is gone that stays",
    },
    Mutant {
        name: "enter_looks_before",
        what: "who enters looks whether the gate is open before it is counted",
        file: GATE,
        old: "
        let inside = self.inside.read_lock();

        // A reader that `drain` does not wait for began after `drain` did, and SRCU orders
        // its load after the store of `close` before it.
        if self.closed.load(Relaxed) {
            return Err(EIO);
        }
",
        new: "
        if self.closed.load(Relaxed) {
            return Err(EIO);
        }
        let inside = self.inside.read_lock();
",
        protocol: "removal",
        scenario: "call",
        finds: "use of a device that is gone",
    },
    Mutant {
        name: "enter_does_not_look",
        what: "one enters a gate that is closed",
        file: GATE,
        old: "
        if self.closed.load(Relaxed) {
            return Err(EIO);
        }
",
        new: "
        if self.closed.load(Relaxed) && false {
            return Err(EIO);
        }
",
        protocol: "removal",
        scenario: "create",
        finds: "use of a device that is gone",
    },
    Mutant {
        name: "drain_does_not_wait",
        what: "who is inside is not waited for",
        file: GATE,
        old: "self.inside.synchronize();",
        new: "",
        protocol: "removal",
        scenario: "call",
        finds: "use of a device that is gone",
    },
    Mutant {
        name: "close_leaves_the_rest",
        what: "closing takes those only that nobody is registered with",
        file: MEMBERS,
        old: "self.reclaim_all(Reason::Domain, |_, _| true);",
        new: "self.reclaim_all(Reason::Domain, |entry, _| entry.refs == 0);",
        protocol: "removal",
        scenario: "open",
        finds: "deadlock",
    },
];
