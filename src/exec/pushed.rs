//! The bytes of receive buffers into which peers write.
//!
//! **Problem.** When a communicator stops, the owner of a buffer puts private pages, with the same
//! content, in the place of those into which a peer may still be writing
//! (`take_back` in `src/transport/memory.rs`). So nobody else may use such a page meanwhile: not
//! other threads of the program, which keep data of their own there, nor a device.
//!
//! **Idea.** Peers write whole pages only, in which nothing lies but blocks of others; what is
//! before and behind them is pulled. A block is written at the same places into all buffers, so
//! what all ranks allow is common to them. Blocks of an all-gather have one writer each; the
//! results of the other collectives are one block, which is no input any more when it is written.

use crate::exec::order::LaunchOrder;
use crate::exec::reach::Pushed;
use crate::plan::{Collective, Shape};
use std::ops::Range;

/// Addresses of the first byte, and bytes, before and behind a rank's own block.
pub type Exposed = [(usize, usize); 2];

/// How a receive buffer consists of blocks.
fn blocks(order: &LaunchOrder) -> (usize, usize) {
    match order.shape.collective {
        Collective::AllGather => (order.bytes(), order.shape.nranks as usize),
        _ => (order.bytes(), 1),
    }
}

/// Ranks that are threads of one process write into all of each other's buffers.
pub fn everything(order: &LaunchOrder) -> Pushed {
    let bytes = order.buffer_bytes(0).1;
    Pushed {
        block_bytes: bytes,
        parts: std::iter::once(0..bytes).collect(),
        is_all: bytes > 0,
    }
}

/// Memory that peers write where the receive buffers of the ranks begin at `starts`, in whole pages
/// of `page` bytes. Pure in what all ranks know.
pub fn common(order: &LaunchOrder, starts: &[usize], page: usize) -> Pushed {
    let (block, count) = blocks(order);
    if starts.is_empty() || block == 0 {
        return Pushed::nothing();
    }
    let mut whole = 0..block * count;
    for start in starts {
        let pages = whole_pages(*start, block * count, page);
        whole = whole.start.max(pages.start)..whole.end.min(pages.end);
    }
    let inside = |one: Range<usize>| one.start.max(whole.start)..one.end.min(whole.end);
    let mut parts: Vec<Range<usize>> = (0..count)
        .map(|at| inside(at * block..(at + 1) * block))
        .collect();
    if count > 1 {
        for (rank, start) in starts.iter().enumerate() {
            keep_off(&mut parts, (rank, *start), block, page);
        }
    }
    for part in &mut parts {
        if part.start >= part.end {
            *part = 0..0;
        }
    }
    let all = |(at, part): (usize, &Range<usize>)| *part == (at * block..(at + 1) * block);
    Pushed {
        block_bytes: block,
        is_all: parts.iter().enumerate().all(all),
        parts,
    }
}

/// Cuts off the blocks of others what shares a page with the own block of a rank.
fn keep_off(parts: &mut [Range<usize>], (rank, start): (usize, usize), block: usize, page: usize) {
    let own = rank * block..(rank + 1) * block;
    let first = (start + own.start) / page * page;
    let behind = (start + own.end).next_multiple_of(page);
    let reach = page.div_ceil(block);
    for part in &mut parts[rank.saturating_sub(reach)..rank] {
        part.end = part.end.min(first.saturating_sub(start));
    }
    for part in parts.iter_mut().skip(rank + 1).take(reach) {
        part.start = part.start.max(behind - start);
    }
}

/// The whole pages of a buffer, from its start.
fn whole_pages(start: usize, bytes: usize, page: usize) -> Range<usize> {
    let first = start.next_multiple_of(page) - start;
    let end = ((start + bytes) / page * page).saturating_sub(start);
    first..end.max(first)
}

