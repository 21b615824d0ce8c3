//! Content that the receive buffer must have after a call, and counting the elements that are
//! wrong.

use super::engine::{Collective, Content, Piece};
use super::inputs::Inputs;
use super::layout::{self, Counts};
use super::seat::Seat;
use kolo::dtype::known::Pattern;

/// One stretch over all of the buffer.
pub fn whole(counts: &Counts, content: Content) -> Vec<Piece> {
    let length = counts.recv;
    vec![Piece {
        at: 0,
        length,
        content,
    }]
}

/// The reduction of the data of all ranks.
pub fn reduced(seat: &Seat, counts: &Counts, start: usize) -> Vec<Piece> {
    whole(counts, Content::Reduced(seat.nranks, start))
}

/// The reduction of the data of the first ranks; without one, nothing arrives.
pub fn scanned(counts: &Counts, ranks: u32) -> Vec<Piece> {
    match ranks {
        0 => whole(counts, Content::Untouched),
        _ => whole(counts, Content::Reduced(ranks, 0)),
    }
}

/// Blocks of one size, as many as there are ranks: `from` says whose data is in which.
pub fn blocks(counts: &Counts, from: impl Fn(usize) -> Content) -> Vec<Piece> {
    let number = counts.recv.checked_div(counts.call).unwrap_or(0);
    (0..number)
        .map(|block| Piece {
            at: block * counts.call,
            length: counts.call,
            content: from(block),
        })
        .collect()
}

/// Blocks at places of their own, and between them what nobody touches.
pub fn placed(counts: &Counts, from: impl Fn(usize) -> Content) -> Vec<Piece> {
    let layout = &counts.recv_blocks;
    let mut pieces = Vec::new();
    let mut end = 0;
    for (block, (&at, &length)) in layout.places.iter().zip(&layout.counts).enumerate() {
        pieces.push(Piece {
            at: end,
            length: at - end,
            content: Content::Untouched,
        });
        pieces.push(Piece {
            at,
            length,
            content: from(block),
        });
        end = at + length;
    }
    pieces
}

/// Only the root gets something.
pub fn at_root(seat: &Seat, counts: &Counts, pieces: Vec<Piece>) -> Vec<Piece> {
    if seat.is_root() {
        pieces
    } else {
        whole(counts, Content::Untouched)
    }
}

/// Each rank's block for this one, where all ranks send blocks of different sizes.
pub fn exchanged(seat: &Seat, counts: &Counts) -> Vec<Piece> {
    let mine = seat.rank as usize;
    placed(counts, |from| {
        let sent = layout::leaving(counts.size, from, seat.n());
        Content::Input(from as u32, sent.places[mine])
    })
}

/// The block of each neighbour for this rank: the upper one of the rank below, and the lower one of
/// the rank above, which begin at these elements of what they send.
pub fn from_beside(seat: &Seat, [lower, upper]: [usize; 2]) -> impl Fn(usize) -> Content {
    let beside = layout::beside(seat);
    move |block| Content::Input(beside[block], [upper, lower][block])
}

/// The content that the table asks for, with what was there before spelled out: poison, and in
/// place this rank's own data.
fn expected(row: &Collective, seat: &Seat, counts: &Counts, in_place: bool) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for piece in (row.content)(seat, counts) {
        let end = piece.at + piece.length;
        // The own data begins here in the receive buffer, if it is not before it.
        let own = counts.send_at.checked_sub(counts.recv_at);
        let (Some(own), true, Content::Untouched) = (own, in_place, piece.content) else {
            pieces.push(piece);
            continue;
        };
        let from = own.clamp(piece.at, end);
        let to = (own + counts.send).clamp(from, end);
        let kept = Content::Input(seat.rank, from - own.min(from));
        for (at, to, content) in [
            (piece.at, from, Content::Untouched),
            (from, to, kept),
            (to, end, Content::Untouched),
        ] {
            pieces.push(Piece {
                at,
                length: to - at,
                content,
            });
        }
    }
    pieces
}

