//! Checks of the buffers of a call, and the errors that they return.

use super::call::Call;
use crate::base::{Error, InPlace, Result, checked};

#[cold]
pub(in crate::comm) fn bad_peer(call: &Call, nranks: u32) -> Error {
    let (role, nobody) = match call.collective.has_root() {
        true => ("root", ""),
        false => ("peer", ", or KOLO_NO_RANK for nobody"),
    };
    Error::argument(
        format!(
            "{role} {} is not a rank of this communicator of {nranks}",
            call.peer as i32
        ),
        format!("pass a {role} from 0 to {}{nobody}", nranks - 1),
    )
}

#[inline(always)]
pub(in crate::comm) fn check_buffers(
    call: &Call,
    rank: u32,
    bytes: usize,
    blocks: (u32, u32),
) -> Result<()> {
    if (blocks.0 > 0 && is_nowhere(call.send)) || (blocks.1 > 0 && is_nowhere(call.recv)) {
        return Err(no_buffer(call, rank, blocks.0 > 0 && is_nowhere(call.send)));
    }
    let send = if blocks.0 > 0 { call.send as usize } else { 0 };
    let recv = if blocks.1 > 0 { call.recv as usize } else { 0 };
    let send_bytes = checked::bytes(bytes, blocks.0 as usize)?;
    let recv_bytes = checked::bytes(bytes, blocks.1 as usize)?;
    let apart = send + send_bytes <= recv || recv + recv_bytes <= send;
    if apart || send_bytes == 0 || recv_bytes == 0 || call.in_place(rank, bytes) {
        return Ok(());
    }
    Err(overlap(call, rank))
}

/// Folds read elements wherever they lie; exact sums do not.
pub(in crate::comm) fn check_alignment(call: &Call, blocks: (u32, u32)) -> Result<()> {
    let used = |place: usize, blocks: u32| if blocks > 0 { place } else { 0 };
    let places = [
        used(call.send as usize, blocks.0),
        used(call.recv as usize, blocks.1),
    ];
    let least = call.dtype.align_bytes();
    if call.count == 0 || places.iter().all(|place| place % least == 0) {
        return Ok(());
    }
    let name = call.dtype.name();
    Err(Error::argument(
        format!("a buffer of an exact sum is not aligned for {name}"),
        format!("pass pointers to elements (addresses that are multiples of {least})"),
    ))
}

#[cold]
fn no_buffer(call: &Call, rank: u32, is_send: bool) -> Error {
    let which = if is_send { "send" } else { "receive" };
    let at = if is_send { call.send } else { call.recv };
    if !at.is_null() {
        return Error::argument(
            format!("the {which} buffer is MPI_IN_PLACE, which is no buffer of kolo's"),
            format!("pass both buffers; {}", how_in_place(call, rank)),
        );
    }
    Error::argument(
        format!("the {which} buffer is NULL but count is {}", call.count),
        format!("pass a {which} buffer, or count 0 on all ranks"),
    )
}

#[cold]
pub(in crate::comm) fn overlap(call: &Call, rank: u32) -> Error {
    Error::argument(
        "send and receive buffers overlap",
        format!("use separate buffers; {}", how_in_place(call, rank)),
    )
}

fn how_in_place(call: &Call, rank: u32) -> String {
    match call.collective.in_place() {
        InPlace::Same => "in place means send == recv".into(),
        InPlace::SendInRecv => format!("in place means send == recv + {rank} * count"),
        InPlace::RecvInSend => format!("in place means recv == send + {rank} * count"),
        InPlace::Never => "this call has no in-place form".into(),
    }
}

/// Whether there is no buffer: NULL, or MPI_IN_PLACE, which is 1 in Open MPI and -1 in MPICH. One
/// comparison, as it stands before each call.
#[inline(always)]
fn is_nowhere<T>(at: *const T) -> bool {
    (at as usize).wrapping_add(1) <= 2
}
