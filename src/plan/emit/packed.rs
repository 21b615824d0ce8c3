//! Packed primitives: one token that holds many chunks, see [`PACKED`].
//!
//! They are named like the plain ones, with `_many` behind the name. Both sides of a connection
//! must pack the same number of chunks into a token; where chunks differ in length (a split), the
//! same chunks.

use super::{Connection, Emitter, nearest};
use crate::plan::{Operand, PACKED, POST_SCALE, PRE_SCALE, Step, StepOp};
use std::ops::Range;

/// The chunks of a packed token: `count` runs of `length` consecutive chunk numbers each, run k
/// beginning at `first + k * distance`; all modulo the chunks of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// The first chunk; may be negative or too large.
    pub first: i64,
    /// Chunks of a run.
    pub length: u32,
    /// How many runs.
    pub count: u32,
    /// From the beginning of a run to that of the next.
    pub distance: i64,
}

impl From<Range<i64>> for Runs {
    /// One run.
    fn from(range: Range<i64>) -> Runs {
        Runs {
            first: range.start,
            length: u32::try_from(range.end - range.start).unwrap_or(0),
            count: 1,
            distance: 0,
        }
    }
}

/// The longest run, and the most runs, of one step.
const MOST: u32 = u16::MAX as u32;

impl Emitter {
    /// One token that holds `runs` runs of `run_length` chunks, `distance` apart: see [`Runs`].
    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of a step, in their order"
    )]
    pub fn packed(
        &mut self,
        op: StepOp,
        flags: u8,
        srcs: &[Operand],
        dsts: &[Operand],
        first_chunk: i64,
        run_length: u32,
        runs: u32,
        distance: i64,
    ) {
        let runs = Runs {
            first: first_chunk,
            length: run_length,
            count: runs,
            distance,
        };
        self.pack((op, flags), srcs, dsts, runs);
    }

    /// One packed token. Runs that touch become one; a single chunk becomes a plain step; no
    /// chunk at all, no step. What does not fit the fields of a step (runs of more than 65,535
    /// chunks, distances beyond 32,767) becomes several tokens, for the same lengths and distances
    /// always the same ones, so that both sides of a connection agree.
    ///
    /// # Panics
    /// For [`StepOp::Token`], which holds no chunks.
    pub fn pack(
        &mut self,
        (op, flags): (StepOp, u8),
        srcs: &[Operand],
        dsts: &[Operand],
        runs: Runs,
    ) {
        assert!(
            op != StepOp::Token,
            "a token without payload packs no chunks"
        );
        for part in self.parts(runs) {
            if part.length * part.count == 1 {
                self.step(op, flags, srcs, dsts, part.first);
                continue;
            }
            let modulus = i64::from(self.plan.chunks.max(1));
            let (srcs, dsts) = (self.plan.lists.intern(srcs), self.plan.lists.intern(dsts));
            self.plan.steps.push(Step {
                op,
                flags: flags | PACKED,
                srcs,
                dsts,
                chunks: part.length as u16,
                chunk: part.first.rem_euclid(modulus) as u32,
                repeat: part.count as u16,
                stride: part.distance as i16,
            });
            self.pieces(part.length * part.count);
        }
    }

    /// One packed token for each group of equal, equally distant runs in a list of chunks: a
    /// regular list is one token. The groups depend on the distances in the list only.
    pub fn pack_list(
        &mut self,
        (op, flags): (StepOp, u8),
        srcs: &[Operand],
        dsts: &[Operand],
        chunks: &[i64],
    ) {
        for runs in self.grouped(chunks) {
            self.pack((op, flags), srcs, dsts, runs);
        }
    }

    /// The tokens that [`Emitter::pack_list`] makes of a list.
    pub fn grouped(&self, chunks: &[i64]) -> Vec<Runs> {
        grouped(chunks, i64::from(self.plan.chunks.max(1)))
    }

    /// Says how many chunks the largest token of *any* rank holds, where ranks pack differently:
    /// all ranks must come to the same [`Plan::pieces`](crate::plan::Plan::pieces).
    pub fn pieces(&mut self, pieces: u32) -> &mut Emitter {
        self.plan.pieces = self.plan.pieces.max(pieces);
        self
    }

    /// The steps of one packed token: one, if its fields hold it.
    fn parts(&self, runs: Runs) -> Vec<Runs> {
        let modulus = i64::from(self.plan.chunks.max(1));
        let distance = nearest(runs.distance, modulus);
        let touch = (distance - i64::from(runs.length)).rem_euclid(modulus) == 0;
        let joined = runs.count <= 1 || touch;
        let runs = match joined {
            true => Runs {
                length: runs.length * runs.count,
                count: 1,
                distance: 0,
                ..runs
            },
            false => Runs { distance, ..runs },
        };
        let fits = runs.length <= MOST && i16::try_from(runs.distance).is_ok();
        let batch = if fits { MOST } else { 1 };
        let mut parts = Vec::new();
        for run in (0..runs.count).step_by(batch as usize) {
            for within in (0..runs.length).step_by(MOST as usize) {
                let count = batch.min(runs.count - run);
                parts.push(Runs {
                    first: runs.first + i64::from(run) * runs.distance + i64::from(within),
                    length: MOST.min(runs.length - within),
                    count,
                    distance: if count > 1 { runs.distance } else { 0 },
                });
            }
        }
        parts
    }

    /// input -> next
    pub fn send_many(&mut self, next: Connection, runs: impl Into<Runs>) {
        let how = (StepOp::Copy, PRE_SCALE);
        self.pack(how, &[Operand::INPUT], &[next.operand()], runs.into());
    }

    /// output -> next
    pub fn send_from_output_many(&mut self, next: Connection, runs: impl Into<Runs>) {
        let how = (StepOp::Copy, 0);
        self.pack(how, &[Operand::OUTPUT], &[next.operand()], runs.into());
    }

    /// input -> output
    pub fn copy_many(&mut self, runs: impl Into<Runs>) {
        let how = (StepOp::Copy, PRE_SCALE | POST_SCALE);
        self.pack(how, &[Operand::INPUT], &[Operand::OUTPUT], runs.into());
    }

    /// input -> output, next
    pub fn copy_send_many(&mut self, next: Connection, runs: impl Into<Runs>) {
        let dsts = [Operand::OUTPUT, next.operand()];
        let how = (StepOp::Copy, PRE_SCALE);
        self.pack(how, &[Operand::INPUT], &dsts, runs.into());
    }

    /// prev -> output
    pub fn recv_many(&mut self, prev: Connection, runs: impl Into<Runs>) {
        let how = (StepOp::Copy, 0);
        self.pack(how, &[prev.operand()], &[Operand::OUTPUT], runs.into());
    }

    /// prev -> next: the token is forwarded as it is
    pub fn recv_send_many(&mut self, prev: Connection, next: Connection, runs: impl Into<Runs>) {
        let how = (StepOp::Copy, 0);
        self.pack(how, &[prev.operand()], &[next.operand()], runs.into());
    }

    /// prev -> output, next
    pub fn recv_copy_send_many(
        &mut self,
        prev: Connection,
        next: Connection,
        runs: impl Into<Runs>,
    ) {
        let dsts = [Operand::OUTPUT, next.operand()];
        let how = (StepOp::Copy, 0);
        self.pack(how, &[prev.operand()], &dsts, runs.into());
    }

    /// prev + output -> output: what has been gathered so far grows, and is not final
    pub fn recv_reduce_many(&mut self, prev: Connection, runs: impl Into<Runs>) {
        let srcs = [prev.operand(), Operand::OUTPUT];
        let how = (StepOp::Fold, 0);
        self.pack(how, &srcs, &[Operand::OUTPUT], runs.into());
    }

    /// prev + input -> next
    pub fn recv_reduce_send_many(
        &mut self,
        prev: Connection,
        next: Connection,
        runs: impl Into<Runs>,
    ) {
        let srcs = [prev.operand(), Operand::INPUT];
        let how = (StepOp::Fold, PRE_SCALE);
        self.pack(how, &srcs, &[next.operand()], runs.into());
    }

    /// prev + input -> output
    pub fn recv_reduce_copy_many(&mut self, prev: Connection, runs: impl Into<Runs>) {
        let srcs = [prev.operand(), Operand::INPUT];
        let how = (StepOp::Fold, PRE_SCALE | POST_SCALE);
        self.pack(how, &srcs, &[Operand::OUTPUT], runs.into());
    }

    /// prev + input -> output, next
    pub fn recv_reduce_copy_send_many(
        &mut self,
        prev: Connection,
        next: Connection,
        runs: impl Into<Runs>,
    ) {
        let srcs = [prev.operand(), Operand::INPUT];
        let dsts = [Operand::OUTPUT, next.operand()];
        let how = (StepOp::Fold, PRE_SCALE | POST_SCALE);
        self.pack(how, &srcs, &dsts, runs.into());
    }
}

