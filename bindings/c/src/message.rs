//! Messages between two ranks.

use crate::collective::{NO_OP, Raw, enqueue};
use crate::group::{note, refuse_group};
use crate::guard::guard_comm;
use crate::stream::given;
use crate::types::*;
use kolo_core::comm::RawCalls;
use kolo_core::comm::{Call, Collective, RedOp};
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

/// Hands a message to one peer and one from another to the core: buffer, count and rank of each.
///
/// # Safety
/// The buffers are as kolo.h asks.
unsafe fn exchange(
    name: &'static str,
    (sendbuff, sendcount, dest): (*const c_void, usize, c_int),
    (recvbuff, recvcount, source): (*mut c_void, usize, c_int),
    datatype: DataTypeArg,
    comm: koloComm_t,
    stream: koloStream_t,
) -> koloResult_t {
    let code = guard_comm(name, comm, |member| {
        let send = Call {
            collective: Collective::Send,
            send: sendbuff.cast(),
            recv: std::ptr::null_mut(),
            count: sendcount,
            dtype: data_type(datatype)?,
            op: RedOp(NO_OP),
            peer: member.peer(dest),
        };
        let recv = Call {
            collective: Collective::Recv,
            send: std::ptr::null(),
            recv: recvbuff.cast(),
            count: recvcount,
            peer: member.peer(source),
            ..send
        };
        let stream = given(&member.communicator, stream)?;
        note(comm);
        let communicator = &member.communicator;
        // SAFETY: our caller's promise.
        unsafe { communicator.enqueue_exchange(&send, &recv, stream.as_deref()) }?;
        Ok(koloResult_t::koloSuccess)
    });
    if code != koloResult_t::koloSuccess {
        refuse_group();
    }
    code
}

calls! {
/// Sends `count` elements to rank `peer`, which receives them by koloRecv with the same count and
/// datatype; the calls between two ranks match in order. It may wait until that rank receives:
/// sends and receives that wait for each other belong into one group. A rank may send to itself
/// inside a group. To KOLO_NO_RANK nothing is sent: the call ends at once and looks at no buffer.
/// On communicators of koloCommInitMPI, and what was split from them, MPI_PROC_NULL means the same.
koloSend, koloISend(sendbuff: *const c_void, count: usize, datatype: DataTypeArg, peer: c_int;
    comm: koloComm_t)
    = enqueue(Raw::of(Collective::Send, sendbuff, null_mut(), count, datatype).peer(peer));

/// Receives what rank `peer` sends by koloSend; from KOLO_NO_RANK (and MPI_PROC_NULL) nothing.
/// Count and datatype are those of the send: unlike in MPI a shorter message is an error.
koloRecv, koloIRecv(recvbuff: *mut c_void, count: usize, datatype: DataTypeArg, peer: c_int;
    comm: koloComm_t)
    = enqueue(Raw::of(Collective::Recv, null(), recvbuff, count, datatype).peer(peer));

/// koloSend to `dest` and koloRecv from `source` at once, as in a group of the two: neither waits
/// for the other. The other ends may be koloSend, koloRecv or koloSendRecv. `dest` and `source`
/// may be the same rank, this one, or KOLO_NO_RANK; the buffers do not overlap.
koloSendRecv, koloISendRecv(sendbuff: *const c_void, sendcount: usize, dest: c_int,
    recvbuff: *mut c_void, recvcount: usize, source: c_int, datatype: DataTypeArg;
    comm: koloComm_t)
    = exchange((sendbuff, sendcount, dest), (recvbuff, recvcount, source), datatype);
}
