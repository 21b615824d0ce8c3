//! How many elements the buffers of a call hold, and where its blocks lie in them.
//!
//! **Blocks of different sizes.** The sizes follow from (block, number of blocks, elements): the
//! weights [`WEIGHTS`] in turn, of which one is zero, so that from three blocks on some are empty.
//! Together they have all elements, so a size means the same as for blocks of one size. Where a
//! call takes places, [`GAP`] elements lie between a block and the next one, which nobody may
//! touch. Sizes are those of the pair (sender, receiver) alone, so every rank knows all of them.

use super::seat::Seat;

/// Sizes of blocks relative to each other, repeated for more blocks.
const WEIGHTS: [usize; 4] = [7, 5, 0, 3];
/// Elements between two blocks that have places of their own.
pub const GAP: usize = 3;
/// Blocks along a graph: the ring has a rank below and one above.
const BESIDE: usize = 2;

/// Blocks of one side of a call, in elements from the start of its buffer. Empty where the call
/// has blocks of one size.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Elements of each block.
    pub counts: Vec<usize>,
    /// First element of each block.
    pub places: Vec<usize>,
    /// Counts and places as MPI takes them, if they fit.
    ints: Option<[Vec<i32>; 2]>,
}

impl Layout {
    /// Blocks of these sizes, `gap` elements apart.
    fn new(counts: Vec<usize>, gap: usize) -> Layout {
        let places: Vec<usize> = counts
            .iter()
            .scan(0, |next, count| {
                let place = *next;
                *next += count + gap;
                Some(place)
            })
            .collect();
        let ints = |numbers: &[usize]| -> Option<Vec<i32>> {
            let converted = numbers.iter().map(|&number| i32::try_from(number).ok());
            converted.collect()
        };
        Layout {
            ints: ints(&counts).zip(ints(&places)).map(|(a, b)| [a, b]),
            counts,
            places,
        }
    }

    /// Where the last block ends.
    pub fn end(&self) -> usize {
        let last = self.places.last().zip(self.counts.last());
        last.map_or(0, |(place, count)| place + count)
    }

    /// Counts and places as MPI takes them; `None` beyond its numbers.
    pub fn ints(&self) -> Option<(&[i32], &[i32])> {
        let [counts, places] = self.ints.as_ref()?;
        Some((counts, places))
    }
}

/// Elements of the buffers of one rank.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Count that the call takes, or all elements of blocks of different sizes.
    pub call: usize,
    /// Elements that the call is about: the size that the table shows.
    pub size: usize,
    /// Elements of the send buffer, from its first block to its last.
    pub send: usize,
    /// Elements of the receive buffer, likewise.
    pub recv: usize,
    /// In place, where the send buffer begins in the common one.
    pub send_at: usize,
    /// In place, where the receive buffer begins in the common one.
    pub recv_at: usize,
    /// Blocks of different sizes in the send buffer.
    pub send_blocks: Layout,
    /// Blocks of different sizes in the receive buffer.
    pub recv_blocks: Layout,
}

impl Counts {
    /// Elements of the larger buffer, which is the common one in place.
    pub fn extent(&self) -> usize {
        self.send.max(self.recv)
    }

    /// Elements of a call of so many ranks that are in no block.
    pub fn most_gaps(nranks: u32) -> usize {
        (nranks as usize).max(BESIDE) * GAP
    }

    fn sized(self) -> Counts {
        Counts {
            size: self.extent(),
            ..self
        }
    }
}

/// Nothing is moved.
pub fn nothing(_: usize, _: &Seat) -> Counts {
    Counts::default()
}

/// Both buffers hold the same number of elements.
pub fn equal(elements: usize, _: &Seat) -> Counts {
    Counts {
        call: elements,
        send: elements,
        recv: elements,
        ..Counts::default()
    }
    .sized()
}

/// One block of every rank arrives.
pub fn gathering(elements: usize, seat: &Seat) -> Counts {
    let block = elements / seat.n();
    Counts {
        call: block,
        send: block,
        recv: block * seat.n(),
        send_at: block * seat.rank as usize,
        ..Counts::default()
    }
    .sized()
}

