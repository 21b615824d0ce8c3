//! Calls whose blocks have sizes of their own, and calls along graphs.

use crate::collective::{refuse_group, with_made_op};
use crate::comm::null;
use crate::graph::GRAPHS;
use crate::group::note;
use crate::guard::guard_comm;
use crate::seat::COMMS;
use crate::stream;
use crate::types::*;
use kolo_core::base::Result;
use kolo_core::comm::{Blocks, Collective, Graph, RedOp, VectorCall};
use std::ffi::{c_int, c_void};

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
        let n = communicator.nranks() as usize;
        let here = communicator.rank() == raw.root as u32;
        let (sends, receives) = match (raw.collective, graph) {
            (_, Some(graph)) => graph.degrees(),
            (Collective::GatherV, _) => (1, if here { n } else { 0 }),
            (Collective::ScatterV, _) => (if here { n } else { 0 }, 1),
            _ => (n, n),
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
        let stream = stream::given(stream)?;
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

const NO_OP: RedOpArg = 0;
const NO_ROOT: c_int = 0;

/// Collects `sendcount` elements of this rank, and those of all others, in recvbuff of all ranks:
/// recvcounts[r] elements of rank r at element displs[r] (displs NULL: one behind the other). All
/// ranks give the same recvcounts; recvcounts[rank] == sendcount. In place: sendbuff == recvbuff +
/// displs[rank] elements.
/// Errors of this and the following calls: those of koloAllReduce; koloInvalidArgument also for
/// counts and displacements that are negative or too large, blocks that overlap, and NULL arrays;
/// koloInvalidUsage for sizes of a block that differ between its sender and its receiver. Blocks
/// of 0 elements are allowed. The arrays are only read during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloAllGatherV(
    sendbuff: *const c_void,
    sendcount: usize,
    recvbuff: *mut c_void,
    recvcounts: *const usize,
    displs: *const usize,
    datatype: DataTypeArg,
    comm: koloComm_t,
    stream: koloStream_t,
) -> koloResult_t {
    let raw = Raw {
        collective: Collective::AllGatherV,
        send: sendbuff,
        send_sizes: Sizes::One(sendcount),
        recv: recvbuff,
        recv_sizes: Sizes::Each {
            counts: recvcounts,
            displs,
            name: "recvcounts",
        },
        datatype,
        op: NO_OP,
        root: NO_ROOT,
    };
    // SAFETY: the contract of kolo.h.
    unsafe { enqueue("AllGatherV", raw, comm, None, stream) }
}

/// koloAllGatherV to `root` only; recvbuff, recvcounts and displs of the others are not used. In
/// place on the root: sendbuff == recvbuff + displs[root] elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloGatherV(
    sendbuff: *const c_void,
    sendcount: usize,
    recvbuff: *mut c_void,
    recvcounts: *const usize,
    displs: *const usize,
    datatype: DataTypeArg,
    root: c_int,
    comm: koloComm_t,
    stream: koloStream_t,
) -> koloResult_t {
    let raw = Raw {
        collective: Collective::GatherV,
        send: sendbuff,
        send_sizes: Sizes::One(sendcount),
        recv: recvbuff,
        recv_sizes: Sizes::Each {
            counts: recvcounts,
            displs,
            name: "recvcounts",
        },
        datatype,
        op: NO_OP,
        root,
    };
    // SAFETY: the contract of kolo.h.
    unsafe { enqueue("GatherV", raw, comm, None, stream) }
}

/// sendcounts[r] elements at element displs[r] of `root`'s sendbuff go to rank r (displs NULL: one
/// behind the other), which expects recvcount; sendbuff, sendcounts and displs of the others are
/// not used. In place on the root: recvbuff == sendbuff + displs[root] elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloScatterV(
    sendbuff: *const c_void,
    sendcounts: *const usize,
    displs: *const usize,
    recvbuff: *mut c_void,
    recvcount: usize,
    datatype: DataTypeArg,
    root: c_int,
    comm: koloComm_t,
    stream: koloStream_t,
) -> koloResult_t {
    let raw = Raw {
        collective: Collective::ScatterV,
        send: sendbuff,
        send_sizes: Sizes::Each {
            counts: sendcounts,
            displs,
            name: "sendcounts",
        },
        recv: recvbuff,
        recv_sizes: Sizes::One(recvcount),
        datatype,
        op: NO_OP,
        root,
    };
    // SAFETY: the contract of kolo.h.
    unsafe { enqueue("ScatterV", raw, comm, None, stream) }
}

/// Reduces the elements of all ranks with `op`, in the order of ranks; rank r gets block r. Block r
/// has recvcounts[r] elements, one block behind the other; all ranks give the same recvcounts. In
/// place: recvbuff is the own block in sendbuff.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloReduceScatterV(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    recvcounts: *const usize,
    datatype: DataTypeArg,
    op: RedOpArg,
    comm: koloComm_t,
    stream: koloStream_t,
) -> koloResult_t {
    let own = COMMS.find(comm as usize).map_or(0, |seat| {
        let rank = seat.place().0 as usize;
        match recvcounts.is_null() {
            true => 0,
            // SAFETY: kolo.h asks for a count for each rank.
            false => unsafe { *recvcounts.add(rank) },
        }
    });
    let raw = Raw {
        collective: Collective::ReduceScatterV,
        send: sendbuff,
        send_sizes: Sizes::Each {
            counts: recvcounts,
            displs: std::ptr::null(),
            name: "recvcounts",
        },
        recv: recvbuff,
        recv_sizes: Sizes::One(own),
        datatype,
        op,
        root: NO_ROOT,
    };
    // SAFETY: the contract of kolo.h.
    unsafe { enqueue("ReduceScatterV", raw, comm, None, stream) }
}

