//! One piece of memory, on a device or of the host, made here or by another process.

use crate::base::{Error, Result};
use crate::cuda::{
    Context, DeviceMemory, HostMapping, OwnStream, copy_from_device, copy_to_device,
    exchange_capture_mode_relaxed, fill_async,
};
use crate::transport::fork::Fd;
use crate::transport::memory::{self, Mapping};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Behind the counts of a rank lies a mark, by which peers know that they see them.
pub(super) const MARK_BYTES: usize = 128;

/// Memory that connections lie in.
pub(super) enum DevicePiece {
    /// On a device.
    Device(DeviceMemory),
    /// Of the host, made by this process.
    Own(OwnHost),
    /// Of the host, made by another one. The registration goes before the memory.
    Theirs {
        _mapping: Arc<HostMapping>,
        at: u64,
        _memory: Mapping,
    },
}

/// Shareable memory of the host that devices use, too.
pub(super) struct OwnHost {
    mapping: Option<Arc<HostMapping>>,
    start: *mut u8,
    at: u64,
    file: Arc<Fd>,
}

// SAFETY: only the address is kept, which any thread may free, once.
unsafe impl Send for OwnHost {}
// SAFETY: as above; nothing is read or written through it here.
unsafe impl Sync for OwnHost {}

impl Drop for OwnHost {
    fn drop(&mut self) {
        self.mapping = None;
        // The process may have freed all such memory already; then nothing is left to do.
        let _ = memory::free(self.start);
    }
}

impl DevicePiece {
    /// Zeroed memory on a device, for `peers` too; a mark may lie at its end.
    pub fn on(
        context: &Arc<Context>,
        bytes: usize,
        peers: &[Arc<Context>],
        mark: Option<u64>,
    ) -> Result<DevicePiece> {
        // The program may be capturing a graph, of which this is no part.
        let _relaxed = exchange_capture_mode_relaxed()?;
        let memory = DeviceMemory::new(context, "connections", bytes, peers)?;
        // By a stream of its own: nothing waits for the device.
        let stream = OwnStream::new(context)?;
        let (at, end) = (memory.address(), memory.address() + bytes as u64);
        // SAFETY: the memory is new and has so many bytes; nobody else knows it.
        unsafe {
            fill_async(context, at, 0, bytes, stream.id())?;
            if let Some(mark) = mark {
                let place = end - MARK_BYTES as u64;
                copy_to_device(context, place, &mark.to_le_bytes(), stream.id())?;
            }
        }
        stream.synchronize()?;
        Ok(DevicePiece::Device(memory))
    }

    /// Zeroed memory of the host that all devices of this process use.
    pub fn on_host(bytes: usize) -> Result<DevicePiece> {
        // The program may be capturing a graph, of which this is no part.
        let _relaxed = exchange_capture_mode_relaxed()?;
        let start = memory::allocate(bytes)?;
        let found = memory::find(start, bytes);
        let found = found.ok_or_else(|| Error::internal("memory that was just allocated"))?;
        let mut own = OwnHost {
            mapping: None,
            start,
            at: 0,
            file: found.file,
        };
        // SAFETY: the memory is freed after the registration: see the drop above.
        let mapping = unsafe { HostMapping::of(start, bytes)? };
        own.at = mapping.address_of(start)?;
        own.mapping = Some(mapping);
        Ok(DevicePiece::Own(own))
    }

    /// Maps a piece that another process handed over.
    pub fn of_peer(
        context: &Arc<Context>,
        fd: &Fd,
        bytes: usize,
        is_on_host: bool,
    ) -> Result<DevicePiece> {
        let _relaxed = exchange_capture_mode_relaxed()?;
        if !is_on_host {
            let memory = DeviceMemory::import(context, fd.as_fd(), bytes)?;
            return Ok(DevicePiece::Device(memory));
        }
        let memory = Mapping::open(fd)?;
        let start = memory.at(0, bytes);
        let start = start.ok_or_else(|| Error::internal("a peer's memory is too short"))?;
        // SAFETY: the registration is dropped before the memory, which is declared behind it.
        let mapping = unsafe { HostMapping::of(start, bytes)? };
        let at = mapping.address_of(start)?;
        Ok(DevicePiece::Theirs {
            _mapping: mapping,
            at,
            _memory: memory,
        })
    }

    /// Where it begins, as devices see it.
    pub fn address(&self) -> u64 {
        match self {
            DevicePiece::Device(memory) => memory.address(),
            DevicePiece::Own(own) => own.at,
            DevicePiece::Theirs { at, .. } => *at,
        }
    }

    /// Returns the file by which another process imports it.
    pub fn export(&self) -> Result<Arc<Fd>> {
        match self {
            DevicePiece::Device(memory) => {
                let file = Fd::new(memory.export()?).map_err(|error| {
                    let remedy = "raise the limit of open files (`ulimit -n`)";
                    Error::system("cannot keep a file of device memory", &error, remedy)
                })?;
                Ok(Arc::new(file))
            }
            DevicePiece::Own(own) => Ok(Arc::clone(&own.file)),
            DevicePiece::Theirs { .. } => Err(Error::internal("a piece of another process")),
        }
    }

    /// Whether the mark at the end is this one, read through `context`.
    pub fn has_mark(&self, context: &Arc<Context>, bytes: usize, mark: u64) -> Result<bool> {
        let mut read = [0; 8];
        let _relaxed = exchange_capture_mode_relaxed()?;
        let stream = OwnStream::new(context)?;
        let at = self.address() + (bytes - MARK_BYTES) as u64;
        // SAFETY: the mark lies behind the content, and is never written again.
        unsafe { copy_from_device(context, &mut read, at, stream.id())? };
        stream.synchronize()?;
        Ok(u64::from_le_bytes(read) == mark)
    }
}
