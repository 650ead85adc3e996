// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! The C API: `infiniband/xrc.h` says what each function does.
//!
//! A panic does not reach the caller: one that gets to an `extern "C"` function
//! aborts the process. Nothing a caller does makes the library panic, so that it would be
//! a bug in it, and going on with memory shared with the kernel would be worse.

pub(crate) mod attr;
mod completion;
mod device;
mod domain;
mod event;
mod ini;
mod mr;
mod ofed;
mod tgt_qp;

use std::{
    cell::RefCell,
    ffi::{c_char, c_int, c_void, CString},
    mem::MaybeUninit,
    ptr,
    sync::Mutex,
};

use crate::{
    error::{CloseError, Errno, Error, Result},
    verbs::*,
    CompChannel, Context, Cq, EventFile, IniQp, Mr, ReportTo, Srq, TgtQp, Xrcd,
};

/// An opaque type of the header and the object behind it.
trait Object {
    type Behind;
}

macro_rules! objects {
    ($($opaque:ident is $behind:ty;)*) => {
        $(impl Object for $opaque {
            type Behind = $behind;
        })*
    };
}

objects! {
    ibxrc_context is Context;
    ibxrc_xrcd is Xrcd;
    ibxrc_tgt_qp is TgtQp;
    ibxrc_comp_channel is CompChannel;
    ibxrc_cq is Cq;
    ibxrc_srq is Srq;
    ibxrc_mr is Mr;
    ibxrc_event_file is EventFile;
    ibxrc_ini_qp is Mutex<IniQp>;
}

/// The object behind a pointer.
///
/// # Safety
///
/// The pointer is NULL or of [`give`], and the object in no other thread's `close`.
unsafe fn get<'a, O: Object>(pointer: *const O) -> Result<&'a O::Behind> {
    // SAFETY: The caller's word.
    unsafe { pointer.cast::<O::Behind>().as_ref() }.ok_or_else(null)
}

fn null() -> Error {
    Error::invalid("an argument is NULL that must not be")
}

/// Refuses bits of a `comp_mask` that are not known.
fn known(comp_mask: u32, known: u32) -> Result<()> {
    match comp_mask & !known {
        0 => Ok(()),
        _ => Err(Error::Call {
            what: "understand the attributes",
            errno: Errno::EOPNOTSUPP,
            advice: "comp_mask has a bit that this library does not know",
        }),
    }
}

/// Where an object reports to, if `bit` of its attributes' `comp_mask` says that it does.
///
/// # Safety
///
/// As [`get`].
unsafe fn report_to<'a>(
    comp_mask: u32,
    bit: u32,
    event_file: *mut ibxrc_event_file,
    user_handle: *mut c_void,
) -> Result<Option<ReportTo<'a>>> {
    if comp_mask & bit == 0 {
        return Ok(None);
    }
    Ok(Some(ReportTo {
        // SAFETY: The caller's word.
        file: unsafe { get(event_file)? },
        user_handle: user_handle as u64,
    }))
}

/// A new object for the caller, or NULL and errno.
fn give<O: Object>(result: Result<O::Behind>) -> *mut O {
    match result {
        Ok(object) => Box::into_raw(Box::new(object)).cast(),
        Err(error) => {
            set_errno(fail(error));
            ptr::null_mut()
        }
    }
}

