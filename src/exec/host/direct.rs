//! Steps on buffers that the reader can reach: a token says where the data lie, and nothing is
//! copied into a slot.
//!
//! A token carries which buffer of its writer (send or receive) and how many bytes from its start;
//! the reader adds the base that it knows of that buffer. The data stay as they are until the
//! token is released, and a lane ends only when all of its tokens have been.

use super::lane::{At, LaneRun, kept_ahead};
use super::launch::Launch;
use super::wires::Wires;
use crate::base::Result;
use crate::exec::reach::Base;
use crate::plan::{Operand, POST_SCALE, Space, Step, StepOp};

/// Bytes of a token's payload: number of the buffer, offset.
const TOKEN_BYTES: usize = 16;

/// Results of at least so many bytes in all are written past the cache.
const STREAM_TOTAL: usize = 1 << 20;

impl LaneRun {
    /// Folds or copies one slice from where it lies, and writes the tokens.
    ///
    /// # Errors
    /// When memory of another process cannot be read.
    ///
    /// # Safety
    /// The buffers of `launch`, and of the peers behind `bases`, hold what the windows address.
    pub(super) unsafe fn fold_direct(
        &mut self,
        step: &Step,
        launch: &Launch,
        wires: &mut Wires,
        (bases, chunk, count): (&[[Base; 2]], u32, usize),
    ) -> Result<()> {
        let plan = &launch.plan;
        let (srcs, dsts) = (plan.list(step.srcs), plan.list(step.dsts));
        let at = At::new(&self.window, self.round, self.slice, &self.scratch);
        self.lists.srcs.clear();
        self.lists.dsts.clear();
        self.lists.private.clear();
        for operand in srcs {
            let Some(index) = operand.as_connection() else {
                let place = at.place(operand, launch, chunk);
                self.lists.srcs.push(place.cast_const());
                continue;
            };
            let ahead = kept_ahead(operand, self.slice, launch.geometry.slice_steps);
            let token = wires.ports.place(plan.ends[index], TOKEN_BYTES, ahead);
            // SAFETY: the token has arrived, and its writer wrote both words before.
            let [buffer, offset] = unsafe { token.cast::<[u64; 2]>().read_unaligned() };
            let writer = plan.connections()[index].writer as usize;
            let buffer = (buffer & 1) as usize;
            let (private, place) = (&mut self.lists.private, self.lists.srcs.len());
            private.note(place, bases, (writer, buffer));
            let base = &bases[writer][buffer];
            self.lists.srcs.push(base.at(offset as usize));
        }
        let mut params = launch.kernel.params;
        params.pre_scale_mask = 0;
        params.divisor = launch.kernel.divisor;
        params.divisor = params.divisor.filter(|_| step.flags & POST_SCALE != 0);
        let copies = step.op == StepOp::Copy && params.divisor.is_none();
        // An address of another process may equal one of this process, which means nothing.
        let source_is_here = copies && !self.lists.private.has(0);
        for operand in dsts.iter().filter(|dst| dst.space != Space::Connection) {
            let place = at.place(operand, launch, chunk);
            if !(source_is_here && place.cast_const() == self.lists.srcs[0]) {
                self.lists.dsts.push(place);
            }
        }
        let bytes = count * launch.kernel.element_bytes;
        params.stream_mask = match launch.bytes >= STREAM_TOTAL {
            true => (1 << self.lists.dsts.len()) - 1,
            false => 0,
        };
        let (from, to) = (&self.lists.srcs, &self.lists.dsts);
        match (to.is_empty(), copies, self.lists.private.is_empty()) {
            (true, _, _) => {}
            // SAFETY: our caller's promise; the plan's direct form was proved to be free of races.
            (_, true, true) => unsafe { (launch.kernel.copy)(from, to, bytes, &params) },
            // SAFETY: as above; the elements have the kernel's type.
            (_, false, true) => unsafe { (launch.kernel.fold)(from, to, count, &params) },
            // SAFETY: as above.
            (_, true, false) => unsafe { self.copy_private(launch, bases, bytes, &params)? },
            // SAFETY: as above.
            (_, false, false) => unsafe {
                self.fold_private(launch, wires, (bases, count), &params)?;
            },
        }
        self.write_tokens(step, launch, wires, chunk);
        Ok(())
    }

    /// Tells the readers where the slice lies.
    fn write_tokens(&self, step: &Step, launch: &Launch, wires: &mut Wires, chunk: u32) {
        let plan = &launch.plan;
        let (srcs, dsts) = (plan.list(step.srcs), plan.list(step.dsts));
        let at = At::new(&self.window, self.round, self.slice, &self.scratch);
        let stored = dsts.contains(&Operand::OUTPUT);
        let lies = if stored { &Operand::OUTPUT } else { &srcs[0] };
        let (buffer, base) = match lies.space {
            Space::Input => (0, launch.send),
            _ => (1, launch.recv.cast_const()),
        };
        for index in dsts.iter().filter_map(Operand::as_connection) {
            let offset = at.place(lies, launch, chunk) as usize - base as usize;
            let token = wires.ports.place(plan.ends[index], TOKEN_BYTES, 0);
            // SAFETY: a token may be written (its credit is there), and holds 16 bytes.
            unsafe {
                token
                    .cast::<[u64; 2]>()
                    .write_unaligned([buffer, offset as u64])
            };
        }
    }
}
