//! The calls themselves, with kolo; [`super::rival`] has those of MPI.

use super::engine::Run;
use super::layout::{self, Layout};
use kolo::base::Result;
use kolo::comm::{Blocks, Call, Collective, VectorCall, group};

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

    /// A call of kolo whose blocks have sizes of their own, or go along the graph.
    fn vector(&self, collective: Collective, send: Blocks, recv: Blocks) -> Result<()> {
        let call = VectorCall {
            collective,
            send: self.send,
            send_blocks: send,
            recv: self.recv,
            recv_blocks: recv,
            dtype: self.dtype,
            op: self.op,
            root: self.seat.root,
            graph: self.graph,
        };
        // SAFETY: as in `enqueue`.
        unsafe { self.comm.enqueue_vector(&call, self.stream) }
    }

    /// Address of a block of the receive buffer.
    pub fn block(&self, block: usize) -> *mut u8 {
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

pub fn scan(run: &Run) -> Result<()> {
    run.plain(Collective::Scan)
}

pub fn exscan(run: &Run) -> Result<()> {
    run.plain(Collective::Exscan)
}

/// Blocks where the layout has them.
fn placed(layout: &Layout) -> Blocks<'_> {
    Blocks::Placed(&layout.counts, &layout.places)
}

/// The one block that a rank sends, and many that come.
fn gathered(run: &Run, collective: Collective) -> Result<()> {
    let own = Blocks::Equal(run.counts.send);
    run.vector(collective, own, placed(&run.counts.recv_blocks))
}

pub fn all_gather_v(run: &Run) -> Result<()> {
    gathered(run, Collective::AllGatherV)
}

pub fn gather_v(run: &Run) -> Result<()> {
    gathered(run, Collective::GatherV)
}

pub fn scatter_v(run: &Run) -> Result<()> {
    let own = Blocks::Equal(run.counts.recv);
    run.vector(Collective::ScatterV, placed(&run.counts.send_blocks), own)
}

pub fn reduce_scatter_v(run: &Run) -> Result<()> {
    let (all, own) = (&run.counts.send_blocks.counts, run.counts.recv);
    run.vector(
        Collective::ReduceScatterV,
        Blocks::Packed(all),
        Blocks::Equal(own),
    )
}

fn exchanged(run: &Run, collective: Collective) -> Result<()> {
    let (send, recv) = (&run.counts.send_blocks, &run.counts.recv_blocks);
    run.vector(collective, placed(send), placed(recv))
}

pub fn all_to_all_v(run: &Run) -> Result<()> {
    exchanged(run, Collective::AllToAllV)
}

pub fn neighbor_all_gather(run: &Run) -> Result<()> {
    let block = Blocks::Equal(run.counts.call);
    run.vector(Collective::NeighborAllGather, block, block)
}

pub fn neighbor_all_gather_v(run: &Run) -> Result<()> {
    gathered(run, Collective::NeighborAllGatherV)
}

pub fn neighbor_all_to_all(run: &Run) -> Result<()> {
    let block = Blocks::Equal(run.counts.call);
    run.vector(Collective::NeighborAllToAll, block, block)
}

pub fn neighbor_all_to_all_v(run: &Run) -> Result<()> {
    exchanged(run, Collective::NeighborAllToAllV)
}

/// To the next rank, from the one before.
pub fn send_recv(run: &Run) -> Result<()> {
    let [before, next] = layout::beside(&run.seat);
    grouped(|| {
        run.message(true, run.send.cast_mut(), run.counts.call, next)?;
        run.message(false, run.recv, run.counts.call, before)
    })
}

/// Blocks gathered by exchanging twice as many in every round with the peer across the next
/// dimension of a hypercube: (peer, first own block, first block to get, blocks).
pub fn hypercube_rounds(
    rank: u32,
    nranks: u32,
) -> impl Iterator<Item = (u32, usize, usize, usize)> {
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
