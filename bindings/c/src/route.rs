//! The query of routes: which way a call would go.

use crate::collective::with_made_op;
use crate::comm::null;
use crate::guard::guard_comm;
use crate::types::*;
use kolo_core::base::{Error, Result};
use kolo_core::comm::RawCalls;
use kolo_core::comm::{Collective, RedOp, Way};
use kolo_core::tune::Route;
use std::ffi::{CStr, c_char, c_int};
use std::mem::offset_of;

/// Writes to `*route` how a call of `count` elements would go: `call` is its name without "kolo",
/// such as "AllReduce" or "Send". Way, algorithm, protocol and channels are the same on all ranks.
/// The form, which ends the words, is this rank's own: that of a blocking call of it while nothing
/// else is in flight. `count` is that of the call (of calls with blocks of different sizes it is
/// ignored), `op` counts for reductions only. Nothing is sent and no call is counted, so one rank
/// may ask alone. `route->size` must be set: KOLO_ROUTE_INITIALIZER does so.
/// Errors: koloInvalidArgument (handle, NULL, unknown call, datatype or op; what no rank may call,
/// with the reason), koloInvalidUsage (destroyed communicator, two threads at once).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloCommGetRoute(
    call: *const c_char,
    count: usize,
    datatype: DataTypeArg,
    op: RedOpArg,
    comm: koloComm_t,
    route: *mut koloRoute_t,
) -> koloResult_t {
    guard_comm("CommGetRoute", comm, |member| {
        if call.is_null() {
            return Err(null("call"));
        }
        if route.is_null() {
            return Err(null("route"));
        }
        // SAFETY: not null, a string by the contract of kolo.h.
        let name = unsafe { CStr::from_ptr(call) };
        let collective = collective(name)?;
        // SAFETY: not null; every caller's structure begins with its size.
        let size = unsafe { (&raw const (*route).size).read() };
        if size < LEAST_SIZE {
            return Err(Error::argument(
                format!("a koloRoute_t of {size} bytes has no room for the answer"),
                "begin with KOLO_ROUTE_INITIALIZER",
            ));
        }
        let dtype = data_type(datatype)?;
        let mut found = None;
        let mut ask = |op| -> Result<()> {
            let communicator = &member.communicator;
            found = Some(match name.to_bytes() {
                b"SendRecv" => communicator.way_of_both(count, dtype)?,
                _ => communicator.way(collective, count, dtype, op)?,
            });
            Ok(())
        };
        if collective.reduces() && op >= RedOp::FIRST_DYNAMIC {
            // SAFETY: the scalar of the operation lives as long as it, by the contract of kolo.h.
            unsafe { with_made_op(member, RedOp(op), &mut ask) }?;
        } else {
            ask(RedOp(op))?;
        }
        let way = found.ok_or_else(|| Error::internal("a question had no answer"))?;
        let bytes = size.min(size_of::<koloRoute_t>());
        let answer = answer(&way, bytes);
        // SAFETY: the caller's structure has `size` bytes.
        unsafe {
            route
                .cast::<u8>()
                .copy_from_nonoverlapping((&raw const answer).cast(), bytes);
        }
        Ok(koloResult_t::koloSuccess)
    })
}

/// The first version of koloRoute_t. Fields that come later are behind it.
const LEAST_SIZE: usize = offset_of!(koloRoute_t, words) + KOLO_ROUTE_TEXT_BYTES;

fn collective(name: &CStr) -> Result<Collective> {
    let name = name.to_string_lossy();
    let of_call = |name: &str| match name {
        "Bcast" => Some(Collective::Broadcast),
        "SendRecv" => Some(Collective::Send),
        _ => Collective::ALL.into_iter().find(|it| it.name() == name),
    };
    of_call(&name).ok_or_else(|| {
        Error::argument(
            format!("there is no call {name:?}"),
            "give the name of a call of kolo.h without \"kolo\", such as \"AllReduce\"",
        )
    })
}

fn answer(way: &Way, size: usize) -> koloRoute_t {
    let mut answer = koloRoute_t {
        size,
        algorithm: [0; KOLO_ROUTE_WORD_BYTES],
        protocol: [0; KOLO_ROUTE_WORD_BYTES],
        channels: way.choice.map_or(0, |choice| c_int::from(choice.channels)),
        mayBeDirect: c_int::from(matches!(way.route, Route::MayDirect { .. })),
        microseconds: way.expected_ns.map_or(-1.0, |ns| ns / 1e3),
        words: [0; KOLO_ROUTE_TEXT_BYTES],
    };
    if let Some(choice) = way.choice {
        write(&mut answer.algorithm, choice.algorithm.name());
        write(&mut answer.protocol, choice.protocol.name());
    }
    write(&mut answer.words, &way.words);
    answer
}

/// As much of a text as has room before the zero.
fn write(place: &mut [c_char], text: &str) {
    let room = place.len() - 1;
    for (to, from) in place[..room].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}
