//! The collectives that move the same number of bytes from or to each rank.

use crate::arguments::Side;
use crate::attach::take;
use crate::comms;
use crate::comms::State;
use crate::decide::{Collective, Size};
use crate::errors::ended;
use crate::spanning;
use crate::sys::{
    BYTE, NO_STREAM, koloAllGather, koloAllToAll, koloBarrier, koloBcast, koloGather, koloScatter,
};
use crate::turn::{Elements, In, Out, in_place};
use mpi::ffi;
use std::ffi::{c_int, c_void};

/// Whether a rank is one.
pub fn is_rank(state: &State, root: c_int) -> bool {
    root >= 0 && root < state.known.nranks as c_int
}

/// # Safety
/// As MPI_Barrier has it.
#[inline]
pub unsafe fn barrier(comm: ffi::MPI_Comm) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let state = unsafe { comms::of(comm, Collective::Barrier)? };
    take(state, Collective::Barrier, Size::Unknown)?;
    if let Some(levels) = &state.levels {
        // SAFETY: it has these levels.
        return Some(unsafe { spanning::barrier(state, levels) });
    }
    // SAFETY: it is attached.
    let code = unsafe { koloBarrier(state.kolo, NO_STREAM) };
    Some(ended(state, code))
}

/// # Safety
/// As MPI_Bcast has it.
pub unsafe fn bcast(buffer: &Side, root: c_int, comm: ffi::MPI_Comm) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let state = unsafe { comms::of(comm, Collective::Bcast)? };
    let elements = buffer.elements()?;
    let bytes = elements.bytes()?;
    if !is_rank(state, root) {
        return None;
    }
    take(state, Collective::Bcast, Size::Bytes(bytes as u64))?;
    let move_bytes = |state: &State, at: *mut c_void| {
        if let Some(levels) = &state.levels {
            // SAFETY: `at` has so many bytes; it has these levels.
            return unsafe { spanning::bcast(state, levels, (at, bytes), root) };
        }
        // SAFETY: `at` has so many bytes; it is attached.
        let code = unsafe { koloBcast(at, bytes, BYTE, root, state.kolo, NO_STREAM) };
        ended(state, code)
    };
    // SAFETY: the program's buffer holds what it says.
    Some(unsafe {
        match state.rank == root {
            true => match Out::of(state, &elements, false) {
                Ok(out) => {
                    let code = move_bytes(state, out.at.cast_mut());
                    out.end(state);
                    code
                }
                Err(code) => code,
            },
            false => {
                let place = In::of(state, &elements);
                let code = move_bytes(state, place.at);
                arrived(state, place, &elements, code)
            }
        }
    })
}

/// Puts what has come to where it is to lie, unless the call has failed.
///
/// # Safety
/// The elements can be written.
pub unsafe fn arrived(state: &mut State, place: In, elements: &Elements, code: c_int) -> c_int {
    match code {
        // SAFETY: the caller's promise.
        0 => match unsafe { place.end(state, elements) } {
            Ok(()) => 0,
            Err(code) => code,
        },
        code => code,
    }
}

/// # Safety
/// As MPI_Gather has it.
pub unsafe fn gather(send: &Side, recv: &Side, root: c_int, comm: ffi::MPI_Comm) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let state = unsafe { comms::of(comm, Collective::Gather)? };
    if !is_rank(state, root) {
        return None;
    }
    let is_root = state.rank == root;
    let nranks = state.known.nranks as usize;
    // What counts on the root only is looked at there only.
    let (from, to) = match (is_root, in_place(send.at)) {
        (false, true) => return None,
        (false, false) => (send.elements()?, None),
        (true, inside) => {
            let block = recv.elements()?;
            let own = block.part(state.rank as isize * block.count as isize, block.count);
            let all = block.part(0, block.count.checked_mul(nranks)?);
            (if inside { own } else { send.elements()? }, Some(all))
        }
    };
    let bytes = from.bytes()?;
    take(state, Collective::Gather, Size::Bytes(bytes as u64))?;
    let overlaps = to.is_some_and(|to| !in_place(send.at) && from.overlaps(&to));
    // SAFETY: the program's buffers hold what it says.
    unsafe {
        let out = match Out::of(state, &from, overlaps) {
            Ok(out) => out,
            Err(code) => return Some(code),
        };
        let place = to.map(|to| In::of(state, &to));
        let at = place
            .as_ref()
            .map_or(std::ptr::null_mut(), |place| place.at);
        let code = koloGather(out.at, at, bytes, BYTE, root, state.kolo, NO_STREAM);
        let code = ended(state, code);
        out.end(state);
        Some(match (place, to) {
            (Some(place), Some(to)) => arrived(state, place, &to, code),
            _ => code,
        })
    }
}

