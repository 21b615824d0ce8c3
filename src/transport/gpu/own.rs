//! Memory of a device that the program asks kolo for: what `koloMemAllocDevice` gives.
//!
//! It is mapped memory, which other processes and devices can be given access to; memory of
//! `cudaMalloc` is not. All devices of the process that reach the device may use it.

use crate::base::{Error, Result};
use crate::cuda::{Context, DeviceMemory, Driver, exchange_capture_mode_relaxed};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By address.
static LIVE: Mutex<BTreeMap<u64, DeviceMemory>> = Mutex::new(BTreeMap::new());

fn live() -> MutexGuard<'static, BTreeMap<u64, DeviceMemory>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allocates `bytes` bytes (at least 1) on a device, aligned to 2 MiB; what is in there is not
/// said. Does not wait for the device. Any thread.
///
/// # Errors
/// No driver, or no such device; no memory.
pub fn allocate(device: u32, bytes: usize) -> Result<u64> {
    if bytes > isize::MAX as usize {
        return Err(Error::argument(
            format!("{bytes} bytes do not fit into the address space"),
            "check the size argument (is it an uninitialised or negative number?)",
        ));
    }
    let context = Context::of(device)?;
    // The program may be capturing a graph, of which this is no part.
    let _relaxed = exchange_capture_mode_relaxed()?;
    let mut peers: Vec<Arc<Context>> = Vec::new();
    for other in (0..Driver::get()?.devices()?).filter(|&other| other != device) {
        let other = Context::of(other)?;
        if other.reaches(&context).unwrap_or(false) {
            peers.push(other);
        }
    }
    let memory = DeviceMemory::new(&context, "memory of the program", bytes.max(1), &peers)?;
    let address = memory.address();
    live().insert(address, memory);
    Ok(address)
}

/// Frees what [`allocate`] gave, if it did: false for any other address. No call may still use it.
/// Any thread.
pub fn free(address: u64) -> bool {
    let freed = live().remove(&address);
    // The program may be capturing a graph, of which this is no part.
    let _relaxed = freed.is_some().then(exchange_capture_mode_relaxed);
    freed.is_some()
}
