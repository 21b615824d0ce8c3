//! Texts of results.

use crate::comm::null;
use crate::comms::COMMS;
use crate::group::refuse_group;
use crate::guard::{described, guard, last_of_thread, last_unnamed, reported};
use crate::loud;
use crate::sentence::{Sentence, sentence};
use crate::types::{ResultArg, koloComm_t, koloResult_t, koloTranslate_t};
use crate::words;
use kolo_core::base::lasting::Lasting;
use kolo_core::base::{Code, Error};
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::catch_unwind;
use std::sync::LazyLock;

/// A thread that asks for the sentences of more communicators than this at once loses the oldest.
const HELD_LIMIT: usize = 64;

thread_local! {
    /// The sentences this thread was given, so that their pointers stay valid.
    static HELD: Lasting<VecDeque<(usize, Sentence)>> = const { Lasting::new() };
}

static TEXTS: LazyLock<Vec<CString>> = LazyLock::new(|| {
    (0..)
        .map_while(Code::from_number)
        .map(|c| CString::new(c.text()).unwrap_or_default())
        .collect()
});

/// The short name of a result, in English; never NULL, valid for ever. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn koloGetErrorString(result: ResultArg) -> *const c_char {
    let find = || {
        usize::try_from(result)
            .ok()
            .and_then(|n| TEXTS.get(n))
            .map(|t| t.as_ptr())
    };
    catch_unwind(find)
        .ok()
        .flatten()
        .unwrap_or(c"unknown result code".as_ptr())
}

/// For bindings of other languages, and for wrappers: a call of theirs has failed before it reached
/// kolo. `sentence` is kept for koloGetLastError and told as those of kolo's own calls are: a line
/// on stderr, and with KOLO_ERRORS=abort the end of the process. `comm` may be NULL.
/// The open group, if any, runs nothing. Gives `result` back.
/// Errors of the call itself: koloInvalidArgument (NULL, no such result). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloReportError(
    comm: koloComm_t,
    result: ResultArg,
    sentence: *const c_char,
) -> koloResult_t {
    guard("ReportError", || {
        if sentence.is_null() {
            return Err(null("sentence"));
        }
        let code = Code::from_number(result)
            .filter(|code| !matches!(code, Code::Success | Code::InProgress))
            .ok_or_else(|| {
                Error::argument(
                    format!("{result} is no failure"),
                    "give the result of the call that failed",
                )
            })?;
        // SAFETY: not null, a string by the contract of kolo.h.
        let sentence = unsafe { CStr::from_ptr(sentence) };
        let seat = COMMS.find(comm as usize);
        let result = reported(code, sentence, seat.as_deref());
        // The open group, if any, must not run without that call: peers would wait.
        refuse_group();
        Ok(result)
    })
}

/// For bindings of other languages, before koloReportError: writes the sentence of a failure that
/// they have found to `text`, where `bytes` bytes are, as kolo writes those of its own calls: with
/// the rank, `call`, the communicator's name, `what` happened, `remedy`, and the place in the
/// program from which this thread came, where KOLO_ERRORS asks for it. A longer one is cut. `comm`
/// may be NULL, or no longer alive.
/// Errors: koloInvalidArgument (NULL, no bytes). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloDescribeError(
    comm: koloComm_t,
    call: *const c_char,
    what: *const c_char,
    remedy: *const c_char,
    text: *mut c_char,
    bytes: usize,
) -> koloResult_t {
    guard("DescribeError", || {
        let read = |words: *const c_char, name| match words.is_null() {
            true => Err(null(name)),
            // SAFETY: not null, a string by the contract of kolo.h.
            false => Ok(unsafe { CStr::from_ptr(words) }.to_string_lossy()),
        };
        let call = read(call, "call")?.into_owned();
        let (what, remedy) = (read(what, "what")?, read(remedy, "remedy")?);
        if text.is_null() || bytes == 0 {
            return Err(null("text"));
        }
        let error = Error::argument(what, remedy.into_owned()).during(call);
        let said = described(error, COMMS.find(comm as usize).as_deref());
        let said = said.text.to_bytes();
        let used = said.len().min(bytes - 1);
        // SAFETY: by the contract of kolo.h so many bytes can be written.
        unsafe {
            std::ptr::copy_nonoverlapping(said.as_ptr().cast(), text, used);
            *text.add(used) = 0;
        }
        Ok(koloResult_t::koloSuccess)
    })
}

/// For bindings of other languages that end the process when a call fails, with a sentence of their
/// own: `is_said` is asked by each failure, on the thread of the call that failed. While it answers
/// other than 0, failures are no lines on stderr; they are kept for koloGetLastError as ever. It
/// may call nothing of kolo, and its library must not be unloaded; it stays until the process ends.
/// Errors: koloInvalidArgument (NULL), koloInvalidUsage (8 others are there). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloQuietWhile(
    is_said: Option<unsafe extern "C" fn() -> c_int>,
) -> koloResult_t {
    guard("QuietWhile", || {
        let is_said = is_said.ok_or_else(|| null("is_said"))?;
        // SAFETY: the contract of kolo.h: it stays, and any thread may call it.
        match unsafe { loud::listen_to(is_said) } {
            true => Ok(koloResult_t::koloSuccess),
            false => Err(Error::usage(
                format!("{} other functions are asked already", loud::MOST_SPEAKERS),
                "give one function for all calls of a binding",
            )),
        }
    })
}

/// For bindings of other languages: from now on the log and the report of this process name calls,
/// operations and types as the program does. `translate` is given sentences that have the names of
/// kolo.h. It is called by any thread, may call nothing of kolo, and its library must not be
/// unloaded; the first one stays until the process ends. koloGetLastError does not translate.
/// Errors: koloInvalidArgument (NULL). Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloTranslateLog(translate: koloTranslate_t) -> koloResult_t {
    guard("TranslateLog", || {
        let translate = translate.ok_or_else(|| null("translate"))?;
        // SAFETY: the contract of kolo.h: it stays, and any thread may call it.
        unsafe { words::speak_by(translate) };
        Ok(koloResult_t::koloSuccess)
    })
}

/// The sentence of the last call that failed on `comm` (on any thread), with rank, peer, call and
/// remedy; or of a later call of this thread that failed and concerns no communicator in particular
/// (koloStream, koloWait, koloGroupEnd, a NULL request); without either, what has stopped `comm`.
/// With NULL, or a handle that is not alive: of the last call of
/// this thread that failed. "no error" when there is none. Never NULL. The text stays valid until
/// this thread calls koloGetLastError with the same argument again. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn koloGetLastError(comm: koloComm_t) -> *const c_char {
    let handle = comm as usize;
    let find = || {
        let sentence = match COMMS.find(handle) {
            Some(seat) => Sentence::later(seat.last(), last_unnamed()).or_else(|| {
                let member = seat.settle();
                let stopped = member.and_then(|member| {
                    member.map_or(Ok(()), |member| member.communicator.async_error())
                });
                let stopped = stopped.err()?;
                Some(sentence(&stopped))
            }),
            None => last_of_thread(),
        }?;
        let text = sentence.text.as_ptr();
        let hold = |held: &mut VecDeque<_>| {
            held.retain(|(owner, _)| *owner != handle);
            held.truncate(HELD_LIMIT - 1);
            held.push_front((handle, sentence));
        };
        HELD.with(|held| held.with_mut(|| HELD.with(Lasting::empty), hold));
        Some(text)
    };
    catch_unwind(find)
        .ok()
        .flatten()
        .unwrap_or(c"no error".as_ptr())
}
