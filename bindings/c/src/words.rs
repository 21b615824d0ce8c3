//! Words of the language that the program is written in, for the log and the report.

use kolo_core::comm::logging;
use std::ffi::{CStr, CString, c_char};
use std::sync::OnceLock;

/// Writes a sentence that has the names of kolo.h, in the words of another language, to `text`.
pub(crate) type Translator =
    unsafe extern "C" fn(sentence: *const c_char, text: *mut c_char, bytes: usize);

static TRANSLATOR: OnceLock<Translator> = OnceLock::new();

/// Has `translate` asked for each line of the log, unless another one is.
///
/// # Safety
/// It may be called on any thread until the process ends, and writes no more than it may.
pub(crate) unsafe fn speak_by(translate: Translator) {
    TRANSLATOR.get_or_init(|| translate);
    logging::speak_as(translated);
}

fn translated(sentence: &str) -> String {
    let (Some(translate), Ok(sentence)) = (TRANSLATOR.get(), CString::new(sentence)) else {
        return sentence.to_owned();
    };
    // Names of other languages are longer, though none so much.
    let mut text = vec![0_u8; 4 * sentence.as_bytes().len() + 64];
    // SAFETY: the contract of `speak_by`; a string, and a place of so many bytes.
    unsafe { translate(sentence.as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    text.to_string_lossy().into_owned()
}
