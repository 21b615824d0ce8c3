//! The receiving end of a connection over a plugin.

use super::super::{MAX_RECEIVES, Receive, Received, RecvComm, Region, Request};
use super::calls::Buffer;
use super::ends::{End, Plugin};
use super::pins::{DevicePin, DevicePins};
use crate::base::{Error, Result};
use crate::transport::lasting::LastingMemory;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Facts about a request in flight: the number of its buffers, and the memory that its message is
/// diverted to.
struct Posted {
    count: usize,
    memory: Option<Arc<DevicePin>>,
}

/// See the file's first line.
pub struct PluginReceiver {
    end: End<Posted>,
    most_buffers: usize,
    /// Where messages may be read.
    pins: Option<DevicePins>,
    lasting: Option<Arc<dyn LastingMemory>>,
    /// Numbers of requests that were brought before they were tested, and what arrived.
    brought: Vec<(u64, Received)>,
}

// SAFETY: the interface lets any thread use a connection, one at a time; the requests point to
// memory that the caller of `irecv` keeps for whatever thread drives the connection.
unsafe impl Send for PluginReceiver {}

impl PluginReceiver {
    /// Takes over what the plugin's `accept` gave; the device takes so many buffers at once.
    pub fn new(
        plugin: Arc<Plugin>,
        comm: *mut c_void,
        most_buffers: usize,
        pins: Option<DevicePins>,
    ) -> PluginReceiver {
        PluginReceiver {
            end: End::new(plugin, comm),
            most_buffers,
            pins,
            lasting: None,
            brought: Vec::new(),
        }
    }

    /// The place of a request among those that were brought.
    fn is_brought(&self, request: &Request) -> Option<usize> {
        let mut all = self.brought.iter();
        all.position(|(number, _)| *number == request.number())
    }

    /// Tests a request; while it is held, no message is read.
    fn advance(&mut self, request: &Request, hold: bool) -> Result<Option<Received>> {
        if let Some(at) = self.is_brought(request) {
            return Ok(Some(self.brought.swap_remove(at).1));
        }
        let known = self.end.flying(request).map(|flying| flying.about.count);
        if let (Some(pins), Some(1)) = (&self.pins, known) {
            // SAFETY: asked only before the request was said to be done.
            let test = |_: &Plugin, request| unsafe { pins.reading().test_at(request, hold) };
            let arrived = self.end.test_by(request, test)?;
            return Ok(arrived.map(|(_, arrived)| {
                Received::new(&[arrived.bytes]).diverted(arrived.is_diverted)
            }));
        }
        let Some((posted, sizes)) = self.end.test(request)? else {
            return Ok(None);
        };
        let sizes = sizes.map(|size| usize::try_from(size).unwrap_or(0));
        Ok(Some(Received::new(&sizes[..posted.count])))
    }
}

impl RecvComm for PluginReceiver {
    unsafe fn register(&mut self, data: *mut u8, bytes: usize) -> Result<Region> {
        // SAFETY: the caller's promise.
        unsafe { self.end.register(data.cast(), bytes) }
    }

    fn deregister(&mut self, region: Region) -> Result<()> {
        self.end.deregister(region)
    }

    unsafe fn irecv(&mut self, buffers: &[Receive]) -> Result<Option<Request>> {
        self.end.check()?;
        if buffers.is_empty() || buffers.len() > self.most_buffers {
            return Err(Error::argument(
                format!(
                    "{} buffers were posted at once to the network plugin {}",
                    buffers.len(),
                    self.end.plugin.calls.name
                ),
                format!("post 1 to {} buffers", self.most_buffers),
            ));
        }
        let mut list = [Buffer::NONE; MAX_RECEIVES];
        for (place, buffer) in list.iter_mut().zip(buffers) {
            *place = Buffer {
                data: buffer.data.cast(),
                bytes: buffer.capacity,
                tag: buffer.tag as c_int,
                registration: self.end.registration(buffer.region)?,
            };
        }
        let list = &list[..buffers.len()];
        if self.end.is_full() {
            return Ok(None);
        }
        // SAFETY: the connection is open, the buffers registered; the caller keeps them.
        let request = unsafe { self.end.plugin.calls.irecv(self.end.comm, list) };
        let request = request.map_err(|code| self.end.fail("irecv", code))?;
        let posted = Posted {
            count: buffers.len(),
            memory: None,
        };
        Ok(self.end.keep(request, posted))
    }

    fn test(&mut self, request: &Request) -> Result<Option<Received>> {
        self.advance(request, false)
    }

    fn test_held(&mut self, request: &Request) -> Result<Option<Received>> {
        self.advance(request, true)
    }

    fn bring(&mut self, request: &Request) -> Result<()> {
        if self.pins.is_none() || self.is_brought(request).is_some() {
            return Ok(());
        }
        let arrived = self.advance(request, false)?;
        self.brought
            .extend(arrived.map(|it| (request.number(), it)));
        Ok(())
    }

    fn reach(&mut self, lasting: &Arc<dyn LastingMemory>) {
        self.lasting = Some(Arc::clone(lasting));
    }

    unsafe fn divert(
        &mut self,
        request: &Request,
        data: *mut u8,
        bytes: usize,
        length: usize,
    ) -> bool {
        let (Some(pins), Some(lasting)) = (&self.pins, &self.lasting) else {
            return false;
        };
        let Some(memory) = pins.around(&**lasting, data, bytes) else {
            return false;
        };
        let Some(flying) = self.end.flying(request).filter(|it| it.about.count == 1) else {
            return false;
        };
        let to = memory.stretch(data, bytes);
        // SAFETY: the request is not done; what is known of it keeps the memory pinned.
        let taken = unsafe { pins.reading().divert(flying.request, to, length) };
        // An error is the connection's, and comes again when the request is tested.
        let taken = taken.unwrap_or(false);
        if taken {
            flying.about.memory = Some(memory);
        }
        taken
    }

    /// All memory is the process's own, which needs none.
    fn flush(&mut self, _: &[Receive]) -> Result<Option<Request>> {
        self.end.check().map(|()| None)
    }

    fn watch(&self, _: &mut Vec<libc::pollfd>) -> bool {
        false
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.end.close("closeRecv")
    }
}

impl Drop for PluginReceiver {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.end.close("closeRecv");
    }
}