/// One block for every rank leaves.
pub fn scattering(elements: usize, seat: &Seat) -> Counts {
    let block = elements / seat.n();
    Counts {
        call: block,
        send: block * seat.n(),
        recv: block,
        recv_at: block * seat.rank as usize,
        ..Counts::default()
    }
    .sized()
}

/// One block for every rank leaves, and one of every rank arrives.
pub fn exchanging(elements: usize, seat: &Seat) -> Counts {
    exchange(elements / seat.n(), seat.n())
}

fn exchange(block: usize, blocks: usize) -> Counts {
    Counts {
        call: block,
        send: block * blocks,
        recv: block * blocks,
        ..Counts::default()
    }
    .sized()
}

/// Sizes of blocks that have all elements together. What division leaves is block 0's.
fn sizes(elements: usize, blocks: usize) -> Vec<usize> {
    let weight = |block: usize| WEIGHTS[block % WEIGHTS.len()];
    let all: usize = (0..blocks).map(weight).sum();
    let mut sizes: Vec<usize> = (0..blocks).map(|b| elements * weight(b) / all).collect();
    sizes[0] += elements - sizes.iter().sum::<usize>();
    sizes
}

/// [`gathering`] blocks of different sizes: block r is that of rank r.
pub fn gathering_v(elements: usize, seat: &Seat) -> Counts {
    let blocks = Layout::new(sizes(elements, seat.n()), GAP);
    let mine = seat.rank as usize;
    Counts {
        call: elements,
        size: elements,
        send: blocks.counts[mine],
        recv: blocks.end(),
        send_at: blocks.places[mine],
        recv_blocks: blocks,
        ..Counts::default()
    }
}

/// [`scattering`] blocks of different sizes: block r is for rank r.
pub fn scattering_v(elements: usize, seat: &Seat) -> Counts {
    scattered(elements, seat, GAP)
}

/// [`scattering_v`] where one block follows the other, because the call takes no places.
pub fn reduce_scattering_v(elements: usize, seat: &Seat) -> Counts {
    scattered(elements, seat, 0)
}

fn scattered(elements: usize, seat: &Seat, gap: usize) -> Counts {
    let blocks = Layout::new(sizes(elements, seat.n()), gap);
    let mine = seat.rank as usize;
    Counts {
        call: elements,
        size: elements,
        send: blocks.end(),
        recv: blocks.counts[mine],
        recv_at: blocks.places[mine],
        send_blocks: blocks,
        ..Counts::default()
    }
}

/// Which size the block from one rank to another one has: the distance counts, so that all ranks
/// send and receive equally much, but not the same there and back.
fn distance(from: usize, to: usize, n: usize) -> usize {
    (to + n - from + n - 1) % n
}

/// The blocks that a rank sends in [`exchanging_v`].
pub fn leaving(elements: usize, from: usize, n: usize) -> Layout {
    let sizes = sizes(elements, n);
    let block = |to| sizes[distance(from, to, n)];
    Layout::new((0..n).map(block).collect(), GAP)
}

/// [`exchanging`] blocks of different sizes.
pub fn exchanging_v(elements: usize, seat: &Seat) -> Counts {
    let (mine, n) = (seat.rank as usize, seat.n());
    let sizes = sizes(elements, n);
    let arriving = (0..n).map(|from| sizes[distance(from, mine, n)]).collect();
    let (send_blocks, recv_blocks) = (leaving(elements, mine, n), Layout::new(arriving, GAP));
    Counts {
        call: elements,
        size: elements,
        send: send_blocks.end(),
        recv: recv_blocks.end(),
        send_blocks,
        recv_blocks,
        ..Counts::default()
    }
}

/// The ranks below and above on the ring.
pub fn beside(seat: &Seat) -> [u32; BESIDE] {
    let (rank, n) = (seat.rank, seat.nranks);
    [(rank + n - 1) % n, (rank + 1) % n]
}

/// A block of each neighbour arrives.
pub fn gathering_beside(elements: usize, _: &Seat) -> Counts {
    let block = elements / BESIDE;
    Counts {
        call: block,
        send: block,
        recv: block * BESIDE,
        ..Counts::default()
    }
    .sized()
}