/// Wrong elements of a call's result. `memory` is the receive buffer (the common one in place) and
/// the guard behind it, all of which was poisoned before the input was written.
pub fn wrong(
    row: &Collective,
    seat: &Seat,
    counts: &Counts,
    in_place: bool,
    data: &Inputs,
    memory: &[u8],
) -> u64 {
    let unit = data.unit();
    let poison = Pattern::poison(unit);
    let (first, end) = if in_place {
        (counts.recv_at, counts.extent())
    } else {
        (0, counts.recv)
    };
    let pieces = expected(row, seat, counts, in_place);
    let inside = pieces.iter().map(|piece| {
        let from = (first + piece.at) * unit;
        let place = &memory[from..from + piece.length * unit];
        let most = |start: usize| start + piece.length;
        match piece.content {
            _ if piece.length == 0 => 0,
            Content::Input(rank, start) => data.input(rank, most(start)).wrong(start, place),
            Content::Reduced(ranks, start) => data.reduced(ranks, most(start)).wrong(start, place),
            Content::Untouched => poison.wrong(0, place),
        }
    });
    inside.sum::<u64>() + poison.wrong(0, &memory[end * unit..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;
    use crate::perf::operation::Operation;
    use crate::perf::rows::COLLECTIVES;
    use kolo::dtype::known::POISON;
    use kolo::dtype::{DataType, ReduceOp};

    fn seats() -> impl Iterator<Item = Seat> {
        [1, 2, 3, 4, 5, 8].into_iter().flat_map(|nranks| {
            [(0, 0), (nranks - 1, 0), (0, nranks - 1)].map(|(rank, root)| Seat {
                rank,
                nranks,
                root,
            })
        })
    }

    #[test]
    fn pieces_tile_the_receive_buffer() {
        for row in COLLECTIVES {
            for (seat, elements) in seats().flat_map(|seat| [(seat, 1), (seat, 1000)]) {
                let counts = (row.counts)(elements, &seat);
                for in_place in [false, row.in_place] {
                    let mut at = 0;
                    for piece in expected(row, &seat, &counts, in_place) {
                        assert_eq!(piece.at, at, "{}", row.name);
                        at += piece.length;
                    }
                    assert_eq!(at, counts.recv, "{}", row.name);
                }
                assert!(counts.send_at + counts.send <= counts.extent());
                assert!(counts.recv_at + counts.recv <= counts.extent());
                assert!(counts.size <= elements, "{}", row.name);
                let most = elements + Counts::most_gaps(seat.nranks);
                assert!(counts.extent() <= most, "{}", row.name);
            }
        }
    }

    /// The memory of a rank after a call that did everything right.
    fn right(row: &Collective, seat: &Seat, counts: &Counts, data: &Inputs) -> Vec<u8> {
        let unit = data.unit();
        let mut memory = vec![POISON; counts.extent() * unit + 64];
        for piece in (row.content)(seat, counts) {
            let place = &mut memory[piece.at * unit..(piece.at + piece.length) * unit];
            let most = |start: usize| start + piece.length;
            match piece.content {
                Content::Input(rank, start) => data.input(rank, most(start)).fill(start, place),
                Content::Reduced(ranks, start) => {
                    data.reduced(ranks, most(start)).fill(start, place);
                }
                Content::Untouched => (),
            }
        }
        memory
    }

    #[test]
    fn one_wrong_byte_is_one_wrong_element() {
        let sum = Operation::Built(ReduceOp::Sum);
        for row in COLLECTIVES.iter().filter(|row| !row.sizeless) {
            for seat in seats() {
                let counts = (row.counts)(67, &seat);
                let op = row.reduces.map(|_| sum);
                let data = Inputs::new(DataType::Int32, op, seat.nranks, 1);
                let wrong = |memory: &[u8]| wrong(row, &seat, &counts, false, &data, memory);
                let mut memory = right(row, &seat, &counts, &data);
                assert_eq!(wrong(&memory), 0, "{}", row.name);
                // In blocks, in the gaps between them, and in the guard behind.
                for at in (0..memory.len()).step_by(5) {
                    memory[at] ^= 0x10;
                    assert_eq!(wrong(&memory), 1, "{} byte {at}", row.name);
                    memory[at] ^= 0x10;
                }
            }
        }
    }

    #[test]
    fn blocks_in_the_wrong_place_are_wrong() {
        let row = names::collective("alltoall_v").expect("it is there");
        let seat = Seat {
            rank: 1,
            nranks: 4,
            root: 0,
        };
        let counts = (row.counts)(400, &seat);
        let data = Inputs::new(DataType::Float64, None, 4, 2);
        let mut memory = right(row, &seat, &counts, &data);
        let layout = &counts.recv_blocks;
        let block = layout.counts.iter().rposition(|&count| count > 0);
        let block = block.expect("one has elements");
        let (from, count) = (layout.places[block] * 8, layout.counts[block]);
        memory.copy_within(from..from + (count - 1) * 8, from + 8);
        let found = wrong(row, &seat, &counts, false, &data, &memory);
        assert_eq!(found, count as u64 - 1);
    }

    #[test]
    fn in_place_the_own_data_stays_where_nothing_arrives() {
        let row = names::collective("exscan").expect("it is there");
        let seat = Seat {
            rank: 0,
            nranks: 2,
            root: 0,
        };
        let counts = (row.counts)(10, &seat);
        let pieces = expected(row, &seat, &counts, true);
        let kept = pieces
            .iter()
            .find(|piece| piece.length > 0)
            .map(|p| p.content);
        assert_eq!(kept, Some(Content::Input(0, 0)));
    }
}
