//! The queue of calls in flight: whoever waits drives it, on the calling thread.

use super::op::{Completion, Op, Step};
use super::state::{Exec, Inner};
use super::wait::Waiter;
use crate::base::{Rank, Result};
use crate::exec::Waiting;
use crate::exec::oneshot::Stop;
use crate::proxy::net::Links;
use crate::proxy::progress::{Engine, Pass, Work};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Calls in flight on a communicator: one more on a stream waits until the oldest have ended, and
/// a group of more is an error. Bounds the memory that a caller far ahead of its peers can take.
pub(super) const MAX_IN_FLIGHT: usize = 2048;

impl Inner {
    /// Runs an op while nothing else is in flight, and keeps its memory.
    pub(super) fn run_alone(
        &self,
        exec: &mut Exec,
        mut op: Box<Op>,
        number: Option<u64>,
    ) -> Result<()> {
        let call = (op.collective.name(), number);
        if let Err(error) = self.drive(exec, call, |exec| op.pass(exec)) {
            // Its buffers may be shown to peers: it ends with the calls in flight.
            exec.queue.push_front(*op);
            return Err(self.fail(exec, error));
        }
        exec.spare = Some(op);
        Ok(())
    }

    /// Drives something that is not in the queue until it is done.
    ///
    /// # Errors
    /// Why it cannot end, with the name of the call; the communicator is not stopped yet.
    #[inline]
    pub(super) fn drive(
        &self,
        exec: &mut Exec,
        call: (&'static str, Option<u64>),
        mut pass: impl FnMut(&mut Exec) -> std::result::Result<Step, Stop>,
    ) -> Result<()> {
        let mut waiter = Waiter::new(self, call);
        loop {
            match pass(exec) {
                Ok(Step::Done) => return Ok(()),
                Ok(Step::Moved) => {
                    waiter.moved();
                    if self.is_stopped() {
                        return Err(self.stop_error());
                    }
                }
                Ok(Step::Blocked(peer)) => waiter.pause(peer)?,
                Err(stop) => {
                    let error = self.because(stop, call.1);
                    return Err(error.at(Rank(self.rank)).during(call.0));
                }
            }
        }
    }

    /// Waits until the queue of calls in flight has room for one more.
    pub(super) fn make_room(&self, exec: &mut Exec, call: &'static str) -> Result<()> {
        if exec.queue.len() < MAX_IN_FLIGHT {
            return Ok(());
        }
        let mut waiter = Waiter::new(self, (call, None));
        while exec.queue.len() >= MAX_IN_FLIGHT {
            match self.pass_queue(exec)? {
                Step::Moved | Step::Done => waiter.moved(),
                Step::Blocked(peer) => {
                    if let Err(error) = waiter.pause(peer) {
                        return Err(self.fail(exec, error));
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes sure that there is a progress thread. False if there can be none.
    pub(super) fn want_thread(&self) -> bool {
        let pinning = self.pinning.clone();
        Engine::global().want_thread(move || match pinning.apply() {
            Ok(()) => tracing::info!("progress thread: {pinning}"),
            Err(error) => tracing::warn!("the progress thread runs unpinned: {error}"),
        })
    }

    /// Lets the engine know that there is work, and makes a first pass.
    pub(super) fn set_off(self: &Arc<Inner>) {
        if self.thread_progress {
            self.want_thread();
        }
        if self.pass() != Pass::Idle {
            Engine::global().add(Arc::clone(self) as Arc<dyn Work>);
        }
    }

    /// Drives the queue until `last` has ended.
    pub(super) fn drive_until(
        &self,
        exec: &mut Exec,
        last: &Completion,
        call: (&'static str, Option<u64>),
    ) -> Result<()> {
        let mut waiter = Waiter::new(self, call);
        loop {
            let passed = self.pass_queue(exec);
            if let Some(result) = last.result() {
                return result;
            }
            match passed {
                Ok(Step::Moved) | Ok(Step::Done) => {
                    waiter.moved();
                    if self.is_stopped() {
                        return Err(self.fail(exec, self.stop_error()));
                    }
                }
                Ok(Step::Blocked(peer)) => {
                    if let Err(error) = waiter.pause(peer) {
                        return Err(self.fail(exec, error));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Moves the first op of the queue, and those behind it as they come first.
    pub(super) fn pass_queue(&self, exec: &mut Exec) -> Result<Step> {
        let mut moved = false;
        while let Some(mut op) = exec.queue.pop_front() {
            if op.after.iter().any(|earlier| earlier.result().is_none()) {
                exec.queue.push_front(op);
                return Ok(if moved {
                    Step::Moved
                } else {
                    Step::Blocked(self.rank as usize)
                });
            }
            match op.pass(exec) {
                Ok(Step::Done) => {
                    moved = true;
                    op.finish(&Ok(()));
                }
                Ok(step) => {
                    if let Step::Blocked(peer) = step {
                        self.blocked_on.store(peer as u32, Ordering::Relaxed);
                        self.blocked_in
                            .store(op.number.unwrap_or(0), Ordering::Relaxed);
                    }
                    exec.queue.push_front(op);
                    return Ok(if moved { Step::Moved } else { step });
                }
                Err(stop) => {
                    let number = op.number;
                    let error = self
                        .because(stop, number)
                        .at(Rank(self.rank))
                        .during(op.collective.name());
                    exec.queue.push_front(op);
                    return Err(self.fail(exec, error));
                }
            }
        }
        Ok(Step::Done)
    }
}

impl Work for Inner {
    fn any_thread(&self) -> bool {
        self.links().is_none_or(|links| links.net().any_thread())
    }

    fn pass(&self) -> Pass {
        // Whoever waits in another communicator drives this one too, and must not make it fail.
        if self.links().is_some_and(|links| !links.net().this_thread()) {
            return Pass::Waiting;
        }
        let carried = self.links().map(Links::pass);
        let Some(mut exec) = self.exec.driver() else {
            return Pass::Waiting;
        };
        if exec.queue.is_empty() {
            return Pass::Idle;
        }
        if self.is_stopped() {
            let error = self.stop_error();
            self.fail(&mut exec, error);
            return Pass::Idle;
        }
        match self.pass_queue(&mut exec) {
            Ok(Step::Moved) => Pass::Moved,
            Ok(Step::Blocked(_)) if carried == Some(Pass::Moved) => Pass::Moved,
            Ok(Step::Blocked(_)) => Pass::Waiting,
            Ok(Step::Done) | Err(_) => Pass::Idle,
        }
    }
}
