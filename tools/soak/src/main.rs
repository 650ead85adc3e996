// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Senders and receivers that do everything at random, and check it.
//!
//! Four processes have eight SRQs in three domains, and share the TGT QPs of these; four
//! others send to all of them. What is sent follows from a seed, so that a receiver knows
//! which message is to come next, and each of its bytes.
//!
//! `ibxrc-soak` alone does it on one machine; `ibxrc-soak receive` and `ibxrc-soak send` are
//! its two sides, for two machines.

mod arena;
mod content;
mod crew;
mod layout;
mod mailbox;
mod member;
mod mix;
mod protocol;
mod random;
mod receiver;
mod receivers;
mod region;
mod role;
mod scatter;
mod schedule;
mod sender;
mod senders;
mod size;
mod stream;
mod tally;
mod verdict;

use std::{
    hash::{BuildHasher, RandomState},
    net::TcpListener,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{anyhow, Context, Result};
use clap::{Args, Parser, Subcommand};

use crate::{member::Member, mix::Mix, protocol::Plan};

/// Sends everything at random, and checks that it arrives.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    local: Local,

    #[command(subcommand)]
    side: Option<Side>,
}

/// Both sides on this machine.
#[derive(Args)]
struct Local {
    /// The RDMA device of the receivers.
    #[arg(long, env = "XRC_DEVICE", default_value = "rxe0")]
    device: String,
    /// The RDMA device of the senders; without it, that of the receivers.
    #[arg(long)]
    sender_device: Option<String>,
    #[command(flatten)]
    task: Task,
}

/// What to do.
#[derive(Args)]
struct Task {
    /// How long to send.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// What is sent follows from this number; without it, it is another one each time.
    #[arg(long)]
    seed: Option<u64>,
    /// Seconds without any progress that mean that there will be none.
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// For a network that loses, repeats and reorders packets: only what Soft-RoCE can do there.
    #[arg(long)]
    lossy: bool,
}

#[derive(Subcommand)]
enum Side {
    /// The side that receives: waits for the other one.
    Receive {
        /// The RDMA device.
        #[arg(long, env = "XRC_DEVICE", default_value = "rxe0")]
        device: String,
        /// Address and port to wait at.
        #[arg(long)]
        listen: String,
        /// Seconds that the other side may take to get ready.
        #[arg(long, default_value_t = 60)]
        patience: u64,
    },
    /// The side that sends.
    Send {
        /// The RDMA device.
        #[arg(long, env = "XRC_DEVICE", default_value = "rxe0")]
        device: String,
        /// Address and port of the other side.
        #[arg(long)]
        connect: String,
        #[command(flatten)]
        task: Task,
    },
    /// A process that receives, which its side starts.
    #[command(hide = true)]
    Receiver(receiver::Options),
    /// A process that sends, which its side starts.
    #[command(hide = true)]
    Sender(Member),
}

fn main() -> ExitCode {
    let Arguments { local, side } = Arguments::parse();
    let result = match side {
        Some(Side::Receiver(options)) => {
            return role::play(|orders| receiver::live(&options, orders))
        }
        Some(Side::Sender(options)) => return role::play(|orders| sender::live(&options, orders)),
        Some(Side::Receive {
            device,
            listen,
            patience,
        }) => receive(&device, &listen, Duration::from_secs(patience)),
        Some(Side::Send {
            device,
            connect,
            task,
        }) => send(&device, &connect, &task),
        None => both(&local),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn receive(device: &str, listen: &str, patience: Duration) -> Result<()> {
    let listener = TcpListener::bind(listen).with_context(|| format!("cannot wait at {listen}"))?;
    receivers::receive(device, &listener, patience)
}

fn send(device: &str, address: &str, task: &Task) -> Result<()> {
    let seed = task.announce();
    let patience = Duration::from_secs(task.patience);
    senders::connect(address, patience)
        .and_then(|link| task.run(seed, device, link))
        .with_context(|| format!("seed {seed}"))
}

fn both(local: &Local) -> Result<()> {
    let task = &local.task;
    let seed = task.announce();
    let patience = Duration::from_secs(task.patience);
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot wait at 127.0.0.1")?;
    let address = listener.local_addr()?;
    let device = local.device.clone();
    let receivers = thread::spawn(move || receivers::receive(&device, &listener, patience));
    let sender_device = local.sender_device.as_ref().unwrap_or(&local.device);
    let sent =
        senders::connect(address, patience).and_then(|link| task.run(seed, sender_device, link));
    let received = receivers
        .join()
        .unwrap_or_else(|_| Err(anyhow!("the receivers' side panicked")));
    let result = match (sent, received) {
        (Err(sent), Err(received)) => Err(anyhow!("senders: {sent:#}\nreceivers: {received:#}")),
        (sent, received) => sent.and(received),
    };
    result.with_context(|| {
        format!(
            "seed {seed}; to do the same again: ibxrc-soak --seconds {} --seed {seed}",
            task.seconds
        )
    })
}

impl Task {
    /// Says which seed it is.
    fn announce(&self) -> u64 {
        let seed = self
            .seed
            // A random number, of 32 bits so that it can be typed.
            .unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
        println!("seed {seed}, {} s", self.seconds);
        seed
    }

    fn run(&self, seed: u64, device: &str, link: std::net::TcpStream) -> Result<()> {
        let start = Instant::now();
        let mix = Mix {
            seed,
            lossy: self.lossy,
        };
        let plan = Plan {
            mix,
            patience: self.patience,
        };
        let outcome = senders::send(device, link, plan, self.seconds)?;
        print!("{}", outcome.tally);
        // A short run may not get that far.
        if self.seconds >= 30 {
            outcome.check_coverage(mix)?;
        }
        println!(
            "senders were held back {} times, SRQs reached their limit {} times; all arrived, in {:.1} s",
            outcome.backlogs,
            outcome.limits,
            start.elapsed().as_secs_f64()
        );
        Ok(())
    }
}
