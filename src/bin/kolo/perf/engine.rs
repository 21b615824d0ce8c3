//! The table of collectives that can be measured: everything that differs between them.
//!
//! A row of [`COLLECTIVES`] says how many elements the buffers hold, how data lies in them, what
//! must be in the receive buffer afterwards, how fast "busy" is, and how to run the call with kolo
//! and with MPI. Nothing outside this file and `calls.rs` knows a collective by name.

use super::calls;
use crate::launcher::Mpi;
use kolo::base::Result;
use kolo::comm::{Communicator, RedOp, Stream};
use kolo::dtype::DataType;

/// Elements of the buffers of one rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// What the call takes as its count.
    pub call: usize,
    /// Elements of the send buffer.
    pub send: usize,
    /// Elements of the receive buffer.
    pub recv: usize,
    /// In place, the send buffer begins at rank times this in the common one.
    pub send_place: usize,
    /// In place, the receive buffer begins at rank times this in the common one.
    pub recv_place: usize,
}

impl Counts {
    /// Elements of the larger buffer: the size of the call.
    pub fn size(&self) -> usize {
        self.send.max(self.recv)
    }
}

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// This rank.
    pub rank: u32,
    /// Ranks.
    pub nranks: u32,
    /// The root, where there is one.
    pub root: u32,
}

impl Seat {
    fn n(&self) -> usize {
        self.nranks as usize
    }

    fn is_root(&self) -> bool {
        self.rank == self.root
    }
}

/// What a stretch of the receive buffer must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Data of a rank, from this element of its send buffer on.
    Input(u32, usize),
    /// The reduction of all ranks' data, from this element on.
    Reduced(usize),
    /// What was there before.
    Untouched,
}

/// A stretch of elements of the receive buffer.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// First element.
    pub at: usize,
    /// Elements.
    pub length: usize,
    /// What they must be.
    pub content: Content,
}

/// One call to run, with addresses that hold what the counts say.
pub struct Run<'a> {
    /// kolo.
    pub comm: &'a Communicator,
    /// Absent: the call blocks.
    pub stream: Option<&'a Stream>,
    /// Where data is.
    pub send: *const u8,
    /// Where data goes.
    pub recv: *mut u8,
    /// Elements.
    pub counts: Counts,
    /// Their type.
    pub dtype: DataType,
    /// The operation, where the call reduces.
    pub op: RedOp,
    /// Who calls.
    pub seat: Seat,
    /// Whether the buffers are one.
    pub in_place: bool,
}

/// Fills in [`Counts`] for data of so many elements.
type CountsFn = fn(usize, usize) -> Counts;
/// The content of the receive buffer after the call.
type ContentFn = fn(&Seat, &Counts) -> Vec<Piece>;

impl std::fmt::Debug for Collective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// One collective.
pub struct Collective {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its operation is chosen with `-o`.
    pub reduces: bool,
    /// It has a root.
    pub rooted: bool,
    /// Whether it may be called in place.
    pub in_place: bool,
    /// It moves no data.
    pub sizeless: bool,
    /// It needs 1, 2, 4, 8, ... ranks, and consists of calls that follow each other.
    pub power_of_two: bool,
    /// Elements from (elements of the data, ranks).
    pub counts: CountsFn,
    /// Expected content.
    pub content: ContentFn,
    /// Factor from algorithm to bus bandwidth.
    pub busy: fn(f64) -> f64,
    /// Makes the call.
    pub run: fn(&Run) -> Result<()>,
    /// Makes MPI's call; the result is MPI's.
    pub mpi: fn(&Mpi, &Run) -> i32,
}

/// Both buffers hold the same number of elements.
fn equal(elements: usize, _: usize) -> Counts {
    Counts {
        call: elements,
        send: elements,
        recv: elements,
        ..Counts::default()
    }
}

/// One block of every rank arrives.
fn gathering(elements: usize, nranks: usize) -> Counts {
    let block = elements / nranks;
    Counts {
        call: block,
        send: block,
        recv: block * nranks,
        send_place: block,
        recv_place: 0,
    }
}

/// One block for every rank leaves.
fn scattering(elements: usize, nranks: usize) -> Counts {
    let block = elements / nranks;
    Counts {
        call: block,
        send: block * nranks,
        recv: block,
        send_place: 0,
        recv_place: block,
    }
}

fn exchanging(elements: usize, nranks: usize) -> Counts {
    let block = elements / nranks;
    Counts {
        call: block,
        send: block * nranks,
        recv: block * nranks,
        ..Counts::default()
    }
}

fn whole(counts: &Counts, content: Content) -> Vec<Piece> {
    let length = counts.recv;
    vec![Piece {
        at: 0,
        length,
        content,
    }]
}

/// Block r of the receive buffer from rank r.
fn blocks(seat: &Seat, counts: &Counts, start: impl Fn(&Counts) -> usize) -> Vec<Piece> {
    (0..seat.n())
        .map(|rank| Piece {
            at: rank * counts.call,
            length: counts.call,
            content: Content::Input(rank as u32, start(counts)),
        })
        .collect()
}

fn at_root(seat: &Seat, counts: &Counts, pieces: Vec<Piece>) -> Vec<Piece> {
    match seat.is_root() {
        true => pieces,
        false => whole(counts, Content::Untouched),
    }
}

