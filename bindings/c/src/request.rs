//! Requests of asynchronous calls, which [`crate::calls`] makes. A request is a stream of its own.

use crate::comm::null;
use crate::group::{outside_groups, refuse_group};
use crate::guard::{guard, guard_unnamed};
use crate::streams::{REQUESTS, STREAMS};
use crate::types::*;
use kolo_core::base::Result;
use kolo_core::comm::Stream;
use std::ffi::c_int;

/// Waits until the call of `*request` has ended: its receive buffers are filled, its send buffers
/// may be changed. Sets `*request` to NULL, but not when it returns koloInvalidUsage; a NULL
/// request has ended. Calls of a communicator end in the order in which they were begun, sends and
/// receives that were begun one behind the other in any order.
/// Errors: koloInvalidArgument (NULL, handle), koloInvalidUsage (inside a group, or an operation of
/// the program), those of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloWait(request: *mut koloRequest_t) -> koloResult_t {
    guard_unnamed("Wait", || {
        // SAFETY: a valid pointer or NULL, by the contract of kolo.h.
        let handle = unsafe { take("Wait", request) }?;
        end(handle)?;
        Ok(koloResult_t::koloSuccess)
    })
}

/// koloWait for `count` requests. All of them have ended when it returns.
/// Errors: as koloWait; the first one of those of the calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloWaitAll(count: usize, requests: *mut koloRequest_t) -> koloResult_t {
    guard_unnamed("WaitAll", || {
        let mut first = Ok(());
        if requests.is_null() && count > 0 {
            return Err(null("requests"));
        }
        for index in 0..count {
            // SAFETY: kolo.h asks for so many requests.
            let ended = unsafe { take("WaitAll", requests.wrapping_add(index)) }.and_then(end);
            first = first.and(ended);
        }
        first.map(|()| koloResult_t::koloSuccess)
    })
}

/// Sets `*done` to 1 and `*request` to NULL if the call has ended, else `*done` to 0. Moves calls
/// on, does not wait. A NULL request has ended.
/// Errors: as koloWait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloTest(request: *mut koloRequest_t, done: *mut c_int) -> koloResult_t {
    guard_unnamed("Test", || {
        if done.is_null() {
            return Err(null("done"));
        }
        check("Test", request)?;
        // SAFETY: not null, valid by the contract of kolo.h.
        let handle = unsafe { *request } as usize;
        let query = match handle {
            0 => Ok(true),
            _ => REQUESTS.get(handle)?.query(),
        };
        if !matches!(query, Ok(false)) {
            // SAFETY: as above.
            end(unsafe { take("Test", request) }?)?;
        }
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *done = c_int::from(query?) };
        Ok(koloResult_t::koloSuccess)
    })
}

fn check(call: &str, request: *mut koloRequest_t) -> Result<()> {
    if request.is_null() {
        return Err(null("request"));
    }
    // Before the request is taken: it is still the program's.
    kolo_core::exec::operation::outside_operations("waits for a request")?;
    outside_groups(call)
}

/// The number of a request, which is then none.
///
/// # Safety
/// `request` is NULL or valid.
unsafe fn take(call: &str, request: *mut koloRequest_t) -> Result<usize> {
    check(call, request)?;
    // SAFETY: not null, valid by our caller's promise.
    let handle = unsafe { std::mem::replace(&mut *request, std::ptr::null_mut()) };
    Ok(handle as usize)
}

/// Waits for a request and forgets it.
fn end(handle: usize) -> Result<()> {
    if handle == 0 {
        return Ok(());
    }
    let ended = REQUESTS.get(handle)?.synchronize();
    REQUESTS.remove(handle)?;
    ended
}

/// Begins a call with a stream of its own.
///
/// # Safety
/// `request` is NULL or valid; the buffers of `call` are as kolo.h asks.
pub(crate) unsafe fn begin(
    name: &'static str,
    request: *mut koloRequest_t,
    call: impl FnOnce(koloStream_t) -> koloResult_t,
) -> koloResult_t {
    let mut handle = 0;
    // Whose the call would have been is not known here, so every communicator has its sentence.
    let made = guard_unnamed(name, || {
        if request.is_null() {
            return Err(null("request"));
        }
        handle = STREAMS.insert(Stream::for_one_call()?)?;
        Ok(koloResult_t::koloSuccess)
    });
    if made != koloResult_t::koloSuccess {
        refuse_group();
        return made;
    }
    let code = call(handle as koloStream_t);
    let kept = guard(name, || {
        let stream = STREAMS.get(handle)?.clone();
        STREAMS.remove(handle)?;
        if code == koloResult_t::koloSuccess {
            // SAFETY: not null, valid by our caller's promise.
            unsafe { *request = REQUESTS.insert(stream)? as koloRequest_t };
        }
        Ok(koloResult_t::koloSuccess)
    });
    match code {
        koloResult_t::koloSuccess => kept,
        failed => failed,
    }
}
