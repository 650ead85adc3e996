// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The story.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{bail, Context as _, Result};
use clap::Args;
use ibxrc::wire::{HEADER_LEN, PART_SIZE};
use ibxrc_ini::Address;

use crate::{
    process::Process,
    protocol::{Order, Report, Target, Traffic},
    rdma::show_qp,
};

#[derive(Args)]
pub struct Options {
    /// The RDMA device.
    #[arg(long, default_value = "rxe0")]
    device: String,
    /// How many messages B and C each get.
    #[arg(long, default_value_t = 10_000)]
    messages: u64,
    /// The messages and their order follow from this number.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// How long a process may take for one step, in seconds.
    #[arg(long, default_value_t = 300)]
    patience: u64,
}

const PROLOGUE: &str = "\
A host runs a job of several processes, among them A, B and C. Somebody else, S,
wants to send messages to B and to C; think of S as a process on another host.

With ordinary RDMA, S needs a connection to each process that it sends to. Where every
process talks to every other that adds up: in a cluster of 100 hosts with 64 processes
each, every host keeps 409,600 of them. With XRC (eXtended Reliable Connected) S needs one
connection to the whole host, and writes on each message whose it is; a host keeps 6,400:

                                                          .--> mailbox of B
    S  ========== one connection ==========>  TGT QP  ---|
                                                          '--> mailbox of C

The receiving end of that connection is called a TGT QP, the mailbox of a process an
SRQ. Both are in a domain, which processes find by a file that they have in common. The
question is who owns the TGT QP: the process that creates it may exit while others
still receive through it. Here is the answer.
";

/// How long after the last process a TGT QP may be seen.
const GRACE: Duration = Duration::from_secs(1);

struct Story {
    start: Instant,
    step: u32,
}

impl Story {
    /// A new step.
    fn step(&mut self, what: &str) {
        self.step += 1;
        println!(
            "\n{}. {what}   [{:.1} s]",
            self.step,
            self.start.elapsed().as_secs_f64()
        );
    }

    /// What happens in it.
    fn say(&self, what: impl AsRef<str>) {
        for line in what.as_ref().lines() {
            println!("   {line}");
        }
    }
}

struct Receiver {
    name: &'static str,
    process: Process,
    srq_num: u32,
    stream: u32,
}

