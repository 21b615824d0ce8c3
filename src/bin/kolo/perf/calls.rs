//! The calls themselves, with kolo; [`super::rival`] has those of MPI.

use super::engine::Run;
use super::layout::{self, Layout};
use kolo::base::{Error, Result};
use kolo::comm::RawCalls;
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

    /// The collective that is called.
    fn collective(&self) -> Result<Collective> {
        let several = || {
            let remedy = "each of its calls names its own collective";
            Error::usage("a row that is made of several calls is made as one", remedy)
        };
        self.collective.ok_or_else(several)
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
    fn vector(&self, send: Blocks, recv: Blocks) -> Result<()> {
        let call = VectorCall {
            collective: self.collective()?,
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

/// Blocks of one count.
pub fn plain(run: &Run) -> Result<()> {
    run.enqueue(&run.call(run.collective()?))
}

/// Blocks where the layout has them.
fn placed(layout: &Layout) -> Blocks<'_> {
    Blocks::Placed(&layout.counts, &layout.places)
}

/// The one block that a rank sends, and many that come.
pub fn gathered(run: &Run) -> Result<()> {
    let own = Blocks::Equal(run.counts.send);
    run.vector(own, placed(&run.counts.recv_blocks))
}

/// Many blocks that the root sends, and the one that comes.
pub fn scattered(run: &Run) -> Result<()> {
    let own = Blocks::Equal(run.counts.recv);
    run.vector(placed(&run.counts.send_blocks), own)
}

/// Many blocks one behind the other, and the own one of their fold.
pub fn packed(run: &Run) -> Result<()> {
    let (all, own) = (&run.counts.send_blocks.counts, run.counts.recv);
    run.vector(Blocks::Packed(all), Blocks::Equal(own))
}

/// Many blocks, both ways.
pub fn exchanged(run: &Run) -> Result<()> {
    let (send, recv) = (&run.counts.send_blocks, &run.counts.recv_blocks);
    run.vector(placed(send), placed(recv))
}

/// Blocks of one size along the graph.
pub fn equal(run: &Run) -> Result<()> {
    let block = Blocks::Equal(run.counts.call);
    run.vector(block, block)
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
