//! The collective calls. All have one path, and so have messages: handle, numbers, core.

use crate::group::{note, refuse_group};
use crate::guard::guard_comm;
use crate::op::fixed;
use crate::seat::Member;
use crate::stream;
use crate::types::*;
use kolo_core::base::Result;
use kolo_core::comm::enqueue as enqueue_on;
use kolo_core::comm::{Call, Collective, RedOp};
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

/// A call as it arrives.
pub(crate) struct Raw {
    pub collective: Collective,
    pub send: *const c_void,
    pub recv: *mut c_void,
    pub count: usize,
    pub datatype: DataTypeArg,
    pub op: RedOpArg,
    /// Root or peer.
    pub peer: c_int,
}

impl Raw {
    /// A call without operation and without root or peer.
    #[inline(always)]
    pub fn of(
        collective: Collective,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        datatype: DataTypeArg,
    ) -> Raw {
        Raw {
            collective,
            send,
            recv,
            count,
            datatype,
            op: NO_OP,
            peer: 0,
        }
    }

    #[inline(always)]
    pub fn op(self, op: RedOpArg) -> Raw {
        Raw { op, ..self }
    }

    /// With a root or a peer.
    #[inline(always)]
    pub fn peer(self, peer: c_int) -> Raw {
        Raw { peer, ..self }
    }
}

/// Checks what only the binding can see, and hands the call to the core, which checks the rest.
///
/// # Safety
/// The buffers are as kolo.h asks.
#[inline(always)]
pub(crate) unsafe fn enqueue(
    name: &'static str,
    raw: Raw,
    comm: koloComm_t,
    stream: koloStream_t,
) -> koloResult_t {
    let code = guard_comm(name, comm, |member| {
        let dtype = data_type(raw.datatype)?;
        // Made anew where it is used, and so out of registers: see the core's `enqueue`.
        let call = |op| Call {
            collective: raw.collective,
            send: raw.send.cast(),
            recv: raw.recv.cast(),
            count: raw.count,
            dtype,
            op,
            peer: match raw.collective.is_point_to_point() {
                true => member.peer(raw.peer),
                // A negative one becomes too large, and the core shows it as it was.
                false => raw.peer as u32,
            },
        };
        let stream = stream::given(&member.communicator, stream)?;
        note(comm);
        if raw.op >= RedOp::FIRST_DYNAMIC {
            // SAFETY: our caller's promise.
            let run = |op| unsafe {
                enqueue_on(&member.communicator.queue, &call(op), stream.as_deref())
            };
            // SAFETY: our caller's promise.
            unsafe { with_made_op(member, RedOp(raw.op), run) }?;
            return Ok(koloResult_t::koloSuccess);
        }
        // SAFETY: our caller's promise.
        unsafe {
            let queue = &member.communicator.queue;
            enqueue_on(queue, &call(RedOp(raw.op)), stream.as_deref())
        }?;
        Ok(koloResult_t::koloSuccess)
    });
    if code != koloResult_t::koloSuccess {
        refuse_group();
    }
    code
}

/// A call with an operation that the program made; some read their scalar now.
///
/// # Safety
/// The scalar of the operation is as kolo.h asks.
#[cold]
pub(crate) unsafe fn with_made_op(
    member: &Member,
    op: RedOp,
    run: impl FnOnce(RedOp) -> Result<()>,
) -> Result<()> {
    let Some((scalar, dtype)) = member.scalar_of(op) else {
        return run(op);
    };
    // SAFETY: kolo.h asks that the scalar lives as long as the operation.
    let now = unsafe { fixed(member, scalar, dtype) }?;
    let done = run(now);
    member.communicator.destroy_op(now)?;
    done
}

pub(crate) const NO_OP: RedOpArg = 0;
/// The type of a call without data.
const BYTES: DataTypeArg = koloDataType_t::koloUint8 as DataTypeArg;

