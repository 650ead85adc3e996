// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Waiting for one of two descriptors.

use std::os::fd::BorrowedFd;

use rustix::{
    event::{poll, PollFd, PollFlags},
    fs::{fcntl_getfl, OFlags},
};

use crate::error::{Errno, Error, Result};

/// Which one has something to read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ready {
    Theirs,
    Ours,
}

/// Waits until one has something to read, unless `theirs` is in non-blocking mode: EAGAIN if
/// there is nothing then. EINTR: a signal came.
pub(super) fn wait(
    theirs: BorrowedFd<'_>,
    ours: BorrowedFd<'_>,
    what: &'static str,
) -> Result<Ready> {
    let failed = |e: rustix::io::Errno| Error::call(what, e.into());
    let non_blocking = fcntl_getfl(theirs)
        .map_err(failed)?
        .contains(OFlags::NONBLOCK);
    let mut fds = [
        PollFd::new(&theirs, PollFlags::IN),
        PollFd::new(&ours, PollFlags::IN),
    ];
    let now = Default::default();
    let n = poll(&mut fds, non_blocking.then_some(&now)).map_err(failed)?;
    if n == 0 {
        return Err(Error::call(what, Errno::EAGAIN));
    }
    Ok(match fds[1].revents().contains(PollFlags::IN) {
        true => Ready::Ours,
        false => Ready::Theirs,
    })
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::fd::AsFd, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn it_tells_which_one() {
        let (theirs, mut to_theirs) = UnixStream::pair().unwrap();
        let (ours, mut to_ours) = UnixStream::pair().unwrap();
        let wait = || wait(theirs.as_fd(), ours.as_fd(), "wait");
        theirs.set_nonblocking(true).unwrap();
        assert_eq!(wait().unwrap_err().errno(), Errno::EAGAIN);
        to_theirs.write_all(&[1]).unwrap();
        assert_eq!(wait(), Ok(Ready::Theirs));
        to_ours.write_all(&[1]).unwrap();
        assert_eq!(wait(), Ok(Ready::Ours));
    }

    #[test]
    fn it_waits_if_the_descriptor_is_so() {
        let (theirs, _to_theirs) = UnixStream::pair().unwrap();
        let (ours, mut to_ours) = UnixStream::pair().unwrap();
        let waiter = std::thread::spawn(move || wait(theirs.as_fd(), ours.as_fd(), "wait"));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiter.is_finished());
        to_ours.write_all(&[1]).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(Ready::Ours));
    }
}
