//! Streams: asynchronous calls on host memory.

use crate::comm::null;
use crate::comms::COMMS;
use crate::group::outside_groups;
use crate::guard::guard_unnamed;
use crate::handle::InUse;
use crate::streams::{STREAMS, is_request};
use crate::types::{koloResult_t, koloStream_t};
use kolo_core::base::{Error, Result};
use kolo_core::comm::{CommDevice, Communicator, Stream};
use kolo_core::exec::operation::outside_operations;

/// The stream that a call was given.
pub(crate) enum Given {
    /// None: the call blocks.
    Blocking,
    /// One of koloStreamCreate.
    Host(InUse<'static, Stream>),
    /// One of the communicator's device.
    Device(Stream),
}

impl Given {
    /// As the core takes it.
    #[inline]
    pub(crate) fn as_deref(&self) -> Option<&Stream> {
        match self {
            Given::Blocking => None,
            Given::Host(stream) => Some(stream),
            Given::Device(stream) => Some(stream),
        }
    }
}

/// The stream that a call on this communicator was given. Any number may come here, such as a
/// stream of a GPU for a communicator on host memory: such a call is refused with a sentence that
/// says what the communicator takes.
#[inline]
pub(crate) fn given(communicator: &Communicator, stream: koloStream_t) -> Result<Given> {
    if communicator.device() != CommDevice::Host {
        return of_device(communicator, stream as usize);
    }
    match stream.is_null() {
        true => Ok(Given::Blocking),
        false => match STREAMS.find(stream as usize) {
            Some(stream) => Ok(Given::Host(stream)),
            None => Err(foreign(stream as usize)),
        },
    }
}

/// A stream of a GPU; NULL is CUDA's default stream.
#[cold]
fn of_device(communicator: &Communicator, handle: usize) -> Result<Given> {
    let what = match handle {
        _ if is_request(handle) => "is a request, whose call would be one of host memory",
        _ if handle != 0 && STREAMS.find(handle).is_some() => "is one of host memory",
        _ => return Ok(Given::Device(Stream::of_device(handle as u64))),
    };
    Err(Error::argument(
        format!("the stream {handle:#x} {what}, and {communicator:?} is on a GPU"),
        "give a stream of the GPU (cudaStream_t or CUstream), or NULL for its default stream",
    ))
}

#[cold]
fn foreign(handle: usize) -> Error {
    let remedy = "give a stream of koloStreamCreate, or NULL to wait in the call";
    let what = match handle {
        _ if is_request(handle) => "is a request, which has the one call it was made for",
        _ if COMMS.find(handle).is_some() => "is a communicator",
        _ => {
            "is no stream of host memory, where this communicator is: it was destroyed, or made by \
             something else than koloStreamCreate (a cudaStream_t belongs to a GPU)"
        }
    };
    Error::argument(format!("the stream {handle:#x} {what}"), remedy)
}

/// Makes a stream. Errors: koloInvalidArgument (NULL), koloSystemError. Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloStreamCreate(stream: *mut koloStream_t) -> koloResult_t {
    guard_unnamed("StreamCreate", || {
        if stream.is_null() {
            return Err(null("stream"));
        }
        let handle = STREAMS.insert(Stream::new()?)?;
        // SAFETY: not null, valid by the contract of kolo.h.
        unsafe { *stream = handle as koloStream_t };
        Ok(koloResult_t::koloSuccess)
    })
}

/// Waits for the operations of `stream` and frees it; the handle is invalid afterwards, whatever
/// is returned, but for koloInvalidUsage: then nothing was done.
/// Errors: koloInvalidArgument (handle), koloInvalidUsage (inside a group, or an operation of the
/// program), those of the operations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloStreamDestroy(stream: koloStream_t) -> koloResult_t {
    with_stream("StreamDestroy", stream, |object| {
        outside_operations("destroys a stream")?;
        let ended = object.synchronize();
        STREAMS.remove(stream as usize)?;
        ended.map(|()| koloResult_t::koloSuccess)
    })
}

/// Waits until all operations of `stream` have ended: their receive buffers are filled, their send
/// buffers may be changed.
/// Errors: koloInvalidArgument (handle), koloInvalidUsage (inside a group, whose calls begin when
/// it ends), those of the operations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloStreamSynchronize(stream: koloStream_t) -> koloResult_t {
    with_stream("StreamSynchronize", stream, |object| {
        outside_groups("StreamSynchronize")?;
        object.synchronize()?;
        Ok(koloResult_t::koloSuccess)
    })
}

/// koloSuccess when all operations of `stream` have ended, koloInProgress while some are pending
/// (no error, no sentence). Moves them on, does not wait.
/// Errors: koloInvalidArgument (handle), koloInvalidUsage (inside a group), those of the
/// operations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koloStreamQuery(stream: koloStream_t) -> koloResult_t {
    with_stream("StreamQuery", stream, |object| {
        outside_groups("StreamQuery")?;
        Ok(match object.query()? {
            true => koloResult_t::koloSuccess,
            false => koloResult_t::koloInProgress,
        })
    })
}

fn with_stream(
    call: &'static str,
    stream: koloStream_t,
    body: impl FnOnce(&Stream) -> Result<koloResult_t>,
) -> koloResult_t {
    guard_unnamed(call, || {
        let object = STREAMS.get(stream as usize)?;
        body(&object)
    })
}
