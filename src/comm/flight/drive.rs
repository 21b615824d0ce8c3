//! The queue of calls in flight: whoever waits drives it, on the calling thread.

use super::completion::Completion;
use super::moving;
use super::op::{Op, Step};
use super::wait::Waiter;
use crate::base::caught::panicked;
use crate::base::place::CallStack;
use crate::base::{Error, Result, caught};
use crate::comm::calling::waiting_call::WaitingCall;
use crate::comm::failing::ended;
use crate::comm::failing::still_there;
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::config::Errors;
use crate::exec::{CommDevice, Stop, Waiting};
use crate::proxy::net::{Links, live};
use crate::proxy::progress::{Engine, NO_SLEEP, Pass, Rest, Work};
use crate::wire::doorbell::Doorbell;
use crate::wire::reading::Stopped;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the progress thread sleeps where nothing shows that it may go on.
const UNHEARD: Duration = Duration::from_millis(2);

/// Runs an op while nothing else is in flight, and keeps its memory.
pub(in crate::comm) fn run_alone(
    queue: &Queue,
    exec: &mut Exec,
    mut op: Box<Op>,
    call: WaitingCall,
) -> Result<()> {
    if let Err(error) = drive(queue, exec, call, |exec| pass_op(queue, exec, &mut op)) {
        // Its buffers may be shown to peers: it ends with the calls in flight.
        exec.in_flight.push_front(*op);
        return Err(queue.fail(exec, error));
    }
    exec.scratch.spare = Some(op);
    Ok(())
}

/// Keeps who calls an op that goes into the queue, where errors are to name their place.
pub(in crate::comm) fn keep_caller(queue: &Queue, op: &mut Op) {
    if queue.settings.errors() == Errors::Backtrace {
        op.called_by = Some(Box::new(CallStack::here()));
    }
}

/// Drives something that is not in the queue until it is done.
///
/// # Errors
/// Why it cannot end, with the name of the call; the communicator is not stopped yet.
#[inline]
pub(in crate::comm) fn drive(
    queue: &Queue,
    exec: &mut Exec,
    call: WaitingCall,
    pass: impl FnMut(&mut Exec) -> std::result::Result<Step, Stop>,
) -> Result<()> {
    // Not by `caught`: `tests/path.rs` counts the files that a call passes.
    let driven = catch_unwind(AssertUnwindSafe(|| drive_on(queue, exec, call, pass)));
    // By its place too, before the communicator stops for this reason.
    driven
        .unwrap_or_else(|panic| Err(panicked(panic)))
        .map_err(|error| queue.tells(error).during(call.name))
}

#[inline]
fn drive_on(
    queue: &Queue,
    exec: &mut Exec,
    call: WaitingCall,
    mut pass: impl FnMut(&mut Exec) -> std::result::Result<Step, Stop>,
) -> Result<()> {
    let mut waiter = Waiter::new(queue, call);
    loop {
        match pass(exec) {
            Ok(Step::Done) => return Ok(()),
            Ok(Step::Moved) => {
                waiter.moved();
                if queue.is_stopped() {
                    return Err(queue.stop_error());
                }
            }
            Ok(Step::Blocked(peer)) => waiter.pause(peer)?,
            Err(stop) => {
                return Err(queue.because(exec, stop, call.number));
            }
        }
    }
}

/// One pass over an op. While peers' buffers are read, they are told.
pub(in crate::comm) fn pass_op(
    queue: &Queue,
    exec: &mut Exec,
    op: &mut Op,
) -> std::result::Result<Step, Stop> {
    if !op.is_direct() {
        return moving::pass(queue, op, exec);
    }
    let stopped = |Stopped| Stop::Error(queue.stop_error());
    let mark = queue.node.reading(queue.rank as usize);
    let reader = mark.begin(queue.node.abort_record()).map_err(stopped)?;
    let step = moving::pass(queue, op, exec)?;
    reader.end().map_err(stopped)?;
    Ok(step)
}

