//! Slots in memory of the host that a device and a thread of kolo share: what goes to ranks on
//! other nodes, and what comes from there.
//!
//! **Problem.** A kernel cannot call a network, and a thread cannot write into memory of a device.
//!
//! **Idea.** Both see pinned memory of the host. The kernel uses its end as it uses every other one
//! ([`crate::wire::gpu`]), but counts its tokens in each protocol. The thread is the other end:
//! it reads what a device wrote ([`StageReader`]) and hands that to the network, or publishes what
//! came ([`StageWriter`]). Nothing rings: whoever is here looks at the counts.
//!
//! ```text
//! tail 128 B | sizes 8 x 4 B, filled up to 128 B | head 128 B | up to 4096 B | 8 slots
//! ```

use super::gpu::{COUNT_BYTES, DeviceHalves, SLOTS};
use crate::base::Result;
use crate::base::sync::{AtomicU32, AtomicU64, Ordering};
use std::any::Any;
use std::sync::Arc;

const SIZES_AT: usize = COUNT_BYTES;
const HEAD_AT: usize = 2 * COUNT_BYTES;
const SLOTS_AT: usize = 4096;

/// The memory of one connection on one of its two nodes, all zero at first.
pub struct StageMemory {
    start: *mut u8,
    slot_bytes: usize,
    payload_bytes: usize,
    _keep: Box<dyn Any + Send + Sync>,
}

// SAFETY: counts are atomics, and slots belong to one side at a time, by the counts.
unsafe impl Send for StageMemory {}
// SAFETY: as above.
unsafe impl Sync for StageMemory {}

impl StageMemory {
    /// So much memory has a connection with slots of `slot_bytes`.
    pub const fn bytes(slot_bytes: usize) -> usize {
        SLOTS_AT + SLOTS as usize * slot_bytes
    }

    /// Memory that `keep` keeps, with so many bytes from slot to slot and for the payload of each.
    ///
    /// # Safety
    /// At `start`, a multiple of 4096, lie [`StageMemory::bytes`] zeros, which stay there as long
    /// as `keep`, and of which nobody else but a device knows.
    pub unsafe fn new(
        start: *mut u8,
        (slot_bytes, payload_bytes): (usize, usize),
        keep: Box<dyn Any + Send + Sync>,
    ) -> StageMemory {
        StageMemory {
            start,
            slot_bytes,
            payload_bytes,
            _keep: keep,
        }
    }

    /// Where it begins.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// From one slot to the next.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Where a device finds the parts, which has the first byte at `address`.
    pub fn halves(&self, address: u64) -> DeviceHalves {
        DeviceHalves {
            tail: address,
            sizes: address + SIZES_AT as u64,
            head: address + HEAD_AT as u64,
            area: address + SLOTS_AT as u64,
            slot_bytes: self.slot_bytes as u32,
            is_counted: true,
        }
    }

    fn count(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the head or the tail: in the memory, aligned, and used as an atomic by all.
        unsafe { &*self.start.add(at).cast::<AtomicU64>() }
    }

    fn size(&self, position: u64) -> &AtomicU32 {
        let at = SIZES_AT + 4 * (position % u64::from(SLOTS)) as usize;
        // SAFETY: a size: in the memory, aligned, and used as an atomic by all.
        unsafe { &*self.start.add(at).cast::<AtomicU32>() }
    }

    fn slot(&self, position: u64) -> *mut u8 {
        let at = SLOTS_AT + (position % u64::from(SLOTS)) as usize * self.slot_bytes;
        // SAFETY: one of the slots.
        unsafe { self.start.add(at) }
    }
}

/// Reads what a device writes.
pub struct StageReader {
    memory: Arc<StageMemory>,
    position: u64,
}

impl StageReader {
    /// Of a new connection.
    pub fn new(memory: Arc<StageMemory>) -> StageReader {
        StageReader {
            memory,
            position: 0,
        }
    }

    /// Whether the slot `ahead` slots behind the oldest one is filled.
    pub fn ready(&self, ahead: u32) -> bool {
        let tail = self.memory.count(0).load(Ordering::Acquire);
        tail > self.position + u64::from(ahead)
    }

    /// How many bytes are in it; call only when it is filled. Never more than the payload of a
    /// slot, whatever the device says: behind it is room for the network's words.
    pub fn bytes(&self, ahead: u32) -> usize {
        let size = self.memory.size(self.position + u64::from(ahead));
        (size.load(Ordering::Relaxed) as usize).min(self.memory.payload_bytes)
    }

    /// The slot itself.
    pub fn slot(&self, ahead: u64) -> *mut u8 {
        self.memory.slot(self.position + ahead)
    }

    /// The device may fill the oldest slots again.
    pub fn release(&mut self, slots: u32) {
        self.position += u64::from(slots);
        let head = self.memory.count(HEAD_AT);
        head.store(self.position, Ordering::Release);
    }
}

/// Writes what a device reads.
pub struct StageWriter {
    memory: Arc<StageMemory>,
    position: u64,
}

