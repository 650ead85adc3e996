// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The processes of one side, and its link to the other side.

use std::{
    io::BufReader,
    net::TcpStream,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail, Context, Result};

use crate::protocol::{read, write, Message, Order, Report, Word};

/// What happens.
enum Event {
    Reported(usize, Report),
    /// A process says no more.
    Gone(usize),
    Peer(Box<Word>),
    /// The other side says no more.
    PeerGone,
}

struct Member {
    child: Child,
    orders: ChildStdin,
}

/// They are killed when this is dropped.
pub struct Crew {
    /// What they do, for messages.
    what: &'static str,
    members: Vec<Member>,
    link: TcpStream,
    events: Receiver<Event>,
    sender: Sender<Event>,
}

impl Crew {
    /// Nobody yet, but for the link.
    pub fn new(what: &'static str, link: TcpStream) -> Result<Self> {
        link.set_nodelay(true)?;
        let (sender, events) = mpsc::channel();
        let reader = link.try_clone()?;
        let tell = sender.clone();
        // It ends with the link.
        thread::spawn(move || {
            let mut reader = BufReader::new(reader);
            while let Ok(Some(word)) = read(&mut reader) {
                if tell.send(Event::Peer(Box::new(word))).is_err() {
                    return;
                }
            }
            // If nobody listens all is over.
            let _ = tell.send(Event::PeerGone);
        });
        Ok(Crew {
            what,
            members: Vec::new(),
            link,
            events,
            sender,
        })
    }

    /// Starts another process: this program with these arguments.
    pub fn start(&mut self, arguments: &[String]) -> Result<()> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let index = self.members.len();
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {} {index}", self.what))?;
        let orders = child.stdin.take().context("it takes no orders")?;
        let reports = child.stdout.take().context("it has no output")?;
        self.members.push(Member { child, orders });
        let tell = self.sender.clone();
        thread::spawn(move || {
            let mut reports = BufReader::new(reports);
            loop {
                let event = match read(&mut reports) {
                    Ok(Some(report)) => Event::Reported(index, report),
                    Ok(None) => Event::Gone(index),
                    Err(error) => Event::Reported(index, Report::Failed(error.to_string())),
                };
                let more = matches!(event, Event::Reported(_, _));
                // If nobody listens all is over.
                if tell.send(event).is_err() || !more {
                    return;
                }
            }
        });
        Ok(())
    }

    /// Gives one of them an order.
    pub fn order(&mut self, index: usize, order: &Order) -> Result<()> {
        write(&mut self.members[index].orders, order)
            .with_context(|| format!("{} {index} takes no orders any more", self.what))
    }

    /// Gives all of them the same order.
    pub fn order_all(&mut self, order: &Order) -> Result<()> {
        (0..self.members.len()).try_for_each(|index| self.order(index, order))
    }

    /// Waits for one report of each, for no longer than `patience`. `take` says what it is worth,
    /// if it is of the kind that is to come.
    pub fn gather<T>(
        &mut self,
        patience: Duration,
        take: impl Fn(Report) -> Option<T>,
    ) -> Result<Vec<T>> {
        let deadline = Instant::now() + patience;
        let mut gathered: Vec<Option<T>> = self.members.iter().map(|_| None).collect();
        while gathered.iter().any(Option::is_none) {
            match self.next(deadline)? {
                Some(Event::Reported(index, report)) if gathered[index].is_none() => {
                    let said = format!("{report:?}");
                    gathered[index] = take(report);
                    if gathered[index].is_none() {
                        bail!("{} {index} said {said}", self.what);
                    }
                }
                Some(_) => bail!("somebody speaks out of turn"),
                None => {
                    let silent: Vec<_> = (0..gathered.len())
                        .filter(|index| gathered[*index].is_none())
                        .collect();
                    bail!(
                        "{}s {silent:?} did not answer in {} s",
                        self.what,
                        patience.as_secs()
                    );
                }
            }
        }
        Ok(gathered.into_iter().flatten().collect())
    }

    /// Says something to the other side.
    pub fn say(&mut self, message: Message) -> Result<()> {
        write(&mut self.link, &Word::Ok(message)).context("the other side is gone")
    }

    /// Waits for what the other side says.
    pub fn hear(&mut self, patience: Duration) -> Result<Message> {
        match self.next(Instant::now() + patience)? {
            // If it is an `Err`, that was an error already.
            Some(Event::Peer(word)) => word.map_err(anyhow::Error::msg),
            Some(_) => bail!("a process speaks out of turn"),
            None => bail!("the other side did not answer in {} s", patience.as_secs()),
        }
    }

    /// What happens next. Who fails or is gone is an error. `None`: nothing until then.
    fn next(&mut self, deadline: Instant) -> Result<Option<Event>> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(left) {
            Ok(Event::Reported(index, Report::Failed(why))) => {
                Err(anyhow!("{} {index} failed: {why}", self.what))
            }
            Ok(Event::Gone(index)) => Err(anyhow!("{} {index} died", self.what)),
            Ok(Event::Peer(word)) => match *word {
                Ok(_) => Ok(Some(Event::Peer(word))),
                Err(why) => Err(anyhow!("the other side ended: {why}")),
            },
            Ok(Event::PeerGone) => Err(anyhow!("the other side is gone")),
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("nobody is left"),
        }
    }

    /// Something failed: tells the other side, and where things stand on this one.
    pub fn fail(&mut self, error: &anyhow::Error) {
        const PATIENCE: Duration = Duration::from_secs(5);
        // So that both sides tell at about the same time. It may have been the first to fail.
        let _ = write(&mut self.link, &Word::Err(first_line(error)));
        for index in 0..self.members.len() {
            // Those that are gone cannot be asked.
            let _ = self.order(index, &Order::Tell);
        }
        let deadline = Instant::now() + PATIENCE;
        let mut missing = self.members.len();
        while missing > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(Event::Reported(index, Report::State(state))) => {
                    eprintln!("{} {index}: {state}", self.what);
                    missing -= 1;
                }
                Ok(Event::Reported(index, Report::Failed(why))) => {
                    eprintln!("{} {index} failed: {why}", self.what);
                }
                Ok(Event::Gone(_)) => missing -= 1,
                Ok(_) => (),
                Err(_) => break,
            }
        }
    }

    /// There are no more orders. Waits until all have exited.
    pub fn dismiss(mut self) -> Result<()> {
        for (index, member) in self.members.drain(..).enumerate() {
            let Member { mut child, orders } = member;
            drop(orders);
            let status = child.wait()?;
            if !status.success() {
                bail!("{} {index} failed ({status})", self.what);
            }
        }
        Ok(())
    }
}

fn first_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().next().unwrap_or_default().to_string()
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            // It may have exited already.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}