/// Waits until the queue of calls in flight has room for one more.
pub(in crate::comm) fn make_room(queue: &Queue, exec: &mut Exec, call: &'static str) -> Result<()> {
    let most = queue.settings.calls_in_flight() as usize;
    if exec.in_flight.len() < most {
        return Ok(());
    }
    let mut waiter = Waiter::new(queue, (call, None));
    while exec.in_flight.len() >= most {
        match pass_queue(queue, exec)? {
            Step::Moved | Step::Done => waiter.moved(),
            Step::Blocked(peer) => {
                if let Err(error) = waiter.pause(peer) {
                    return Err(queue.fail(exec, error));
                }
            }
        }
    }
    Ok(())
}

/// Makes sure that there is a progress thread. False if there can be none.
pub(in crate::comm) fn want_thread() -> bool {
    Engine::global().want_thread(crate::comm::start::pinning::begin_progress)
}

/// Lets the engine know that there is work, and makes a first pass.
pub(in crate::comm) fn set_off(queue: &Arc<Queue>) {
    if queue.thread_progress {
        want_thread();
    }
    match caught(|| queue.pass()) {
        Ok(Pass::Idle) => {}
        Ok(_) => Engine::global().add(Arc::clone(queue) as Arc<dyn Work>),
        Err(error) => queue.broken(error),
    }
}

