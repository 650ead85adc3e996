// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Shows devices and domains, in the style of rdma(8), and runs programs that use XRC.

mod dev;
mod domain;
mod output;
mod preloadable;
mod process;
mod rules;
mod run;
mod srq;
mod tgt_qp;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use output::Format;

/// Shows XRC domains, and runs programs that use XRC on devices without it.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Print JSON.
    #[arg(short, long, global = true)]
    json: bool,

    /// Print JSON with line breaks and indentation.
    #[arg(short, long, global = true)]
    pretty: bool,

    /// Show more: who holds a TGT QP, and SRQs.
    #[arg(short, long, global = true)]
    details: bool,

    #[command(subcommand)]
    object: Object,
}

#[derive(Subcommand)]
enum Object {
    /// The devices that domains can be opened on.
    Dev {
        #[command(subcommand)]
        verb: Option<DevVerb>,
    },
    /// The domain of a file.
    Domain {
        #[command(subcommand)]
        verb: DomainVerb,
    },
    /// Run a program that uses XRC through libibverbs on devices without XRC.
    Run {
        /// Say which devices get XRC and which are left alone.
        #[arg(short, long)]
        verbose: bool,
        /// The program and its arguments.
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<OsString>,
    },
}

#[derive(Subcommand)]
enum DevVerb {
    /// Show all devices (the default).
    Show,
}

#[derive(Subcommand)]
enum DomainVerb {
    /// Show the domain of a file, its rules and its TGT QPs, on every device on which it has
    /// one.
    Show {
        /// The file.
        file: PathBuf,
        /// On this device only.
        #[arg(long)]
        dev: Option<String>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let format = match (arguments.pretty, arguments.json) {
        (true, _) => Format::PrettyJson,
        (false, true) => Format::Json,
        (false, false) => Format::Text,
    };
    let result = match arguments.object {
        Object::Dev { verb } => {
            let (None | Some(DevVerb::Show)) = verb;
            dev::show(format).map(|()| ExitCode::SUCCESS)
        }
        Object::Domain {
            verb: DomainVerb::Show { file, dev },
        } => domain::show(&file, dev.as_deref(), arguments.details, format)
            .map(|()| ExitCode::SUCCESS),
        Object::Run { verbose, command } => run::run(verbose, &command),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ibxrc: {error:#}");
            ExitCode::FAILURE
        }
    }
}
