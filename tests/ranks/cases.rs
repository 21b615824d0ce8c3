//! Calls of which every result is known, with the data of `kolo perf`: results are computed in
//! integers, by none of the code under test. Receive buffers are poisoned, and every rank checks
//! all that it holds.

use kolo::comm::RawCalls;
use kolo::comm::{Call, Communicator, RedOp};
use kolo::dtype::known::{Data, POISON, Pattern};
use kolo::plan::Collective;
use std::sync::{Arc, OnceLock};

/// Data and result of a call, computed once for all ranks.
pub struct Known {
    inputs: Vec<OnceLock<Arc<Pattern>>>,
    sum: OnceLock<Arc<Pattern>>,
}

impl Known {
    /// Of a call among so many ranks.
    pub fn of(nranks: u32) -> Known {
        Known {
            inputs: (0..nranks).map(|_| OnceLock::new()).collect(),
            sum: OnceLock::new(),
        }
    }
}

/// One call to make.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub collective: Collective,
    pub data: Data,
    pub count: usize,
    pub root: u32,
    pub in_place: bool,
}

/// Bytes that begin at a multiple of 8.
struct Buffer {
    words: Vec<u64>,
    bytes: usize,
}

impl Buffer {
    fn poisoned(bytes: usize) -> Buffer {
        let words = vec![u64::from_ne_bytes([POISON; 8]); bytes / 8 + 2];
        Buffer { words, bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the words are initialised bytes, more than `self.bytes` of them.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.bytes) }
    }
}

impl Case {
    pub fn blocks(&self, n: usize) -> (usize, usize) {
        match self.collective {
            Collective::AllGather | Collective::Gather => (1, n),
            Collective::ReduceScatter | Collective::Scatter => (n, 1),
            Collective::AllToAll => (n, n),
            Collective::Barrier => (0, 0),
            _ => (1, 1),
        }
    }

    /// All that a rank sends.
    fn input(&self, known: &Known, rank: u32) -> Arc<Pattern> {
        let elements = self.blocks(self.data.nranks as usize).0 * self.count;
        let made = || Arc::new(self.data.input(rank, elements));
        Arc::clone(known.inputs[rank as usize].get_or_init(made))
    }

    /// Data that `rank` must hold in block `block` of its output; `None` where it keeps what it
    /// has.
    fn wanted(&self, known: &Known, rank: u32, block: u32) -> Option<(Arc<Pattern>, usize)> {
        let count = self.count;
        let at_root = rank == self.root;
        let n = self.data.nranks as usize;
        let whole = |from: u32| self.input(known, from);
        let op = || self.data.op.expect("reduces");
        let reduced = |ranks, elements| Arc::new(self.data.reduced_of(op(), ranks, elements));
        let of_all = |elements| reduced(self.data.nranks, elements);
        let sum = |elements| Arc::clone(known.sum.get_or_init(|| of_all(elements)));
        let prefix = |ranks: u32| (reduced(ranks, count), 0);
        match self.collective {
            Collective::AllReduce => Some((sum(count), 0)),
            Collective::Reduce => at_root.then(|| (sum(count), 0)),
            Collective::ReduceScatter => Some((sum(count * n), rank as usize * count)),
            Collective::Broadcast => Some((whole(self.root), 0)),
            Collective::AllGather => Some((whole(block), 0)),
            Collective::Gather => at_root.then(|| (whole(block), 0)),
            Collective::Scatter => Some((whole(self.root), rank as usize * count)),
            Collective::AllToAll => Some((whole(block), rank as usize * count)),
            Collective::Scan => Some(prefix(rank + 1)),
            Collective::Exscan => (rank > 0).then(|| prefix(rank)),
            _ => None,
        }
    }

    /// Makes the call, and counts wrong elements; `known` is of this call alone.
    pub fn run(
        &self,
        comm: &Communicator,
        op: RedOp,
        known: &Known,
    ) -> Result<u64, kolo::base::Error> {
        let (rank, n) = (comm.rank(), comm.nranks() as usize);
        let size = self.data.dtype.size_bytes();
        let block = self.count * size;
        let (inputs, outputs) = self.blocks(n);
        let mut send = Buffer::poisoned(inputs * block);
        let mut recv = Buffer::poisoned(outputs * block);
        let mine = self.input(known, rank);
        let (from, to) = match self.in_place {
            false => {
                mine.fill(0, send.bytes());
                (send.bytes().as_mut_ptr(), recv.bytes().as_mut_ptr())
            }
            // The smaller buffer lies in the larger one.
            true if outputs >= inputs => {
                let at = if outputs > inputs {
                    rank as usize * block
                } else {
                    0
                };
                mine.fill(0, &mut recv.bytes()[at..at + inputs * block]);
                (recv.bytes()[at..].as_mut_ptr(), recv.bytes().as_mut_ptr())
            }
            true => {
                mine.fill(0, send.bytes());
                let at = rank as usize * block;
                (send.bytes().as_mut_ptr(), send.bytes()[at..].as_mut_ptr())
            }
        };
        let call = Call {
            collective: self.collective,
            send: from,
            recv: to,
            count: self.count,
            dtype: self.data.dtype,
            op,
            peer: self.root,
        };
        // SAFETY: the buffers hold the blocks of the call and outlive it.
        unsafe { comm.enqueue(&call, None)? };
        let mut wrong = 0;
        for number in 0..outputs as u32 {
            // SAFETY: `to` points to `outputs` blocks of a live buffer.
            let found = unsafe {
                std::slice::from_raw_parts(to.add(number as usize * block).cast_const(), block)
            };
            // What a call has no result for stays as it was: in place, this rank's data.
            let held = self.in_place && (outputs == inputs || number == rank);
            wrong += match self.wanted(known, rank, number) {
                Some((pattern, first)) => pattern.wrong(first, found),
                None if held => mine.wrong(0, found),
                None => found.iter().filter(|&&byte| byte != POISON).count() as u64,
            };
        }
        if !self.in_place {
            wrong += mine.wrong(0, send.bytes());
        }
        Ok(wrong)
    }
}
