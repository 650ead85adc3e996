// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! A handle of the open file.

use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc,
};

use crate::{
    context::ContextInner,
    error::{Errno, Error, Result},
    framing::Request,
};

/// How the handles of one kind of object are closed.
pub(crate) struct Kind {
    pub(crate) object: u32,
    pub(crate) close: u32,
    pub(crate) close_handle: u32,
    pub(crate) what: &'static str,
    pub(crate) busy: &'static str,
}

/// A handle, which is closed when it is dropped.
pub(crate) struct Handle {
    context: Arc<ContextInner>,
    kind: &'static Kind,
    id: u32,
    closed: AtomicBool,
}

impl Handle {
    pub(crate) fn new(context: &Arc<ContextInner>, kind: &'static Kind, id: u32) -> Self {
        Handle {
            context: context.clone(),
            kind,
            id,
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn context(&self) -> &Arc<ContextInner> {
        &self.context
    }

    /// Closes it now. When that fails it is as before.
    pub(crate) fn close(&self) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let request =
            Request::new(self.kind.object, self.kind.close).handle(self.kind.close_handle, self.id);
        self.context.call(request).result().map_err(|errno| {
            Error::explained(self.kind.what, errno, &[(Errno::EBUSY, self.kind.busy)])
        })?;
        self.was_closed();
        Ok(())
    }

    /// Another call has closed it.
    pub(crate) fn was_closed(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // What cannot be closed now goes with the file.
        let _ = self.close();
    }
}