impl StageWriter {
    /// Of a new connection.
    pub fn new(memory: Arc<StageMemory>) -> StageWriter {
        StageWriter {
            memory,
            position: 0,
        }
    }

    /// Slots that the device has emptied.
    pub fn given(&self) -> u64 {
        self.memory.count(HEAD_AT).load(Ordering::Acquire)
    }

    /// The slot `ahead` slots behind the next one, which is the writer's once it is emptied.
    pub fn slot(&self, ahead: u64) -> *mut u8 {
        self.memory.slot(self.position + ahead)
    }

    /// Hands the next slots to the device, which may then read them.
    pub fn publish(&mut self, slots: u32) {
        self.position += u64::from(slots);
        let tail = self.memory.count(0);
        tail.store(self.position, Ordering::Release);
    }
}

/// Where such memory comes from, on first use by the device or by the network.
pub trait StageSource: Send + Sync {
    /// How many channels have such connections: numbers below this.
    fn channels(&self) -> usize;

    /// From one slot to the next.
    fn slot_bytes(&self) -> usize;

    /// The memory of a connection; the same whoever asks.
    ///
    /// # Errors
    /// The system has no memory.
    fn stage(&self, writer: u32, reader: u32, channel: u16) -> Result<Arc<StageMemory>>;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[repr(align(4096))]
    struct Pages {
        _bytes: [u8; StageMemory::bytes(512)],
    }

    fn stage() -> Arc<StageMemory> {
        let pages = Box::into_raw(Box::new(Pages {
            _bytes: [0; StageMemory::bytes(512)],
        }));
        let start = pages.cast();
        // SAFETY: made just now; it is kept, as a box, by what is handed over.
        Arc::new(unsafe { StageMemory::new(start, (512, 480), Box::from_raw(pages)) })
    }

    /// A thread in place of a kernel: it knows addresses only.
    fn write_as_a_kernel(halves: DeviceHalves, tokens: u64) {
        let at = |address: u64| address as usize as *mut u8;
        // SAFETY: the parts of the stage, which outlives this thread.
        let (tail, head) = unsafe {
            let (tail, head) = (at(halves.tail), at(halves.head));
            (&*tail.cast::<AtomicU64>(), &*head.cast::<AtomicU64>())
        };
        for token in 0..tokens {
            while head.load(Ordering::Acquire) + 8 < token + 1 {
                std::thread::yield_now();
            }
            let (slot, bytes) = (token % 8, 1 + token as usize * 7 % 480);
            // SAFETY: the slot is this thread's until the tail says otherwise.
            unsafe {
                let place = at(halves.area + slot * u64::from(halves.slot_bytes));
                place.write_bytes(token as u8, bytes);
                let size = at(halves.sizes + 4 * slot).cast::<u32>();
                size.write(bytes as u32);
            }
            tail.store(token + 1, Ordering::Release);
        }
    }

    #[test]
    fn what_a_device_writes_is_read_in_order() {
        let stage = stage();
        let halves = stage.halves(stage.start() as u64);
        let mut reader = StageReader::new(Arc::clone(&stage));
        assert!(!reader.ready(0));
        std::thread::scope(|scope| {
            scope.spawn(|| write_as_a_kernel(halves, 1000));
            for token in 0..1000u64 {
                while !reader.ready(0) {
                    std::thread::yield_now();
                }
                let bytes = reader.bytes(0);
                assert_eq!(bytes, 1 + token as usize * 7 % 480);
                // SAFETY: the slot is filled, and this side's until it is released.
                let read = unsafe { std::slice::from_raw_parts(reader.slot(0), bytes) };
                assert!(read.iter().all(|&byte| byte == token as u8), "{token}");
                reader.release(1);
            }
        });
        assert!(!reader.ready(0));
    }

    #[test]
    fn what_comes_is_published_where_the_device_looks() {
        let stage = stage();
        let halves = stage.halves(0);
        assert_eq!((halves.tail, halves.sizes, halves.head), (0, 128, 256));
        assert_eq!((halves.area, halves.slot_bytes), (4096, 512));
        let mut writer = StageWriter::new(Arc::clone(&stage));
        for position in 0..20u64 {
            let slot = writer.slot(0) as usize - stage.start() as usize;
            assert_eq!(slot as u64, 4096 + position % 8 * 512);
            assert_eq!(writer.slot(1), stage.slot(position + 1));
            writer.publish(1);
            assert_eq!(stage.count(0).load(Ordering::Acquire), position + 1);
            stage.count(HEAD_AT).store(position, Ordering::Release);
            assert_eq!(writer.given(), position);
        }
    }

    /// A faulty kernel must not make the host read elsewhere.
    #[test]
    fn a_size_is_never_more_than_the_payload_of_a_slot() {
        let stage = stage();
        stage.size(0).store(u32::MAX, Ordering::Relaxed);
        stage.count(0).store(1, Ordering::Release);
        assert_eq!(StageReader::new(stage).bytes(0), 480);
    }
}
