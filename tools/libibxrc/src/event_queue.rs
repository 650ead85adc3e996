// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A descriptor from which records are read, each as a whole.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{poll, PollFd, PollFlags, Timespec},
    fs::{fcntl_getfl, fcntl_setfl, OFlags},
    io::read,
};

use crate::{
    error::{Errno, Error, Result},
    framing::{bytes_of_slice_mut, Plain},
};

/// The descriptor is in non-blocking mode: what poll(2) told of may be gone before it is
/// read, taken by another thread, or with the object that it was about.
pub(crate) struct EventQueue {
    fd: OwnedFd,
    /// For error messages.
    wait: &'static str,
}

impl EventQueue {
    pub(crate) fn new(fd: OwnedFd, wait: &'static str) -> Result<Self> {
        let queue = EventQueue { fd, wait };
        queue.set_blocking(false)?;
        Ok(queue)
    }

    /// For those who read with [`EventQueue::read_once`] only.
    pub(crate) fn set_blocking(&self, blocking: bool) -> Result<()> {
        fcntl_getfl(&self.fd)
            .and_then(|mut flags| {
                flags.set(OFlags::NONBLOCK, !blocking);
                fcntl_setfl(&self.fd, flags)
            })
            .map_err(|e| Error::call("set up the descriptor of events", e.into()))
    }

    /// Whether there is something to read, waiting for it no longer than `timeout`.
    fn readable(&self, timeout: Option<Duration>) -> Result<bool> {
        let timeout = timeout.map(|t| Timespec {
            tv_sec: t.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        poll(&mut fds, timeout.as_ref())
            .map(|n| n > 0)
            .map_err(|e| Error::call(self.wait, e.into()))
    }

    /// Waits for a record no longer than `timeout`, and takes as many as there are and
    /// fit. Returns how many: none if none came in that time. EINTR: a signal came.
    pub(crate) fn read<T: Plain>(
        &self,
        records: &mut [T],
        timeout: Option<Duration>,
    ) -> Result<usize> {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if !self.readable(left)? {
                return Ok(0);
            }
            match self.read_once(records) {
                Err(e) if e.errno() == Errno::EAGAIN => (),
                other => return other,
            }
        }
    }

    /// Takes as many records as there are and fit, and waits for the first if the descriptor
    /// is in blocking mode; else EAGAIN if there is none. EINTR: a signal came.
    pub(crate) fn read_once<T: Plain>(&self, records: &mut [T]) -> Result<usize> {
        match read(&self.fd, bytes_of_slice_mut(records)) {
            Ok(n) if n > 0 && n % size_of::<T>() == 0 => Ok(n / size_of::<T>()),
            Ok(n) => Err(Error::Unexpected(format!("{n} bytes of events"))),
            Err(e) => Err(Error::call(self.wait, e.into())),
        }
    }

    /// Waits for a record no longer than `timeout`, whatever signals come, and takes it.
    pub(crate) fn wait_timeout<T: Plain + Default>(&self, timeout: Duration) -> Result<Option<T>> {
        let deadline = Instant::now().checked_add(timeout);
        let mut record = [T::default()];
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            match self.read(&mut record, left) {
                Err(e) if e.errno() == Errno::EINTR => (),
                other => return Ok((other? > 0).then_some(record[0])),
            }
        }
    }

    /// The same without end.
    pub(crate) fn wait<T: Plain + Default>(&self) -> Result<T> {
        loop {
            if let Some(record) = self.wait_timeout(Duration::MAX)? {
                return Ok(record);
            }
        }
    }
}

impl AsFd for EventQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::net::UnixStream};

    use super::*;

    fn queue() -> (EventQueue, UnixStream) {
        let (reader, writer) = UnixStream::pair().unwrap();
        (EventQueue::new(reader.into(), "wait").unwrap(), writer)
    }

    #[test]
    fn nothing_comes_of_nothing() {
        let (queue, _writer) = queue();
        let timeout = Duration::from_millis(20);
        let start = Instant::now();
        assert_eq!(queue.wait_timeout::<u64>(timeout), Ok(None));
        assert!(start.elapsed() >= timeout);
        assert_eq!(queue.read(&mut [0u64], Some(Duration::ZERO)), Ok(0));
        let error = queue.read_once(&mut [0u64]).unwrap_err();
        assert_eq!(error.errno(), Errno::EAGAIN);
    }

    #[test]
    fn as_many_are_read_as_fit() {
        let (queue, mut writer) = queue();
        for n in 1..=3u64 {
            writer.write_all(&n.to_ne_bytes()).unwrap();
        }
        let mut records = [0u64; 2];
        assert_eq!(queue.read(&mut records, None), Ok(2));
        assert_eq!(records, [1, 2]);
        assert_eq!(queue.wait(), Ok(3u64));
    }

    #[test]
    fn who_wants_to_block_does() {
        let (queue, mut writer) = queue();
        queue.set_blocking(true).unwrap();
        let reader = std::thread::spawn(move || {
            let mut record = [0u64];
            (queue.read_once(&mut record), record)
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!reader.is_finished());
        writer.write_all(&7u64.to_ne_bytes()).unwrap();
        assert_eq!(reader.join().unwrap(), (Ok(1), [7]));
    }

    #[test]
    fn half_a_record_and_none_at_the_end_are_errors() {
        let (queue, mut writer) = queue();
        writer.write_all(&[1; 4]).unwrap();
        assert!(matches!(queue.wait::<u64>(), Err(Error::Unexpected(_))));
        drop(writer);
        assert!(matches!(queue.wait::<u64>(), Err(Error::Unexpected(_))));
    }
}
