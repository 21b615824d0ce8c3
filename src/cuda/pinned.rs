//! Memory of the host that every device reaches.
//!
//! Allocating and freeing it may wait until devices have done their work, so what is dropped is not
//! freed: it waits here for the next who wants as much. A process has at most what it once used at
//! the same time.

use super::context::Context;
use crate::base::Result;
use cudarc::driver::sys::CUdeviceptr;
use std::ffi::{c_uint, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// Every context sees it, and devices may use it (`CU_MEMHOSTALLOC_PORTABLE`, `_DEVICEMAP`).
const FLAGS: c_uint = 1 | 2;
/// Sizes are multiples of a page.
const PAGE: usize = 4096;

/// Pinned memory, zero at first.
pub struct PinnedMemory {
    block: PinnedBlock,
    bytes: usize,
}

/// Memory that the driver gave.
struct PinnedBlock {
    context: Arc<Context>,
    place: NonNull<u8>,
    address: u64,
    bytes: usize,
}

// SAFETY: a block is memory of the process and no thread's own; whoever holds it synchronises.
unsafe impl Send for PinnedBlock {}
// SAFETY: sharing a block shares two addresses and a length; reading what lies there is unsafe.
unsafe impl Sync for PinnedBlock {}

/// Blocks that nobody uses now.
static IDLE: Mutex<Vec<PinnedBlock>> = Mutex::new(Vec::new());

impl PinnedMemory {
    /// That many bytes, all 0. The first time, the driver may wait for devices.
    ///
    /// # Errors
    /// No driver, or no memory.
    pub fn new(bytes: usize) -> Result<PinnedMemory> {
        let context = Context::any()?;
        // Of about this size, so that a large block is there for who needs it.
        let whole = bytes.max(1).next_multiple_of(PAGE);
        let fits = |block: &PinnedBlock| (whole..=2 * whole).contains(&block.bytes);
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        let found = (0..idle.len()).filter(|at| fits(&idle[*at]));
        let found = found.min_by_key(|at| idle[*at].bytes);
        let found = found.map(|at| idle.swap_remove(at));
        drop(idle);
        let block = match found {
            Some(block) => block,
            None => PinnedBlock::new(context, whole)?,
        };
        // SAFETY: the block has these bytes, and nobody else has the block.
        unsafe { block.place.write_bytes(0, block.bytes) };
        Ok(PinnedMemory { block, bytes })
    }

    /// Where devices find it.
    pub fn address(&self) -> u64 {
        self.block.address
    }

    /// Where the host finds it.
    pub fn as_ptr(&self) -> *mut u8 {
        self.block.place.as_ptr()
    }

    /// How many bytes were asked for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl PinnedBlock {
    fn new(context: Arc<Context>, bytes: usize) -> Result<PinnedBlock> {
        let current = context.enter()?;
        let functions = context.driver().functions();
        let of = || format!(" of {bytes} bytes");
        let mut place: *mut c_void = std::ptr::null_mut();
        // SAFETY: the driver writes one address.
        let code = unsafe { (functions.host_allocate)(&raw mut place, bytes, FLAGS) };
        context.check(code, "cuMemHostAlloc", of)?;
        let mut address: CUdeviceptr = 0;
        // SAFETY: the memory was allocated just now; the driver writes one number.
        let code = unsafe { (functions.host_address)(&raw mut address, place, 0) };
        context.check(code, "cuMemHostGetDevicePointer", of)?;
        let place = NonNull::new(place.cast());
        let place = place.expect("a driver that succeeds gives memory");
        drop(current);
        Ok(PinnedBlock {
            context,
            place,
            address,
            bytes,
        })
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        // The block stays with this process, so the place of `self` gets an equal one.
        let block = PinnedBlock {
            context: self.block.context.clone(),
            ..self.block
        };
        if block.context.driver().is_ours() {
            let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(block);
        }
    }
}
