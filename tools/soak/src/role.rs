// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A process that takes part: gets orders on its standard input, and reports on its
//! standard output.

use std::{
    io,
    process::ExitCode,
    sync::mpsc::{self, Receiver, TryRecvError},
    thread,
};

use anyhow::{anyhow, Result};
use rustix::process::{set_parent_process_death_signal, Signal};

use crate::protocol::{read, write, Order, Report};

/// Where orders come from.
pub struct Orders(Receiver<Order>);

impl Orders {
    /// Waits for the next one. `None`: there are no more.
    pub fn next(&self) -> Option<Order> {
        self.0.recv().ok()
    }

    /// Takes one, if there is one.
    pub fn look(&self) -> Result<Option<Order>> {
        match self.0.try_recv() {
            Ok(order) => Ok(Some(order)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(gone()),
        }
    }
}

fn gone() -> anyhow::Error {
    anyhow!("whoever gives orders is gone")
}

/// An error about an order that does not belong here.
pub fn unexpected(order: Order) -> anyhow::Error {
    anyhow!("order out of turn: {order:?}")
}

/// Reports.
pub fn tell(report: &Report) -> Result<()> {
    Ok(write(&mut io::stdout().lock(), report)?)
}

/// Lives the life of such a process.
pub fn play(live: impl FnOnce(&Orders) -> Result<()>) -> ExitCode {
    let result = prepare().and_then(|orders| live(&orders));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If nobody listens there is nobody to tell.
            let _ = tell(&Report::Failed(format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

fn prepare() -> Result<Orders> {
    // Whatever we are doing when the parent is killed, nobody waits for it.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let (sender, orders) = mpsc::channel();
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        while let Ok(Some(order)) = read(&mut stdin) {
            if sender.send(order).is_err() {
                break;
            }
        }
    });
    Ok(Orders(orders))
}
