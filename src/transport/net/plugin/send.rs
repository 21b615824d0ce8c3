//! The sending end of a connection over a plugin.

use super::super::{Region, Request, SendComm};
use super::calls::Buffer;
use super::ends::{End, Plugin};
use crate::base::{Error, Result};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// See the file's first line. What is known of a request is the size of its message.
pub struct PluginSender {
    end: End<usize>,
    most_bytes: usize,
}

// SAFETY: the interface lets any thread use a connection, one at a time; the requests point to
// memory that the caller of `isend` keeps for whatever thread drives the connection.
unsafe impl Send for PluginSender {}

impl PluginSender {
    /// Takes over what the plugin's `connect` gave.
    pub fn new(plugin: Arc<Plugin>, comm: *mut c_void, most_bytes: usize) -> PluginSender {
        PluginSender {
            end: End::new(plugin, comm),
            most_bytes,
        }
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
        Ok(self.end.keep(request, bytes))
    }

    fn test(&mut self, request: &Request) -> Result<Option<usize>> {
        // Not every plugin reports the size of what was sent.
        Ok(self.end.test(request)?.map(|(bytes, _)| bytes))
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
