// SPDX-License-Identifier: GPL-2.0

//! An open file of `/dev/infiniband/xrc`.

use kernel::{
    fs::File,
    miscdevice::{
        MiscDevice,
        MiscDeviceRegistration, //
    },
    mm::virt::VmaNew,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        SetOnce, //
    },
};

use crate::{
    bindings,
    linux::shared_memory,
    rdma::gate::GateGuard,
    soft::Soft,
    uverbs::{
        self,
        handle::HandleTable, //
    },
};

use super::{
    binding::Binding,
    device::XrcDevice,
    methods,
    object::Object, //
};

/// An open file: bound to a device by its first call, and the owner of its handles.
#[pin_data]
pub(crate) struct Context {
    /// Tells the contexts apart; not reused.
    id: u64,
    binding: SetOnce<Binding<Soft>>,
    /// Closed with the file.
    #[pin]
    handles: HandleTable<Object<Soft>>,
}

impl Context {
    /// The device that the file is bound to, and leave to touch it. `ENODEV`: the file is not bound
    /// yet; `EIO`: the device is gone.
    pub(crate) fn enter(&self) -> Result<(&Arc<XrcDevice<Soft>>, GateGuard<'_>)> {
        let xrc_device = self.xrc_device().ok_or(ENODEV)?;

        Ok((xrc_device, xrc_device.device().enter()?))
    }

    fn xrc_device(&self) -> Option<&Arc<XrcDevice<Soft>>> {
        self.binding.as_ref().map(Binding::xrc_device)
    }

    /// Binds the file. `EINVAL`: it is bound already.
    pub(crate) fn bind(&self, binding: Binding<Soft>) -> Result {
        if self.binding.populate(binding) {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// Whether the file is bound.
    pub(crate) fn is_bound(&self) -> bool {
        self.binding.as_ref().is_some()
    }

    /// What tells the context from others.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl uverbs::Context for Context {
    type Object = Object<Soft>;

    fn driver_id(&self) -> u32 {
        match self.xrc_device() {
            Some(xrc_device) => xrc_device.device().driver_id(),
            None => bindings::RDMA_DRIVER_UNKNOWN,
        }
    }

    fn handles(&self) -> &HandleTable<Self::Object> {
        &self.handles
    }

    fn admit(&self, object_id: u16, method_id: u16) -> Result {
        match self.xrc_device() {
            None if methods::needs_no_device(object_id, method_id) => Ok(()),
            None => Err(ENODEV),
            Some(xrc_device) if xrc_device.device().is_removed() => {
                if methods::closes(object_id, method_id) {
                    Ok(())
                } else {
                    Err(EIO)
                }
            }
            Some(_) => Ok(()),
        }
    }
}

#[vtable]
impl MiscDevice for Context {
    type Ptr = Pin<KBox<Self>>;

    fn open(_file: &File, _misc: &MiscDeviceRegistration<Self>) -> Result<Self::Ptr> {
        static NEXT_ID: Atomic<u64> = Atomic::new(0);

        KBox::pin_init(
            pin_init!(Self {
                id: NEXT_ID.fetch_add(1u64, Relaxed),
                binding: SetOnce::new(),
                handles <- HandleTable::new(),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    fn release(this: Self::Ptr, _file: &File) {
        this.handles.take_all().for_each(drop);
    }

    fn ioctl(this: Pin<&Self>, _file: &File, cmd: u32, arg: usize) -> Result<isize> {
        uverbs::ioctl(this.get_ref(), methods::OBJECTS, cmd, arg)
    }

    fn mmap(this: Pin<&Self>, _file: &File, vma: &VmaNew) -> Result {
        let (_, _gate) = this.enter()?;
        let handle = shared_memory::mmap_offset(vma) >> bindings::PAGE_SHIFT;
        let handle = i64::try_from(handle)?;
        let object = this.handles.get(handle, |_| true).map_err(|_| EINVAL)?;

        object.ring_to_map()?.map_into(vma)
    }
}
