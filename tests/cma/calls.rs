//! Calls whose exact result is known, on buffers of both kinds.

use kolo::base::Result;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Communicator, RedOp};
use kolo::dtype::known::{Data, POISON, Pattern};
use kolo::dtype::{DataType, ReduceOp};
use kolo::plan::Collective;
use kolo::transport::memory;

/// The collectives that may read buffers where they lie.
pub const DIRECT: [Collective; 4] = [
    Collective::AllReduce,
    Collective::ReduceScatter,
    Collective::AllGather,
    Collective::Broadcast,
];

/// Poisoned memory, private or of `koloMemAlloc`.
enum Buffer {
    Private(Vec<u64>, usize),
    Mapped(*mut u8, usize),
}

impl Buffer {
    fn new(bytes: usize, mapped: bool) -> Buffer {
        let mut buffer = match mapped {
            true => Buffer::Mapped(memory::allocate(bytes.max(1)).expect("memory"), bytes),
            false => Buffer::Private(vec![0; bytes / 8 + 1], bytes),
        };
        buffer.bytes().fill(POISON);
        buffer
    }

    fn bytes(&mut self) -> &mut [u8] {
        let (start, bytes) = match self {
            Buffer::Private(words, bytes) => (words.as_mut_ptr().cast(), *bytes),
            Buffer::Mapped(start, bytes) => (*start, *bytes),
        };
        // SAFETY: the buffer has so many initialised bytes and is borrowed as a whole.
        unsafe { std::slice::from_raw_parts_mut(start, bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Buffer::Mapped(start, _) = self {
            memory::free(*start).expect("allocated above");
        }
    }
}

/// One call to make.
#[derive(Clone, Copy)]
pub struct Case {
    pub collective: Collective,
    pub data: Data,
    pub count: usize,
    pub in_place: bool,
    /// Whether this rank's (send, receive) buffers are of `koloMemAlloc`.
    pub mapped: (bool, bool),
}

impl Case {
    /// A call with data that differ by `repetition`.
    pub fn new(
        collective: Collective,
        nranks: u32,
        (dtype, op): (DataType, ReduceOp),
        count: usize,
        repetition: u64,
    ) -> Case {
        let op = collective.reduces().then_some(op);
        Case {
            collective,
            data: Data {
                dtype,
                op,
                nranks,
                repetition,
            },
            count,
            in_place: repetition % 2 == 1,
            mapped: (false, false),
        }
    }

    fn root(&self) -> u32 {
        (self.data.repetition % u64::from(self.data.nranks)) as u32
    }

    /// Data that block `block` of the output of `rank` must hold.
    fn wanted(&self, rank: u32, block: u32) -> (Pattern, usize) {
        let (count, n) = (self.count, self.data.nranks as usize);
        let reduced = |elements| {
            let op = self.data.op.expect("op");
            self.data.reduced_of(op, self.data.nranks, elements)
        };
        match self.collective {
            Collective::AllReduce => (reduced(count), 0),
            Collective::ReduceScatter => {
                let all = reduced(count * n);
                (all, rank as usize * count)
            }
            Collective::Broadcast => (self.data.input(self.root(), count), 0),
            _ => (self.data.input(block, count), 0),
        }
    }

    /// Makes the call; the number of wrong elements.
    pub fn run(&self, comm: &Communicator) -> Result<u64> {
        let (rank, n) = (comm.rank(), comm.nranks() as usize);
        let (inputs, outputs) = match self.collective {
            Collective::AllGather => (1, n),
            Collective::ReduceScatter => (n, 1),
            _ => (1, 1),
        };
        let block = self.count * self.data.dtype.size_bytes();
        let mine = self.data.input(rank, inputs * self.count);
        let larger = inputs.max(outputs) * block;
        // In place, the smaller buffer lies in the larger one.
        let is_part = |blocks: usize| blocks < inputs.max(outputs);
        let at = |blocks: usize| usize::from(is_part(blocks)) * rank as usize * block;
        let mut send = Buffer::new(
            if self.in_place {
                larger
            } else {
                inputs * block
            },
            self.mapped.0,
        );
        let mut recv = Buffer::new(
            if self.in_place { 0 } else { outputs * block },
            self.mapped.1,
        );
        let (from, to) = match self.in_place {
            false => (send.bytes().as_mut_ptr(), recv.bytes().as_mut_ptr()),
            true => {
                let start = send.bytes().as_mut_ptr();
                (
                    start.wrapping_add(at(inputs)),
                    start.wrapping_add(at(outputs)),
                )
            }
        };
        let begin = from.addr() - send.bytes().as_ptr().addr();
        mine.fill(0, &mut send.bytes()[begin..begin + inputs * block]);
        let call = Call {
            collective: self.collective,
            send: from,
            recv: to,
            count: self.count,
            dtype: self.data.dtype,
            op: self
                .data
                .op
                .and_then(ReduceOp::number)
                .map_or(RedOp::SUM, RedOp),
            peer: self.root(),
        };
        // SAFETY: the buffers hold the blocks of the call and outlive it.
        unsafe { comm.enqueue(&call, None)? };
        let mut wrong = 0;
        for number in 0..outputs {
            let start = to.wrapping_add(number * block).cast_const();
            // SAFETY: `to` points to `outputs` blocks of a live buffer.
            let found = unsafe { std::slice::from_raw_parts(start, block) };
            let (pattern, first) = self.wanted(rank, number as u32);
            wrong += pattern.wrong(first, found);
        }
        Ok(wrong)
    }

    /// Makes the call; everything must be right.
    pub fn must(&self, comm: &Communicator) {
        let what = format!(
            "{} of {} {:?} {:?} on {} ranks, in place {}, mapped {:?}",
            self.collective.name(),
            self.count,
            self.data.dtype,
            self.data.op,
            comm.nranks(),
            self.in_place,
            self.mapped,
        );
        let wrong = self
            .run(comm)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(wrong, 0, "rank {}: {what}", comm.rank());
    }
}
