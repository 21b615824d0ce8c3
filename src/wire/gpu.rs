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

use crate::base::Result;
use std::any::Any;
use std::mem::offset_of;
use std::sync::Arc;

/// Slots of a connection.
pub const SLOTS: u32 = 8;
/// Counts lie so far apart: a line of a device's second-level cache.
pub const COUNT_BYTES: usize = 128;
/// Memory that the writer owns: the head.
pub const WRITER_BYTES: usize = COUNT_BYTES;
/// Where a reader's sizes begin.
pub const SIZES_AT: usize = COUNT_BYTES;
/// Where a reader's slots begin.
pub const AREA_AT: usize = 2 * COUNT_BYTES;

/// Memory that the reader owns, with slots of `slot_bytes`.
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
    /// Not 0: somebody on the host moves the slots. In every protocol tokens are counted, and
    /// payload lies as in Simple.
    pub counted: u32,
    /// 0.
    pub reserved: [u32; 2],
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

/// A connection between devices, by what both of its ends say alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceWire {
    /// The rank that writes.
    pub writer: u32,
    /// The rank that reads.
    pub reader: u32,
    /// Tells apart connections of the same pair.
    pub channel: u16,
    /// The number of its protocol: tokens of one are never taken for those of another.
    pub protocol: u8,
    /// From one slot to the next.
    pub slot_bytes: u32,
}

/// Where the parts of a connection lie, for the device that asks. All of it is zero at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceHalves {
    /// The tail, in memory of the reader.
    pub tail: u64,
    /// The sizes, in the line behind it; 0 if nobody asks for them.
    pub sizes: u64,
    /// The head, in memory of the writer.
    pub head: u64,
    /// The slots, in memory of the reader.
    pub area: u64,
    /// From one slot to the next.
    pub slot_bytes: u32,
    /// Somebody on the host moves the slots.
    pub is_counted: bool,
}

impl DeviceHalves {
    /// An end of a new connection.
    pub fn end(self) -> DeviceEnd {
        DeviceEnd {
            tail: self.tail,
            head: self.head,
            area: self.area,
            sizes: self.sizes,
            slot_bytes: self.slot_bytes,
            counted: self.is_counted.into(),
            ..DeviceEnd::at(0)
        }
    }
}

/// Makes connections between the devices of a communicator, for one of its ranks.
pub trait DeviceWiring: Send {
    /// Where a connection of this rank lies; its memory is made when it is first needed.
    ///
    /// # Errors
    /// No memory on a device; a device that cannot be reached.
    fn halves(&mut self, wire: DeviceWire) -> Result<DeviceHalves>;

    /// All memory of them, which stays as long as somebody holds this.
    fn memory(&self) -> Arc<dyn Any + Send + Sync>;
}

impl DeviceEnd {
    /// Returns the bytes to copy to the device.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the fields fill the structure: six numbers of 8 bytes and four of 4.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<DeviceEnd>()) }
    }
}
