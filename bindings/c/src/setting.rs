//! One setting as text, for the libraries that belong to kolo: `libkolo_pmpi` has no table of its
//! own.

use crate::comm::null;
use crate::guard::guard;
use crate::types::koloResult_t;
use kolo_core::base::Error;
use kolo_core::config::Settings;
use std::ffi::{CStr, c_char};

/// Writes the value that the setting `key` has in this process, with its zero byte, to `value`,
/// where `bytes` bytes are. Settings are read as for a new communicator; docs/settings.md lists
/// the keys.
/// Errors: koloInvalidArgument (NULL, unknown key, a longer value), koloInvalidUsage (a setting is
/// wrong, of whatever key), koloSystemError (a file that cannot be read). Settings that are wrong
/// are no line on stderr, only a sentence of koloGetLastError. Any thread, any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloGetSetting(
    key: *const c_char,
    value: *mut c_char,
    bytes: usize,
) -> koloResult_t {
    guard("GetSetting", || {
        if key.is_null() {
            return Err(null("key"));
        }
        if value.is_null() {
            return Err(null("value"));
        }
        // SAFETY: not null, and ends with a zero byte by the contract of kolo.h.
        let key = unsafe { CStr::from_ptr(key) }.to_string_lossy();
        // Every rank may ask; whoever has asked says it, once.
        let settings = Settings::load(&[]).map_err(|error| error.told_elsewhere(true))?;
        let Some(entry) = settings.entries().find(|entry| entry.option.key == key) else {
            return Err(Error::argument(
                format!("there is no setting '{key}'"),
                "take a key of docs/settings.md",
            ));
        };
        let text = entry.value.to_string();
        if text.len() >= bytes {
            return Err(Error::argument(
                format!(
                    "bytes = {bytes}, and {key} has {} with its zero byte",
                    text.len() + 1
                ),
                "give more room",
            ));
        }
        // SAFETY: by the contract of kolo.h so many bytes can be written.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), value, text.len());
            *value.add(text.len()) = 0;
        }
        Ok(koloResult_t::koloSuccess)
    })
}
