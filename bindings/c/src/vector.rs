//! Calls whose blocks have sizes of their own, and calls along graphs.

use crate::collective::{NO_OP, with_made_op};
use crate::comm::null;
use crate::comms::COMMS;
use crate::graph::GRAPHS;
use crate::group::{note, refuse_group};
use crate::guard::guard_comm;
use crate::stream;
use crate::types::*;
use kolo_core::base::{Result, Share};
use kolo_core::comm::RawCalls;
use kolo_core::comm::{Blocks, Collective, Graph, RedOp, VectorCall};
use std::ffi::{c_int, c_void};
use std::ptr;

/// Sizes of blocks as they arrive: one count for all, or arrays of one for each block.
#[derive(Clone, Copy)]
enum Sizes {
    One(usize),
    Each {
        counts: *const usize,
        displs: *const usize,
        name: &'static str,
    },
}

/// The calls with blocks on both sides, the roots included.
struct Raw {
    collective: Collective,
    send: *const c_void,
    send_sizes: Sizes,
    recv: *mut c_void,
    recv_sizes: Sizes,
    datatype: DataTypeArg,
    op: RedOpArg,
    root: c_int,
}

impl Raw {
    /// A call without buffers, operation and root.
    fn of(collective: Collective, datatype: DataTypeArg) -> Raw {
        Raw {
            collective,
            send: ptr::null(),
            send_sizes: Sizes::One(0),
            recv: ptr::null_mut(),
            recv_sizes: Sizes::One(0),
            datatype,
            op: NO_OP,
            root: 0,
        }
    }

    fn send(self, send: *const c_void, send_sizes: Sizes) -> Raw {
        Raw {
            send,
            send_sizes,
            ..self
        }
    }

    fn recv(self, recv: *mut c_void, recv_sizes: Sizes) -> Raw {
        Raw {
            recv,
            recv_sizes,
            ..self
        }
    }

    fn op(self, op: RedOpArg) -> Raw {
        Raw { op, ..self }
    }

    fn root(self, root: c_int) -> Raw {
        Raw { root, ..self }
    }
}

/// Sizes in arrays of these names.
fn each(name: &'static str, counts: *const usize, displs: *const usize) -> Sizes {
    Sizes::Each {
        counts,
        displs,
        name,
    }
}

impl Sizes {
    /// The blocks; arrays have `number` entries and are looked at only where they are used.
    ///
    /// # Safety
    /// The arrays are as kolo.h asks.
    unsafe fn blocks<'a>(self, number: usize) -> Result<Blocks<'a>> {
        let (counts, displs, name) = match self {
            Sizes::One(count) => return Ok(Blocks::Equal(count)),
            Sizes::Each {
                counts,
                displs,
                name,
            } => (counts, displs, name),
        };
        if number == 0 {
            return Ok(Blocks::Packed(&[]));
        }
        if counts.is_null() {
            return Err(null(name));
        }
        // SAFETY: kolo.h asks for a number for each block.
        let counts = unsafe { std::slice::from_raw_parts(counts, number) };
        if displs.is_null() {
            return Ok(Blocks::Packed(counts));
        }
        // SAFETY: as above.
        let displs = unsafe { std::slice::from_raw_parts(displs, number) };
        Ok(Blocks::Placed(counts, displs))
    }
}

/// Hands a call to the core.
///
/// # Safety
/// The buffers and arrays are as kolo.h asks.
unsafe fn enqueue(
    name: &'static str,
    raw: Raw,
    comm: koloComm_t,
    graph: Option<&Graph>,
    stream: koloStream_t,
) -> koloResult_t {
    let code = guard_comm(name, comm, |member| {
        let communicator = &member.communicator;
        let at = (communicator.rank(), raw.root as u32, communicator.nranks());
        let (sends, receives) = match graph {
            Some(graph) => graph.degrees(),
            None => {
                let blocks = |share: Share| share.blocks(at) as usize;
                (
                    blocks(raw.collective.sends()),
                    blocks(raw.collective.receives()),
                )
            }
        };
        let call = VectorCall {
            collective: raw.collective,
            send: raw.send.cast(),
            // SAFETY: our caller's promise.
            send_blocks: unsafe { raw.send_sizes.blocks(sends) }?,
            recv: raw.recv.cast(),
            // SAFETY: our caller's promise.
            recv_blocks: unsafe { raw.recv_sizes.blocks(receives) }?,
            dtype: data_type(raw.datatype)?,
            op: RedOp(raw.op),
            // A negative one becomes too large, and the core shows it as it was.
            root: raw.root as u32,
            graph,
        };
        let stream = stream::given(communicator, stream)?;
        note(comm);
        let run = |op| {
            let call = VectorCall { op, ..call };
            // SAFETY: our caller's promise.
            unsafe { communicator.enqueue_vector(&call, stream.as_deref()) }
        };
        if raw.op >= RedOp::FIRST_DYNAMIC {
            // SAFETY: our caller's promise.
            unsafe { with_made_op(member, call.op, run) }?;
        } else {
            run(call.op)?;
        }
        Ok(koloResult_t::koloSuccess)
    });
    if code != koloResult_t::koloSuccess {
        refuse_group();
    }
    code
}

