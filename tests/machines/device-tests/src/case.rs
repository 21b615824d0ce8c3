//! One call that every rank checks: data that are known, poison where nothing may be written.
//!
//! Data and results are those of `kolo perf`: computed in integers, by none of the code that is
//! tested.

use crate::report::{Failure, hold};
use crate::world::{Area, POISON, Rank};
use kolo::comm::RawCalls;
use kolo::comm::{Call, RedOp};
use kolo::dtype::known::{Data, Pattern};
use kolo::dtype::{DataType, ReduceOp};
use kolo::plan::Collective;

/// One call, as all ranks know it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub collective: Collective,
    pub data: Data,
    pub count: usize,
    pub root: u32,
    pub in_place: bool,
}

/// Where the blocks of a call lie in the areas.
struct Places {
    /// Bytes of a block, blocks sent and received.
    block: usize,
    blocks: (usize, usize),
    /// In place: where the smaller buffer begins in the larger one.
    shift: usize,
}

impl Case {
    fn blocks(&self) -> (usize, usize) {
        let n = self.data.nranks as usize;
        match self.collective {
            Collective::AllGather | Collective::Gather => (1, n),
            Collective::ReduceScatter | Collective::Scatter => (n, 1),
            Collective::AllToAll => (n, n),
            Collective::Barrier => (0, 0),
            _ => (1, 1),
        }
    }

    fn places(&self, rank: u32) -> Places {
        let block = self.count * self.data.dtype.size_bytes();
        let blocks = self.blocks();
        Places {
            block,
            blocks,
            shift: match blocks.0 == blocks.1 {
                true => 0,
                false => rank as usize * block,
            },
        }
    }

    /// Data that `rank` must hold in block `block` of its output; `None` where it keeps what it
    /// has.
    fn wanted(&self, rank: u32, block: u32) -> Option<(Pattern, usize)> {
        let (count, n) = (self.count, self.data.nranks as usize);
        let at_root = rank == self.root;
        let whole = |from: u32, elements: usize| self.data.input(from, elements);
        let op = || self.data.op.unwrap_or(ReduceOp::Sum);
        let sum = |elements| self.data.reduced_of(op(), self.data.nranks, elements);
        let prefix = |ranks: u32| (self.data.reduced_of(op(), ranks, count), 0);
        match self.collective {
            Collective::AllReduce => Some((sum(count), 0)),
            Collective::Reduce => at_root.then(|| (sum(count), 0)),
            Collective::ReduceScatter => Some((sum(count * n), rank as usize * count)),
            Collective::Broadcast => Some((whole(self.root, count), 0)),
            Collective::AllGather => Some((whole(block, count), 0)),
            Collective::Gather => at_root.then(|| (whole(block, count), 0)),
            Collective::Scatter => Some((whole(self.root, count * n), rank as usize * count)),
            Collective::AllToAll => Some((whole(block, count * n), rank as usize * count)),
            Collective::Scan => Some(prefix(rank + 1)),
            Collective::Exscan => (rank > 0).then(|| prefix(rank)),
            _ => None,
        }
    }

    /// Makes the call with `op`, and checks all that this rank holds.
    ///
    /// # Errors
    /// The call is refused or fails; an element is not what it must be.
    pub fn check(
        &self,
        rank: &Rank,
        (send, recv): (&Area, &Area),
        op: RedOp,
    ) -> Result<(), Failure> {
        let number = rank.number();
        let places = self.places(number);
        let (inputs, outputs) = places.blocks;
        let mine = self.data.input(number, inputs * self.count);
        let mut given = vec![POISON; inputs * places.block];
        mine.fill(0, &mut given);
        let larger = inputs.max(outputs) * places.block;
        // Where calls find their buffers, and in which area the results are.
        let (from, to, result, at) = match self.in_place {
            false => {
                rank.load(send, &given)?;
                rank.load(recv, &vec![POISON; outputs * places.block])?;
                (send.at(0), recv.at(0), recv, 0)
            }
            true => {
                let mut whole = vec![POISON; larger];
                let (out, into) = match inputs > outputs {
                    true => (0, places.shift),
                    false => (places.shift, 0),
                };
                whole[out..out + given.len()].copy_from_slice(&given);
                rank.load(send, &whole)?;
                (send.at(out), send.at(into), send, into)
            }
        };
        rank.put(&Call {
            collective: self.collective,
            send: from,
            recv: to,
            count: self.count,
            dtype: self.data.dtype,
            op,
            peer: self.root,
        })?;
        let bytes = if self.in_place {
            larger
        } else {
            outputs * places.block
        };
        let found = rank.fetch(result, bytes)?;
        self.judge(number, &places, &found[at..], &mine)?;
        if self.in_place {
            return Ok(());
        }
        let kept = rank.fetch(send, inputs * places.block)? == given;
        hold(kept, || "the send buffer has changed".into())
    }

    /// Holds each block against what it must be.
    fn judge(
        &self,
        rank: u32,
        places: &Places,
        found: &[u8],
        mine: &Pattern,
    ) -> Result<(), Failure> {
        let (inputs, outputs) = places.blocks;
        for number in 0..outputs as u32 {
            let found = &found[number as usize * places.block..][..places.block];
            // What a call has no result for stays as it was: in place, this rank's data.
            let held = self.in_place && (outputs == inputs || number == rank);
            let wrong = match self.wanted(rank, number) {
                Some((pattern, first)) => pattern.wrong(first, found),
                None if held => mine.wrong(0, found),
                None => Pattern::poison(self.data.dtype.size_bytes()).wrong(0, found),
            };
            hold(wrong == 0, || {
                format!("{wrong} elements of block {number} are wrong")
            })?;
        }
        Ok(())
    }
}

/// The operation that calls name: one of kolo's, or a pre-multiplied sum with this rank's factor.
///
/// # Errors
/// The factor is refused.
pub fn operation(rank: &Rank, dtype: DataType, op: Option<ReduceOp>) -> Result<RedOp, Failure> {
    match op {
        Some(ReduceOp::PreMulSum) => {
            let factor = Data {
                dtype,
                op: None,
                nranks: rank.comm.nranks(),
                repetition: 0,
            };
            let bytes = factor.scalar_bytes(rank.number());
            Ok(rank.comm.pre_mul_sum(&bytes, dtype)?)
        }
        op => Ok(op.and_then(ReduceOp::number).map_or(RedOp::SUM, RedOp)),
    }
}
