//! The one door of the interface: errors and panics become a result code and a kept sentence.

use crate::comms::COMMS;
use crate::loud;
use crate::seat::{Member, Seat};
use crate::sentence::{Sentence, sentence};
use crate::types::{koloComm_t, koloResult_t};
pub(crate) use kolo_core::base::caught::panicked;
use kolo_core::base::lasting::Lasting;
use kolo_core::base::{Code, Error, Result, caught};
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The last failed call of a thread.
struct Last {
    error: Error,
    sentence: Sentence,
    /// It concerns communicators without naming one: streams and groups.
    unnamed: bool,
}

thread_local! {
    static LAST: Lasting<Option<Last>> = const { Lasting::new() };
}

fn with_last<T>(with: impl FnOnce(&mut Option<Last>) -> T) -> T {
    LAST.with(|last| last.with_mut(|| LAST.with(Lasting::empty), with))
}

fn of_last<T>(get: impl FnOnce(&Last) -> Option<T>) -> Option<T> {
    with_last(|last| last.as_ref().and_then(get))
}

/// The sentence of this thread's last failed call.
pub(crate) fn last_of_thread() -> Option<Sentence> {
    of_last(|last| Some(last.sentence.clone()))
}

/// The sentence of that call, if it concerns communicators without naming one.
pub(crate) fn last_unnamed() -> Option<Sentence> {
    of_last(|last| last.unnamed.then(|| last.sentence.clone()))
}

/// The error of this thread's last failed call.
pub(crate) fn last_error() -> Option<Error> {
    of_last(|last| Some(last.error.clone()))
}

/// Runs `body` for a call on a stream or of a group. Such a call may fail because of any
/// communicator, so its sentence is that of each one until the next failure.
#[inline]
pub(crate) fn guard_unnamed(
    call: &'static str,
    body: impl FnOnce() -> Result<koloResult_t>,
) -> koloResult_t {
    let code = guard(call, body);
    if !matches!(
        code,
        koloResult_t::koloSuccess | koloResult_t::koloInProgress
    ) {
        with_last(|last| {
            if let Some(last) = last {
                last.unnamed = true;
            }
        });
    }
    code
}

/// Runs `body`, the work of the exported function `kolo<call>`.
#[inline]
pub(crate) fn guard(
    call: &'static str,
    body: impl FnOnce() -> Result<koloResult_t>,
) -> koloResult_t {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => failed(error.during(call), None),
        Err(panic) => failed(panicked(panic).during(call), None),
    }
}

/// Runs `body` on a communicator that is there; its errors name the rank and stay with the
/// communicator.
#[inline(always)]
pub(crate) fn guard_comm(
    call: &'static str,
    comm: koloComm_t,
    mut body: impl FnMut(&Member) -> Result<koloResult_t>,
) -> koloResult_t {
    let mut body = |seat: &Seat| body(seat.member()?);
    guard_found(call, comm, || {
        COMMS.with_recent(comm as usize, |seat| in_seat(call, seat, &mut body))
    })
}

/// Runs `body` on a communicator that is there or is still being made.
pub(crate) fn guard_seat(
    call: &'static str,
    comm: koloComm_t,
    mut body: impl FnMut(&Seat) -> Result<koloResult_t>,
) -> koloResult_t {
    guard_found(call, comm, || {
        COMMS.with(comm as usize, |seat| in_seat(call, seat, &mut body))
    })
}

/// Runs `body`, and tells its error.
#[inline(always)]
fn in_seat(
    call: &'static str,
    seat: Result<&Seat>,
    body: &mut impl FnMut(&Seat) -> Result<koloResult_t>,
) -> std::result::Result<koloResult_t, koloResult_t> {
    match seat {
        Ok(seat) => match body(seat) {
            Ok(code) => Ok(code),
            Err(error) => Err(failed(error.during(call), Some(seat))),
        },
        Err(error) => Err(failed(error.during(call), None)),
    }
}

