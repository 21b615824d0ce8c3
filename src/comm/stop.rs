//! How a communicator stops: everything in flight ends, and its buffers are let go.

use super::fault;
use super::op::Op;
use super::state::{Exec, Inner};
use crate::base::{Error, clock};
use crate::exec::oneshot::Stop;
use crate::transport::fork;
use std::time::Duration;

/// How long a rank whose call failed waits for others to let go of its buffers: one that is inside
/// kolo does so at once, one that computes or is dead does not touch them.
const LET_GO: Duration = Duration::from_secs(1);

impl Inner {
    #[cold]
    pub(super) fn stopped_by(&self, exec: &mut Exec, stop: Stop, number: Option<u64>) -> Error {
        let error = self.because(stop, number);
        self.fail(exec, error)
    }

    #[cold]
    pub(super) fn because(&self, stop: Stop, number: Option<u64>) -> Error {
        match stop {
            Stop::Mismatch(mismatch) => fault::mismatch(self, mismatch, number),
            Stop::Error(error) => error,
        }
    }

    /// Stops the communicator for this reason; every call in flight ends with it.
    #[cold]
    pub(super) fn fail(&self, exec: &mut Exec, error: Error) -> Error {
        self.stop(&error);
        let shown = exec.queue.iter().any(Op::is_direct);
        let ended: Vec<Op> = exec.queue.drain(..).collect();
        if !fork::in_child_of_user() {
            if let Some(network) = &self.network {
                network.let_go();
            }
            self.node.board(self.rank as usize).let_go();
            if shown {
                self.await_readers();
            }
        }
        for op in ended {
            op.finish(&Err(error.clone()));
        }
        error
    }

    /// Peers may still read the buffers of a direct call: waits until they have let go, or are not
    /// expected to.
    #[cold]
    fn await_readers(&self) {
        let start = clock::now();
        let holds = |rank: u32| self.is_mate(rank) && !self.node.board(rank as usize).has_let_go();
        while (0..self.nranks).any(holds) && start.elapsed() < LET_GO {
            std::thread::yield_now();
        }
    }

    /// After a stop: ends what is in flight, so that nobody touches its buffers any more. Waits for
    /// a driver to come out, but not for a call of the user.
    pub(super) fn let_go(&self) {
        if fork::in_child_of_user() {
            return;
        }
        while let Some(mut exec) = self.exec.driver_or_wait() {
            let error = self.stop_error();
            self.fail(&mut exec, error);
            if exec.queue.is_empty() {
                break;
            }
        }
    }
}
