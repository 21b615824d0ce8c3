//! Small messages on the calling thread: groups of sends and receives, such as a halo exchange,
//! and the collectives that are nothing but messages: gather, scatter, all-to-all, reduce.
//!
//! No plan is interpreted and no op is made; [`crate::exec::messages`] moves the same tokens as the
//! plan would.

use super::call::{Checked, Collective};
use crate::base::Result;
use crate::comm::owned::{Exec, Reused};
use crate::comm::state::Inner;
use crate::exec::messages::{SmallExchange, SmallReduce};
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
        exec.scratch.messages.clear();
        if collective == Collective::Reduce && checked.call.peer == self.rank {
            let placing = exec.placing(checked, choice.algorithm, choice.channels);
            return self.small_reduce(exec, checked, number, placing);
        }
        let small = SmallExchange {
            collective,
            send: checked.call.send,
            recv: checked.call.recv,
            bytes: checked.bytes,
            peer: checked.call.peer as usize,
            signature: checked.signature,
            placing: exec.placing(checked, choice.algorithm, choice.channels),
        };
        let (messages, wires) = (&mut exec.scratch.messages, &mut exec.wires);
        // SAFETY: the promise of `enqueue`.
        let begun = unsafe { small.begin(messages, wires) };
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
        let Reused {
            messages, latest, ..
        } = &mut exec.scratch;
        let after = |end, number| latest.replace(latest.stamp(), end, number);
        let peer = (call.peer as usize, direction, Placing::ByPair);
        messages.add(
            &mut exec.wires,
            peer,
            (place, checked.bytes),
            checked.signature,
            after,
        )
    }

    /// Runs the messages that were taken down.
    pub(in crate::comm) fn run_messages(
        &self,
        exec: &mut Exec,
        (collective, number): (Collective, Option<u64>),
    ) -> Result<()> {
        exec.counts.steps_planned += exec.scratch.messages.len() as u64;
        let ended = self.drive(exec, (collective.name(), number), |exec| {
            let (messages, wires) = (&mut exec.scratch.messages, &mut exec.wires);
            // SAFETY: the promise of `enqueue`.
            Ok(unsafe { messages.progress(wires, &mut ()) }?.into())
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
        exec.scratch.contributors.reset();
        let ended = self.drive(exec, (call.collective.name(), number), |exec| {
            let small = SmallReduce {
                send: call.send,
                recv: call.recv,
                count: call.count,
                kernel: exec.kernels.get(call.dtype, checked.op),
                signature: checked.signature,
                placing,
            };
            let (wires, ends) = (&mut exec.wires, &mut exec.scratch.contributors);
            // SAFETY: the promise of `enqueue`.
            Ok(unsafe { small.progress(wires, ends, &mut exec.scratch.sources, &mut ()) }?.into())
        });
        ended.map_err(|error| self.fail(exec, error))
    }
}
