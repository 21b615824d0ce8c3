//! Connections between devices: what a kernel reads and writes.
//!
//! **Problem.** A kernel cannot use the lines of the host: it moves whole slots with thousands of
//! threads, and one of them says so. Nor may it keep counts in launch arguments, because a launch
//! may be replayed.
//!
//! **Idea.** A connection has a *tail* (slots filled, counted by the writer) and a *head* (slots
//! emptied, counted by the reader), each alone in a line of 128 bytes, and 8 slots. Each side waits
//! on a count in memory of its own: the reader owns tail and slots, the writer owns the head. Each
//! end's own count, its *position*, lies in its device memory and never begins anew. Simple, LL and
//! LL128 have connections of their own: tokens of one are never taken for those of another.
//!
//! ```text
//! reader's memory: tail 128 B | sizes 8 x 4 B, filled up to 128 B | 8 slots
//! writer's memory: head 128 B
//! ```
//!
//! The kernels' declarations are in `kernels/plan.h`.

use std::mem::offset_of;

/// Slots of a connection.
pub const SLOTS: u32 = 8;
/// Counts lie so far apart: a line of a device's second-level cache.
pub const COUNT_BYTES: usize = 128;
/// What the writer owns: the head.
pub const WRITER_BYTES: usize = COUNT_BYTES;
/// Where a reader's sizes begin.
pub const SIZES_AT: usize = COUNT_BYTES;
/// Where a reader's slots begin.
pub const AREA_AT: usize = 2 * COUNT_BYTES;

/// What the reader owns, with slots of `slot_bytes`.
pub const fn reader_bytes(slot_bytes: usize) -> usize {
    AREA_AT + SLOTS as usize * slot_bytes
}

/// One end of a connection, in device memory: addresses are the device's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct DeviceEnd {
    /// Where the writer counts slots that it has filled.
    pub tail: u64,
    /// Where the reader counts slots that it has emptied.
    pub head: u64,
    /// The slots.
    pub area: u64,
    /// Where the writer says how many bytes each slot holds, for a proxy; 0 if nobody asks.
    pub sizes: u64,
    /// Slots that this end has used.
    pub position: u64,
    /// Writers of LL: the number of the stretch of positions in which the area was wiped last.
    pub wiped: u64,
    /// From one slot to the next.
    pub slot_bytes: u32,
    /// 0.
    pub reserved: [u32; 3],
}

/// Positions between two wipes of the lines of LL, whose flags have 32 bits.
pub const WIPE_EVERY: u64 = 1 << 30;

const _: () = assert!(
    size_of::<DeviceEnd>() == 64
        && offset_of!(DeviceEnd, position) == 32
        && offset_of!(DeviceEnd, slot_bytes) == 48
);

impl DeviceEnd {
    /// An end that begins at a position: 0 for a new connection.
    pub fn at(position: u64) -> DeviceEnd {
        DeviceEnd {
            position,
            wiped: position / WIPE_EVERY,
            ..DeviceEnd::default()
        }
    }
}
