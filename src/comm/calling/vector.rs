//! Calls whose blocks have sizes and places of their own, and calls along a graph: checked, and
//! taken apart into messages ([`mod@exchange`], [`crate::algo::vector`]).
//!
//! Every message carries the signature of the call with the size of its own pair, so ranks that
//! disagree about a size are told so, also if one of them expects nothing.

use super::begin;
use super::call::{Call, Collective};
use super::checked::Checked;
use super::edges::Edges;
use super::enqueue;
use super::group;
use super::handles::RedOp;
use super::messages;
use super::parts::{Deed, Part};
use crate::base::exchange::{self, Transfer};
use crate::base::{Error, Result, Share};
use crate::comm::flight::stream::Stream;
use crate::comm::queue::Queue;
use crate::dtype::DataType;
use crate::wire::signature::{Fields, Signature};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// A list with an entry for each block: on few ranks it takes no memory of the heap, for that
/// would take longer than to move the data.
type BlockList<T> = SmallVec<[T; 8]>;

/// Blocks of a buffer, in elements.
#[derive(Clone, Copy, Debug)]
pub enum Blocks<'a> {
    /// All of this size, one behind the other.
    Equal(usize),
    /// Each of its size, one behind the other.
    Packed(&'a [usize]),
    /// Each of its size at its place from the start of the buffer.
    Placed(&'a [usize], &'a [usize]),
}

impl Blocks<'_> {
    /// Elements of a buffer that holds the first `number` blocks.
    ///
    /// # Errors
    /// Fewer blocks, or blocks beyond the address space.
    #[doc(hidden)]
    pub fn extent(&self, side: &str, number: usize) -> Result<usize> {
        let mut all = BlockList::new();
        regions(side, *self, DataType::Uint8, number, &mut all)?;
        Ok(all.iter().map(|block| block.end).max().unwrap_or(0))
    }
}

/// A call of blocks: as [`VectorCall`](crate::comm::VectorCall), with the edges of its graph.
#[derive(Clone, Copy)]
pub(in crate::comm) struct BlockCall<'a> {
    /// Which operation.
    pub collective: Collective,
    /// Where data is.
    pub send: *const u8,
    /// The blocks of it.
    pub send_blocks: Blocks<'a>,
    /// Where data goes.
    pub recv: *mut u8,
    /// The blocks of it.
    pub recv_blocks: Blocks<'a>,
    /// Type of the elements.
    pub dtype: DataType,
    /// Operation, where the call reduces.
    pub op: RedOp,
    /// Root, where there is one.
    pub root: u32,
    /// The graph, for calls along one.
    pub graph: Option<&'a Edges>,
}

/// Enqueues a call whose blocks have sizes of their own or go along a graph. An in-place form:
/// the own block of an all-gather, gather or scatter (and of reduce-scatter) may be the same
/// memory on both sides.
///
/// # Errors
/// Those of [`enqueue::enqueue`], and sizes that are too large, blocks that overlap, numbers of
/// blocks that are not those of ranks or neighbours.
///
/// # Safety
/// The promise of [`enqueue::enqueue`].
pub(in crate::comm) unsafe fn enqueue_vector(
    queue: &Arc<Queue>,
    call: &BlockCall<'_>,
    stream: Option<&Stream>,
) -> Result<()> {
    let run = || {
        let mut parts = BlockList::new();
        let mut checked = checked_vector(queue, call, &mut parts)?;
        let is_alone = stream.is_none() && !group::active() && !queue.seen.at_all;
        if is_alone && let Some(ended) = messages::parts_at_once(queue, &mut checked, &parts) {
            return ended;
        }
        enqueue::run_checked(queue, &mut checked.with(&parts), stream)
    };
    run().map_err(|error| queue.tells(error).during(call.collective.name()))
}

