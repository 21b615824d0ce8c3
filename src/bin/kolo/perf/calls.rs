//! The calls themselves, once with kolo and once with MPI.

use super::engine::Run;
use crate::launcher::Mpi;
use kolo::base::Result;
use kolo::comm::{Call, Collective, group};

impl Run<'_> {
    /// A call of kolo with these buffers.
    fn call(&self, collective: Collective) -> Call {
        Call {
            collective,
            send: self.send,
            recv: self.recv,
            count: self.counts.call,
            dtype: self.dtype,
            op: self.op,
            peer: self.seat.root,
        }
    }

    fn enqueue(&self, call: &Call) -> Result<()> {
        // SAFETY: whoever makes a `Run` answers for the addresses, and waits for the stream before
        // touching the buffers.
        unsafe { self.comm.enqueue(call, self.stream) }
    }

    fn plain(&self, collective: Collective) -> Result<()> {
        self.enqueue(&self.call(collective))
    }

    /// One message to or from a peer.
    fn message(&self, send: bool, place: *mut u8, count: usize, peer: u32) -> Result<()> {
        self.enqueue(&Call {
            collective: if send {
                Collective::Send
            } else {
                Collective::Recv
            },
            send: place.cast_const(),
            recv: place,
            count,
            peer,
            ..self.call(Collective::Send)
        })
    }

    /// Address of a block of the receive buffer.
    fn block(&self, block: usize) -> *mut u8 {
        let bytes = self.counts.call * self.dtype.size_bytes();
        self.recv.wrapping_add(block * bytes)
    }
}

/// Runs `body` as a group; also after an error the group is ended.
pub fn grouped(body: impl FnOnce() -> Result<()>) -> Result<()> {
    group::start();
    let begun = body();
    if let Err(error) = &begun {
        group::refuse(error);
    }
    let ended = group::end();
    begun.and(ended)
}

pub fn all_reduce(run: &Run) -> Result<()> {
    run.plain(Collective::AllReduce)
}

pub fn all_gather(run: &Run) -> Result<()> {
    run.plain(Collective::AllGather)
}

pub fn reduce_scatter(run: &Run) -> Result<()> {
    run.plain(Collective::ReduceScatter)
}

pub fn broadcast(run: &Run) -> Result<()> {
    run.plain(Collective::Broadcast)
}

pub fn reduce(run: &Run) -> Result<()> {
    run.plain(Collective::Reduce)
}

pub fn all_to_all(run: &Run) -> Result<()> {
    run.plain(Collective::AllToAll)
}

pub fn gather(run: &Run) -> Result<()> {
    run.plain(Collective::Gather)
}

pub fn scatter(run: &Run) -> Result<()> {
    run.plain(Collective::Scatter)
}

pub fn barrier(run: &Run) -> Result<()> {
    run.plain(Collective::Barrier)
}

/// To the next rank, from the one before.
pub fn send_recv(run: &Run) -> Result<()> {
    let (next, before) = neighbours(run);
    grouped(|| {
        run.message(true, run.send.cast_mut(), run.counts.call, next)?;
        run.message(false, run.recv, run.counts.call, before)
    })
}

fn neighbours(run: &Run) -> (u32, u32) {
    let (rank, n) = (run.seat.rank, run.seat.nranks);
    ((rank + 1) % n, (rank + n - 1) % n)
}

/// Blocks gathered by exchanging twice as many in every round with the peer across the next
/// dimension of a hypercube: (peer, first own block, first block to get, blocks).
fn hypercube_rounds(rank: u32, nranks: u32) -> impl Iterator<Item = (u32, usize, usize, usize)> {
    let dimensions = nranks.trailing_zeros();
    (0..dimensions).map(move |dimension| {
        let mask = 1 << dimension;
        let (own, peer) = (rank & !(mask - 1), rank ^ mask);
        (peer, own as usize, (own ^ mask) as usize, mask as usize)
    })
}

pub fn hypercube(run: &Run) -> Result<()> {
    let (rank, count) = (run.seat.rank, run.counts.call);
    if !run.in_place {
        // As a message, so that it has its place in the stream's order.
        grouped(|| {
            run.message(true, run.send.cast_mut(), count, rank)?;
            run.message(false, run.block(rank as usize), count, rank)
        })?;
    }
    for (peer, own, theirs, blocks) in hypercube_rounds(rank, run.seat.nranks) {
        grouped(|| {
            run.message(true, run.block(own), blocks * count, peer)?;
            run.message(false, run.block(theirs), blocks * count, peer)
        })?;
    }
    Ok(())
}

/// The null pointer that stands for MPI_IN_PLACE.
const IN_PLACE: *const u8 = std::ptr::null();

