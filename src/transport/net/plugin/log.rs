//! Log of plugins: its lines are handed on to kolo's own, and the last one is kept for errors.
//!
//! The function that plugins call has no argument that says who calls. A line is kept for the
//! thread that wrote it, because plugins write inside the call that fails; a plugin with threads of
//! its own is heard by everybody who has no line of their own.

use super::abi::{LogFn, ProfilerFn, SUCCESS};
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::panic::catch_unwind;
use std::sync::{Mutex, Once, PoisonError};

/// Levels as plugins number them.
const WARN: c_int = 2;
const INFO: c_int = 3;
const ABORT: c_int = 4;
const TRACE: c_int = 5;

/// Takes a whole line: its level and a sentence.
pub type SentenceFn = unsafe extern "C" fn(level: c_int, sentence: *const c_char);

type WantedFn = extern "C" fn(level: c_int) -> c_int;
type SinkFn =
    unsafe extern "C" fn(level: c_int, file: *const c_char, line: c_int, text: *const c_char);

unsafe extern "C" {
    /// Of log.c.
    fn kolo_net_plugin_log_to(wanted: WantedFn, sink: SinkFn);
    /// Of log.c.
    fn kolo_net_plugin_log(
        level: c_int,
        parts: c_ulong,
        file: *const c_char,
        line: c_int,
        format: *const c_char,
        ...
    );
}

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The last warning of any thread.
static LAST_OF_ALL: Mutex<Option<String>> = Mutex::new(None);

/// The function to give to a plugin; from now on its lines arrive.
pub fn function() -> LogFn {
    static CONNECT: Once = Once::new();
    // SAFETY: both functions have the declared types and live as long as the program.
    CONNECT.call_once(|| unsafe { kolo_net_plugin_log_to(wanted, take) });
    kolo_net_plugin_log
}

/// Where kolo's own libraries say what they have to say: unlike other plugins they are sparing, and
/// what they tell of their devices once a job is of interest.
pub fn sentence() -> SentenceFn {
    unsafe extern "C" fn take(level: c_int, sentence: *const c_char) {
        // A panic must not pass through the library.
        let _ = catch_unwind(|| {
            // SAFETY: null or a string.
            let text = unsafe { words(sentence) };
            match level {
                WARN | ABORT => tracing::warn!("{text}"),
                TRACE => tracing::trace!("{text}"),
                _ => tracing::info!("{text}"),
            }
        });
    }
    take
}

/// # Safety
/// `text` is null or a string.
unsafe fn words(text: *const c_char) -> String {
    match text.is_null() {
        true => String::new(),
        // SAFETY: not null, so a string by the caller's promise.
        false => unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
    }
}

/// A profiler that wants to know nothing.
pub fn profiler() -> ProfilerFn {
    unsafe extern "C" fn nothing(
        _: *mut *mut c_void,
        _: c_int,
        _: *mut c_void,
        _: i64,
        _: *mut c_void,
    ) -> c_int {
        SUCCESS
    }
    nothing
}

/// Takes the last warning of this thread, else of another; the next error has its own.
pub fn last_words() -> Option<String> {
    let own = LAST.try_with(|last| last.try_borrow_mut().ok()?.take());
    let mut all = LAST_OF_ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let other = all.take();
    own.ok().flatten().or(other)
}

/// Whether anybody would see a line of this level: most are never formatted.
extern "C" fn wanted(level: c_int) -> c_int {
    c_int::from(match level {
        INFO => tracing::enabled!(tracing::Level::DEBUG),
        TRACE => tracing::enabled!(tracing::Level::TRACE),
        _ => true,
    })
}

/// # Safety
/// `file` is null or a string, `text` is a string.
unsafe extern "C" fn take(level: c_int, file: *const c_char, line: c_int, text: *const c_char) {
    // A panic must not pass through the plugin.
    let _ = catch_unwind(|| {
        // SAFETY: the caller's promise.
        let (file, text) = unsafe { (words(file), words(text)) };
        hand_on(level, &file, line, text.trim_end());
    });
}

fn hand_on(level: c_int, file: &str, line: c_int, text: &str) {
    match level {
        WARN | ABORT => {
            tracing::warn!("network plugin: {text} ({file}:{line})");
            // A thread that is ending keeps none.
            let _ = LAST.try_with(|last| *last.borrow_mut() = Some(text.to_string()));
            let mut all = LAST_OF_ALL.lock().unwrap_or_else(PoisonError::into_inner);
            *all = Some(text.to_string());
        }
        TRACE => tracing::trace!("network plugin: {text} ({file}:{line})"),
        INFO => tracing::debug!("network plugin: {text} ({file}:{line})"),
        _ => tracing::info!("network plugin: {text} ({file}:{line})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_formatted_and_the_last_warning_is_kept() {
        let log = function();
        let file = c"here.c".as_ptr();
        // SAFETY: the arguments fit the format, as for printf.
        unsafe {
            log(WARN, 0, file, 7, c"first".as_ptr());
            log(
                WARN,
                0,
                file,
                7,
                c"%s has %d ports at %.1f Gbit/s\n".as_ptr(),
                c"nic7".as_ptr(),
                2_i32,
                12.5_f64,
            );
            log(INFO, 0, file, 9, c"only a remark".as_ptr());
            log(WARN, 0, std::ptr::null(), 9, std::ptr::null());
        }
        assert_eq!(last_words().unwrap(), "nic7 has 2 ports at 12.5 Gbit/s");
    }

    #[test]
    fn a_long_line_is_cut() {
        let long = std::ffi::CString::new("x".repeat(5000)).unwrap();
        // SAFETY: a format and the string that it asks for.
        unsafe { function()(WARN, 0, c"f".as_ptr(), 1, c"%s".as_ptr(), long.as_ptr()) };
        let words = LAST.with(|last| last.borrow_mut().take()).unwrap();
        assert_eq!(words.len(), 1023);
    }
}
