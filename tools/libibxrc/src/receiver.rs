// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Receiving without a thought of buffers: an SRQ with a CQ and memory of its own.

use std::{
    fmt,
    ops::Deref,
    ptr::NonNull,
    time::{Duration, Instant},
};

use crate::{
    comp_channel::CompChannel,
    context::Context,
    cq::{Cq, Wc},
    error::{Error, Result},
    srq::{Sge, Srq, SrqAttr},
    xrcd::Xrcd,
};

/// Memory that the kernel writes to.
///
/// # Invariants
///
/// `base` is a boxed slice of `count * size` bytes, to which nobody has a reference
/// while any part of it is posted.
struct Buffers {
    base: NonNull<u8>,
    count: usize,
    size: usize,
}

// SAFETY: It owns its memory.
unsafe impl Send for Buffers {}
// SAFETY: Through a shared reference only the address is to be had.
unsafe impl Sync for Buffers {}

impl Buffers {
    fn new(count: u32, size: u32) -> Result<Self> {
        let (count, size) = (count as usize, size as usize);
        let too_much = || Error::invalid(format!("{count} buffers of {size} bytes are too much"));
        let bytes = count
            .checked_mul(size)
            .filter(|bytes| *bytes <= isize::MAX as usize)
            .ok_or_else(too_much)?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(bytes).map_err(|_| too_much())?;
        memory.resize(bytes, 0);
        let base = NonNull::from(Box::leak(memory.into_boxed_slice())).cast();
        // INVARIANT: Just made, and nothing is posted.
        Ok(Buffers { base, count, size })
    }

    fn sge(&self, slot: usize) -> Sge {
        assert!(slot < self.count);
        Sge {
            // SAFETY: Inside of the slice.
            addr: unsafe { self.base.as_ptr().add(slot * self.size) },
            length: self.size as u32,
        }
    }

    /// # Safety
    ///
    /// Nothing of it is posted any more.
    unsafe fn free(&self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.count * self.size);
        // SAFETY: The box of `new`, of which there is no other reference.
        drop(unsafe { Box::from_raw(slice) });
    }
}

/// How a [`Receiver`] is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverAttr {
    /// How many buffers it posts.
    pub buffers: u32,
    /// Bytes of each: a message that is longer cannot be received.
    pub buffer_size: u32,
}

/// An SRQ with a CQ and buffers of its own: the safe way to receive messages.
///
/// ```no_run
/// # fn main() -> ibxrc::Result<()> {
/// use ibxrc::{Context, Receiver, ReceiverAttr, XrcdOptions};
///
/// let context = Context::open("rxe0")?;
/// let xrcd = context.open_xrcd(XrcdOptions::default())?;
/// let attr = ReceiverAttr { buffers: 64, buffer_size: 4096 };
/// let mut receiver = Receiver::new(&context, &xrcd, attr)?;
/// println!("send to SRQ {}", receiver.srq_num());
/// while let Some(message) = receiver.receive(None)? {
///     println!("{} bytes", message.len());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Receiver {
    srq: Srq,
    cq: Cq,
    channel: CompChannel,
    buffers: Buffers,
    /// A buffer which could not be posted again.
    error: Option<Error>,
}

impl Receiver {
    /// Creates it in a domain of this context. EINVAL: more buffers than
    /// [`crate::Limits::max_srq_wr`], or 0.
    pub fn new(context: &Context, xrcd: &Xrcd, attr: ReceiverAttr) -> Result<Self> {
        let channel = context.create_comp_channel()?;
        let cq = context.create_cq(attr.buffers, Some(&channel), 0)?;
        let srq = xrcd.create_srq(
            &cq,
            SrqAttr {
                max_wr: attr.buffers,
                max_sge: 1,
                user_handle: 0,
            },
        )?;
        let receiver = Receiver {
            srq,
            cq,
            channel,
            buffers: Buffers::new(attr.buffers, attr.buffer_size)?,
            error: None,
        };
        for slot in 0..receiver.buffers.count {
            receiver.post(slot)?;
        }
        Ok(receiver)
    }

    /// The number of its SRQ, which senders address.
    pub fn srq_num(&self) -> u32 {
        self.srq.num()
    }

    /// Posts a buffer that is not posted.
    fn post(&self, slot: usize) -> Result<()> {
        // SAFETY: It is ours until it completes, which `take` watches, or the SRQ is
        // destroyed, as `drop` does before it frees the memory.
        unsafe { self.srq.post_recv(slot as u64, &[self.buffers.sge(slot)]) }
    }

    fn poll(&mut self) -> Result<Option<Wc>> {
        let mut wc = [Wc::default()];
        Ok((self.cq.poll(&mut wc)? > 0).then_some(wc[0]))
    }

    /// Waits for a message, no longer than `timeout` (without one: forever), and
    /// takes it. None: there was none in that time.
    ///
    /// EMSGSIZE: a message was longer than the buffers. EIO: the device is gone.
    pub fn receive(&mut self, timeout: Option<Duration>) -> Result<Option<Message<'_>>> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let wc = loop {
            if let Some(wc) = self.poll()? {
                break wc;
            }
            if self.cq.arm(false) {
                continue;
            }
            match deadline {
                None => {
                    self.channel.wait()?;
                }
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if self.channel.wait_timeout(left)?.is_none() && left.is_zero() {
                        return Ok(None);
                    }
                }
            }
        };

        let slot = usize::try_from(wc.wr_id)
            .ok()
            .filter(|slot| *slot < self.buffers.count)
            .ok_or_else(|| Error::Unexpected(format!("a completion of buffer {}", wc.wr_id)))?;
        if !wc.status.is_success() {
            self.error = self.post(slot).err();
            return Err(Error::Completion { status: wc.status });
        }
        if wc.byte_len as usize > self.buffers.size {
            return Err(Error::Unexpected(format!(
                "{} bytes in a buffer of {}",
                wc.byte_len, self.buffers.size
            )));
        }
        Ok(Some(Message {
            receiver: self,
            slot,
            wc,
        }))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if self.srq.destroy().is_ok() {
            // SAFETY: The SRQ is gone, and with it what was posted.
            unsafe { self.buffers.free() };
        }
        // Else better leak it than let the kernel write to somebody else's memory.
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("srq_num", &self.srq_num())
            .finish_non_exhaustive()
    }
}

/// A received message: its bytes, until it is dropped and the buffer posted again.
pub struct Message<'a> {
    receiver: &'a mut Receiver,
    slot: usize,
    wc: Wc,
}

impl Message<'_> {
    /// Where it came from, its immediate data, ...
    pub fn wc(&self) -> &Wc {
        &self.wc
    }
}

impl Deref for Message<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let sge = self.receiver.buffers.sge(self.slot);
        // SAFETY: Completed and not posted again; `byte_len` is no more than the size.
        unsafe { std::slice::from_raw_parts(sge.addr, self.wc.byte_len as usize) }
    }
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        self.receiver.error = self.receiver.post(self.slot).err();
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("wc", &self.wc)
            .finish_non_exhaustive()
    }
}
