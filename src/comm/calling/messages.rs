//! Small messages on the calling thread: groups of sends and receives, such as a halo exchange,
//! and the collectives that are nothing but messages: gather, scatter, all-to-all, reduce.
//!
//! No plan is interpreted and no op is made; [`crate::exec::host::messages`] moves the same tokens
//! as the plan would.

use super::call::{Checked, Collective};
use crate::base::Result;
use crate::comm::owned::Exec;
use crate::comm::state::Inner;
use crate::exec::order::SmallMessage;
use crate::plan::{Direction, Placing};
use crate::tune::Choice;

impl Inner {
    /// Runs a message or a small collective of messages while nothing else is in flight.
    pub(in crate::comm) fn small_messages(
        &self,
        exec: &mut Exec,
        checked: &Checked,
        number: Option<u64>,
        choice: Choice,
    ) -> Result<()> {
        let collective = checked.call.collective;
        let placing = exec.placing(checked, choice.algorithm, choice.channels);
        if collective == Collective::Reduce && checked.call.peer == self.rank {
            return self.small_reduce(exec, checked, number, placing);
        }
        // SAFETY: the promise of `enqueue`.
        let begun = unsafe { exec.engine.begin_exchange(&checked.small(), placing) };
        exec.counts.steps_planned += begun.map_err(|error| self.fail(exec, error))?;
        self.run_messages(exec, (collective, number))
    }

    /// Takes a message of a group down; it is not to this rank itself.
    pub(in crate::comm) fn add_message(&self, exec: &mut Exec, checked: &Checked) -> Result<()> {
        let call = &checked.call;
        let (direction, place) = match call.collective {
            Collective::Send => (Direction::Send, call.send.cast_mut()),
            _ => (Direction::Recv, call.recv),
        };
        exec.engine.add_message(&SmallMessage {
            peer: call.peer as usize,
            direction,
            place,
            bytes: checked.bytes,
            signature: checked.signature,
        })
    }

    /// Runs the messages that were taken down.
    pub(in crate::comm) fn run_messages(
        &self,
        exec: &mut Exec,
        (collective, number): (Collective, Option<u64>),
    ) -> Result<()> {
        exec.counts.steps_planned += exec.engine.messages();
        let ended = self.drive(exec, (collective.name(), number), |exec| {
            // SAFETY: the promise of `enqueue`.
            Ok(unsafe { exec.engine.pass_messages() }?.into())
        });
        ended.map_err(|error| self.fail(exec, error))
    }

    /// The root of a small reduce.
    fn small_reduce(
        &self,
        exec: &mut Exec,
        checked: &Checked,
        number: Option<u64>,
        placing: Placing,
    ) -> Result<()> {
        let call = &checked.call;
        exec.counts.steps_planned += 1;
        exec.engine.begin_reduce();
        let small = checked.small();
        let ended = self.drive(exec, (call.collective.name(), number), |exec| {
            // SAFETY: the promise of `enqueue`.
            Ok(unsafe { exec.engine.pass_reduce(&small, placing) }?.into())
        });
        ended.map_err(|error| self.fail(exec, error))
    }
}