/// Every neighbour sends a block and gets one.
pub fn exchanging_beside(elements: usize, _: &Seat) -> Counts {
    exchange(elements / BESIDE, BESIDE)
}

/// [`gathering_beside`] blocks of different sizes. The size is that of the rank that gets most.
pub fn gathering_beside_v(elements: usize, seat: &Seat) -> Counts {
    // At most half of the elements, so that two blocks of any ranks have room.
    let of = |rank: u32| {
        let weight = WEIGHTS[rank as usize % WEIGHTS.len()];
        (elements / BESIDE * weight).div_ceil(WEIGHTS[0])
    };
    let arriving = |rank: u32| beside(&Seat { rank, ..*seat }).map(of);
    let sum = |rank: u32| arriving(rank).iter().sum();
    let blocks = Layout::new(arriving(seat.rank).to_vec(), GAP);
    let size = (0..seat.nranks.min(2 * WEIGHTS.len() as u32))
        .map(sum)
        .max();
    let last = sum(seat.nranks - 1);
    Counts {
        call: of(seat.rank),
        size: size.unwrap_or(0).max(last),
        send: of(seat.rank),
        recv: blocks.end(),
        recv_blocks: blocks,
        ..Counts::default()
    }
}

/// The blocks that a rank sends to its neighbours in [`exchanging_beside_v`].
pub fn leaving_beside(elements: usize) -> Layout {
    Layout::new(sizes(elements, BESIDE), GAP)
}

/// [`exchanging_beside`] blocks of different sizes: what goes down is larger than what goes up.
pub fn exchanging_beside_v(elements: usize, _: &Seat) -> Counts {
    let send_blocks = leaving_beside(elements);
    let arriving = send_blocks.counts.iter().rev().copied().collect();
    let recv_blocks = Layout::new(arriving, GAP);
    Counts {
        call: elements,
        size: elements,
        send: send_blocks.end(),
        recv: recv_blocks.end(),
        send_blocks,
        recv_blocks,
        ..Counts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_differ_have_all_elements_and_some_are_empty() {
        for blocks in 1..20 {
            for elements in [0, 1, 2, 17, 1000, 12345] {
                let sizes = sizes(elements, blocks);
                assert_eq!(sizes.iter().sum::<usize>(), elements);
                if blocks > 2 {
                    assert!(sizes.contains(&0), "{sizes:?}");
                }
                if blocks > 1 && elements > 100 {
                    assert_ne!(sizes[0], sizes[1]);
                }
            }
        }
        let layout = Layout::new(vec![4, 0, 2], GAP);
        assert_eq!(layout.places, [0, 7, 10]);
        assert_eq!(layout.end(), 12);
        assert_eq!(Layout::default().end(), 0);
        assert!(Layout::new(vec![1 << 31], 0).ints().is_none());
    }

    #[test]
    fn what_one_rank_sends_another_one_expects() {
        for nranks in 1..9u32 {
            let seat = |rank| Seat {
                rank,
                nranks,
                root: 0,
            };
            for from in 0..nranks {
                let sent = exchanging_v(1001, &seat(from)).send_blocks;
                let sum: usize = sent.counts.iter().sum();
                assert_eq!(sum, 1001);
                for to in 0..nranks {
                    let received = exchanging_v(1001, &seat(to)).recv_blocks;
                    assert_eq!(sent.counts[to as usize], received.counts[from as usize]);
                }
                let [below, above] = beside(&seat(from)).map(seat);
                let own = gathering_beside_v(1001, &seat(from));
                let expects = |seat| gathering_beside_v(1001, &seat).recv_blocks.counts;
                assert_eq!([expects(below)[1], expects(above)[0]], [own.send; 2]);
                let exchanged = exchanging_beside_v(1001, &seat(from));
                let [down, up] = [0, 1].map(|block| exchanged.send_blocks.counts[block]);
                assert_eq!(exchanged.recv_blocks.counts, [up, down]);
                assert!(own.recv <= own.size + GAP && own.size <= 1001);
            }
        }
    }
}
