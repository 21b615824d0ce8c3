//! One-shot calls without interpretation: one function runs a row of a table, and is compiled for
//! each row. So there is no step to decode and no list to walk, and an 8-byte all-reduce costs
//! little more than the hand-over of its cache line. The tokens are those of the one-shot plans, in
//! the same order; a test compares the traces.
//!
//! **Data path.** The send buffer of a *writer* -> its line, or a place of its fan -> the receive
//! buffers of the *readers*, which fold it or copy it. The writer copies its own block itself.
//!
//! **Columns** ([`SmallRow`]). *Writers*: all ranks, or the root. *Split*: a token has a block for
//! each rank, who takes its own; else it is one block, which all take. *Taken*: tokens are folded
//! in the order of ranks, or each is copied: of all writers to the block of its writer, of the root
//! to the receive buffer. *Steps*: as many as the plan has.

use super::kernel::Kernel;
use super::ran::Executor;
use super::scratch::{FEW_SOURCES, Sources};
use super::wires::Wires;
use crate::dtype;
use crate::exec::Waiting;
use crate::exec::order::SmallOrder;
use crate::exec::stop::Stop;
use crate::exec::trace::{Event, Tracer};
use crate::plan::{Collective, Link};
use crate::wire::ports::PortId;

/// Whose tokens are folded; those of the other ranks are dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Folded {
    Everybody,
    /// The ranks before this one.
    Before,
    /// The ranks before this one, and it.
    UpToOwn,
    Nobody,
}

impl Folded {
    /// How many they are: the first ranks.
    #[inline(always)]
    fn count(self, me: usize, ranks: usize) -> usize {
        match self {
            Folded::Everybody => ranks,
            Folded::Before => me,
            Folded::UpToOwn => me + 1,
            Folded::Nobody => 0,
        }
    }
}

/// A reader's use of tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenUse {
    Fold(Folded),
    Copy,
}

/// How a collective passes its tokens.
#[derive(Clone, Copy)]
struct SmallRow {
    /// The root writes; else all ranks do.
    by_root: bool,
    /// A token has a block for each rank.
    is_split: bool,
    taken: TokenUse,
    /// Steps of the plan: so many, and so many for each rank. One for each token that a scan drops
    /// comes on top, and one for its fold.
    steps: (u64, u64),
}

const fn row(by_root: bool, is_split: bool, taken: TokenUse, steps: (u64, u64)) -> SmallRow {
    SmallRow {
        by_root,
        is_split,
        taken,
        steps,
    }
}

const ALL_REDUCE: usize = 0;
const REDUCE_SCATTER: usize = 1;
const ALL_GATHER: usize = 2;
const ALL_TO_ALL: usize = 3;
const BROADCAST: usize = 4;
const SCATTER: usize = 5;
const SCAN: usize = 6;
const EXSCAN: usize = 7;
const BARRIER: usize = 8;

/// The table.
#[rustfmt::skip]
const ROWS: [SmallRow; 9] = [
    //  by_root  is_split  taken                              steps
    row(false,   false,    TokenUse::Fold(Folded::Everybody), (2, 0)), // ALL_REDUCE
    row(false,   true,     TokenUse::Fold(Folded::Everybody), (3, 0)), // REDUCE_SCATTER
    row(false,   false,    TokenUse::Copy,                    (0, 1)), // ALL_GATHER
    row(false,   true,     TokenUse::Copy,                    (0, 2)), // ALL_TO_ALL
    row(true,    false,    TokenUse::Copy,                    (1, 0)), // BROADCAST
    row(true,    true,     TokenUse::Copy,                    (2, 0)), // SCATTER
    row(false,   false,    TokenUse::Fold(Folded::UpToOwn),   (1, 0)), // SCAN
    row(false,   false,    TokenUse::Fold(Folded::Before),    (1, 0)), // EXSCAN
    row(false,   false,    TokenUse::Fold(Folded::Nobody),    (2, 0)), // BARRIER
];

/// A small call, and how its data are folded.
#[derive(Clone, Copy)]
pub struct SmallCall<'a> {
    /// The call.
    pub order: &'a SmallOrder,
    /// The kernel of its type and operation; it scales no input.
    pub kernel: &'a Kernel,
}