/// Enqueues such a call in a scope, behind what is on the stream.
///
/// # Safety
/// The promise of [`enqueue_vector`].
pub(in crate::comm) unsafe fn enqueue_vector_on(
    queue: &Arc<Queue>,
    call: &BlockCall<'_>,
    stream: &Stream,
) -> Result<()> {
    let run = || {
        let mut parts = BlockList::new();
        let checked = checked_vector(queue, call, &mut parts)?;
        enqueue::on_stream(queue, &mut checked.with(&parts), stream, true)
    };
    run().map_err(|error| queue.tells(error).during(call.collective.name()))
}

fn checked_vector(
    queue: &Arc<Queue>,
    call: &BlockCall<'_>,
    parts: &mut BlockList<Part>,
) -> Result<Checked> {
    queue.callable()?;
    if let Some(graph) = call.graph
        && !Arc::ptr_eq(&graph.queue, queue)
    {
        return Err(Error::argument(
            format!("the graph was made on {:?}, not on {queue:?}", graph.queue),
            "make the graph on the communicator of the call",
        ));
    }
    check_vector(queue, call, parts)
}

/// Checks everything that one rank can see, and takes the call apart.
fn check_vector(
    queue: &Queue,
    call: &BlockCall<'_>,
    parts: &mut BlockList<Part>,
) -> Result<Checked> {
    let sketch = Call {
        collective: call.collective,
        send: call.send,
        recv: call.recv,
        count: 0,
        dtype: call.dtype,
        op: call.op,
        peer: call.root,
    };
    let mut checked = begin::check(queue, &sketch)?;
    let mut messages: BlockList<Transfer> = BlockList::new();
    match call.graph {
        Some(graph) => messages.extend_from_slice(&graph.messages(call.collective)),
        None => exchange::transfers(call.collective, queue.rank, queue.nranks, call.root)
            .for_each(|message| messages.push(message)),
    }
    let mut regions = Regions::default();
    regions.find(call, &messages, queue.rank, queue.nranks)?;
    regions.check(call)?;
    let op = Signature(checked.signature).unpack().op;
    let sign = |count: usize| {
        let fields = Fields {
            collective: call.collective as u8,
            dtype: call.dtype as u8,
            op,
            root: shown_root(&checked.call),
            count: count as u64,
        };
        Signature::pack(fields).0
    };
    let mut elements = 0;
    for message in &messages {
        if let Some(part) = regions.part(call, *message, queue.rank, sign) {
            elements += part.count;
            parts.push(part);
        }
    }
    checked.signature = sign(regions.shared_count(call));
    checked.bytes = elements;
    Ok(checked)
}

/// The blocks that a call uses on this rank, as ranges of elements. It is filled where it stays: a
/// copy would cost a small call more than its checks.
#[derive(Default)]
struct Regions {
    send: BlockList<Range<usize>>,
    recv: BlockList<Range<usize>>,
    /// Blocks of input and output that are the same data.
    own: BlockList<(usize, usize)>,
}

impl Regions {
    fn find(
        &mut self,
        call: &BlockCall,
        messages: &[Transfer],
        rank: u32,
        nranks: u32,
    ) -> Result<()> {
        let degrees = call.graph.map_or((0, 0), Edges::degrees);
        let blocks = |held: Share, degree: usize| match held {
            Share::Beside => degree,
            held => held.blocks((rank, call.root, nranks)) as usize,
        };
        let sends = blocks(call.collective.sends(), degrees.0);
        let receives = blocks(call.collective.receives(), degrees.1);
        regions("send", call.send_blocks, call.dtype, sends, &mut self.send)?;
        regions(
            "receive",
            call.recv_blocks,
            call.dtype,
            receives,
            &mut self.recv,
        )?;
        for message in messages {
            match *message {
                Transfer::Own { from, to } => self.own.push((from, to)),
                Transfer::Fold { block } => self.own.push((block, 0)),
                Transfer::Send { .. } | Transfer::Recv { .. } => {}
            }
        }
        match self.unequal() {
            Some((from, to)) => Err(Error::argument(
                format!(
                    "rank {rank} sends itself {from} elements (its own send block) but receives \
                     {to} (its own receive block)"
                ),
                "give the own block the same size on both sides",
            )),
            None => Ok(()),
        }
    }