/// Runs what looks for a communicator and uses it; a panic is an error of it.
#[inline(always)]
fn guard_found(
    call: &'static str,
    comm: koloComm_t,
    mut run: impl FnMut() -> std::result::Result<koloResult_t, koloResult_t>,
) -> koloResult_t {
    // What is caught is handed on by memory: one word, and not all that was captured, which would
    // be read in larger pieces than it was just written in.
    let run = &mut run;
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(code) | Err(code)) => code,
        Err(panic) => failed(
            panicked(panic).during(call),
            COMMS.find(comm as usize).as_deref(),
        ),
    }
}

/// Keeps the sentence of `error`, says it aloud, and gives its code.
#[cold]
pub(crate) fn failed(error: Error, seat: Option<&Seat>) -> koloResult_t {
    let error = in_context(error, seat);
    let sentence = sentence(&error);
    let code = error.code.into();
    // A thread that is ending may have no place left for what the log needs.
    let _ = caught(|| loud::tell(&error, &sentence.text, seat));
    keep(error, sentence, seat);
    code
}

/// The error with what the caller does not know: rank and name of the communicator, and, where the
/// settings ask for it, the place in the program.
fn in_context(error: Error, seat: Option<&Seat>) -> Error {
    let error = match seat {
        Some(seat) => seat.tells(error),
        None => error,
    };
    loud::placed(error, seat)
}

/// The sentence of a failure that somebody else found, and that nobody is told of yet.
pub(crate) fn described(error: Error, seat: Option<&Seat>) -> Sentence {
    sentence(&in_context(error, seat))
}

/// Tells of a failure that somebody else found, with a sentence of theirs; else [`failed`].
pub(crate) fn reported(code: Code, text: &CStr, seat: Option<&Seat>) -> koloResult_t {
    let error = Error::new(code, bare(&text.to_string_lossy()), "");
    let mut sentence = sentence(&error);
    sentence.text = text.into();
    let _ = caught(|| loud::tell(&error, text, seat));
    keep(error, sentence, seat);
    code.into()
}

/// A sentence without its begin, which says whose it is.
fn bare(text: &str) -> &str {
    let text = text.strip_prefix("kolo: ").unwrap_or(text);
    let behind = text
        .strip_prefix("rank ")
        .and_then(|rest| rest.split_once(": "));
    match behind {
        Some((rank, rest)) if rank.parse::<u32>().is_ok() => rest,
        _ => text,
    }
}

/// Keeps the sentence of a failure for `koloGetLastError`.
fn keep(error: Error, sentence: Sentence, seat: Option<&Seat>) {
    if let Some(seat) = seat {
        seat.keep(sentence.clone());
    }
    with_last(|last| {
        *last = Some(Last {
            error,
            sentence,
            unnamed: false,
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread_sentence() -> String {
        let sentence = last_of_thread().unwrap();
        sentence.text.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_an_internal_error_with_its_text() {
        let code = guard("AllReduce", || panic!("chunk {} is gone", 3));
        assert_eq!(code, koloResult_t::koloInternalError);
        let text = thread_sentence();
        assert!(
            text.contains("AllReduce") && text.contains("chunk 3 is gone"),
            "{text}"
        );
    }

    #[test]
    fn an_error_keeps_its_code_and_sentence() {
        let code = guard("MemFree", || {
            Err(Error::usage("what \0 happened", "do that"))
        });
        assert_eq!(code, koloResult_t::koloInvalidUsage);
        assert_eq!(
            thread_sentence(),
            "kolo: MemFree: what   happened. Remedy: do that"
        );
    }

    #[test]
    fn a_sentence_without_its_begin_has_neither_kolo_nor_the_rank() {
        assert_eq!(bare("kolo: rank 3: kolo_send: no"), "kolo_send: no");
        assert_eq!(bare("kolo: kolo_send: no"), "kolo_send: no");
        assert_eq!(bare("rank of x: no"), "rank of x: no");
    }

    #[test]
    fn success_leaves_no_sentence() {
        let fresh = std::thread::spawn(|| {
            assert_eq!(guard("X", || Ok(koloResult_t::koloInProgress)) as i32, 7);
            last_of_thread().is_none()
        });
        assert!(fresh.join().unwrap());
    }
}
