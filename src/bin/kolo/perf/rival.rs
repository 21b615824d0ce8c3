//! The calls with MPI, for `--compare mpi`. What MPI cannot do is [`MPI_NOT_SUPPORTED`].

use super::calls::hypercube_rounds;
use super::engine::Run;
use super::layout;
use crate::launcher::Mpi;
use kolo::bootstrap::mpi_abi::MPI_NOT_SUPPORTED;

/// The null pointer that stands for MPI_IN_PLACE.
const IN_PLACE: *const u8 = std::ptr::null();

fn mpi_send(run: &Run) -> *const u8 {
    if run.in_place { IN_PLACE } else { run.send }
}

fn mpi_send_at_root(run: &Run) -> *const u8 {
    let here = run.seat.rank == run.seat.root;
    if here { mpi_send(run) } else { run.send }
}

fn mpi_recv_at_root(run: &Run) -> *mut u8 {
    if run.in_place && run.seat.is_root() {
        IN_PLACE.cast_mut()
    } else {
        run.recv
    }
}

/// Where MPI puts a block of the reduction: in place it takes the data from the receive
/// buffer, which then holds all blocks.
fn mpi_scattered(run: &Run) -> *mut u8 {
    if run.in_place {
        run.send.cast_mut()
    } else {
        run.recv
    }
}

fn dtype_number(run: &Run) -> i32 {
    run.dtype.number()
}

fn root(run: &Run) -> i32 {
    run.seat.root as i32
}

/// Calls a function of the table: `mpi_call!(mpi.allreduce(args...))` among all ranks, and
/// `mpi_call!(mpi on ring.neighbor_allgather(args...))` on another communicator.
macro_rules! mpi_call {
    ($mpi:ident . $name:ident ( $($argument:expr),* $(,)? )) => {{
        let world = $mpi.api().world;
        mpi_call!($mpi on world.$name($($argument),*))
    }};
    ($mpi:ident on $comm:ident . $name:ident ( $($argument:expr),* $(,)? )) => {{
        let api = $mpi.api();
        // SAFETY: the table lives as long as the process; whoever makes a `Run` answers for the
        // addresses, and this thread is the one that started MPI.
        unsafe { (api.$name)($comm $(, $argument)*) }
    }};
}

/// Counts and places of blocks, as MPI takes them; without them the function that uses this ends.
macro_rules! ints {
    ($layout:expr) => {
        match $layout.ints() {
            Some((counts, places)) => (counts.as_ptr(), places.as_ptr()),
            None => return MPI_NOT_SUPPORTED,
        }
    };
}

/// The communicator of the ring, or its error ends the function that uses this.
macro_rules! ring {
    ($mpi:ident) => {
        match $mpi.ring() {
            Ok(ring) => ring,
            Err(code) => return code,
        }
    };
}

pub fn all_reduce(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv, count) = (mpi_send(run).cast(), run.recv.cast(), run.counts.call);
    mpi_call!(mpi.allreduce(send, recv, count, dtype_number(run), run.op.0))
}

pub fn reduce_scatter(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv, count) = (
        mpi_send(run).cast(),
        mpi_scattered(run).cast(),
        run.counts.call,
    );
    mpi_call!(mpi.reduce_scatter(send, recv, count, dtype_number(run), run.op.0))
}

pub fn reduce(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv) = (mpi_send_at_root(run).cast(), run.recv.cast());
    let (count, dtype, op) = (run.counts.call, dtype_number(run), run.op.0);
    mpi_call!(mpi.reduce(send, recv, count, dtype, op, root(run)))
}

pub fn broadcast(mpi: &Mpi, run: &Run) -> i32 {
    let is_root = run.seat.rank == run.seat.root;
    let buffer = if is_root {
        run.send.cast_mut()
    } else {
        run.recv
    };
    mpi_call!(mpi.bcast(buffer.cast(), run.counts.call, dtype_number(run), root(run)))
}

pub fn all_gather(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv, count) = (mpi_send(run).cast(), run.recv.cast(), run.counts.call);
    mpi_call!(mpi.allgather(send, recv, count, dtype_number(run)))
}

pub fn all_to_all(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv, count) = (run.send.cast(), run.recv.cast(), run.counts.call);
    mpi_call!(mpi.alltoall(send, recv, count, dtype_number(run)))
}

pub fn gather(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv) = (mpi_send_at_root(run).cast(), run.recv.cast());
    mpi_call!(mpi.gather(send, recv, run.counts.call, dtype_number(run), root(run)))
}

pub fn scatter(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv) = (run.send.cast(), mpi_recv_at_root(run).cast());
    mpi_call!(mpi.scatter(send, recv, run.counts.call, dtype_number(run), root(run)))
}

pub fn send_recv(mpi: &Mpi, run: &Run) -> i32 {
    let [before, next] = layout::beside(&run.seat);
    let (send, recv, count) = (run.send.cast(), run.recv.cast(), run.counts.call);
    let (dtype, next, before) = (dtype_number(run), next as i32, before as i32);
    mpi_call!(mpi.sendrecv(send, recv, count, dtype, next, before))
}

