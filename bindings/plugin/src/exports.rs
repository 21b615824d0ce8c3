//! Functions that are exported besides the table: sentences, settings, the log, giving up.

use crate::abi::HANDLE_BYTES;
use crate::guard::{guard, object};
use crate::handle;
use crate::report;
use crate::running::Stands;
use kolo::base::Error;
use std::ffi::{c_char, c_int, c_void};

/// Hands over a setting by its key in kolo's files, before `init`; it goes before the environment.
/// 0, or 4 where the key is unknown.
///
/// # Safety
/// Both strings end with a zero byte.
pub unsafe fn configure<F: Stands>(key: *const c_char, value: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let texts = unsafe { (report::text(key), report::text(value)) };
        match texts {
            (Some(key), Some(value)) if F::configure(key, value) => Ok(()),
            (key, _) => Err(Error::argument(
                format!(
                    "there is no setting \"{}\" of the {} network",
                    key.unwrap_or(""),
                    F::SIGNS.what
                ),
                format!("{} lists them", F::SIGNS.page),
            )),
        }
    })
}

/// Text about what carries the data; null where there is nothing to say, or before `init`.
pub fn about<F: Stands>() -> *const c_char {
    let running = F::running().get().ok();
    let text = running.and_then(|running| running.fabric.about());
    text.map_or(std::ptr::null(), |text| report::lend(&text))
}

/// Gives up a connection that `connect` has not finished, by the caller's copy of the handle.
///
/// # Safety
/// `handle` is null or has 128 bytes.
pub unsafe fn abandon<F: Stands>(handle: *mut c_void) {
    // What it returns cannot fail in a way that the caller could mend.
    let _code = guard(|| {
        let running = F::running().get()?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { object::<[u8; HANDLE_BYTES]>(handle, "the handle") }?;
        let abandoned = running.pending().remove(&handle::local(bytes));
        handle::set_local(bytes, 0);
        drop(abandoned);
        Ok(())
    });
}

/// Exports a network as a plugin, under the names that users of such plugins look for.
#[macro_export]
macro_rules! exports {
    ($fabric:ty, $name:literal) => {
        impl $crate::running::Stands for $fabric {
            fn running() -> &'static $crate::running::Current<Self> {
                static CURRENT: $crate::running::Current<$fabric> = $crate::running::Current::new();
                &CURRENT
            }
        }

        /// The table.
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static ncclNetPlugin_v11: $crate::abi::Table = $crate::table::of::<$fabric>($name);

        /// The sentence of this thread's last error, with what to do; it stays until the thread's
        /// next error. Never null.
        #[unsafe(no_mangle)]
        pub extern "C" fn kolo_net_last_error() -> *const ::std::ffi::c_char {
            $crate::report::last()
        }

        /// Says more about what carries the data, or null, until the thread's next call of it.
        #[unsafe(no_mangle)]
        pub extern "C" fn kolo_net_about() -> *const ::std::ffi::c_char {
            $crate::exports::about::<$fabric>()
        }

        /// Hands over a setting by its key in kolo's files, before `init`.
        ///
        /// # Safety
        /// Both strings end with a zero byte.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn kolo_net_configure(
            key: *const ::std::ffi::c_char,
            value: *const ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            // SAFETY: the caller's promise.
            unsafe { $crate::exports::configure::<$fabric>(key, value) }
        }

        /// Sets who takes lines of the log, as a level (2 warning, 3 information) and a sentence.
        /// Without it they go to the logger that `init` is given.
        #[unsafe(no_mangle)]
        pub extern "C" fn kolo_net_set_log(sink: Option<$crate::report::Sink>) {
            $crate::report::set_sink(sink);
        }

        /// Gives up a connection that `connect` has not finished.
        ///
        /// # Safety
        /// `handle` is null or has 128 bytes.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn kolo_net_abandon(handle: *mut ::std::ffi::c_void) {
            // SAFETY: the caller's promise.
            unsafe { $crate::exports::abandon::<$fabric>(handle) }
        }
    };
}