impl SmallCall<'_> {
    /// Bytes of the data, or of a block.
    #[inline(always)]
    pub(super) fn bytes(self) -> usize {
        self.order.count * self.kernel.element_bytes
    }

    /// One rank alone, of any size: the one copy of the local plan. Its only contribution is the
    /// fold and the average, so no operation is applied (a pre-multiplied sum is not a small call).
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    #[inline]
    pub unsafe fn alone(self, wires: &mut Wires) {
        wires.ran.note(Executor::Copy);
        let SmallOrder { send, recv, .. } = *self.order;
        if recv.cast_const() != send {
            let (kernel, bytes) = (self.kernel, self.bytes());
            // SAFETY: our caller's promise; the buffers are distinct (checked with the arguments).
            unsafe { (kernel.copy)(&[send], &[recv], bytes, &kernel.params) };
        }
        wires.steps_executed += 1;
    }

    /// Runs the row of the collective.
    ///
    /// # Errors
    /// A rank that called something else, or the error of a wait.
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    #[inline(always)]
    pub unsafe fn run(
        self,
        wires: &mut Wires,
        sources: &mut Sources,
        waiting: &mut impl Waiting,
    ) -> Result<(), Stop> {
        use Collective::{AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter, Scatter};
        // SAFETY: our caller's promise.
        unsafe {
            match self.order.collective {
                AllReduce => self.run_row::<ALL_REDUCE>(wires, sources, waiting),
                AllGather => self.run_row::<ALL_GATHER>(wires, sources, waiting),
                Broadcast => self.run_row::<BROADCAST>(wires, sources, waiting),
                ReduceScatter => self.run_row::<REDUCE_SCATTER>(wires, sources, waiting),
                AllToAll => self.run_row::<ALL_TO_ALL>(wires, sources, waiting),
                Scatter => self.run_row::<SCATTER>(wires, sources, waiting),
                scan if scan.is_scan() && scan.is_inclusive() => {
                    self.run_row::<SCAN>(wires, sources, waiting)
                }
                scan if scan.is_scan() => self.run_row::<EXSCAN>(wires, sources, waiting),
                _ => self.run_row::<BARRIER>(wires, sources, waiting),
            }
        }
    }

    /// Publishes a token if this rank writes one, and takes those of the others.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    unsafe fn run_row<const ROW: usize>(
        self,
        wires: &mut Wires,
        sources: &mut Sources,
        waiting: &mut impl Waiting,
    ) -> Result<(), Stop> {
        let row = const { ROWS[ROW] };
        wires.ran.note(Executor::OneShot);
        let (me, ranks, bytes) = (wires.me(), wires.ranks(), self.bytes());
        let SmallOrder {
            send, recv, root, ..
        } = *self.order;
        // Bytes of a token, and where in it this rank's block begins.
        let (blocks, own) = if row.is_split {
            (ranks, me * bytes)
        } else {
            (1, 0)
        };
        let token = blocks * bytes;
        let writes = !row.by_root || me == root;
        if writes {
            // SAFETY: our caller's promise: the send buffer holds a token.
            unsafe { self.publish(token, wires, waiting)? };
        }
        match row.taken {
            TokenUse::Copy => {
                let place = |rank: usize| {
                    let blocks = if row.by_root { 0 } else { rank };
                    recv.wrapping_add(blocks * bytes)
                };
                let (from, to) = (send.wrapping_add(own), place(me));
                if writes && from != to.cast_const() {
                    // SAFETY: our caller's promise; not in place, so they are apart.
                    unsafe { dtype::move_bytes(from, to, bytes) };
                }
                let writers = if row.by_root {
                    root..root + 1
                } else {
                    0..ranks
                };
                for peer in writers.filter(|&peer| peer != me) {
                    self.await_token(wires, peer, waiting)?;
                    let source = wires.ports.fans.source(peer, token).wrapping_add(own);
                    // SAFETY: the token has this rank's block, and the receive buffer its place.
                    unsafe { dtype::move_bytes(source, place(peer), bytes) };
                    release(wires, peer, token, waiting);
                }
            }
            TokenUse::Fold(whose) => {
                let folded = whose.count(me, ranks);
                if whose == Folded::Everybody || folded > 0 {
                    let mut few = [std::ptr::null(); FEW_SOURCES];
                    let sources = sources.listed(&mut few, folded);
                    // SAFETY: our caller's promise.
                    unsafe { self.fold(own, token, sources, wires, waiting)? };
                }
                for peer in (folded..ranks).filter(|&peer| peer != me) {
                    self.await_token(wires, peer, waiting)?;
                    release(wires, peer, token, waiting);
                }
                if matches!(whose, Folded::Before | Folded::UpToOwn) {
                    wires.steps_executed += u64::from(folded > 0) + (ranks - me - 1) as u64;
                }
            }
        }
        wires.ports.complete_eager();
        wires.steps_executed += row.steps.0 + row.steps.1 * ranks as u64;
        Ok(())
    }

    /// The first `bytes` bytes of the input -> own fan, as soon as there is room.
    ///
    /// # Safety
    /// The send buffer holds so many bytes.
    #[inline(always)]
    unsafe fn publish(
        self,
        bytes: usize,
        wires: &mut Wires,
        waiting: &mut impl Waiting,
    ) -> Result<(), Stop> {
        while !wires.ports.fans.may_publish(bytes) {
            let late = wires.ports.waits_for(PortId::OWN_FAN);
            waiting.pause(late)?;
        }
        if bytes > 0 {
            let slot = wires.ports.fans.place(bytes);
            // It fits the caches, so there is no kind of store to choose, which is what a kernel's
            // copy does.
            // SAFETY: the slot holds `bytes` (checked when the call was classed as small) and is
            // no input; our caller's promise.
            unsafe { dtype::move_bytes(self.order.send, slot, bytes) };
        }
        // What `Ports::publish` does at the port of the own fan.
        if wires.ports.has_fault() {
            wires.ports.inject_fault(PortId::OWN_FAN, bytes);
        }
        wires.ports.fans.publish(self.order.signature);
        wires.ports.ring_others();
        wires.ports.fans.claim(bytes);
        let link = fan(wires.me());
        waiting.event(Event::Publish { link, bytes });
        Ok(())
    }

    /// Waits for the token of `peer` and checks what it is.
    #[inline(always)]
    fn await_token(
        self,
        wires: &mut Wires,
        peer: usize,
        waiting: &mut impl Waiting,
    ) -> Result<(), Stop> {
        while !wires.ports.fans.ready(peer) {
            waiting.pause(peer)?;
        }
        Ok(wires.check_fan(peer, self.order.signature)?)
    }

    /// Folds what begins `own` bytes into the tokens of the first ranks, of `token` bytes, in their
    /// order: as many ranks as `sources` has room for.
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    #[inline(always)]
    unsafe fn fold(
        self,
        own: usize,
        token: usize,
        sources: &mut [*const u8],
        wires: &mut Wires,
        waiting: &mut impl Waiting,
    ) -> Result<(), Stop> {
        let me = wires.me();
        for (peer, source) in sources.iter_mut().enumerate() {
            *source = self.order.send.wrapping_add(own);
            if peer != me {
                self.await_token(wires, peer, waiting)?;
                *source = wires.ports.fans.source(peer, token).wrapping_add(own);
            }
        }
        // SAFETY: every source holds `count` elements until the call completes.
        unsafe { self.fold_all(sources, self.order.recv, self.order.count) };
        for peer in (0..sources.len()).filter(|&peer| peer != me) {
            release(wires, peer, token, waiting);
        }
        Ok(())
    }

    /// Folds `count` elements of all sources, in their order.
    ///
    /// # Safety
    /// Each place holds so many; a source is the result's place or apart from it.
    #[inline(always)]
    pub(super) unsafe fn fold_all(self, sources: &[*const u8], result: *mut u8, count: usize) {
        let mut params = self.kernel.params;
        params.divisor = self.kernel.divisor;
        // SAFETY: our caller's promise.
        unsafe { (self.kernel.fold)(sources, &[result], count, &params) };
    }
}

#[inline(always)]
fn fan(writer: usize) -> Link {
    let writer = writer as u32;
    Link::Fan { writer }
}

/// Gives the token of `peer` back.
#[inline(always)]
fn release(wires: &mut Wires, peer: usize, bytes: usize, tracer: &mut impl Tracer) {
    wires.ports.fans.release(peer);
    let link = fan(peer);
    tracer.event(Event::Release { link, bytes });
}
