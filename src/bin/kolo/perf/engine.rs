//! A collective as the measurement sees it: elements, places, expected content, and the calls.
//!
//! A row of [`super::rows::COLLECTIVES`] says how many elements the buffers hold
//! ([`super::layout`]), what must be in the receive buffer afterwards ([`super::content`]), how
//! fast "busy" is, and how to run the call with kolo ([`super::calls`]) and with MPI
//! ([`super::rival`]). Nothing outside of these files knows a collective by name.

use super::layout::Counts;
use super::operation::Operation;
use super::seat::Seat;
use crate::launcher::Mpi;
use kolo::base::{Error, Result, Share};
use kolo::comm::{self, Blocks, Call, Communicator, Graph, RawCalls, RedOp, Stream, VectorCall};
use kolo::dtype::DataType;

/// Content that a stretch of the receive buffer must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Data of a rank, from this element of its send buffer on.
    Input(u32, usize),
    /// The reduction of the data of the first so many ranks, from this element on.
    Reduced(u32, usize),
    /// The bytes that were there before.
    Untouched,
}

/// A stretch of elements of the receive buffer.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// First element.
    pub at: usize,
    /// Elements.
    pub length: usize,
    /// Content that they must have.
    pub content: Content,
}

/// One call to run, with addresses that hold what the counts say.
pub struct Run<'a> {
    /// The collective that is called; of several calls each names its own.
    pub collective: Option<comm::Collective>,
    /// kolo.
    pub comm: &'a Communicator,
    /// Absent: the call blocks.
    pub stream: Option<&'a Stream>,
    /// The ring of all ranks, for calls along a graph.
    pub graph: Option<&'a Graph>,
    /// Where data is.
    pub send: *const u8,
    /// Where data goes.
    pub recv: *mut u8,
    /// Elements.
    pub counts: &'a Counts,
    /// Their type.
    pub dtype: DataType,
    /// The operation, where the call reduces.
    pub op: RedOp,
    /// Who calls.
    pub seat: Seat,
    /// Whether the buffers are one.
    pub in_place: bool,
}

impl Run<'_> {
    /// A call of kolo with these buffers.
    pub fn call(&self, collective: comm::Collective) -> Call {
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

    pub fn enqueue(&self, call: &Call) -> Result<()> {
        // SAFETY: whoever makes a `Run` answers for the addresses, and waits for the stream before
        // touching the buffers.
        unsafe { self.comm.enqueue(call, self.stream) }
    }

    /// The collective that is called.
    pub fn collective(&self) -> Result<comm::Collective> {
        let several = || {
            let remedy = "each of its calls names its own collective";
            Error::usage("a row that is made of several calls is made as one", remedy)
        };
        self.collective.ok_or_else(several)
    }

    /// One message to or from a peer.
    pub fn message(&self, send: bool, place: *mut u8, count: usize, peer: u32) -> Result<()> {
        self.enqueue(&Call {
            collective: if send {
                comm::Collective::Send
            } else {
                comm::Collective::Recv
            },
            send: place.cast_const(),
            recv: place,
            count,
            peer,
            ..self.call(comm::Collective::Send)
        })
    }

    /// A call of kolo whose blocks have sizes of their own, or go along the graph.
    pub fn vector(&self, send: Blocks, recv: Blocks) -> Result<()> {
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

/// Fills in [`Counts`] for data of so many elements.
type CountsFn = fn(usize, &Seat) -> Counts;
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
    /// The one of kolo's table; absent if it is made of several calls.
    pub kolo: Option<comm::Collective>,
    /// The operations that it takes with `-o`; absent if it does not reduce.
    pub reduces: Option<fn(Operation) -> bool>,
    /// Whether it may be called in place.
    pub in_place: bool,
    /// It moves no data.
    pub sizeless: bool,
    /// It needs 1, 2, 4, 8, ... ranks, and consists of calls that follow each other.
    pub power_of_two: bool,
    /// Elements from (elements of the data, who calls).
    pub counts: CountsFn,
    /// Expected content.
    pub content: ContentFn,
    /// Part of the size that the algorithm's bandwidth counts.
    pub moved: fn(f64) -> f64,
    /// Factor from algorithm to bus bandwidth.
    pub busy: fn(f64) -> f64,
    /// Makes the call.
    pub run: fn(&Run) -> Result<()>,
    /// Makes MPI's call; the result is MPI's.
    pub mpi: fn(&Mpi, &Run) -> i32,
}

impl Collective {
    /// Whether it has a root.
    pub fn rooted(&self) -> bool {
        self.kolo.is_some_and(|it| it.has_root())
    }

    /// Whether it goes along a graph: the ring of all ranks.
    pub fn along_graph(&self) -> bool {
        self.kolo.is_some_and(|it| it.receives() == Share::Beside)
    }
}
