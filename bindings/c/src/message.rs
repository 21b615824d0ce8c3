//! Messages between two ranks.

use crate::collective::{NO_OP, Raw, enqueue, refuse_group};
use crate::group::note;
use crate::guard::guard_comm;
use crate::stream::given;
use crate::types::*;
use kolo_core::comm::{Call, Collective, RedOp};
use std::ffi::{c_int, c_void};

/// Sends `count` elements to rank `peer`, which receives them by koloRecv with the same count and
/// datatype; the calls between two ranks match in order. A rank may send to itself inside a group.
/// To KOLO_NO_RANK nothing is sent: the call ends at once and looks at no buffer. On communicators
/// of koloCommInitMPI, and what was split from them, MPI_PROC_NULL means the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloSend(
    sendbuff: *const c_void,
    count: usize,
    datatype: DataTypeArg,
    peer: c_int,
    comm: koloComm_t,
    stream: koloStream_t,
) -> koloResult_t {
    let raw = Raw {
        collective: Collective::Send,
        send: sendbuff,
        recv: std::ptr::null_mut(),
        count,
        datatype,
        op: NO_OP,
        peer,
    };
    // SAFETY: the contract of kolo.h.
    unsafe { enqueue("Send", raw, comm, stream) }
}

/// Receives what rank `peer` sends by koloSend; from KOLO_NO_RANK (and MPI_PROC_NULL) nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloRecv(
    recvbuff: *mut c_void,
    count: usize,
    datatype: DataTypeArg,
    peer: c_int,
    comm: koloComm_t,
    stream: koloStream_t,
) -> koloResult_t {
    let raw = Raw {
        collective: Collective::Recv,
        send: std::ptr::null(),
        recv: recvbuff,
        count,
        datatype,
        op: NO_OP,
        peer,
    };
    // SAFETY: the contract of kolo.h.
    unsafe { enqueue("Recv", raw, comm, stream) }
}

/// koloSend to `dest` and koloRecv from `source` at once, as in a group of the two: neither waits
/// for the other. The other ends may be koloSend, koloRecv or koloSendRecv. `dest` and `source`
/// may be the same rank, this one, or KOLO_NO_RANK; the buffers do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloSendRecv(
    sendbuff: *const c_void,
    sendcount: usize,
    dest: c_int,
    recvbuff: *mut c_void,
    recvcount: usize,
    source: c_int,
    datatype: DataTypeArg,
    comm: koloComm_t,
    stream: koloStream_t,
) -> koloResult_t {
    let code = guard_comm("SendRecv", comm, |member| {
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
        let stream = given(stream)?;
        note(comm);
        let communicator = &member.communicator;
        // SAFETY: the contract of kolo.h.
        unsafe { communicator.enqueue_exchange(&send, &recv, stream.as_deref()) }?;
        Ok(koloResult_t::koloSuccess)
    });
    if code != koloResult_t::koloSuccess {
        refuse_group();
    }
    code
}