/// Hands a call of all ranks to the core.
///
/// # Safety
/// As [`enqueue`].
unsafe fn among(
    name: &'static str,
    raw: Raw,
    comm: koloComm_t,
    stream: koloStream_t,
) -> koloResult_t {
    // SAFETY: our caller's promise.
    unsafe { enqueue(name, raw, comm, None, stream) }
}

/// Hands a call along a graph to the core.
///
/// # Safety
/// As [`enqueue`].
unsafe fn along(
    name: &'static str,
    raw: Raw,
    graph: koloGraph_t,
    stream: koloStream_t,
) -> koloResult_t {
    match GRAPHS.get(graph as usize) {
        // SAFETY: our caller's promise.
        Ok(member) => unsafe {
            let comm = member.comm as koloComm_t;
            enqueue(name, raw, comm, Some(&member.graph), stream)
        },
        Err(error) => {
            let code = crate::guard::guard(name, || Err(error));
            refuse_group();
            code
        }
    }
}

/// The size of the own block, which is one of `counts`.
///
/// # Safety
/// The array is as kolo.h asks.
unsafe fn own_block(comm: koloComm_t, counts: *const usize) -> Sizes {
    let own = COMMS.find(comm as usize).map_or(0, |seat| {
        let rank = seat.place().0 as usize;
        match counts.is_null() {
            true => 0,
            // SAFETY: kolo.h asks for a count for each rank.
            false => unsafe { *counts.add(rank) },
        }
    });
    Sizes::One(own)
}

