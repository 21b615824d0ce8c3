//! The calls themselves, with kolo; [`super::rival`] has those of MPI.

use super::engine::Run;
use super::layout::{self, Layout};
use kolo::base::Result;
use kolo::comm::{Blocks, group};

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
