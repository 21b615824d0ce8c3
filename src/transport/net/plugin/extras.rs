//! Functions that a plugin may export beside its table, for kolo: sentences, settings, a log,
//! giving up.
//!
//! All of it is optional. The functions, as C declares them:
//!
//! - `const char *kolo_net_last_error(void)`: the thread's last error, with what to do.
//! - `int kolo_net_configure(const char *key, const char *value)`: a setting, before `init`.
//! - `void kolo_net_set_log(void (*sink)(int level, const char *sentence))`: whole lines.
//! - `const char *kolo_net_about(void)`: what carries the data, as the end of a sentence, or null.
//! - `void kolo_net_abandon(void *handle)`: `connect` will not be called with this handle again.
//! - those of `reading`.

use super::log;
use super::reading::ReadingCalls;
use libloading::os::unix::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

type LastErrorFn = unsafe extern "C" fn() -> *const c_char;
type ConfigureFn = unsafe extern "C" fn(key: *const c_char, value: *const c_char) -> c_int;
type SetLogFn = unsafe extern "C" fn(sink: Option<log::SentenceFn>);
type AbandonFn = unsafe extern "C" fn(handle: *mut c_void);

/// Between what happened and what to do, in a sentence of `kolo_net_last_error`.
const REMEDY: &str = ". Remedy: ";

/// The functions that a library has.
pub struct Extras {
    last_error: Option<LastErrorFn>,
    configure: Option<ConfigureFn>,
    abandon: Option<AbandonFn>,
    about: Option<LastErrorFn>,
    /// Messages that are read from where they lie.
    pub reading: Option<ReadingCalls>,
}

/// Words of a plugin about an error.
#[derive(Debug, PartialEq, Eq)]
pub struct Words {
    /// Sentence that says what happened.
    pub what: String,
    /// Remedy, if the plugin names one.
    pub remedy: Option<String>,
}

impl Words {
    fn parse(text: &str) -> Words {
        let (what, remedy) = match text.split_once(REMEDY) {
            Some((what, remedy)) => (what, Some(remedy.to_string())),
            None => (text, None),
        };
        let what = what.to_string();
        Words { what, remedy }
    }
}

impl Extras {
    /// Looks them up; a library that can hand over whole lines of log is told to.
    ///
    /// # Safety
    /// Functions of these names have the types above, and the library stays loaded.
    pub unsafe fn find(library: &Library) -> Extras {
        // SAFETY: the caller's promise, for all four.
        unsafe {
            let set_log = library.get::<SetLogFn>(b"kolo_net_set_log\0");
            if let Ok(set_log) = set_log {
                set_log(Some(log::sentence()));
            }
            Extras {
                last_error: library.get(b"kolo_net_last_error\0").ok().map(|it| *it),
                configure: library.get(b"kolo_net_configure\0").ok().map(|it| *it),
                abandon: library.get(b"kolo_net_abandon\0").ok().map(|it| *it),
                about: library.get(b"kolo_net_about\0").ok().map(|it| *it),
                reading: ReadingCalls::find(library),
            }
        }
    }

    /// The last error of this thread.
    pub fn last_error(&self) -> Option<Words> {
        said(self.last_error).map(|text| Words::parse(&text))
    }

    /// More about what carries the data.
    pub fn about(&self) -> Option<String> {
        said(self.about)
    }

    /// Hands over settings; the error names the first that is not taken.
    pub fn configure(&self, pairs: &[(&str, String)]) -> std::result::Result<(), String> {
        for (key, value) in pairs {
            let Some(configure) = self.configure else {
                return Err("it exports no kolo_net_configure".into());
            };
            let taken = match (CString::new(*key), CString::new(value.as_str())) {
                // SAFETY: both are strings that live during the call.
                (Ok(key), Ok(value)) => unsafe { configure(key.as_ptr(), value.as_ptr()) == 0 },
                _ => false,
            };
            if !taken {
                return Err(format!(
                    "it does not take the setting {key} \"{value}\", so it is of another version \
                     of kolo"
                ));
            }
        }
        Ok(())
    }

    /// Says that a connection will not be finished.
    ///
    /// # Safety
    /// The handle is the copy that `connect` was called with, and it gave no connection.
    pub unsafe fn abandon(&self, handle: *mut c_void) {
        if let Some(abandon) = self.abandon {
            // SAFETY: the caller's promise.
            unsafe { abandon(handle) };
        }
    }
}

/// Text that a function gives, unless it is empty.
fn said(function: Option<LastErrorFn>) -> Option<String> {
    // SAFETY: it gives null or a string that lives until its next call on this thread.
    let text = unsafe {
        let text = function?();
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    };
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_is_told_from_what_happened() {
        let words = Words::parse("rxe0 is down. Remedy: bring it up. Or wait");
        assert_eq!(words.what, "rxe0 is down");
        assert_eq!(words.remedy.as_deref(), Some("bring it up. Or wait"));
        let plain = Words::parse("it rains");
        assert_eq!((plain.what.as_str(), plain.remedy), ("it rains", None));
    }

    #[test]
    fn settings_for_a_library_that_takes_none_are_an_error() {
        let none = Extras {
            last_error: None,
            configure: None,
            abandon: None,
            about: None,
            reading: None,
        };
        assert_eq!(none.configure(&[]), Ok(()));
        let refused = none.configure(&[("ib_hca", "x".into())]).unwrap_err();
        assert!(refused.contains("kolo_net_configure"), "{refused}");
        assert_eq!(none.last_error(), None);
    }
}