/// Plays it. An error is what went wrong.
pub fn play(options: &Options) -> Result<()> {
    let device = &options.device;
    // In one part, with an immediate.
    let max_len = (PART_SIZE - HEADER_LEN) as u32;
    let patience = Duration::from_secs(options.patience);
    let dir = tempfile::Builder::new()
        .prefix("ibxrc-demo-")
        .tempdir()
        .context("cannot make a temporary directory")?;
    let file = dir.path().join("domain");
    std::fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;

    let mut story = Story {
        start: Instant::now(),
        step: 0,
    };
    print!("{PROLOGUE}");

    story.step("S makes its end of the connection");
    let mut sender = Process::start(
        "S",
        &arguments(&[
            ("sender", ""),
            ("--device", device),
            ("--seed", &options.seed.to_string()),
            ("--streams", "2"),
            ("--max-len", &max_len.to_string()),
        ]),
        patience,
    )?;
    let ini = match sender.report()? {
        Report::Address(address) => address,
        other => return Err(sender.unexpected(other)),
    };
    story.say(format!(
        "S (process {}) is an ordinary RDMA program: it uses libibverbs, and its end of the\n\
         connection is a QP of the ordinary kind, number {}, at address {} of device\n\
         {device}. All that is new for it is to write on each message whose it is.",
        sender.id(),
        ini.qp_num,
        ini.gid,
    ));

    story.step("A makes the domain and the TGT QP, and connects it to S");
    let creator = Process::start("A", &on_file("creator", device, &file), patience)?;
    let (creator, tgt) = create(&story, creator, ini, &file)?;
    expect_alive(&story, device, tgt.qp_num)?;

    story.step("B and C open the domain, make a mailbox each, and register with the TGT QP");
    let mut receivers = Vec::new();
    for (stream, name) in ["B", "C"].into_iter().enumerate() {
        receivers.push(receive_as(
            &story,
            name,
            stream as u32,
            options,
            max_len,
            &file,
            tgt,
        )?);
    }

    story.step("S connects to the TGT QP: this is the one connection");
    sender.order(&Order::Connect(tgt))?;
    match sender.report()? {
        Report::Connected(_) => story.say(format!("QP {} -> QP {}", ini.qp_num, tgt.qp_num)),
        other => return Err(sender.unexpected(other)),
    }

    story.step("A exits: the TGT QP that it made stays");
    creator.exit()?;
    expect_alive(&story, device, tgt.qp_num)?;

    story.step(&format!(
        "S sends {} messages to each of B and C, in mixed order",
        options.messages
    ));
    transfer(&story, &mut sender, &mut receivers, options.messages)?;

    story.step("B exits: the TGT QP stays, C still needs it");
    let receiver = receivers.remove(0);
    receiver.process.exit()?;
    expect_alive(&story, device, tgt.qp_num)?;
    let more = (options.messages / 10).max(1);
    story.say(format!("And it still works: {more} more messages to C."));
    transfer(&story, &mut sender, &mut receivers, more)?;

    story.step("C exits, the last one: now the TGT QP goes, and not before");
    for receiver in receivers {
        receiver.process.exit()?;
    }
    expect_gone(&story, device, tgt.qp_num)?;
    sender.exit()?;

    println!(
        "\nThe TGT QP outlived its creator and died with the last process that used it. The \
         demo\ntook {:.1} s, and everything was as it should be.",
        story.start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn arguments(pairs: &[(&str, &str)]) -> Vec<String> {
    pairs
        .iter()
        .flat_map(|(option, value)| [*option, *value])
        .filter(|word| !word.is_empty())
        .map(str::to_string)
        .collect()
}

fn on_file(role: &str, device: &str, file: &Path) -> Vec<String> {
    arguments(&[
        (role, ""),
        ("--device", device),
        ("--file", &file.to_string_lossy()),
    ])
}

fn create(
    story: &Story,
    mut creator: Process,
    ini: Address,
    file: &Path,
) -> Result<(Process, Address)> {
    match creator.report()? {
        Report::Ready => story.say(format!(
            "A (process {}) made the domain of the file {}.",
            creator.id(),
            file.display()
        )),
        other => return Err(creator.unexpected(other)),
    }
    creator.order(&Order::Connect(ini))?;
    match creator.report()? {
        Report::Connected(Some(tgt)) => {
            story.say(format!(
                "In it A made a TGT QP, number {}, and connected it to QP {} of S.",
                tgt.qp_num, ini.qp_num
            ));
            Ok((creator, tgt))
        }
        other => Err(creator.unexpected(other)),
    }
}

fn receive_as(
    story: &Story,
    name: &'static str,
    stream: u32,
    options: &Options,
    max_len: u32,
    file: &Path,
    tgt: Address,
) -> Result<Receiver> {
    let mut words = on_file("receiver", &options.device, file);
    words.extend(arguments(&[
        ("--seed", &options.seed.to_string()),
        ("--stream", &stream.to_string()),
        ("--max-len", &max_len.to_string()),
        ("--patience", &options.patience.to_string()),
    ]));
    let patience = Duration::from_secs(options.patience);
    let mut process = Process::start(name, &words, patience)?;
    let srq_num = match process.report()? {
        Report::Listening { srq_num } => srq_num,
        other => return Err(process.unexpected(other)),
    };
    process.order(&Order::Register { qp_num: tgt.qp_num })?;
    let refs = match process.report()? {
        Report::Registered { refs } => refs,
        other => return Err(process.unexpected(other)),
    };
    story.say(format!(
        "{name} (process {}) has mailbox number {srq_num}. With it, {refs} processes are \
         registered.",
        process.id(),
    ));
    // A, and the receivers up to this one.
    let expected = stream + 2;
    if refs != expected {
        bail!("{expected} processes should be registered with the TGT QP, not {refs}");
    }
    Ok(Receiver {
        name,
        process,
        srq_num,
        stream,
    })
}

/// Lets S send so many messages to each of the receivers, who check them.
fn transfer(
    story: &Story,
    sender: &mut Process,
    receivers: &mut [Receiver],
    messages: u64,
) -> Result<()> {
    let targets = receivers
        .iter()
        .map(|r| Target {
            stream: r.stream,
            srq_num: r.srq_num,
            messages,
        })
        .collect();
    for receiver in receivers.iter_mut() {
        receiver.process.order(&Order::Receive { messages })?;
    }
    sender.order(&Order::Send(targets))?;
    let sent = match sender.report()? {
        Report::Sent(traffic) => traffic,
        other => return Err(sender.unexpected(other)),
    };
    story.say(format!("S sent      {}", describe(&sent)));
    let mut arrived = 0;
    for receiver in receivers.iter_mut() {
        let received = match receiver.process.report()? {
            Report::Received(traffic) => traffic,
            other => return Err(receiver.process.unexpected(other)),
        };
        story.say(format!(
            "{} received  {}",
            receiver.name,
            describe(&received)
        ));
        if received.messages != messages {
            bail!(
                "{} should have received {messages} messages, not {}",
                receiver.name,
                received.messages
            );
        }
        arrived += received.messages;
    }
    if sent.messages != arrived {
        bail!("{} messages were sent, {arrived} arrived", sent.messages);
    }
    story.say("Each message was for the right process, in order, and right to the last byte.");
    Ok(())
}

fn describe(traffic: &Traffic) -> String {
    format!(
        "{:>6} messages, {} of them with immediate data, {} bytes (the longest {}), in {:.1} s",
        traffic.messages, traffic.with_imm, traffic.bytes, traffic.longest, traffic.seconds
    )
}

fn expect_alive(story: &Story, device: &str, qp_num: u32) -> Result<()> {
    match show_qp(device, qp_num)? {
        Some(line) => {
            story.say(format!("$ rdma resource show qp\n  {line}"));
            Ok(())
        }
        None => bail!("the TGT QP, number {qp_num}, should be there, but `rdma` does not show it"),
    }
}

fn expect_gone(story: &Story, device: &str, qp_num: u32) -> Result<()> {
    let start = Instant::now();
    while let Some(line) = show_qp(device, qp_num)? {
        if start.elapsed() > GRACE {
            bail!("the TGT QP should be gone, but `rdma` still shows it: {line}");
        }
        thread::sleep(Duration::from_millis(10));
    }
    story.say(format!(
        "$ rdma resource show qp\n  (nothing with lqpn {qp_num})"
    ));
    Ok(())
}
