// SPDX-License-Identifier: GPL-2.0

//! System calls with whatever arguments.

use std::{ffi::CStr, io, os::fd::RawFd};

use ibxrc::uapi;

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Opens the module's device. -1 if that fails.
pub fn open_device() -> RawFd {
    const PATH: &CStr = c"/dev/infiniband/xrc";
    // SAFETY: A string.
    unsafe { libc::open(PATH.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) }
}

pub fn close(fd: RawFd) {
    // SAFETY: It was a descriptor of one of our slots, which no longer has it.
    unsafe { libc::close(fd) };
}

/// ioctl(2) on a file of the module.
pub fn ioctl(fd: RawFd, command: u32, pointer: u64) -> Result<(), i32> {
    // SAFETY: What the kernel may write to is in the scratch memory of this thread, or
    // nothing of the program's.
    match unsafe { libc::ioctl(fd, command as libc::Ioctl, pointer) } {
        -1 => Err(errno()),
        _ => Ok(()),
    }
}

pub fn dup(fd: RawFd) -> RawFd {
    // SAFETY: It takes a number.
    unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) }
}

pub fn read(fd: RawFd, len: usize) {
    let mut buffer = [0u8; 4096];
    // SAFETY: The buffer has as many bytes.
    unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), len.min(buffer.len())) };
}

pub fn poll(fd: RawFd, ms: i32) {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN | libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: One element.
    unsafe { libc::poll(&mut poll, 1, ms) };
}

pub fn set_nonblocking(fd: RawFd, on: bool) {
    let flags = if on { libc::O_NONBLOCK } else { 0 };
    // SAFETY: It takes a number.
    unsafe { libc::fcntl(fd, libc::F_SETFL, flags) };
}

/// Other calls that files may take or not.
pub fn other(fd: RawFd, which: u8, value: u64) {
    let mut bytes = [0u8; 64];
    let buffer: *mut libc::c_void = bytes.as_mut_ptr().cast();
    let len = (value % 65) as usize;
    // SAFETY: The buffer has as many bytes; the rest takes numbers, or a pointer to nothing.
    unsafe {
        match which {
            0 => drop(libc::write(fd, buffer, len)),
            1 => drop(libc::pread(fd, buffer, len, value as i64)),
            2 => drop(libc::lseek(fd, value as i64, (value % 5) as i32)),
            3 => drop(libc::ftruncate(fd, (value % 4096) as i64)),
            4 => drop(libc::fsync(fd)),
            5 => drop(libc::fallocate(fd, 0, 0, (value % 4096) as i64)),
            6 => drop(libc::ioctl(fd, uapi::IBXRC_VERBS_IOCTL as libc::Ioctl, 8)),
            7 => drop(libc::ioctl(fd, value as libc::Ioctl, 8)),
            8 => drop(libc::fstat(fd, &mut std::mem::zeroed())),
            _ => drop(libc::flock(fd, libc::LOCK_SH | libc::LOCK_NB)),
        }
    }
}

/// Maps something, and unmaps all of it, by parts if it is told so.
pub fn odd_map(fd: RawFd, offset: i64, pages: u8, prot: u8, shared: bool, parts: u8) {
    let len = usize::from(pages) * 4096;
    let flags = match shared {
        true => libc::MAP_SHARED,
        false => libc::MAP_PRIVATE,
    };
    // SAFETY: A new mapping, which nobody else knows.
    unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            len,
            (prot & 7).into(),
            flags,
            fd,
            offset,
        );
        if start == libc::MAP_FAILED {
            return;
        }
        let head = (usize::from(parts) * 4096).min(len);
        if head > 0 {
            libc::mprotect(start, head, libc::PROT_READ);
            libc::munmap(start, head);
        }
        if head < len {
            libc::munmap(start.byte_add(head), len - head);
        }
    }
}

/// Sends a descriptor through a socket and takes it out again. -1: it was left in there when
/// the socket was closed, or that failed.
pub fn pass(fd: RawFd, lose: bool) -> RawFd {
    let mut ends = [0; 2];
    let mut byte = [0u8; 1];
    let mut control = [0u64; 4];
    // SAFETY: All pointers are to these, with their lengths, and live until the end.
    unsafe {
        if libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
            0,
            ends.as_mut_ptr(),
        ) != 0
        {
            return -1;
        }
        let mut part = libc::iovec {
            iov_base: byte.as_mut_ptr().cast(),
            iov_len: 1,
        };
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd);
        let mut got = -1;
        if libc::sendmsg(ends[0], &message, 0) == 1
            && !lose
            && libc::recvmsg(ends[1], &mut message, libc::MSG_CMSG_CLOEXEC) == 1
        {
            let header = libc::CMSG_FIRSTHDR(&message);
            if !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
                got = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
            }
        }
        libc::close(ends[0]);
        libc::close(ends[1]);
        got
    }
}

/// Changes the protection of memory that only the kernel looks at.
pub fn protect(address: usize, len: usize, prot: i32) {
    // SAFETY: As said.
    unsafe { libc::mprotect(address as *mut _, len, prot) };
}

/// Takes its pages away.
pub fn discard(address: usize, len: usize) {
    // SAFETY: As in `protect`.
    unsafe { libc::madvise(address as *mut _, len, libc::MADV_DONTNEED) };
}

/// Unmaps it, and maps other memory there.
pub fn renew(address: usize, len: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: As in `protect`. It is mapped again before anything else can be.
    unsafe { libc::mmap(address as *mut _, len, prot, flags, -1, 0) };
}

pub fn gettid() -> u32 {
    // SAFETY: It takes nothing.
    unsafe { libc::gettid() as u32 }
}

/// Sends a signal to a thread that does nothing but to interrupt its system call.
pub fn interrupt(pid: u32, tid: u32) {
    if pid != 0 && tid != 0 {
        // SAFETY: It takes numbers.
        unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, libc::SIGUSR1) };
    }
}

/// Has system calls be interrupted by that signal; and this process die with its parent.
pub fn prepare() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: The handler does nothing, and the structure is whole.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
    }
}

/// Makes a child: 0 is the child. If this process has other threads, that is to end by `die`
/// soon.
pub fn fork() -> io::Result<u32> {
    // SAFETY: A child of one of several threads makes system calls only. What it needs of the
    // allocator works after fork(2) in the C libraries that there are.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => {
            if pid == 0 {
                // SAFETY: It takes numbers.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            }
            Ok(pid as u32)
        }
    }
}

/// Ends a child.
pub fn die(killed: bool) -> ! {
    // SAFETY: They take numbers.
    unsafe {
        if killed {
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
        libc::_exit(0)
    }
}

/// Kills a child.
pub fn kill(child: u32) {
    // SAFETY: It takes numbers, and it was not waited for yet.
    unsafe { libc::kill(child as i32, libc::SIGKILL) };
}

/// The status of a child, as waitpid(2) has it, if it has ended.
pub fn ended(child: u32) -> io::Result<Option<i32>> {
    let mut status = 0;
    // SAFETY: It writes the status.
    match unsafe { libc::waitpid(child as i32, &mut status, libc::WNOHANG) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => Ok(Some(status)),
    }
}

/// Waits for a child.
pub fn wait(child: u32) {
    let mut status = 0;
    // SAFETY: It writes the status.
    while unsafe { libc::waitpid(child as i32, &mut status, 0) } == -1 && errno() == libc::EINTR {}
}
