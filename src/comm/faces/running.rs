//! How the safe calls run: on the calling thread, or on the stream of a scope.

use super::lengths::of_call;
use super::safe::{RunsCalls, outside_groups};
use crate::base::Result;
use crate::comm::calling::call::Call;
use crate::comm::calling::vector::BlockCall;
use crate::comm::calling::{enqueue, vector};
use crate::comm::communicator::{Communicator, Scope};
use crate::comm::queue::Queue;

impl RunsCalls for Communicator {
    fn queue(&self) -> &Queue {
        &self.queue
    }

    fn run(&self, call: &Call) -> Result<()> {
        of_call(&self.queue, call.collective, outside_groups())?;
        // SAFETY: the buffers are borrowed by our caller until this returns; the call blocks,
        // because there is no stream and no group.
        unsafe { enqueue::enqueue(&self.queue, call, None) }
    }

    fn run_blocks(&self, call: &BlockCall) -> Result<()> {
        of_call(&self.queue, call.collective, outside_groups())?;
        // SAFETY: as in `run`.
        unsafe { vector::enqueue_vector(&self.queue, call, None) }
    }

    fn run_exchange(&self, send: &Call, recv: &Call) -> Result<()> {
        of_call(&self.queue, send.collective, outside_groups())?;
        // SAFETY: as in `run`.
        unsafe { enqueue::enqueue_exchange(&self.queue, send, recv, None) }
    }
}

impl RunsCalls for Scope<'_, '_> {
    fn queue(&self) -> &Queue {
        self.queue
    }

    fn run(&self, call: &Call) -> Result<()> {
        // SAFETY: the buffers are borrowed for 'env, which outlives the scope, and the scope does
        // not end before the call has ended; mutable ones are borrowed once, so calls share none.
        unsafe { enqueue::enqueue_joining(self.queue, call, &self.stream) }
    }

    fn run_blocks(&self, call: &BlockCall) -> Result<()> {
        // SAFETY: as in `run`.
        unsafe { vector::enqueue_vector_on(self.queue, call, &self.stream) }
    }

    fn run_exchange(&self, send: &Call, recv: &Call) -> Result<()> {
        self.run(send)?;
        self.run(recv)
    }
}