/// # Safety
/// As MPI_Scatter has it.
pub unsafe fn scatter(send: &Side, recv: &Side, root: c_int, comm: ffi::MPI_Comm) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let state = unsafe { comms::of(comm, Collective::Scatter)? };
    if !is_rank(state, root) {
        return None;
    }
    let is_root = state.rank == root;
    let inside = in_place(recv.at);
    let nranks = state.known.nranks as usize;
    let (from, to) = match is_root {
        false if inside => return None,
        false => (None, recv.elements()?),
        true => {
            let block = send.elements()?;
            let own = block.part(state.rank as isize * block.count as isize, block.count);
            let all = block.part(0, block.count.checked_mul(nranks)?);
            (Some(all), if inside { own } else { recv.elements()? })
        }
    };
    let bytes = to.bytes()?;
    take(state, Collective::Scatter, Size::Bytes(bytes as u64))?;
    // SAFETY: the program's buffers hold what it says.
    unsafe {
        let out = match from {
            Some(from) => match Out::of(state, &from, !inside && from.overlaps(&to)) {
                Ok(out) => Some(out),
                Err(code) => return Some(code),
            },
            None => None,
        };
        let at = out.as_ref().map_or(std::ptr::null(), |out| out.at);
        // A packed root has its own block in the copy, and leaves the program's alone.
        let own_stays = inside && !to.lies_plain();
        let place = In::of(state, &to);
        let code = koloScatter(at, place.at, bytes, BYTE, root, state.kolo, NO_STREAM);
        let code = ended(state, code);
        if let Some(out) = out {
            out.end(state);
        }
        Some(if own_stays {
            code
        } else {
            arrived(state, place, &to, code)
        })
    }
}

/// # Safety
/// As MPI_Allgather has it.
pub unsafe fn allgather(send: &Side, recv: &Side, comm: ffi::MPI_Comm) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let state = unsafe { comms::of(comm, Collective::Allgather)? };
    let inside = in_place(send.at);
    let block = recv.elements()?;
    let all = block.part(0, block.count.checked_mul(state.known.nranks as usize)?);
    let from = if inside {
        block.part(state.rank as isize * block.count as isize, block.count)
    } else {
        send.elements()?
    };
    let bytes = from.bytes()?;
    take(state, Collective::Allgather, Size::Bytes(bytes as u64))?;
    // SAFETY: the program's buffers hold what it says.
    unsafe {
        let out = match Out::of(state, &from, !inside && from.overlaps(&all)) {
            Ok(out) => out,
            Err(code) => return Some(code),
        };
        let place = In::of(state, &all);
        let code = match &state.levels {
            Some(levels) => spanning::allgather(state, levels, (out.at, place.at, bytes)),
            None => {
                let code = koloAllGather(out.at, place.at, bytes, BYTE, state.kolo, NO_STREAM);
                ended(state, code)
            }
        };
        out.end(state);
        Some(arrived(state, place, &all, code))
    }
}

/// # Safety
/// As MPI_Alltoall has it.
pub unsafe fn alltoall(send: &Side, recv: &Side, comm: ffi::MPI_Comm) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let state = unsafe { comms::of(comm, Collective::Alltoall)? };
    let nranks = state.known.nranks as usize;
    let block = recv.elements()?;
    let all = block.part(0, block.count.checked_mul(nranks)?);
    let from = match in_place(send.at) {
        true => all,
        false => {
            let block = send.elements()?;
            block.part(0, block.count.checked_mul(nranks)?)
        }
    };
    let bytes = block.bytes()?;
    take(state, Collective::Alltoall, Size::Bytes(bytes as u64))?;
    // SAFETY: the program's buffers hold what it says.
    unsafe {
        let out = match Out::of(state, &from, from.overlaps(&all)) {
            Ok(out) => out,
            Err(code) => return Some(code),
        };
        let place = In::of(state, &all);
        let code = koloAllToAll(out.at, place.at, bytes, BYTE, state.kolo, NO_STREAM);
        let code = ended(state, code);
        out.end(state);
        Some(arrived(state, place, &all, code))
    }
}
