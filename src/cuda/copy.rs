//! Copies and fills, each on a stream: the device as a whole waits for none of them.
//!
//! Memory of the host that is not pinned is copied when the stream has come so far, and not before:
//! a driver that waits within such a copy lets no other thread launch meanwhile, not even the
//! kernel that the awaited one waits for.

use super::context::Context;
use super::stream::StreamId;
use crate::base::Result;

/// Copies bytes of the host to an address of a device, behind the work of the stream, and waits for
/// the stream.
///
/// # Errors
/// The driver's.
///
/// # Safety
/// `destination` has that many bytes, and nobody else uses them meanwhile.
pub unsafe fn copy_to_device(
    context: &Context,
    destination: u64,
    source: &[u8],
    stream: StreamId,
) -> Result<()> {
    stream.synchronize(context)?;
    {
        let _current = context.enter()?;
        let (from, bytes) = (source.as_ptr().cast(), source.len());
        // SAFETY: the slice has these bytes until the stream is waited for; the caller's promise.
        let code = unsafe {
            (context.driver().functions().copy_in)(destination, from, bytes, stream.raw())
        };
        let of = || format!(" of {bytes} bytes to {destination:#x}");
        context.check(code, "cuMemcpyHtoDAsync", of)?;
    }
    stream.synchronize(context)
}

/// Copies from an address of a device to the host, behind the work of the stream, and waits for the
/// stream.
///
/// # Errors
/// The driver's.
///
/// # Safety
/// `source` has that many bytes.
pub unsafe fn copy_from_device(
    context: &Context,
    destination: &mut [u8],
    source: u64,
    stream: StreamId,
) -> Result<()> {
    stream.synchronize(context)?;
    {
        let _current = context.enter()?;
        let (to, bytes) = (destination.as_mut_ptr().cast(), destination.len());
        // SAFETY: the slice has these bytes until the stream is waited for; the caller's promise.
        let code =
            unsafe { (context.driver().functions().copy_out)(to, source, bytes, stream.raw()) };
        let of = || format!(" of {bytes} bytes from {source:#x}");
        context.check(code, "cuMemcpyDtoHAsync", of)?;
    }
    stream.synchronize(context)
}

/// Copies behind the work of the stream, between addresses of any kind.
///
/// # Errors
/// The driver's.
///
/// # Safety
/// Both ends have that many bytes until the stream has done it, and nobody else writes them.
pub unsafe fn copy_async(
    context: &Context,
    destination: u64,
    source: u64,
    bytes: usize,
    stream: StreamId,
) -> Result<()> {
    let _current = context.enter()?;
    let function = context.driver().functions().copy;
    // SAFETY: the caller's promise.
    let code = unsafe { function(destination, source, bytes, stream.raw()) };
    let of = || format!(" of {bytes} bytes from {source:#x} to {destination:#x}");
    context.check(code, "cuMemcpyAsync", of)
}

/// Sets each byte behind the work of the stream.
///
/// # Errors
/// The driver's.
///
/// # Safety
/// `destination` has that many bytes until the stream has done it, and nobody else uses them.
pub unsafe fn fill_async(
    context: &Context,
    destination: u64,
    byte: u8,
    bytes: usize,
    stream: StreamId,
) -> Result<()> {
    let _current = context.enter()?;
    let function = context.driver().functions().fill;
    // SAFETY: the caller's promise.
    let code = unsafe { function(destination, byte, bytes, stream.raw()) };
    let of = || format!(" of {bytes} bytes at {destination:#x}");
    context.check(code, "cuMemsetD8Async", of)
}