/// Closes the object behind a pointer. Unless that fails, the pointer is no good then.
///
/// # Safety
///
/// As [`get`].
unsafe fn close<O: Object>(
    pointer: *mut O,
    close: impl FnOnce(O::Behind) -> Result<(), CloseError<O::Behind>>,
) -> c_int {
    if pointer.is_null() {
        return fail(null());
    }
    let pointer = pointer.cast::<O::Behind>();
    // SAFETY: Of `give`. From here on the memory counts as uninitialised.
    match close(unsafe { ptr::read(pointer) }) {
        Ok(()) => {
            // SAFETY: Of `give`; a box of what need not be dropped.
            drop(unsafe { Box::from_raw(pointer.cast::<MaybeUninit<O::Behind>>()) });
            0
        }
        Err(CloseError { object, error }) => {
            // SAFETY: It is the memory of such an object.
            unsafe { ptr::write(pointer, object) };
            fail(error)
        }
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Remembers the sentence and returns the errno value.
fn fail(error: Error) -> c_int {
    let sentence = error.to_string().replace('\0', " ");
    let sentence = CString::new(sentence).unwrap_or_default();
    // In a thread that is about to exit there is nobody to tell.
    let _ = MESSAGE.try_with(|m| m.replace(sentence));
    error.errno().raw()
}

/// 0 or an errno value.
fn status(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => fail(error),
    }
}

fn set_errno(errno: c_int) {
    // SAFETY: It is this thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

/// # Safety
///
/// None; it is `unsafe` to be declared as bindgen does it.
#[no_mangle]
unsafe extern "C" fn ibxrc_error_message() -> *const c_char {
    // It stays until the next call to `fail` in this thread.
    MESSAGE
        .try_with(|m| m.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

/// The functions have the types that the header declares: an array has one element type.
#[allow(clashing_extern_declarations)]
mod declared {
    use crate::verbs as header;

    macro_rules! as_declared {
        ($($module:ident: $($function:ident)*;)*) => {
            $($(const _: () = {
                let _ = [header::$function, super::$module::$function];
            };)*)*
        };
    }

    const _: () = {
        let _ = [header::ibxrc_error_message, super::ibxrc_error_message];
    };
    as_declared! {
        device: ibxrc_list_devices ibxrc_open ibxrc_open_index ibxrc_close ibxrc_query;
        event: ibxrc_create_event_file ibxrc_destroy_event_file ibxrc_event_file_fd
            ibxrc_read_events;
        domain: ibxrc_open_xrcd ibxrc_open_xrcd_ex ibxrc_close_xrcd ibxrc_query_xrcd
            ibxrc_query_xrcd_policy ibxrc_list_tgt_qps ibxrc_list_srqs;
        tgt_qp: ibxrc_create_tgt_qp ibxrc_create_tgt_qp_ex ibxrc_open_tgt_qp
            ibxrc_open_tgt_qp_ex ibxrc_close_tgt_qp ibxrc_tgt_qp_num
            ibxrc_modify_tgt_qp ibxrc_modify_tgt_qpn ibxrc_query_tgt_qp ibxrc_query_tgt_qpn
            ibxrc_connect_tgt_qp ibxrc_connect_tgt_qpn ibxrc_connect_tgt_qp_timeout
            ibxrc_connect_tgt_qpn_timeout ibxrc_disconnect_tgt_qp ibxrc_disconnect_tgt_qpn
            ibxrc_disconnect_close_tgt_qp ibxrc_list_tgt_qp_holders ibxrc_list_tgt_qpn_holders;
        completion: ibxrc_create_comp_channel ibxrc_destroy_comp_channel ibxrc_comp_channel_fd
            ibxrc_get_cq_event ibxrc_create_cq ibxrc_destroy_cq ibxrc_poll_cq
            ibxrc_req_notify_cq ibxrc_create_srq ibxrc_create_srq_ex ibxrc_set_srq_limit ibxrc_query_srq
            ibxrc_destroy_srq ibxrc_get_srq_num ibxrc_post_srq_recv;
        mr: ibxrc_reg_mr ibxrc_reg_mr_iova ibxrc_mr_rkey ibxrc_dereg_mr;
        ini: ibxrc_create_ini_qp ibxrc_destroy_ini_qp ibxrc_post_ini_send
            ibxrc_ini_completed ibxrc_ini_flushed ibxrc_reset_ini_qp;
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    /// What failed last in this thread.
    fn message() -> String {
        // SAFETY: The string is valid until the next call.
        unsafe { CStr::from_ptr(ibxrc_error_message()) }
            .to_string_lossy()
            .into_owned()
    }

    #[test]
    fn null_is_einval() {
        let null = ptr::null_mut();
        // SAFETY: NULL is allowed.
        let errno = unsafe { domain::ibxrc_close_xrcd(null) };
        assert_eq!(errno, libc::EINVAL);
        assert!(message().contains("NULL"));
        set_errno(0);
        // SAFETY: NULL is allowed.
        let xrcd = unsafe { domain::ibxrc_open_xrcd(ptr::null_mut(), -1, 0) };
        assert!(xrcd.is_null());
        // SAFETY: It is this thread's errno.
        assert_eq!(unsafe { *libc::__errno_location() }, libc::EINVAL);
    }

    #[test]
    fn unknown_attributes_are_refused() {
        let attr = ibxrc_xrcd_init_attr {
            comp_mask: 1 << 31,
            ..Default::default()
        };
        set_errno(0);
        // SAFETY: NULL is allowed, and the attributes are looked at before.
        let xrcd = unsafe { domain::ibxrc_open_xrcd_ex(ptr::null_mut(), &attr) };
        assert!(xrcd.is_null());
        // SAFETY: It is this thread's errno.
        assert_eq!(unsafe { *libc::__errno_location() }, libc::EOPNOTSUPP);
        assert!(message().contains("comp_mask"));
    }

    #[test]
    fn events_need_an_event_file() {
        // SAFETY: NULL is allowed.
        let none = unsafe { report_to(!1, 1, ptr::null_mut(), ptr::null_mut()) };
        assert!(none.unwrap().is_none());
        // SAFETY: NULL is allowed.
        let null = unsafe { report_to(1, 1, ptr::null_mut(), ptr::null_mut()) };
        assert_eq!(null.unwrap_err().errno(), Errno::EINVAL);
    }

    impl Object for ibv_pd {
        type Behind = String;
    }

    #[test]
    fn an_object_that_does_not_close_stays() {
        let pointer: *mut ibv_pd = give(Ok("here".to_string()));
        // SAFETY: Of `give`.
        let errno = unsafe {
            close(pointer, |object| {
                Err(CloseError {
                    object,
                    error: Error::SrqFull { entries: 1 },
                })
            })
        };
        assert_eq!(errno, libc::ENOMEM);
        // SAFETY: Of `give`, and not closed.
        assert_eq!(unsafe { get(pointer) }.unwrap(), "here");
        // SAFETY: As above.
        assert_eq!(unsafe { close(pointer, |_| Ok(())) }, 0);
    }
}
