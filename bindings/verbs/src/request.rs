//! A request of the receiving end: buffers that were posted together, and the work for them.

use kolo::base::Error;
use kolo_plugin::fabric::GROUP;

/// Kinds of work, as they stand in its number.
pub const OF_SLOTS: u64 = 0;
pub const OF_READ: u64 = 1;
pub const OF_WORD: u64 = 2;

/// The number of work: its queue pair, its kind, and the place in the ring that it is for.
pub fn work_id(kind: u64, queue: usize, ring: usize) -> u64 {
    (ring as u64) << 32 | kind << 16 | queue as u64
}

/// Where the message of a request goes, if it has this length and is lent.
#[derive(Clone, Copy)]
pub struct Elsewhere {
    pub data: usize,
    pub bytes: usize,
    pub length: usize,
    pub key: u32,
}

/// A request in the ring.
#[derive(Clone, Copy, Default)]
pub struct Request {
    pub open: bool,
    pub count: usize,
    /// Values that are awaited.
    pub awaited: u32,
    /// Sizes; `None`: it is in the record.
    pub bytes: [Option<usize>; GROUP],
    pub capacity: [usize; GROUP],
    /// Addresses, and their keys for this end.
    pub data: [(usize, u32); GROUP],
    /// Number of the request.
    pub sequence: u64,
    /// Bit set of buffers that hold a note.
    pub noted: u8,
    /// Reads that are awaited.
    pub reading: u32,
    /// Bit set of buffers whose message is read, of which the sender is to be told.
    pub untold: u8,
    pub elsewhere: Option<Elsewhere>,
    /// The message went elsewhere.
    pub is_placed: bool,
}

impl Request {
    /// Whether all of its messages are here.
    pub fn is_whole(&self) -> bool {
        self.awaited == 0 && self.noted == 0 && self.reading == 0 && self.untold == 0
    }
}

/// The error of a test of what is not open.
pub fn not_open() -> Error {
    Error::argument(
        "a request was tested that is not open",
        "test a request until it is done, and then no more",
    )
}
