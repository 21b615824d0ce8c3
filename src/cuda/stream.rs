//! Streams: kolo's own, and those of the program.

use super::context::Context;
use super::driver::Driver;
use super::failure::{INVALID_CONTEXT, NOT_READY};
use crate::base::{Error, Result};
use cudarc::driver::sys::{CUcontext, CUdevice, CUstream};
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::marker::PhantomData;
use std::sync::Arc;

/// A stream is kept from the legacy default stream's order (`CU_STREAM_NON_BLOCKING`).
const NON_BLOCKING: c_uint = 1;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: c_int = 2;

/// Any stream: the program's `CUstream` or `cudaStream_t` as a number. 0 and 1 are the default
/// stream of the current context, 2 is that of the current thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// The default stream of the current thread (`CU_STREAM_PER_THREAD`).
    pub const OF_THREAD: StreamId = StreamId(2);

    /// As the driver takes it.
    pub(super) fn raw(self) -> CUstream {
        self.0 as usize as CUstream
    }

    /// A number that no other stream of this process ever has, unlike the stream's own, which the
    /// driver gives out again when a stream is gone. None where the driver does not tell it. The
    /// default streams have one for each context, or each thread.
    ///
    /// # Errors
    /// The driver's.
    pub fn lasting(self, context: &Context) -> Result<Option<u64>> {
        let Some(function) = context.driver().functions().stream_id else {
            return Ok(None);
        };
        let _current = context.enter()?;
        let mut id: c_ulonglong = 0;
        // SAFETY: the driver checks the stream, and writes one number.
        let code = unsafe { function(self.raw(), &raw mut id) };
        context.check(code, "cuStreamGetId", String::new)?;
        Ok(Some(id))
    }

    /// Whether the legacy default stream and it wait for each other. A stream that is being
    /// captured must not be asked.
    ///
    /// # Errors
    /// The driver's.
    pub fn is_blocking(self, context: &Context) -> Result<bool> {
        let _current = context.enter()?;
        let mut flags: c_uint = 0;
        // SAFETY: the driver checks the stream, and writes one number.
        let code = unsafe {
            let function = context.driver().functions().stream_flags;
            function(self.raw(), &raw mut flags)
        };
        context.check(code, "cuStreamGetFlags", String::new)?;
        Ok(flags & NON_BLOCKING == 0)
    }

    /// Whether it is a default stream, which belongs to whatever context is current.
    pub fn is_default(self) -> bool {
        self.0 <= StreamId::OF_THREAD.0
    }

    /// The context that the stream belongs to; that of device `otherwise` for a default stream of a
    /// thread without a current context.
    ///
    /// # Errors
    /// The stream is none, or belongs to a context that the program made by itself.
    pub fn context(self, otherwise: u32) -> Result<Arc<Context>> {
        let driver = Driver::get()?;
        let functions = driver.functions();
        let of = || format!(" of stream {:#x}", self.0);
        let mut raw: CUcontext = std::ptr::null_mut();
        let code = if self.is_default() {
            // SAFETY: the driver writes one address.
            let code = unsafe { (functions.context_current)(&raw mut raw) };
            if raw.is_null() || code == INVALID_CONTEXT {
                return Context::of(otherwise);
            }
            code
        } else {
            // SAFETY: as above. The stream is the program's to name; the driver checks it as far as
            // it can.
            unsafe { (functions.stream_context)(self.raw(), &raw mut raw) }
        };
        driver.check(code, "cuStreamGetCtx", of)?;
        let context = match Context::that_is(raw) {
            Some(known) => return Ok(known),
            None => Context::of(device_of(driver, raw)?)?,
        };
        if !context.is(raw) {
            return Err(Error::usage(
                format!(
                    "stream {:#x} belongs to a context that the program made on device {}",
                    self.0,
                    context.device()
                ),
                "make streams in the primary context of the device (cuDevicePrimaryCtxRetain, or \
                 CUDA's runtime)",
            ));
        }
        Ok(context)
    }

    /// Waits until the stream has done its work.
    ///
    /// # Errors
    /// The driver's; the failure of a kernel before.
    pub fn synchronize(self, context: &Context) -> Result<()> {
        let _current = context.enter()?;
        let function = context.driver().functions().stream_synchronize;
        // SAFETY: the driver checks the stream.
        let code = unsafe { function(self.raw()) };
        context.check(code, "cuStreamSynchronize", String::new)
    }

    /// Whether the stream has done its work.
    ///
    /// # Errors
    /// The driver's; the failure of a kernel before.
    pub fn is_over(self, context: &Context) -> Result<bool> {
        let _current = context.enter()?;
        // SAFETY: the driver checks the stream.
        let code = unsafe { (context.driver().functions().stream_query)(self.raw()) };
        if code == NOT_READY {
            return Ok(false);
        }
        context.check(code, "cuStreamQuery", String::new)?;
        Ok(true)
    }

    /// Whether calls on the stream are written into a graph now; never by a driver without graphs.
    ///
    /// # Errors
    /// The driver's: the stream is the default one, and another stream is being captured.
    pub fn is_capturing(self, context: &Context) -> Result<bool> {
        let Some(function) = context.driver().functions().stream_capture else {
            return Ok(false);
        };
        let _current = context.enter()?;
        let mut status: c_int = 0;
        // SAFETY: the driver writes one number.
        let code = unsafe { function(self.raw(), &raw mut status) };
        context.check(code, "cuStreamIsCapturing", String::new)?;
        // 2 is a capture that has failed already: the next call on the stream says so.
        Ok(status != 0)
    }
}

