//! Events: marks in streams, by which a stream waits for another one, and the host sees how far a
//! stream is.

use super::context::Context;
use super::failure::NOT_READY;
use super::stream::StreamId;
use crate::base::Result;
use cudarc::driver::sys::CUevent;
use std::ffi::c_uint;
use std::sync::Arc;

/// An event takes no time stamps (`CU_EVENT_DISABLE_TIMING`): it is cheaper so.
const NO_TIMING: c_uint = 2;

/// A mark.
pub struct DeviceEvent {
    context: Arc<Context>,
    raw: usize,
}

impl DeviceEvent {
    /// A mark for streams of this context. Before it is first recorded, it is over.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(context: &Arc<Context>) -> Result<DeviceEvent> {
        let _current = context.enter()?;
        let mut raw: CUevent = std::ptr::null_mut();
        let function = context.driver().functions().event_create;
        // SAFETY: the driver writes one address.
        let code = unsafe { function(&raw mut raw, NO_TIMING) };
        context.check(code, "cuEventCreate", String::new)?;
        Ok(DeviceEvent {
            context: context.clone(),
            raw: raw as usize,
        })
    }

    /// Sets the mark behind all work that the stream has been given so far. The stream belongs to
    /// the event's context.
    ///
    /// # Errors
    /// The driver's.
    pub fn record(&self, stream: StreamId) -> Result<()> {
        let _current = self.context.enter()?;
        let function = self.context.driver().functions().event_record;
        // SAFETY: the event lives; the driver checks the stream.
        let code = unsafe { function(self.raw as CUevent, stream.raw()) };
        self.context.check(code, "cuEventRecord", String::new)
    }

    /// Whether the work before the mark is done.
    ///
    /// # Errors
    /// The driver's; the failure of a kernel before.
    pub fn is_over(&self) -> Result<bool> {
        let _current = self.context.enter()?;
        // SAFETY: the event lives.
        let code = unsafe { (self.context.driver().functions().event_query)(self.raw as CUevent) };
        if code == NOT_READY {
            return Ok(false);
        }
        self.context.check(code, "cuEventQuery", String::new)?;
        Ok(true)
    }

    /// Has a stream of `context`, which may be another device's, wait for the mark.
    ///
    /// # Errors
    /// The driver's.
    pub fn wait_on(&self, context: &Context, stream: StreamId) -> Result<()> {
        let _current = context.enter()?;
        let function = context.driver().functions().stream_wait;
        // SAFETY: the event lives; the driver checks the stream.
        let code = unsafe { function(stream.raw(), self.raw as CUevent, 0) };
        context.check(code, "cuStreamWaitEvent", String::new)
    }
}

impl Drop for DeviceEvent {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: made by `new`. Streams that wait for it go on waiting.
            unsafe { (self.context.driver().functions().event_destroy)(self.raw as CUevent) };
        }
    }
}
