//! The receiving end of a connection over a plugin.

use super::super::{MAX_RECEIVES, Receive, Received, RecvComm, Region, Request};
use super::calls::Buffer;
use super::ends::{End, Plugin};
use crate::base::{Error, Result};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// See the file's first line. What is known of a request is the number of its buffers.
pub struct PluginReceiver {
    end: End<usize>,
    most_buffers: usize,
}

// SAFETY: the interface lets any thread use a connection, one at a time; the requests point to
// memory that the caller of `irecv` keeps for whatever thread drives the connection.
unsafe impl Send for PluginReceiver {}

impl PluginReceiver {
    /// Takes over what the plugin's `accept` gave; the device takes so many buffers at once.
    pub fn new(plugin: Arc<Plugin>, comm: *mut c_void, most_buffers: usize) -> PluginReceiver {
        PluginReceiver {
            end: End::new(plugin, comm),
            most_buffers,
        }
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
        Ok(self.end.keep(request, buffers.len()))
    }

    fn test(&mut self, request: &Request) -> Result<Option<Received>> {
        let Some((count, sizes)) = self.end.test(request)? else {
            return Ok(None);
        };
        let sizes = sizes.map(|size| usize::try_from(size).unwrap_or(0));
        Ok(Some(Received::new(&sizes[..count])))
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