    /// Sizes of an own block that differ.
    fn unequal(&self) -> Option<(usize, usize)> {
        let sizes = |&(from, to): &(usize, usize)| (self.send[from].len(), self.recv[to].len());
        self.own.iter().map(sizes).find(|(from, to)| from != to)
    }

    /// Buffers that are there and aligned; blocks that are apart.
    fn check(&self, call: &BlockCall) -> Result<()> {
        let sides = [
            ("send", call.send as usize, &self.send),
            ("receive", call.recv as usize, &self.recv),
        ];
        for (name, base, blocks) in sides {
            let used = blocks.iter().map(|block| block.len()).sum::<usize>();
            if used == 0 {
                continue;
            }
            if base == 0 {
                return Err(Error::argument(
                    format!("the {name} buffer is NULL but has {used} elements"),
                    format!("pass a {name} buffer"),
                ));
            }
        }
        self.check_overlap(call)
    }

    /// Whether the blocks to receive follow each other, and all blocks to send lie before or behind
    /// them: so it mostly is, and then nothing overlaps.
    fn are_apart(&self, call: &BlockCall, size: usize) -> bool {
        let (mut first, mut end) = (usize::MAX, 0);
        for block in self.recv.iter().filter(|block| !block.is_empty()) {
            if block.start < end {
                return false;
            }
            first = first.min(block.start);
            end = block.end;
        }
        let place = |base: usize, element: usize| base.wrapping_add(element.wrapping_mul(size));
        let recv = place(call.recv as usize, first)..place(call.recv as usize, end);
        let sent = self.send.iter().filter(|block| !block.is_empty());
        sent.into_iter().all(|block| {
            let base = call.send as usize;
            place(base, block.end) <= recv.start || recv.end <= place(base, block.start)
        }) || end == 0
    }

    /// Receive blocks share memory with nothing, except with the same own block.
    fn check_overlap(&self, call: &BlockCall) -> Result<()> {
        let size = call.dtype.size_bytes();
        if self.are_apart(call, size) {
            return Ok(());
        }
        let bytes = |base: usize, block: &Range<usize>| {
            base.wrapping_add(block.start * size)..base.wrapping_add(block.end * size)
        };
        let in_place = |recv: usize, range: &Range<usize>| {
            !matches!(call.collective, Collective::AllToAllV)
                && call.graph.is_none()
                && self.own.iter().any(|&(from, to)| {
                    to == recv && bytes(call.send as usize, &self.send[from]) == *range
                })
        };
        let mut ranges: BlockList<(Range<usize>, &str, usize)> = BlockList::new();
        for (number, block) in self.recv.iter().enumerate().filter(|(_, b)| !b.is_empty()) {
            ranges.push((bytes(call.recv as usize, block), "receive", number));
        }
        for (number, block) in self.send.iter().enumerate().filter(|(_, b)| !b.is_empty()) {
            let range = bytes(call.send as usize, block);
            let same = self.own.iter().any(|&(from, to)| {
                from == number && in_place(to, &range) && {
                    bytes(call.recv as usize, &self.recv[to]) == range
                }
            });
            if !same {
                ranges.push((range, "send", number));
            }
        }
        ranges.sort_unstable_by_key(|(range, ..)| range.start);
        // The furthest end of a send block and of a receive block so far, and which one.
        let mut ends: [(usize, &str, usize); 2] = [(0, "", 0); 2];
        for (range, name, number) in ranges {
            let is_receive = usize::from(name == "receive");
            let others = if is_receive == 1 {
                &ends[..]
            } else {
                &ends[1..]
            };
            if let Some((_, other, with)) = others.iter().find(|(end, ..)| *end > range.start) {
                return Err(Error::argument(
                    format!("{name} block {number} overlaps {other} block {with}"),
                    "give every received block memory of its own; in place, only the own block is \
                     the same memory on both sides",
                ));
            }
            if range.end > ends[is_receive].0 {
                ends[is_receive] = (range.end, name, number);
            }
        }
        Ok(())
    }