calls! {
/// Reduces `count` elements of all ranks with `op`; every rank gets the same bits. In place:
/// sendbuff == recvbuff.
/// Errors of this and all following calls: koloInvalidArgument (handle, NULL with count > 0, count
/// too large, unknown datatype or op, root or peer outside 0..nranks, overlapping buffers),
/// koloInvalidUsage (destroyed or failed communicator, two threads at once, ranks that disagree),
/// koloRemoteError (a rank died or aborted), koloTimeout. After the last two the communicator only
/// answers koloCommAbort, koloCommDestroy and queries. Counts are elements; count 0 is allowed;
/// buffers may begin anywhere, those of koloSumExact at a multiple of the type's size. All ranks
/// make the same calls in the same order.
/// With stream NULL the call blocks until the result is in place (inside a group: until the
/// outermost koloGroupEnd), otherwise until koloStreamSynchronize the buffers belong to kolo.
koloAllReduce, koloIAllReduce(sendbuff: *const c_void, recvbuff: *mut c_void, count: usize,
    datatype: DataTypeArg, op: RedOpArg; comm: koloComm_t)
    = enqueue(Raw::of(Collective::AllReduce, sendbuff, recvbuff, count, datatype).op(op));

/// Copies `count` elements of `root`'s sendbuff to recvbuff of all ranks; sendbuff of the others
/// is not used. In place: sendbuff == recvbuff on the root.
koloBroadcast, koloIBroadcast(sendbuff: *const c_void, recvbuff: *mut c_void, count: usize,
    datatype: DataTypeArg, root: c_int; comm: koloComm_t)
    = enqueue(Raw::of(Collective::Broadcast, sendbuff, recvbuff, count, datatype).peer(root));

/// koloBroadcast with one buffer: read on the root, written on the others.
koloBcast, koloIBcast(buff: *mut c_void, count: usize, datatype: DataTypeArg, root: c_int;
    comm: koloComm_t)
    = enqueue(Raw::of(Collective::Broadcast, buff, buff, count, datatype).peer(root));

/// Reduces `count` elements of all ranks with `op` into recvbuff of `root`; recvbuff of the others
/// is not used. In place: sendbuff == recvbuff on the root.
koloReduce, koloIReduce(sendbuff: *const c_void, recvbuff: *mut c_void, count: usize,
    datatype: DataTypeArg, op: RedOpArg, root: c_int; comm: koloComm_t)
    = enqueue(Raw::of(Collective::Reduce, sendbuff, recvbuff, count, datatype).op(op).peer(root));

/// Collects `sendcount` elements of every rank in recvbuff of all ranks (nranks * sendcount
/// elements, in rank order). In place: sendbuff == recvbuff + rank * sendcount elements.
koloAllGather, koloIAllGather(sendbuff: *const c_void, recvbuff: *mut c_void, sendcount: usize,
    datatype: DataTypeArg; comm: koloComm_t)
    = enqueue(Raw::of(Collective::AllGather, sendbuff, recvbuff, sendcount, datatype));

/// Reduces nranks * recvcount elements of all ranks with `op`; rank r gets block r (`recvcount`
/// elements). In place: recvbuff == sendbuff + rank * recvcount elements.
koloReduceScatter, koloIReduceScatter(sendbuff: *const c_void, recvbuff: *mut c_void,
    recvcount: usize, datatype: DataTypeArg, op: RedOpArg; comm: koloComm_t)
    = enqueue(Raw::of(Collective::ReduceScatter, sendbuff, recvbuff, recvcount, datatype).op(op));

/// Block p of sendbuff goes to rank p, block p of recvbuff comes from rank p; `count` elements in
/// each of the nranks blocks. Not in place.
koloAllToAll, koloIAllToAll(sendbuff: *const c_void, recvbuff: *mut c_void, count: usize,
    datatype: DataTypeArg; comm: koloComm_t)
    = enqueue(Raw::of(Collective::AllToAll, sendbuff, recvbuff, count, datatype));

/// Collects `sendcount` elements of every rank in recvbuff of `root` (nranks * sendcount elements,
/// in rank order); recvbuff of the others is not used. In place on the root: sendbuff == recvbuff +
/// root * sendcount elements.
koloGather, koloIGather(sendbuff: *const c_void, recvbuff: *mut c_void, sendcount: usize,
    datatype: DataTypeArg, root: c_int; comm: koloComm_t)
    = enqueue(Raw::of(Collective::Gather, sendbuff, recvbuff, sendcount, datatype).peer(root));

/// Block r of `root`'s sendbuff (nranks * recvcount elements) goes to rank r; sendbuff of the
/// others is not used. In place on the root: recvbuff == sendbuff + root * recvcount elements.
koloScatter, koloIScatter(sendbuff: *const c_void, recvbuff: *mut c_void, recvcount: usize,
    datatype: DataTypeArg, root: c_int; comm: koloComm_t)
    = enqueue(Raw::of(Collective::Scatter, sendbuff, recvbuff, recvcount, datatype).peer(root));

/// Reduces `count` elements of ranks 0 to r with `op`; rank r gets the result, in the order of
/// ranks. koloAvg is refused. In place: sendbuff == recvbuff.
koloScan, koloIScan(sendbuff: *const c_void, recvbuff: *mut c_void, count: usize,
    datatype: DataTypeArg, op: RedOpArg; comm: koloComm_t)
    = enqueue(Raw::of(Collective::Scan, sendbuff, recvbuff, count, datatype).op(op));

/// koloScan of ranks 0 to r - 1; recvbuff of rank 0 is not used.
koloExscan, koloIExscan(sendbuff: *const c_void, recvbuff: *mut c_void, count: usize,
    datatype: DataTypeArg, op: RedOpArg; comm: koloComm_t)
    = enqueue(Raw::of(Collective::Exscan, sendbuff, recvbuff, count, datatype).op(op));

/// Returns when all ranks have called.
koloBarrier, koloIBarrier(; comm: koloComm_t)
    = enqueue(Raw::of(Collective::Barrier, null(), null_mut(), 0, BYTES));
}
