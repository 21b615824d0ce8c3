//! The end of a communicator as its rank asks for it: when all calls have ended, or at once.

use super::farewell;
use crate::base::{Code, Error, Result};
use crate::comm::calling::{device, tally};
use crate::comm::flight::drive;
use crate::comm::queue::Queue;
use crate::exec::operation::outside_operations;
use crate::proxy::progress::{Engine, Work};
use crate::transport::fork;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Waits until every call in flight has ended; after it none is taken.
///
/// # Errors
/// As [`Communicator::finalize`](crate::comm::Communicator::finalize).
pub(in crate::comm) fn finalize(queue: &Arc<Queue>) -> Result<()> {
    finish(queue).map_err(|error| queue.tells(error))
}

fn finish(queue: &Arc<Queue>) -> Result<()> {
    outside_operations("finalizes a communicator")?;
    let alive = queue.alive();
    alive.map_err(|error| error.during("CommFinalize"))?;
    let _timed = tally::waiting("CommFinalize");
    let mut exec = queue.user()?;
    if let Some(carrier) = exec.device.as_ref().and_then(|on| on.carrier.as_ref()) {
        carrier.refuse_graphs()?;
    }
    if let Some(last) = exec.in_flight.back().map(|op| Arc::clone(&op.completion)) {
        drive::drive_until(queue, &mut exec, &last, ("CommFinalize", None))?;
    }
    device::settle_device(queue, &mut exec, "CommFinalize")?;
    queue.ending.finalized.store(true, Ordering::Relaxed);
    Ok(())
}

/// Ends the use of the communicator by this rank, and frees what it holds.
///
/// # Errors
/// As [`Communicator::destroy`](crate::comm::Communicator::destroy).
pub(in crate::comm) fn destroy(queue: &Arc<Queue>) -> Result<()> {
    outside_operations("destroys a communicator")?;
    if queue.ending.destroyed.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    if fork::in_child_of_user() {
        // The communicator is its parent's, and so are the threads that may hold its locks.
        return Ok(());
    }
    let timed = tally::waiting("CommDestroy");
    let ended = if queue.is_stopped() {
        let untold = farewell::untold(queue);
        queue.let_go();
        untold.map_or(Ok(()), Err)
    } else {
        finalize(queue)
    };
    if ended
        .as_ref()
        .is_err_and(|error| error.code == Code::InvalidUsage)
        && !queue.is_stopped()
    {
        // Another thread is inside a call: nothing was done.
        queue.ending.destroyed.store(false, Ordering::Release);
        return ended;
    }
    let ended = ended.and_then(|()| farewell::farewell(queue));
    drop(timed);
    if queue.seen.tallied {
        tally::leaving(queue.nonce);
    }
    if let Ok(mut exec) = queue.user() {
        exec.engine.free_scratch();
        // Its end waits for kernels: they leave when the communicator has stopped.
        exec.device = None;
    }
    crate::cuda::drop_unused();
    let ended = ended.and(queue.registrations.end());
    // Whoever waits for data of this rank must not hear that it has left before they came.
    if let Some(links) = queue.links() {
        links.close(queue.is_stopped());
    }
    let parted = farewell::take_leave(queue);
    let ended = ended.and(parted);
    queue.node.wake_others();
    queue.ending.stopped.store(true, Ordering::Release);
    queue.leave();
    // What the last handle frees is freed on the program's thread, now.
    let work: Arc<dyn Work> = queue.clone();
    Engine::global().release(&work);
    // That code says that nothing was done.
    ended.map_err(|error| {
        let error = match error.code {
            Code::InvalidUsage => error.with_code(Code::RemoteError),
            _ => error,
        };
        queue.tells(error).during("CommDestroy")
    })
}

/// Whether the communicator still works.
///
/// # Errors
/// The error that stopped it.
pub(in crate::comm) fn async_error(queue: &Queue) -> Result<()> {
    device::look_at_device(queue);
    if queue.is_stopped() {
        return Err(queue.stop_error());
    }
    Ok(())
}

/// Aborts the communicator, as its program asks for it.
pub(in crate::comm) fn abort(queue: &Queue) {
    abort_for(queue, &called_off(queue.rank, "called CommAbort"));
}

/// Aborts the communicator for a reason that the others hear.
pub(in crate::comm) fn abort_for(queue: &Queue, why: &Error) {
    if !queue.ending.destroyed.load(Ordering::Acquire) {
        queue.stop(why);
        queue.let_go();
    }
}

/// Makes the error that the ranks hear of a rank whose program ended its communicator, because it
/// `did` something.
pub(in crate::comm) fn called_off(rank: u32, did: &str) -> Error {
    Error::new(
        Code::RemoteError,
        format!("rank {rank} {did}"),
        "see why the program aborted; make a new communicator to go on",
    )
}
