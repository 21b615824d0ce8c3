//! Buffers that the program registers with a communicator.
//!
//! A registration belongs to a communicator and ends with it; the memory itself is the process's
//! ([`crate::transport::registered`]), where several communicators may have registered the same. It
//! is moved only where another process of the node reads it by that: ranks that are threads of one
//! process read each other's memory as it is, memory of `koloMemAlloc` can be read already, what
//! goes to other nodes goes from where it is, and devices reach memory in other ways. The first
//! registration that moves nothing is a line of the log.

use super::queue::Queue;
use super::registrations::{RegisteredBuffer, RegisteredRange};
use crate::base::{Error, Result};
use crate::exec::CommDevice;
use crate::transport::{fork, memory, registered};
use std::sync::Arc;

/// Why no other process reads buffers by what is registered, if that is so.
fn why_not(queue: &Queue) -> Option<&'static str> {
    let is_read = |rank: u32| queue.is_mate(rank) && !queue.process_mates.contains(&rank);
    if queue.device != CommDevice::Host {
        return Some("devices reach memory in other ways");
    }
    if !queue.settings.direct() {
        return Some("the setting direct is off");
    }
    if !(0..queue.nranks).any(is_read) {
        return Some(match queue.network {
            None => "all ranks are threads of one process, which read each other's memory as it is",
            Some(_) => {
                "no other process of this node has a rank, and what goes to other nodes is \
                        read as it is"
            }
        });
    }
    None
}

/// Registers a buffer of `bytes` bytes: large calls on it, or on parts of it, are then read by
/// the other ranks of the node where they lie; where all ranks are on one node, if all ranks have
/// registered theirs (or have them from `koloMemAlloc`). Each rank calls it for itself; any thread.
///
/// The whole pages of the buffer are moved onto a file in memory, at the same addresses and
/// with the same content. `docs/memory.md` says which memory that can be done with, and what
/// fork() and `madvise` do to it then. Where it gains nothing, nothing is moved.
///
/// # Safety
/// The memory is the program's, and stays mapped until the registration has ended. Until this
/// returns, and while the registration ends, no thread writes into it.
///
/// # Errors
/// `InvalidArgument` for memory that cannot be moved, with the reason; `SystemError` where the
/// system or a limit refuses; those of a communicator that has stopped. Nothing has changed.
pub(in crate::comm) unsafe fn register(
    queue: &Arc<Queue>,
    start: *const u8,
    bytes: usize,
) -> Result<RegisteredBuffer> {
    queue.callable()?;
    if start.is_null() && bytes > 0 {
        return Err(Error::argument(
            format!("the buffer of {bytes} bytes is NULL"),
            "give the address of the buffer",
        ));
    }
    let is_there = bytes == 0 || memory::allocated(start, bytes).is_some();
    let why_not = why_not(queue);
    if let Some(why) = why_not.filter(|_| queue.registrations.tells_unused()) {
        tracing::info!(
            "communicator {}: registered buffers stay as they are: {why}",
            queue.name
        );
    }
    let memory = match why_not.is_none() && !is_there {
        true => Some(registered::register(start, bytes)),
        false => None,
    };
    let memory = memory.transpose();
    let memory = memory.map_err(|error| queue.tells(error))?;
    let bytes = start.addr()..start.addr().saturating_add(bytes);
    Ok(queue.registrations.add(RegisteredRange { bytes, memory }))
}

/// Ends a registration, after the last call on the buffer. Memory that no other registration
/// holds is moved back. Ending the communicator does the same for those that are left. Any
/// thread.
///
/// # Errors
/// `InvalidArgument` for one that is not there, or of another communicator; `SystemError` if
/// memory cannot be moved back: it stays usable where it is, and the registration has ended.
pub(in crate::comm) fn deregister(
    queue: &Arc<Queue>,
    registration: RegisteredBuffer,
) -> Result<()> {
    if fork::in_child_of_user() {
        return queue.alive();
    }
    let found = queue.registrations.lock().remove(&registration.0);
    let Some(found) = found else {
        let error = Error::argument(
            format!(
                "{:#x} is no registration of this communicator: it has ended, was made with \
                 another one, or never was",
                registration.0
            ),
            "end each registration once, with the communicator that made it",
        );
        return Err(queue.tells(error));
    };
    found.end(|memory| registered::deregister(memory).map(drop))
}