/// The fewest groups of equal and equally distant runs, taken greedily from the front.
fn grouped(chunks: &[i64], modulus: i64) -> Vec<Runs> {
    let mut runs: Vec<(i64, u32)> = Vec::new();
    for &chunk in chunks {
        match runs.last_mut() {
            Some((first, length))
                if (chunk - *first - i64::from(*length)).rem_euclid(modulus) == 0 =>
            {
                *length += 1;
            }
            _ => runs.push((chunk, 1)),
        }
    }
    let mut groups: Vec<Runs> = Vec::new();
    for (first, length) in runs {
        if let Some(group) = groups.last_mut().filter(|group| group.length == length) {
            let distance = match group.count {
                1 => nearest(first - group.first, modulus),
                _ => group.distance,
            };
            let expected = group.first + i64::from(group.count) * distance;
            if (first - expected).rem_euclid(modulus) == 0 {
                group.distance = distance;
                group.count += 1;
                continue;
            }
        }
        groups.push(Runs {
            first,
            length,
            count: 1,
            distance: 0,
        });
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Algorithm, Collective, Layout, Plan, Shape};

    fn emitter(chunks: u32) -> Emitter {
        let shape = Shape {
            collective: Collective::AllGather,
            algorithm: Algorithm::Ring,
            rank: 0,
            nranks: 2,
            root: 0,
            channels: 1,
        };
        Emitter::new(shape, chunks, Layout::Blocks)
    }

    fn tokens(plan: &Plan) -> Vec<Vec<u32>> {
        let of = |step: &Step, token| {
            let pieces = 0..step.pieces();
            pieces
                .map(|p| step.piece_at(token, p, plan.chunks))
                .collect()
        };
        let steps = plan.steps.iter();
        steps
            .flat_map(|step| (0..step.tokens()).map(move |token| of(step, token)))
            .collect()
    }

    #[test]
    fn runs_become_one_step() {
        let mut e = emitter(16);
        let next = e.to(1);
        e.packed(
            StepOp::Copy,
            0,
            &[Operand::OUTPUT],
            &[next.operand()],
            -2,
            2,
            3,
            4,
        );
        e.send_from_output_many(next, 14..18);
        let touching = Runs {
            first: 3,
            length: 2,
            count: 3,
            distance: 2 + 16,
        };
        e.send_from_output_many(next, touching);
        e.send_from_output_many(next, 5..6);
        e.send_from_output_many(next, 6..7);
        e.send_from_output_many(next, 7..7);
        let plan = e.finish();
        let wanted: [&[u32]; 5] = [
            &[14, 15, 2, 3, 6, 7],
            &[14, 15, 0, 1],
            &[3, 4, 5, 6, 7, 8],
            &[5],
            &[6],
        ];
        assert_eq!(tokens(&plan), wanted);
        assert_eq!(plan.steps.len(), 4, "two plain chunks merge, tokens do not");
        assert_eq!(plan.steps[2].repeat, 1, "touching runs are one run");
        assert_eq!((plan.pieces, plan.touches(0)), (6, 5));
    }

    #[test]
    fn equal_tokens_stay_apart() {
        let mut e = emitter(8);
        let next = e.to(1);
        e.send_many(next, 0..4);
        e.send_many(next, 4..8);
        let plan = e.finish();
        assert_eq!(tokens(&plan), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    }

    #[test]
    fn lists_are_grouped() {
        let mut e = emitter(12);
        let next = e.to(1);
        let how = (StepOp::Copy, 0);
        let (srcs, dsts) = ([Operand::OUTPUT], [next.operand()]);
        // The blocks with bit 1 set, seen from rank 3 of 12: regular, and it wraps.
        e.pack_list(how, &srcs, &dsts, &[5, 6, 9, 10, 13, 14]);
        // The last run is cut off: another token.
        e.pack_list(how, &srcs, &dsts, &[2, 3, 6, 7, 10]);
        let plan = e.finish();
        let wanted: [&[u32]; 3] = [&[5, 6, 9, 10, 1, 2], &[2, 3, 6, 7], &[10]];
        assert_eq!(tokens(&plan), wanted);
    }

    #[test]
    fn what_no_step_can_hold_becomes_several_tokens() {
        let mut e = emitter(400_000);
        let next = e.to(1);
        e.send_many(next, 0..70_000);
        let far = Runs {
            first: 7,
            length: 3,
            count: 2,
            distance: 100_000,
        };
        e.send_many(next, far);
        let plan = e.finish();
        let found = tokens(&plan);
        let lengths: Vec<usize> = found.iter().map(Vec::len).collect();
        assert_eq!(lengths, [65_535, 4_465, 3, 3]);
        assert_eq!(found[1][0], 65_535);
        assert_eq!(found[3], [100_007, 100_008, 100_009]);
    }
}