/// sendcounts[p] elements at element sdispls[p] of sendbuff go to rank p; recvcounts[p] elements at
/// element rdispls[p] of recvbuff come from rank p (displacements NULL: one behind the other). Not
/// in place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloAllToAllV(
    sendbuff: *const c_void,
    sendcounts: *const usize,
    sdispls: *const usize,
    recvbuff: *mut c_void,
    recvcounts: *const usize,
    rdispls: *const usize,
    datatype: DataTypeArg,
    comm: koloComm_t,
    stream: koloStream_t,
) -> koloResult_t {
    let raw = Raw {
        collective: Collective::AllToAllV,
        send: sendbuff,
        send_sizes: Sizes::Each {
            counts: sendcounts,
            displs: sdispls,
            name: "sendcounts",
        },
        recv: recvbuff,
        recv_sizes: Sizes::Each {
            counts: recvcounts,
            displs: rdispls,
            name: "recvcounts",
        },
        datatype,
        op: NO_OP,
        root: NO_ROOT,
    };
    // SAFETY: the contract of kolo.h.
    unsafe { enqueue("AllToAllV", raw, comm, None, stream) }
}

/// Collects `count` elements of every source of `graph` in recvbuff, in the order of the sources.
/// Blocks of missing neighbours are left alone. Not in place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloNeighborAllGather(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: DataTypeArg,
    graph: koloGraph_t,
    stream: koloStream_t,
) -> koloResult_t {
    let raw = Raw {
        collective: Collective::NeighborAllGather,
        send: sendbuff,
        send_sizes: Sizes::One(count),
        recv: recvbuff,
        recv_sizes: Sizes::One(count),
        datatype,
        op: NO_OP,
        root: NO_ROOT,
    };
    // SAFETY: the contract of kolo.h.
    unsafe { along("NeighborAllGather", raw, graph, stream) }
}

/// koloNeighborAllGather of different sizes: recvcounts[i] elements of source i at element
/// displs[i] (displs NULL: one behind the other).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloNeighborAllGatherV(
    sendbuff: *const c_void,
    sendcount: usize,
    recvbuff: *mut c_void,
    recvcounts: *const usize,
    displs: *const usize,
    datatype: DataTypeArg,
    graph: koloGraph_t,
    stream: koloStream_t,
) -> koloResult_t {
    let raw = Raw {
        collective: Collective::NeighborAllGatherV,
        send: sendbuff,
        send_sizes: Sizes::One(sendcount),
        recv: recvbuff,
        recv_sizes: Sizes::Each {
            counts: recvcounts,
            displs,
            name: "recvcounts",
        },
        datatype,
        op: NO_OP,
        root: NO_ROOT,
    };
    // SAFETY: the contract of kolo.h.
    unsafe { along("NeighborAllGatherV", raw, graph, stream) }
}

/// Block i of sendbuff goes to destination i of `graph`, block i of recvbuff comes from source i;
/// `count` elements in each. Not in place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloNeighborAllToAll(
    sendbuff: *const c_void,
    recvbuff: *mut c_void,
    count: usize,
    datatype: DataTypeArg,
    graph: koloGraph_t,
    stream: koloStream_t,
) -> koloResult_t {
    let raw = Raw {
        collective: Collective::NeighborAllToAll,
        send: sendbuff,
        send_sizes: Sizes::One(count),
        recv: recvbuff,
        recv_sizes: Sizes::One(count),
        datatype,
        op: NO_OP,
        root: NO_ROOT,
    };
    // SAFETY: the contract of kolo.h.
    unsafe { along("NeighborAllToAll", raw, graph, stream) }
}

/// koloNeighborAllToAll of different sizes: sendcounts[i] elements at element sdispls[i] for
/// destination i, recvcounts[i] elements at element rdispls[i] of source i (displacements NULL: one
/// behind the other).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloNeighborAllToAllV(
    sendbuff: *const c_void,
    sendcounts: *const usize,
    sdispls: *const usize,
    recvbuff: *mut c_void,
    recvcounts: *const usize,
    rdispls: *const usize,
    datatype: DataTypeArg,
    graph: koloGraph_t,
    stream: koloStream_t,
) -> koloResult_t {
    let raw = Raw {
        collective: Collective::NeighborAllToAllV,
        send: sendbuff,
        send_sizes: Sizes::Each {
            counts: sendcounts,
            displs: sdispls,
            name: "sendcounts",
        },
        recv: recvbuff,
        recv_sizes: Sizes::Each {
            counts: recvcounts,
            displs: rdispls,
            name: "recvcounts",
        },
        datatype,
        op: NO_OP,
        root: NO_ROOT,
    };
    // SAFETY: the contract of kolo.h.
    unsafe { along("NeighborAllToAllV", raw, graph, stream) }
}
