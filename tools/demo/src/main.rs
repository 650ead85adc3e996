// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Processes that share one connection, told as a story.
//!
//! `ibxrc-demo` plays the story: it starts the processes A, B, C and S, which are the
//! same program with another sub-command, gives them orders as lines of JSON on their
//! standard input, and reads what they report on their standard output.

mod creator;
mod message;
mod process;
mod protocol;
mod rdma;
mod receiver;
mod role;
mod sender;
mod story;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Shows processes that share one connection by an XRC domain.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    story: story::Options,

    #[command(subcommand)]
    role: Option<Role>,
}

/// The processes of the story, which the story starts by itself.
#[derive(Subcommand)]
enum Role {
    /// A: creates the domain and the TGT QP.
    #[command(hide = true)]
    Creator(creator::Options),
    /// B and C: receive messages.
    #[command(hide = true)]
    Receiver(receiver::Options),
    /// S: sends messages.
    #[command(hide = true)]
    Sender(sender::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.role {
        None => match story::play(&arguments.story) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("\nThe demo failed: {error:#}.");
                ExitCode::FAILURE
            }
        },
        Some(Role::Creator(options)) => role::play(|| creator::Creator::start(&options)),
        Some(Role::Receiver(options)) => role::play(|| receiver::Receiver::start(&options)),
        Some(Role::Sender(options)) => role::play(|| sender::Sender::start(&options)),
    }
}