/// Drives the queue until `last` has ended.
pub(in crate::comm) fn drive_until(
    queue: &Queue,
    exec: &mut Exec,
    last: &Completion,
    call: impl Into<WaitingCall>,
) -> Result<()> {
    let mut waiter = Waiter::new(queue, call);
    loop {
        let passed = pass_queue(queue, exec);
        if let Some(result) = last.result() {
            return result;
        }
        match passed {
            Ok(Step::Moved) | Ok(Step::Done) => {
                waiter.moved();
                if queue.is_stopped() {
                    return Err(queue.fail(exec, queue.stop_error()));
                }
            }
            Ok(Step::Blocked(peer)) => {
                if let Err(error) = waiter.pause(peer) {
                    return Err(queue.fail(exec, error));
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Moves the first op of the queue, and those behind it as they come first.
pub(in crate::comm) fn pass_queue(queue: &Queue, exec: &mut Exec) -> Result<Step> {
    pass_queue_but(queue, exec, false)
}

/// Passes the queue. With `not_by_program`, calls stay that only threads of the program may
/// move.
fn pass_queue_but(queue: &Queue, exec: &mut Exec, not_by_program: bool) -> Result<Step> {
    let mut moved = false;
    while let Some(mut op) = exec.in_flight.pop_front() {
        if !op.may_begin() || (op.by_program && not_by_program) {
            exec.in_flight.push_front(op);
            return Ok(if moved {
                Step::Moved
            } else {
                Step::Blocked(queue.rank as usize)
            });
        }
        // Others wait for what this one should have sent: it ends with the communicator.
        let passed = caught(|| pass_op(queue, exec, &mut op));
        match passed.unwrap_or_else(|error| Err(Stop::Error(error))) {
            Ok(Step::Done) => {
                moved = true;
                queue.blocked.call.store(0, Ordering::Relaxed);
                op.finish(&Ok(()));
            }
            Ok(step) => {
                if let Step::Blocked(peer) = step {
                    queue.blocked.on.store(peer as u32, Ordering::Relaxed);
                    queue
                        .blocked
                        .call
                        .store(op.number.unwrap_or(0), Ordering::Relaxed);
                }
                exec.in_flight.push_front(op);
                return Ok(if moved { Step::Moved } else { step });
            }
            Err(stop) => {
                let number = op.number;
                let error = queue.because(exec, stop, number);
                // This thread may be in another call, whose place is not the op's.
                let mut error = queue.named(error).during(op.collective.name());
                if let Some(stack) = &op.called_by {
                    error = error.called_by(stack);
                }
                exec.in_flight.push_front(op);
                return Err(queue.fail(exec, error));
            }
        }
    }
    Ok(Step::Done)
}

/// Who drives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PassedBy {
    /// A thread of the program.
    Program,
    /// The progress thread, which calls no function of the program.
    Kolo,
}

fn pass_by(queue: &Queue, driver: PassedBy) -> Pass {
    // Whoever waits in another communicator drives this one too, and must not make it fail.
    if queue
        .links()
        .is_some_and(|links| !links.net().this_thread())
    {
        return Pass::Waiting;
    }
    let carried = queue.links().map(Links::pass);
    let Some(mut exec) = queue.exec.visitor() else {
        let carries = carries_for_device(queue, carried);
        if carries.is_some() && queue.is_stopped() {
            // Whoever is inside may wait for the device, which leaves when it hears of it.
            let _ = queue.stop_error();
        }
        return carries.unwrap_or(Pass::Elsewhere);
    };
    if exec.in_flight.is_empty() {
        let carries = carries_for_device(queue, carried);
        let stop = match carries.is_some() && queue.is_stopped() {
            true => Some(queue.stop_error()),
            false => carries.and_then(|_| ended::kernels_wait_by_now(queue, &mut exec)),
        };
        if let Some(error) = stop {
            queue.fail(&mut exec, error);
            return Pass::Idle;
        }
        return carries.unwrap_or(Pass::Idle);
    }
    // What is in the queue may run operations of the program.
    exec.drives();
    exec.may_panic("work");
    if queue.is_stopped() {
        let error = queue.stop_error();
        queue.fail(&mut exec, error);
        return Pass::Idle;
    }
    let kolo = driver == PassedBy::Kolo;
    let passed = pass_queue_but(queue, &mut exec, kolo);
    if let Ok(Step::Blocked(peer)) = passed
        && let Err(error) =
            still_there::is_still_there(queue, &mut exec.stalled, "a call in flight", peer)
    {
        queue.fail(&mut exec, error);
        return Pass::Idle;
    }
    match (passed, carried) {
        (Ok(Step::Moved), _) | (Ok(Step::Blocked(_)), Some(Pass::Moved)) => Pass::Moved,
        (Ok(Step::Blocked(_)), Some(Pass::Elsewhere)) => Pass::Elsewhere,
        (Ok(Step::Blocked(_)), _) => Pass::Waiting,
        (Ok(Step::Done) | Err(_), _) => Pass::Idle,
    }
}

/// Returns the result of a pass over the connections, if some carry launches of the device: no
/// call waits for these.
fn carries_for_device(queue: &Queue, carried: Option<Pass>) -> Option<Pass> {
    if queue.device == CommDevice::Host || !queue.links().is_some_and(Links::is_busy) {
        return None;
    }
    Some(match carried {
        Some(Pass::Moved) => Pass::Moved,
        _ => Pass::Waiting,
    })
}

impl Work for Queue {
    fn any_thread(&self) -> bool {
        self.thread_progress
    }

    fn broken(&self, error: Error) {
        self.stop(&error);
        // A caller inside sees the stop. A driver inside may have looked already and leave without,
        // and nobody looks again at what the engine has given up.
        self.let_go();
    }

    fn patience(&self) -> u32 {
        match carries_for_device(self, None) {
            // Nothing wakes from sleep when a kernel has filled a slot.
            Some(_) => NO_SLEEP,
            None => self.wait.thread_looks,
        }
    }

    fn pass(&self) -> Pass {
        pass_by(self, PassedBy::Program)
    }

    fn pass_on_thread(&self) -> Pass {
        pass_by(self, PassedBy::Kolo)
    }

    fn rest<'a>(&'a self, rest: &mut Rest<'a>) {
        if let Some(links) = self.links()
            && links.is_busy()
        {
            return rest.network(|set| live::watch(links, set));
        }
        let Some(exec) = self.exec.driver() else {
            return rest.at_most(UNHEARD);
        };
        match exec.in_flight.front() {
            // Whoever ends what it waits for goes on with it, and may leave it here.
            Some(op) if op.by_program || !op.may_begin() => rest.at_most(UNHEARD),
            _ => rest.bell(self.node.own_bell(self.rank as usize)),
        }
    }

    fn rests_alike(&self) -> bool {
        self.network.is_none()
    }

    fn bell(&self) -> Option<&Doorbell> {
        Some(self.node.bell(self.rank as usize))
    }
}