    /// The size that all ranks know, for the comparison of calls; 0 where there is none.
    fn shared_count(&self, call: &BlockCall) -> usize {
        let sum = |blocks: &[Range<usize>]| blocks.iter().map(|block| block.len()).sum();
        match call.collective {
            Collective::AllGatherV => sum(&self.recv),
            Collective::ReduceScatterV => sum(&self.send),
            // Along a graph each pair has its size: a rank without neighbours names none.
            _ => 0,
        }
    }

    /// One part of the call; `None` if there is nothing to do.
    fn part(
        &self,
        call: &BlockCall,
        message: Transfer,
        rank: u32,
        sign: impl Fn(usize) -> u64,
    ) -> Option<Part> {
        let size = call.dtype.size_bytes();
        let from = |block: usize| call.send.wrapping_add(self.send[block].start * size);
        let to = |block: usize| call.recv.wrapping_add(self.recv[block].start * size);
        let (nothing, nowhere) = (std::ptr::null(), std::ptr::null_mut());
        let (deed, send, recv, count, peer) = match message {
            Transfer::Own { from: a, to: b } => {
                let (send, recv, count) = (from(a), to(b), self.send[a].len());
                if count == 0 || send == recv.cast_const() {
                    return None;
                }
                (Deed::Copy, send, recv, count, rank)
            }
            Transfer::Send { to, block } => {
                (Deed::Send, from(block), nowhere, self.send[block].len(), to)
            }
            Transfer::Recv { from, block } => {
                (Deed::Recv, nothing, to(block), self.recv[block].len(), from)
            }
            Transfer::Fold { block } => {
                (Deed::Fold, from(block), to(0), self.send[block].len(), rank)
            }
        };
        Some(Part {
            deed,
            send,
            recv,
            count,
            peer,
            signature: sign(count),
        })
    }
}

/// Finds the blocks of one side; sizes and places must fit the address space.
fn regions(
    side: &str,
    blocks: Blocks,
    dtype: DataType,
    number: usize,
    found: &mut BlockList<Range<usize>>,
) -> Result<()> {
    let most = isize::MAX as usize / dtype.size_bytes();
    let lengths = match blocks {
        Blocks::Equal(_) => number,
        Blocks::Packed(counts) => counts.len(),
        Blocks::Placed(counts, places) => counts.len().min(places.len()),
    };
    if lengths < number {
        return Err(Error::argument(
            format!("{lengths} {side} counts (or displacements) for {number} blocks"),
            "give one for each rank (each neighbour, along a graph)",
        ));
    }
    let mut next = 0usize;
    for block in 0..number {
        let (start, count) = match blocks {
            Blocks::Equal(count) => (next, count),
            Blocks::Packed(counts) => (next, counts[block]),
            Blocks::Placed(counts, places) if counts[block] > 0 => (places[block], counts[block]),
            Blocks::Placed(..) => (0, 0),
        };
        let end = start.checked_add(count);
        let Some(end) = end.filter(|&end| end <= most && count <= most) else {
            return Err(too_large(side, block, start, count));
        };
        next = end;
        found.push(start..end);
    }
    Ok(())
}

#[cold]
fn too_large(side: &str, block: usize, start: usize, count: usize) -> Error {
    let (start, count) = (start as isize, count as isize);
    let what = match (start < 0, count < 0) {
        (_, true) => format!("{side} count {block} is negative or too large ({count})"),
        (true, _) => format!("{side} displacement {block} is negative or too large ({start})"),
        _ => format!(
            "{side} block {block} of {count} elements at {start} does not fit into the address \
             space"
        ),
    };
    Error::argument(what, "check how counts and displacements are computed")
}

/// The root in signatures.
fn shown_root(call: &Call) -> u32 {
    if call.collective.has_root() {
        call.peer
    } else {
        0
    }
}