impl Run<'_> {
    fn mpi_send(&self) -> *const u8 {
        if self.in_place { IN_PLACE } else { self.send }
    }

    fn mpi_send_at_root(&self) -> *const u8 {
        let here = self.seat.rank == self.seat.root;
        if here { self.mpi_send() } else { self.send }
    }

    fn dtype_number(&self) -> i32 {
        self.dtype.number()
    }

    fn root(&self) -> i32 {
        self.seat.root as i32
    }
}

/// Calls a function of the table: `mpi_call!(mpi.allreduce(args...))`.
macro_rules! mpi_call {
    ($mpi:ident . $name:ident ( $($argument:expr),* $(,)? )) => {{
        let api = $mpi.api();
        // SAFETY: the table lives as long as the process; whoever makes a `Run` answers for the
        // addresses, and this thread is the one that started MPI.
        unsafe { (api.$name)(api.world $(, $argument)*) }
    }};
}

pub fn mpi_all_reduce(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv, count) = (run.mpi_send().cast(), run.recv.cast(), run.counts.call);
    mpi_call!(mpi.allreduce(send, recv, count, run.dtype_number(), run.op.0))
}

pub fn mpi_reduce_scatter(mpi: &Mpi, run: &Run) -> i32 {
    // MPI takes the data in place from the receive buffer, which then holds all blocks.
    let recv = if run.in_place {
        run.send.cast_mut()
    } else {
        run.recv
    };
    let (send, recv, count) = (run.mpi_send().cast(), recv.cast(), run.counts.call);
    mpi_call!(mpi.reduce_scatter(send, recv, count, run.dtype_number(), run.op.0))
}

pub fn mpi_reduce(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv) = (run.mpi_send_at_root().cast(), run.recv.cast());
    let (count, dtype, op) = (run.counts.call, run.dtype_number(), run.op.0);
    mpi_call!(mpi.reduce(send, recv, count, dtype, op, run.root()))
}

pub fn mpi_broadcast(mpi: &Mpi, run: &Run) -> i32 {
    let root = run.seat.rank == run.seat.root;
    let buffer = if root { run.send.cast_mut() } else { run.recv };
    mpi_call!(mpi.bcast(
        buffer.cast(),
        run.counts.call,
        run.dtype_number(),
        run.root()
    ))
}

pub fn mpi_all_gather(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv, count) = (run.mpi_send().cast(), run.recv.cast(), run.counts.call);
    mpi_call!(mpi.allgather(send, recv, count, run.dtype_number()))
}

pub fn mpi_all_to_all(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv, count) = (run.send.cast(), run.recv.cast(), run.counts.call);
    mpi_call!(mpi.alltoall(send, recv, count, run.dtype_number()))
}

pub fn mpi_gather(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv) = (run.mpi_send_at_root().cast(), run.recv.cast());
    mpi_call!(mpi.gather(send, recv, run.counts.call, run.dtype_number(), run.root()))
}

pub fn mpi_scatter(mpi: &Mpi, run: &Run) -> i32 {
    let in_place = run.in_place && run.seat.rank == run.seat.root;
    let recv = if in_place {
        IN_PLACE.cast_mut()
    } else {
        run.recv
    };
    let (send, recv) = (run.send.cast(), recv.cast());
    mpi_call!(mpi.scatter(send, recv, run.counts.call, run.dtype_number(), run.root()))
}

pub fn mpi_send_recv(mpi: &Mpi, run: &Run) -> i32 {
    let (next, before) = neighbours(run);
    let (send, recv, count) = (run.send.cast(), run.recv.cast(), run.counts.call);
    let (dtype, next, before) = (run.dtype_number(), next as i32, before as i32);
    mpi_call!(mpi.sendrecv(send, recv, count, dtype, next, before))
}

pub fn mpi_hypercube(mpi: &Mpi, run: &Run) -> i32 {
    let (rank, count) = (run.seat.rank, run.counts.call);
    if !run.in_place {
        let bytes = count * run.dtype.size_bytes();
        let place = run.block(rank as usize);
        // SAFETY: both hold a block (see `Run`), and out of place they are apart.
        unsafe { std::ptr::copy_nonoverlapping(run.send, place, bytes) };
    }
    for (peer, own, theirs, blocks) in hypercube_rounds(rank, run.seat.nranks) {
        let (send, recv) = (run.block(own).cast_const().cast(), run.block(theirs).cast());
        let (count, dtype, peer) = (blocks * count, run.dtype_number(), peer as i32);
        let result = mpi_call!(mpi.sendrecv(send, recv, count, dtype, peer, peer));
        if result != 0 {
            return result;
        }
    }
    0
}

pub fn mpi_barrier(mpi: &Mpi, _: &Run) -> i32 {
    mpi_call!(mpi.barrier())
}
