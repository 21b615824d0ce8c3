//! Device memory for what launches read and nobody changes: tables of connections, large images.
//!
//! A piece goes back when its owner drops it, but is written again only when the launches that may
//! read it have ended.

use crate::base::{Error, Result};
use crate::cuda::{
    Context, DeviceMemory, OwnStream, copy_from_device, copy_to_device,
    exchange_capture_mode_relaxed,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Taken from the driver at once, at least.
const LEAST_BYTES: usize = 2 << 20;
/// The smallest piece.
const LEAST_PIECE: usize = 256;
/// Pieces that stay begin at multiples of this.
const KEPT_PIECE: usize = 64;

/// Memory of the device that holds programs, images and what else kernels read.
pub(super) struct Shelf {
    context: Arc<Context>,
    /// By it alone pieces are written: nothing waits for the device.
    stream: OwnStream,
    held: Vec<Arc<DeviceMemory>>,
    /// Of the last part: the first free address, and how much is left.
    rest: (u64, usize),
    /// Pieces that may be written again, by their size.
    free: HashMap<usize, Vec<u64>>,
    returned: Returned,
}

/// Pieces that were dropped, each with the last launch before that.
type Returned = Arc<Mutex<Vec<(u64, ShelfPiece)>>>;

#[derive(Clone, Copy)]
struct ShelfPiece {
    address: u64,
    bytes: usize,
}

/// A piece with its content.
pub(super) struct Shelved {
    piece: ShelfPiece,
    returned: Returned,
    /// The newest launch that may read it.
    read_by: std::sync::atomic::AtomicU64,
}

impl Shelved {
    /// Where it lies.
    pub fn address(&self) -> u64 {
        self.piece.address
    }

    /// A launch of this number reads it.
    pub fn is_read_by(&self, launch: u64) {
        let order = std::sync::atomic::Ordering::Relaxed;
        self.read_by.fetch_max(launch, order);
    }
}

impl Drop for Shelved {
    fn drop(&mut self) {
        let last = *self.read_by.get_mut();
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        returned.push((last, self.piece));
    }
}

impl Shelf {
    /// Without memory yet.
    pub fn new(context: &Arc<Context>) -> Result<Shelf> {
        Ok(Shelf {
            context: Arc::clone(context),
            stream: OwnStream::new(context)?,
            held: Vec::new(),
            rest: (0, 0),
            free: HashMap::new(),
            returned: Returned::default(),
        })
    }

    /// Puts `content` on the device, of which nobody reads anything before this returns. Launches
    /// up to number `ended` have ended.
    ///
    /// # Errors
    /// The driver has no memory, or cannot copy.
    pub fn shelve(&mut self, content: &[u8], ended: u64) -> Result<Shelved> {
        let bytes = content.len().next_power_of_two().max(LEAST_PIECE);
        self.take_back(ended);
        let address = match self.free.get_mut(&bytes).and_then(Vec::pop) {
            Some(address) => address,
            None => self.cut(bytes)?,
        };
        let shelved = Shelved {
            piece: ShelfPiece { address, bytes },
            returned: Arc::clone(&self.returned),
            read_by: 0.into(),
        };
        self.write(address, content)?;
        Ok(shelved)
    }

    /// Memory of `bytes` zeros that stays for the life of the shelf.
    ///
    /// # Errors
    /// Those of [`Shelf::shelve`].
    pub fn keep(&mut self, bytes: usize) -> Result<u64> {
        self.keep_with(&vec![0; bytes])
    }

    /// Keeps this content on the device, where kernels may change it.
    ///
    /// # Errors
    /// Those of [`Shelf::shelve`].
    pub fn keep_with(&mut self, content: &[u8]) -> Result<u64> {
        let address = self.cut(content.len().next_multiple_of(KEPT_PIECE))?;
        self.write(address, content)?;
        Ok(address)
    }

    /// Copies from an address of the device.
    ///
    /// # Errors
    /// The driver cannot copy.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<()> {
        let _relaxed = exchange_capture_mode_relaxed()?;
        // SAFETY: the address is one of this shelf's or of a connection's, whose memory lives;
        // launches may still be counting there, in whole words.
        unsafe { copy_from_device(&self.context, into, address, self.stream.id())? };
        self.stream.synchronize()
    }

    /// All memory of it.
    pub fn memory(&self) -> impl Iterator<Item = &Arc<DeviceMemory>> {
        self.held.iter()
    }

    fn write(&self, address: u64, content: &[u8]) -> Result<()> {
        // The program may be capturing a graph, of which this is no part.
        let _relaxed = exchange_capture_mode_relaxed()?;
        // SAFETY: the piece is of this shelf's memory, as long as the content, and nobody reads it
        // before the stream has been waited for.
        unsafe { copy_to_device(&self.context, address, content, self.stream.id())? };
        self.stream.synchronize()
    }

    fn take_back(&mut self, ended: u64) {
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        returned.retain(|&(last, piece)| {
            if last <= ended {
                self.free
                    .entry(piece.bytes)
                    .or_default()
                    .push(piece.address);
            }
            last > ended
        });
    }

    fn cut(&mut self, bytes: usize) -> Result<u64> {
        if self.rest.1 < bytes {
            let whole = bytes.next_multiple_of(LEAST_BYTES);
            let _relaxed = exchange_capture_mode_relaxed()?;
            let memory = DeviceMemory::new(&self.context, "tables of launches", whole, &[])?;
            self.rest = (memory.address(), whole);
            self.held.push(Arc::new(memory));
        }
        let address = self.rest.0;
        let left = self.rest.1.checked_sub(bytes);
        let left = left.ok_or_else(|| Error::internal("a piece is larger than its part"))?;
        self.rest = (address + bytes as u64, left);
        Ok(address)
    }
}
