//! The sending end of a connection over a plugin.

use super::super::{MAX_TAIL, Region, Request, SendComm};
use super::calls::Buffer;
use super::ends::{End, Plugin};
use super::pins::{DevicePin, DevicePins};
use crate::base::{Error, Result};
use crate::transport::lasting::LastingMemory;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Facts about a message in flight: its size, and the memory that it lies in if it is lent.
struct Sent {
    bytes: usize,
    _memory: Option<Arc<DevicePin>>,
}

/// See the file's first line.
pub struct PluginSender {
    end: End<Sent>,
    most_bytes: usize,
    /// Where messages may be lent.
    pins: Option<DevicePins>,
    lasting: Option<Arc<dyn LastingMemory>>,
    /// Address and bytes of what may be lent next, and its pinned memory.
    found: Option<(usize, usize, Arc<DevicePin>)>,
}

// SAFETY: the interface lets any thread use a connection, one at a time; the requests point to
// memory that the caller of `isend` keeps for whatever thread drives the connection.
unsafe impl Send for PluginSender {}

impl PluginSender {
    /// Takes over what the plugin's `connect` gave.
    pub fn new(
        plugin: Arc<Plugin>,
        comm: *mut c_void,
        most_bytes: usize,
        pins: Option<DevicePins>,
    ) -> PluginSender {
        // SAFETY: the connection is open.
        let reads = |pins: &DevicePins| unsafe { pins.reading().is_read(comm) };
        PluginSender {
            end: End::new(plugin, comm),
            most_bytes,
            pins: pins.filter(reads),
            lasting: None,
            found: None,
        }
    }

    /// Pinned memory around a message.
    fn pinned(&self, data: *const u8, bytes: usize) -> Option<Arc<DevicePin>> {
        let (pins, lasting) = (self.pins.as_ref()?, self.lasting.as_ref()?);
        pins.around(&**lasting, data, bytes)
    }
}

impl SendComm for PluginSender {
    unsafe fn register(&mut self, data: *const u8, bytes: usize) -> Result<Region> {
        // SAFETY: the caller's promise.
        unsafe { self.end.register(data.cast_mut().cast(), bytes) }
    }

    fn deregister(&mut self, region: Region) -> Result<()> {
        self.end.deregister(region)
    }

    unsafe fn isend(
        &mut self,
        data: *const u8,
        bytes: usize,
        tag: u32,
        region: Region,
    ) -> Result<Option<Request>> {
        self.end.check()?;
        let registration = self.end.registration(region)?;
        if bytes > self.most_bytes {
            return Err(Error::argument(
                format!(
                    "a message of {bytes} bytes was given to the network plugin {}, which takes at \
                     most {}",
                    self.end.plugin.calls.name, self.most_bytes
                ),
                "send it in parts",
            ));
        }
        if self.end.is_full() {
            return Ok(None);
        }
        let buffer = Buffer {
            data: data.cast_mut().cast(),
            bytes,
            tag: tag as c_int,
            registration,
        };
        // SAFETY: the connection is open, the buffer registered; the caller keeps it.
        let request = unsafe { self.end.plugin.calls.isend(self.end.comm, &buffer) };
        let request = request.map_err(|code| self.end.fail("isend", code))?;
        let sent = Sent {
            bytes,
            _memory: None,
        };
        Ok(self.end.keep(request, sent))
    }

    fn reach(&mut self, lasting: &Arc<dyn LastingMemory>) {
        self.lasting = Some(Arc::clone(lasting));
    }

    fn sends_from(&mut self, data: *const u8, bytes: usize) -> bool {
        self.found = None;
        if bytes + MAX_TAIL <= self.most_bytes {
            let found = self.pinned(data, bytes);
            self.found = found.map(|memory| (data.addr(), bytes, memory));
        }
        self.found.is_some()
    }

    unsafe fn isend_with_tail(
        &mut self,
        data: *const u8,
        bytes: usize,
        tail: &[u8],
        tag: u32,
    ) -> Result<Option<Request>> {
        self.end.check()?;
        // What `sends_from` has found: by now it may be refused.
        let found = self.found.take();
        let found = found.filter(|it| (it.0, it.1) == (data.addr(), bytes));
        let Some(((.., memory), pins)) = found.zip(self.pins.as_ref()) else {
            return Err(Error::internal("a message cannot be lent from there"));
        };
        if self.end.is_full() {
            return Ok(None);
        }
        let (comm, message) = (self.end.comm, memory.stretch(data, bytes));
        // SAFETY: the connection is open; what is known of the request keeps the memory pinned.
        let request = unsafe { pins.reading().isend_at(comm, message, tail, tag as c_int) };
        let request = request.map_err(|code| self.end.fail("kolo_net_isend_at", code))?;
        let sent = Sent {
            bytes: bytes + tail.len(),
            _memory: Some(memory),
        };
        Ok(self.end.keep(request, sent))
    }

    fn test(&mut self, request: &Request) -> Result<Option<usize>> {
        // Not every plugin reports the size of what was sent.
        Ok(self.end.test(request)?.map(|(sent, _)| sent.bytes))
    }

    fn watch(&self, _: &mut Vec<libc::pollfd>) -> bool {
        false
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.end.close("closeSend")
    }
}

impl Drop for PluginSender {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.end.close("closeSend");
    }
}