/// The device of a context of the program.
fn device_of(driver: &'static Driver, raw: CUcontext) -> Result<u32> {
    let functions = driver.functions();
    let mut device: CUdevice = 0;
    let mut popped: CUcontext = std::ptr::null_mut();
    // SAFETY: the driver named this context; it is popped again whatever comes between.
    let code = unsafe {
        let code = (functions.context_push)(raw);
        if code == 0 {
            let code = (functions.context_device)(&raw mut device);
            (functions.context_pop)(&raw mut popped);
            code
        } else {
            code
        }
    };
    driver.check(code, "cuCtxGetDevice", String::new)?;
    // The driver's devices are the numbers that it counts them by.
    Ok(device.max(0) as u32)
}

/// A stream of kolo's, which no default stream waits for.
pub struct OwnStream {
    context: Arc<Context>,
    raw: u64,
}

impl OwnStream {
    /// A new one.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(context: &Arc<Context>) -> Result<OwnStream> {
        let _current = context.enter()?;
        let mut raw: CUstream = std::ptr::null_mut();
        let function = context.driver().functions().stream_create;
        // SAFETY: the driver writes one address.
        let code = unsafe { function(&raw mut raw, NON_BLOCKING) };
        context.check(code, "cuStreamCreate", String::new)?;
        Ok(OwnStream {
            context: context.clone(),
            raw: raw as u64,
        })
    }

    /// Number of the stream, as calls on it take it.
    pub fn id(&self) -> StreamId {
        StreamId(self.raw)
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Waits until it has done its work.
    ///
    /// # Errors
    /// Those of [`StreamId::synchronize`].
    pub fn synchronize(&self) -> Result<()> {
        self.id().synchronize(&self.context)
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: made by `new`, and used by nobody any more. Work on it goes on.
            unsafe { (self.context.driver().functions().stream_destroy)(self.id().raw()) };
        }
    }
}

/// While this lives, calls of this thread that a capture elsewhere would forbid are allowed.
pub struct RelaxedCapture {
    driver: &'static Driver,
    before: c_int,
    of_this_thread: PhantomData<*const ()>,
}

/// Lets this thread make calls that are none of a capture under way: what kolo makes for itself
/// concerns no graph of the program's.
///
/// # Errors
/// The driver's.
pub fn exchange_capture_mode_relaxed() -> Result<RelaxedCapture> {
    let driver = Driver::get()?;
    let mut mode = RELAXED;
    if let Some(exchange) = driver.functions().exchange_capture_mode {
        // SAFETY: the driver reads and writes one number.
        let code = unsafe { exchange(&raw mut mode) };
        driver.check(code, "cuThreadExchangeStreamCaptureMode", String::new)?;
    }
    Ok(RelaxedCapture {
        driver,
        before: mode,
        of_this_thread: PhantomData,
    })
}

impl Drop for RelaxedCapture {
    fn drop(&mut self) {
        let mut mode = self.before;
        if let Some(exchange) = self.driver.functions().exchange_capture_mode {
            // SAFETY: as where it was made. It fails only when the process ends.
            unsafe { exchange(&raw mut mode) };
        }
    }
}