pub fn hypercube(mpi: &Mpi, run: &Run) -> i32 {
    let (rank, count) = (run.seat.rank, run.counts.call);
    if !run.in_place {
        let bytes = count * run.dtype.size_bytes();
        let place = run.block(rank as usize);
        // SAFETY: both hold a block (see `Run`), and out of place they are apart.
        unsafe { std::ptr::copy_nonoverlapping(run.send, place, bytes) };
    }
    for (peer, own, theirs, blocks) in hypercube_rounds(rank, run.seat.nranks) {
        let (send, recv) = (run.block(own).cast_const().cast(), run.block(theirs).cast());
        let (count, dtype, peer) = (blocks * count, dtype_number(run), peer as i32);
        let result = mpi_call!(mpi.sendrecv(send, recv, count, dtype, peer, peer));
        if result != 0 {
            return result;
        }
    }
    0
}

pub fn scan(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv, count) = (mpi_send(run).cast(), run.recv.cast(), run.counts.call);
    mpi_call!(mpi.scan(send, recv, count, dtype_number(run), run.op.0))
}

pub fn exscan(mpi: &Mpi, run: &Run) -> i32 {
    let (send, recv, count) = (mpi_send(run).cast(), run.recv.cast(), run.counts.call);
    mpi_call!(mpi.exscan(send, recv, count, dtype_number(run), run.op.0))
}

pub fn all_gather_v(mpi: &Mpi, run: &Run) -> i32 {
    let (counts, places) = ints!(run.counts.recv_blocks);
    let (send, recv, count) = (mpi_send(run).cast(), run.recv.cast(), run.counts.send);
    mpi_call!(mpi.allgatherv(send, count, recv, counts, places, dtype_number(run)))
}

pub fn gather_v(mpi: &Mpi, run: &Run) -> i32 {
    let (counts, places) = ints!(run.counts.recv_blocks);
    let (send, recv) = (mpi_send_at_root(run).cast(), run.recv.cast());
    let (count, dtype, root) = (run.counts.send, dtype_number(run), root(run));
    mpi_call!(mpi.gatherv(send, count, recv, counts, places, dtype, root))
}

pub fn scatter_v(mpi: &Mpi, run: &Run) -> i32 {
    let (counts, places) = ints!(run.counts.send_blocks);
    let (send, recv) = (run.send.cast(), mpi_recv_at_root(run).cast());
    let (count, dtype, root) = (run.counts.recv, dtype_number(run), root(run));
    mpi_call!(mpi.scatterv(send, counts, places, recv, count, dtype, root))
}

pub fn reduce_scatter_v(mpi: &Mpi, run: &Run) -> i32 {
    let (counts, _) = ints!(run.counts.send_blocks);
    let (send, recv) = (mpi_send(run).cast(), mpi_scattered(run).cast());
    mpi_call!(mpi.reduce_scatter_v(send, recv, counts, dtype_number(run), run.op.0))
}

pub fn all_to_all_v(mpi: &Mpi, run: &Run) -> i32 {
    let (sizes, from) = ints!(run.counts.send_blocks);
    let (counts, places) = ints!(run.counts.recv_blocks);
    let (send, recv, dtype) = (run.send.cast(), run.recv.cast(), dtype_number(run));
    mpi_call!(mpi.alltoallv(send, sizes, from, recv, counts, places, dtype))
}

pub fn neighbor_all_gather(mpi: &Mpi, run: &Run) -> i32 {
    let ring = ring!(mpi);
    let (send, recv, count) = (run.send.cast(), run.recv.cast(), run.counts.call);
    mpi_call!(mpi on ring.neighbor_allgather(send, recv, count, dtype_number(run)))
}

pub fn neighbor_all_gather_v(mpi: &Mpi, run: &Run) -> i32 {
    let ring = ring!(mpi);
    let (counts, places) = ints!(run.counts.recv_blocks);
    let (send, recv, count) = (run.send.cast(), run.recv.cast(), run.counts.send);
    let dtype = dtype_number(run);
    mpi_call!(mpi on ring.neighbor_allgatherv(send, count, recv, counts, places, dtype))
}

pub fn neighbor_all_to_all(mpi: &Mpi, run: &Run) -> i32 {
    let ring = ring!(mpi);
    let (send, recv, count) = (run.send.cast(), run.recv.cast(), run.counts.call);
    mpi_call!(mpi on ring.neighbor_alltoall(send, recv, count, dtype_number(run)))
}

pub fn neighbor_all_to_all_v(mpi: &Mpi, run: &Run) -> i32 {
    let ring = ring!(mpi);
    let (sizes, from) = ints!(run.counts.send_blocks);
    let (counts, places) = ints!(run.counts.recv_blocks);
    let (send, recv, dtype) = (run.send.cast(), run.recv.cast(), dtype_number(run));
    mpi_call!(mpi on ring.neighbor_alltoallv(send, sizes, from, recv, counts, places, dtype))
}

pub fn barrier(mpi: &Mpi, _: &Run) -> i32 {
    mpi_call!(mpi.barrier())
}