fn each_block(nranks: f64) -> f64 {
    (nranks - 1.0) / nranks
}

/// All collectives, in the order of the help.
pub static COLLECTIVES: &[Collective] = &[
    Collective {
        name: "all_reduce",
        reduces: true,
        rooted: false,
        in_place: true,
        sizeless: false,
        power_of_two: false,
        counts: equal,
        content: |_, counts| whole(counts, Content::Reduced(0)),
        busy: |n| 2.0 * (n - 1.0) / n,
        run: calls::all_reduce,
        mpi: calls::mpi_all_reduce,
    },
    Collective {
        name: "all_gather",
        reduces: false,
        rooted: false,
        in_place: true,
        sizeless: false,
        power_of_two: false,
        counts: gathering,
        content: |seat, counts| blocks(seat, counts, |_| 0),
        busy: each_block,
        run: calls::all_gather,
        mpi: calls::mpi_all_gather,
    },
    Collective {
        name: "reduce_scatter",
        reduces: true,
        rooted: false,
        in_place: true,
        sizeless: false,
        power_of_two: false,
        counts: scattering,
        content: |seat, counts| whole(counts, Content::Reduced(seat.rank as usize * counts.call)),
        busy: each_block,
        run: calls::reduce_scatter,
        mpi: calls::mpi_reduce_scatter,
    },
    Collective {
        name: "broadcast",
        reduces: false,
        rooted: true,
        in_place: true,
        sizeless: false,
        power_of_two: false,
        counts: equal,
        content: |seat, counts| whole(counts, Content::Input(seat.root, 0)),
        busy: |_| 1.0,
        run: calls::broadcast,
        mpi: calls::mpi_broadcast,
    },
    Collective {
        name: "reduce",
        reduces: true,
        rooted: true,
        in_place: true,
        sizeless: false,
        power_of_two: false,
        counts: equal,
        content: |seat, counts| at_root(seat, counts, whole(counts, Content::Reduced(0))),
        busy: |_| 1.0,
        run: calls::reduce,
        mpi: calls::mpi_reduce,
    },
    Collective {
        name: "alltoall",
        reduces: false,
        rooted: false,
        in_place: false,
        sizeless: false,
        power_of_two: false,
        counts: exchanging,
        content: |seat, counts| {
            let mine = seat.rank as usize;
            blocks(seat, counts, |counts| mine * counts.call)
        },
        busy: each_block,
        run: calls::all_to_all,
        mpi: calls::mpi_all_to_all,
    },
    Collective {
        name: "gather",
        reduces: false,
        rooted: true,
        in_place: true,
        sizeless: false,
        power_of_two: false,
        counts: gathering,
        content: |seat, counts| at_root(seat, counts, blocks(seat, counts, |_| 0)),
        busy: each_block,
        run: calls::gather,
        mpi: calls::mpi_gather,
    },
    Collective {
        name: "scatter",
        reduces: false,
        rooted: true,
        in_place: true,
        sizeless: false,
        power_of_two: false,
        counts: scattering,
        content: |seat, counts| {
            let start = seat.rank as usize * counts.call;
            whole(counts, Content::Input(seat.root, start))
        },
        busy: each_block,
        run: calls::scatter,
        mpi: calls::mpi_scatter,
    },
    Collective {
        name: "sendrecv",
        reduces: false,
        rooted: false,
        in_place: false,
        sizeless: false,
        power_of_two: false,
        counts: equal,
        content: |seat, counts| {
            let before = (seat.rank + seat.nranks - 1) % seat.nranks;
            whole(counts, Content::Input(before, 0))
        },
        busy: |_| 1.0,
        run: calls::send_recv,
        mpi: calls::mpi_send_recv,
    },
    Collective {
        name: "hypercube",
        reduces: false,
        rooted: false,
        in_place: true,
        sizeless: false,
        power_of_two: true,
        counts: gathering,
        content: |seat, counts| blocks(seat, counts, |_| 0),
        busy: each_block,
        run: calls::hypercube,
        mpi: calls::mpi_hypercube,
    },
    Collective {
        name: "barrier",
        reduces: false,
        rooted: false,
        in_place: false,
        sizeless: true,
        power_of_two: false,
        counts: |_, _| Counts::default(),
        content: |_, _| Vec::new(),
        busy: |_| 1.0,
        run: calls::barrier,
        mpi: calls::mpi_barrier,
    },
];

/// The collective of this name.
pub fn find(name: &str) -> Option<&'static Collective> {
    COLLECTIVES.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_tile_the_receive_buffer() {
        for row in COLLECTIVES {
            for nranks in [1, 2, 3, 8] {
                for (rank, root) in [(0, 0), (nranks - 1, 0), (0, nranks - 1)] {
                    let seat = Seat { rank, nranks, root };
                    let counts = (row.counts)(1000, nranks as usize);
                    let mut at = 0;
                    for piece in (row.content)(&seat, &counts) {
                        assert_eq!(piece.at, at, "{}", row.name);
                        at += piece.length;
                    }
                    assert_eq!(at, counts.recv, "{}", row.name);
                }
            }
        }
    }
}
