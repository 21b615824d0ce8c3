//! Functions that are exported besides the table: sentences, settings, the log, giving up.

use crate::abi::HANDLE_BYTES;
use crate::guard::{guard, object};
use crate::handle;
use crate::report::{self, Sink};
use crate::running;
use crate::settings;
use kolo::base::Error;
use std::ffi::{c_char, c_int, c_void};

/// The sentence of this thread's last error, with what to do; it stays until the thread's next
/// error. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn kolo_net_last_error() -> *const c_char {
    report::last()
}

/// Hands over a setting by its key in kolo's files, before `init`; it goes before the environment.
/// 0, or 4 where the key is unknown.
///
/// # Safety
/// Both strings end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kolo_net_configure(key: *const c_char, value: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let texts = unsafe { (report::text(key), report::text(value)) };
        match texts {
            (Some(key), Some(value)) if settings::configure(key, value) => Ok(()),
            (key, _) => Err(Error::argument(
                format!(
                    "there is no setting \"{}\" of the RDMA network",
                    key.unwrap_or("")
                ),
                "docs/net-verbs.md lists them",
            )),
        }
    })
}

/// Sets who takes lines of the log, as a level (2 warning, 3 information) and a sentence. Without
/// it they go to the logger that `init` is given.
#[unsafe(no_mangle)]
pub extern "C" fn kolo_net_set_log(sink: Option<Sink>) {
    report::set_sink(sink);
}

/// Gives up a connection that `connect` has not finished, by the caller's copy of the handle.
///
/// # Safety
/// `handle` is null or has 128 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kolo_net_abandon(handle: *mut c_void) {
    // What it returns cannot fail in a way that the caller could mend.
    let _code = guard(|| {
        let running = running::current()?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { object::<[u8; HANDLE_BYTES]>(handle, "the handle") }?;
        let abandoned = running.pending().remove(&handle::local(bytes));
        handle::set_local(bytes, 0);
        drop(abandoned);
        Ok(())
    });
}