/// The whole pages of this rank's receive buffer into which peers may write, any of which
/// [`common`] may name. Where ranks are threads of one process that is more than pages, and nothing
/// is taken back. Nothing where the rank receives nothing.
pub fn exposed(order: &LaunchOrder, page: usize) -> Option<Exposed> {
    let Shape { rank, root, .. } = order.shape;
    let bytes = order.buffer_bytes(rank).1;
    if bytes == 0 {
        return None;
    }
    let start = order.recv.expose_provenance();
    let (block, count) = blocks(order);
    let own = match order.shape.collective {
        Collective::Broadcast if root == rank => 0..bytes,
        _ if count == 1 => 0..0,
        _ => rank as usize * block..(rank as usize + 1) * block,
    };
    let around = [0..own.start, own.end..bytes];
    Some(around.map(|part| {
        let pages = whole_pages(start + part.start, part.len(), page);
        (start + part.start + pages.start, pages.len())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Algorithm;

    const PAGE: usize = 4096;

    /// A call of one rank of some, whose root is rank 0, with blocks of so many bytes.
    fn order(collective: Collective, ranks: [u32; 2], recv: usize, block: usize) -> LaunchOrder {
        let [rank, nranks] = ranks;
        let shape = Shape {
            collective,
            algorithm: Algorithm::TwoShot,
            rank,
            nranks,
            root: 0,
            channels: 1,
        };
        let recv = std::ptr::with_exposed_provenance_mut(recv);
        LaunchOrder::of_bytes(shape, std::ptr::null(), recv, block)
    }

    #[test]
    fn peers_write_whole_pages_of_each_buffer() {
        let page = PAGE;
        let bytes = 10 * page;
        let pushed = |a: usize, b: usize| {
            let pushed = common(
                &order(Collective::AllReduce, [0, 2], a, bytes),
                &[a, b],
                page,
            );
            (pushed.around(5), pushed.is_all)
        };
        assert_eq!(pushed(7 * page, 90 * page), (0..bytes, true));
        // One begins 8 bytes into a page, the other 8 bytes before the end of one.
        let part = page - 8..10 * page - 8;
        assert_eq!(pushed(7 * page + 8, 90 * page), (part, false));
        let part = page - 8..9 * page + 8;
        assert_eq!(pushed(7 * page + 8, 90 * page - 8), (part, false));
        let short = order(Collective::AllReduce, [0, 2], page + 1, page);
        assert_eq!(
            common(&short, &[page + 1, page], page).around(0),
            0..0,
            "no whole page"
        );
        assert_eq!(common(&short, &[], page), Pushed::nothing());
        assert_eq!(everything(&short).around(9), 0..page);
    }

    /// All that peers write is exposed, and no exposed page holds a byte of the own block.
    #[test]
    fn own_blocks_are_never_exposed_wherever_buffers_begin() {
        let page = PAGE;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes_pushed = 0;
        for _ in 0..2000 {
            let ranks = random.usize(2..6);
            let block = match random.u8(..4) {
                0 => random.usize(1..page),
                1 => random.usize(1..4) * page,
                _ => random.usize(1..5 * page),
            };
            let place = |random: &mut fastrand::Rng| match random.bool() {
                true => random.usize(1..9) * page,
                false => random.usize(page..9 * page),
            };
            let starts: Vec<usize> = (0..ranks).map(|_| place(&mut random)).collect();
            let call = |rank: usize| {
                let at = [rank as u32, ranks as u32];
                order(Collective::AllGather, at, starts[rank], block)
            };
            let pushed = common(&call(0), &starts, page);
            for (rank, start) in starts.iter().enumerate() {
                let own = start + rank * block..start + (rank + 1) * block;
                let all = *start..start + ranks * block;
                let parts = exposed(&call(rank), page).unwrap();
                for (from, bytes) in parts.into_iter().filter(|part| part.1 > 0) {
                    assert!(from % page == 0 && bytes % page == 0);
                    assert!(
                        all.start <= from && from + bytes <= all.end,
                        "{from} {all:?}"
                    );
                    assert!(
                        from + bytes <= own.start || own.end <= from,
                        "{from} {own:?}"
                    );
                }
                for writer in (0..ranks).filter(|&writer| writer != rank) {
                    let written = pushed.around(writer * block);
                    let inside =
                        writer * block <= written.start && written.end <= (writer + 1) * block;
                    assert!(written.is_empty() || inside, "{written:?}");
                    bytes_pushed += written.len();
                    let (from, to) = (start + written.start, start + written.end);
                    let holds = |part: &(usize, usize)| part.0 <= from && to <= part.0 + part.1;
                    assert!(
                        written.is_empty() || parts.iter().any(holds),
                        "{written:?} {parts:?}"
                    );
                }
            }
        }
        assert!(bytes_pushed > 1000 * page, "{bytes_pushed}");
    }

    #[test]
    fn a_root_has_nothing_to_lose() {
        let page = PAGE;
        let call = |rank| order(Collective::Broadcast, [rank, 2], 3 * page, 5 * page);
        let bytes = |rank| exposed(&call(rank), page).unwrap().map(|part| part.1);
        assert_eq!((bytes(0), bytes(1)), ([0, 0], [0, 5 * page]));
    }
}