calls! {
/// Collects `sendcount` elements of this rank, and those of all others, in recvbuff of all ranks:
/// recvcounts[r] elements of rank r at element displs[r] (displs NULL: one behind the other). All
/// ranks give the same recvcounts; recvcounts[rank] == sendcount. In place: sendbuff == recvbuff +
/// displs[rank] elements.
/// Errors of this and the following calls: those of koloAllReduce; koloInvalidArgument also for
/// counts and displacements that are negative or too large, blocks that overlap, and NULL arrays;
/// koloInvalidUsage for sizes of a block that differ between its sender and its receiver. Blocks
/// of 0 elements are allowed. The arrays are only read during the call.
koloAllGatherV, koloIAllGatherV(sendbuff: *const c_void, sendcount: usize, recvbuff: *mut c_void,
    recvcounts: *const usize, displs: *const usize, datatype: DataTypeArg; comm: koloComm_t)
    = among(
        Raw::of(Collective::AllGatherV, datatype)
            .send(sendbuff, Sizes::One(sendcount))
            .recv(recvbuff, each("recvcounts", recvcounts, displs))
    );

/// koloAllGatherV to `root` only; recvbuff, recvcounts and displs of the others are not used. In
/// place on the root: sendbuff == recvbuff + displs[root] elements.
koloGatherV, koloIGatherV(sendbuff: *const c_void, sendcount: usize, recvbuff: *mut c_void,
    recvcounts: *const usize, displs: *const usize, datatype: DataTypeArg, root: c_int;
    comm: koloComm_t)
    = among(
        Raw::of(Collective::GatherV, datatype).root(root)
            .send(sendbuff, Sizes::One(sendcount))
            .recv(recvbuff, each("recvcounts", recvcounts, displs))
    );

/// sendcounts[r] elements at element displs[r] of `root`'s sendbuff go to rank r (displs NULL: one
/// behind the other), which expects recvcount; sendbuff, sendcounts and displs of the others are
/// not used. In place on the root: recvbuff == sendbuff + displs[root] elements.
koloScatterV, koloIScatterV(sendbuff: *const c_void, sendcounts: *const usize,
    displs: *const usize, recvbuff: *mut c_void, recvcount: usize, datatype: DataTypeArg,
    root: c_int; comm: koloComm_t)
    = among(
        Raw::of(Collective::ScatterV, datatype).root(root)
            .send(sendbuff, each("sendcounts", sendcounts, displs))
            .recv(recvbuff, Sizes::One(recvcount))
    );

/// Reduces the elements of all ranks with `op`, in the order of ranks; rank r gets block r. Block r
/// has recvcounts[r] elements, one block behind the other; all ranks give the same recvcounts. In
/// place: recvbuff is the own block in sendbuff.
koloReduceScatterV, koloIReduceScatterV(sendbuff: *const c_void, recvbuff: *mut c_void,
    recvcounts: *const usize, datatype: DataTypeArg, op: RedOpArg; comm: koloComm_t)
    = among(
        Raw::of(Collective::ReduceScatterV, datatype).op(op)
            .send(sendbuff, each("recvcounts", recvcounts, ptr::null()))
            .recv(recvbuff, own_block(comm, recvcounts))
    );

/// sendcounts[p] elements at element sdispls[p] of sendbuff go to rank p; recvcounts[p] elements at
/// element rdispls[p] of recvbuff come from rank p (displacements NULL: one behind the other). Not
/// in place.
koloAllToAllV, koloIAllToAllV(sendbuff: *const c_void, sendcounts: *const usize,
    sdispls: *const usize, recvbuff: *mut c_void, recvcounts: *const usize, rdispls: *const usize,
    datatype: DataTypeArg; comm: koloComm_t)
    = among(
        Raw::of(Collective::AllToAllV, datatype)
            .send(sendbuff, each("sendcounts", sendcounts, sdispls))
            .recv(recvbuff, each("recvcounts", recvcounts, rdispls))
    );

/// Collects `count` elements of every source of `graph` in recvbuff, in the order of the sources.
/// Blocks of missing neighbours are left alone. Not in place.
koloNeighborAllGather, koloINeighborAllGather(sendbuff: *const c_void, recvbuff: *mut c_void,
    count: usize, datatype: DataTypeArg; graph: koloGraph_t)
    = along(
        Raw::of(Collective::NeighborAllGather, datatype)
            .send(sendbuff, Sizes::One(count))
            .recv(recvbuff, Sizes::One(count))
    );

/// koloNeighborAllGather of different sizes: recvcounts[i] elements of source i at element
/// displs[i] (displs NULL: one behind the other).
koloNeighborAllGatherV, koloINeighborAllGatherV(sendbuff: *const c_void, sendcount: usize,
    recvbuff: *mut c_void, recvcounts: *const usize, displs: *const usize, datatype: DataTypeArg;
    graph: koloGraph_t)
    = along(
        Raw::of(Collective::NeighborAllGatherV, datatype)
            .send(sendbuff, Sizes::One(sendcount))
            .recv(recvbuff, each("recvcounts", recvcounts, displs))
    );

/// Block i of sendbuff goes to destination i of `graph`, block i of recvbuff comes from source i;
/// `count` elements in each. Not in place.
koloNeighborAllToAll, koloINeighborAllToAll(sendbuff: *const c_void, recvbuff: *mut c_void,
    count: usize, datatype: DataTypeArg; graph: koloGraph_t)
    = along(
        Raw::of(Collective::NeighborAllToAll, datatype)
            .send(sendbuff, Sizes::One(count))
            .recv(recvbuff, Sizes::One(count))
    );

/// koloNeighborAllToAll of different sizes: sendcounts[i] elements at element sdispls[i] for
/// destination i, recvcounts[i] elements at element rdispls[i] of source i (displacements NULL: one
/// behind the other).
koloNeighborAllToAllV, koloINeighborAllToAllV(sendbuff: *const c_void, sendcounts: *const usize,
    sdispls: *const usize, recvbuff: *mut c_void, recvcounts: *const usize, rdispls: *const usize,
    datatype: DataTypeArg; graph: koloGraph_t)
    = along(
        Raw::of(Collective::NeighborAllToAllV, datatype)
            .send(sendbuff, each("sendcounts", sendcounts, sdispls))
            .recv(recvbuff, each("recvcounts", recvcounts, rdispls))
    );
}
