//! Reports to callers: the sentence behind the last error of a thread, and lines for the log.

use crate::abi::{LOG_INFO, LOG_NET, LOG_WARN, Logger};
use kolo::base::Error;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a line of the log: its level (2 warning, 3 information) and a sentence.
pub type Sink = unsafe extern "C" fn(c_int, *const c_char);

struct Log {
    logger: Option<Logger>,
    sink: Option<Sink>,
}

static LOG: Mutex<Log> = Mutex::new(Log {
    logger: None,
    sink: None,
});

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
    static LENT: RefCell<CString> = RefCell::new(CString::default());
}

fn log() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The caller's `printf`, as the table's `init` gives it.
pub fn set_logger(logger: Option<Logger>) {
    log().logger = logger;
}

/// A log that takes whole sentences; it is preferred.
pub fn set_sink(sink: Option<Sink>) {
    log().sink = sink;
}

/// For what works, but not as somebody may think.
pub fn warn(text: &str) {
    say(LOG_WARN, text);
}

/// For what is of interest once a job.
pub fn info(text: &str) {
    say(LOG_INFO, text);
}

fn say(level: c_int, text: &str) {
    let text = plain(text);
    let (logger, sink) = {
        let log = log();
        (log.logger, log.sink)
    };
    match (sink, logger) {
        // SAFETY: the sink takes a level and a string that ends with a zero byte.
        (Some(sink), _) => unsafe { sink(level, text.as_ptr()) },
        // SAFETY: the format names one string, and one is given.
        (None, Some(logger)) => unsafe {
            logger(
                level,
                LOG_NET,
                c"kolo_net".as_ptr(),
                0,
                c"%s".as_ptr(),
                text.as_ptr(),
            );
        },
        (None, None) => {}
    }
}

/// A C string; text from the system might have a zero byte inside.
pub fn plain(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

/// Keeps the sentence of an error for this thread.
pub fn remember(error: &Error) {
    let mut sentence = error.what.clone();
    if !error.remedy.is_empty() {
        sentence = format!("{sentence}. Remedy: {}", error.remedy);
    }
    // A thread that is ending keeps none.
    let _ = LAST.try_with(|last| *last.borrow_mut() = plain(&sentence));
}

/// The sentence of this thread's last error, until its next error; empty when there was none.
pub fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

/// Lends a text to C, until this thread's next one.
pub fn lend(text: &str) -> *const c_char {
    let lend = |lent: &RefCell<CString>| {
        *lent.borrow_mut() = plain(text);
        lent.borrow().as_ptr()
    };
    LENT.try_with(lend).unwrap_or(c"".as_ptr())
}

/// The text of a C string, or nothing for a null pointer.
///
/// # Safety
/// `text` is null or ends with a zero byte.
pub unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_a_sentence_of_this_thread() {
        remember(&Error::usage("it rains", "take an umbrella"));
        // SAFETY: `last` gives a string that lives until the next error.
        let here = unsafe { text(last()) };
        assert_eq!(here, Some("it rains. Remedy: take an umbrella"));
        std::thread::spawn(|| {
            // SAFETY: as above.
            assert_eq!(unsafe { text(last()) }, Some(""));
        })
        .join()
        .unwrap();
        assert_eq!(plain("a\0b").to_str(), Ok("ab"));
    }
}
