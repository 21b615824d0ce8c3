//! A collective as the plans that do it: one, or two in a row where the tuner says that two are
//! faster ([`crate::tune::parts`]).
//!
//! Plans of one communicator run in the order of issue on every rank, so the second plan of a
//! composition needs no signal from the first: its connections hold its tokens back.

use super::call::{Call, Checked, Collective};
use super::op::Op;
use super::state::{Exec, Inner};
use crate::base::{Result, checked};
use crate::dtype::{DataType, ReduceOp};
use crate::tune;

/// The rank over which composed collectives go.
const MIDDLE: u32 = 0;

impl Inner {
    /// Runs a call, which moves something, while nothing else is in flight.
    ///
    /// # Errors
    /// The communicator has stopped.
    #[inline]
    pub(super) fn run_parts(
        &self,
        exec: &mut Exec,
        checked: &Checked,
        number: Option<u64>,
    ) -> Result<()> {
        let collective = checked.call.collective;
        if exec.table.choose(collective, checked.bytes).composed {
            for &(part, all_blocks) in tune::parts(collective) {
                let part = self.part(exec, checked, part, all_blocks);
                let part = part.map_err(|error| self.fail(exec, error))?;
                self.run_parts(exec, &part, number)?;
            }
            return Ok(());
        }
        let mut op = exec.spare_op(collective);
        // The memory of a connection is taken when it is first used, and the others count on this
        // call from its beginning.
        let added = self.add_to(&mut op, exec, checked);
        added.map_err(|error| self.fail(exec, error))?;
        self.run_alone(exec, op, number)
    }

    /// Appends the ops of a call, which moves something.
    ///
    /// # Errors
    /// The communicator is not stopped yet.
    pub(super) fn push_parts(
        &self,
        exec: &mut Exec,
        checked: &Checked,
        ops: &mut Vec<Op>,
    ) -> Result<()> {
        let collective = checked.call.collective;
        if exec.table.choose(collective, checked.bytes).composed {
            for &(part, all_blocks) in tune::parts(collective) {
                let part = self.part(exec, checked, part, all_blocks)?;
                self.push_parts(exec, &part, ops)?;
            }
            return Ok(());
        }
        let mut op = Op::new(collective);
        self.add_to(&mut op, exec, checked)?;
        ops.push(op);
        Ok(())
    }

    /// One part of a composed call. What the first part leaves in the receive buffer is what the
    /// second one sends.
    #[cold]
    fn part(
        &self,
        exec: &mut Exec,
        whole: &Checked,
        collective: Collective,
        all_blocks: bool,
    ) -> Result<Checked> {
        let mut call = Call {
            collective,
            peer: MIDDLE,
            ..whole.call
        };
        if whole.call.collective == Collective::Barrier {
            // An all-reduce of 8 bytes, whose result nobody looks at.
            call.send = exec.barrier_word.as_ptr().cast();
            call.recv = exec.barrier_word.as_mut_ptr().cast();
            call.count = 1;
            call.dtype = DataType::Uint64;
            call.op = super::RedOp::SUM;
        }
        if collective == Collective::Broadcast {
            call.send = call.recv.cast_const();
        }
        if all_blocks {
            call.count = checked::bytes(call.count, self.nranks as usize)?;
        }
        let op = match whole.call.collective {
            Collective::Barrier => Some(ReduceOp::Sum),
            _ => whole.op,
        };
        let op = op.filter(|_| collective.reduces());
        Ok(Checked {
            call,
            bytes: checked::bytes(call.count, call.dtype.size_bytes())?,
            signature: call.signature(op.map_or(0, |op| op as u8)).0 ^ whole.past,
            past: whole.past,
            number: whole.number,
            op,
            made: whole.made.clone().filter(|_| collective.reduces()),
            parts: None,
        })
    }
}
