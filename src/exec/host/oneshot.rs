//! One-shot plans without interpretation: the same tokens in the same order as the plan, proved by
//! a test that compares the traces.
//!
//! A call is one function per collective; there is no step to decode and no list to walk, so an
//! 8-byte all-reduce costs little more than the hand-over of its cache line.

use super::engine::HostEngine;
use super::kernel::{Kernel, Kernels};
use super::scratch::{FEW_SOURCES, Sources};
use super::wires::Wires;
use crate::dtype;
use crate::exec::Waiting;
use crate::exec::order::SmallOrder;
use crate::exec::stop::Stop;
use crate::exec::trace::{Event, Tracer};
use crate::plan::{Collective, Link};
use crate::wire::ports::PortId;

/// One small call.
pub struct SmallCall<'a> {
    /// The caller's send buffer.
    pub send: *const u8,
    /// The caller's receive buffer.
    pub recv: *mut u8,
    /// Elements of the data, or of a block where there is one for each rank.
    pub count: usize,
    /// How data is folded.
    pub kernel: &'a Kernel,
    /// Travels with every token.
    pub signature: u64,
    /// Root, where there is one.
    pub root: usize,
}

impl<'a> SmallCall<'a> {
    /// The call of an order.
    #[inline(always)]
    pub(super) fn of(order: &SmallOrder, kernels: &'a Kernels) -> SmallCall<'a> {
        SmallCall {
            send: order.send,
            recv: order.recv,
            count: order.count,
            kernel: kernels.get(order.dtype, order.op),
            signature: order.signature,
            root: order.root,
        }
    }
}

impl SmallCall<'_> {
    #[inline(always)]
    pub(super) fn bytes(&self) -> usize {
        self.count * self.kernel.element_bytes
    }

    /// So many blocks of the input -> own fan, as soon as a slot is free.
    #[inline(always)]
    unsafe fn publish(
        &self,
        blocks: usize,
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
        own_output: Option<*mut u8>,
    ) -> Result<(), Stop> {
        let count = blocks * self.count;
        let bytes = count * self.kernel.element_bytes;
        while !wires.ports.fans.may_publish(bytes) {
            let late = wires.ports.waits_for(PortId::OWN_FAN);
            waiting.pause(late)?;
        }
        if bytes > 0 {
            let slot = wires.ports.fans.place(bytes);
            let both = [own_output.unwrap_or(slot), slot];
            let skip_own = own_output.is_none_or(|output| output.cast_const() == self.send);
            let dsts = &both[usize::from(skip_own)..];
            // SAFETY: the slot holds `bytes` (checked when the call was classed as small), the
            // buffers hold `count` elements (contract of the entry points).
            unsafe { self.copy_in(dsts, count) };
        }
        wires.publish_to_all(bytes, self.signature);
        tracer.event(Event::Publish {
            link: Link::Fan {
                writer: wires.me() as u32,
            },
            bytes,
        });
        Ok(())
    }

    #[inline(always)]
    unsafe fn copy_in(&self, dsts: &[*mut u8], count: usize) {
        let kernel = self.kernel;
        if kernel.pre_scaled {
            let mut params = kernel.params;
            params.divisor = None;
            params.pre_scale_mask = 1;
            // SAFETY: see `publish`.
            unsafe { (kernel.fold)(&[self.send], dsts, count, &params) };
            return;
        }
        for &to in dsts {
            // They fit the caches, so there is no kind of store to choose, which is what a
            // kernel's copy does.
            // SAFETY: see `publish`; places of a fan and outputs are no input.
            unsafe { dtype::move_bytes(self.send, to, count * kernel.element_bytes) };
        }
    }

    /// Waits for the token of `peer` and checks what it is.
    #[inline(always)]
    fn await_token(
        &self,
        wires: &mut Wires,
        peer: usize,
        waiting: &mut impl Waiting,
    ) -> Result<(), Stop> {
        while !wires.ports.fans.ready(peer) {
            waiting.pause(peer)?;
        }
        Ok(wires.check_fan(peer, self.signature)?)
    }

    /// Block `own` of the `blocks` in the token of `peer` -> `to`, as soon as it is there.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The token holds so many blocks, `to` holds one, and they do not overlap.
    #[inline(always)]
    unsafe fn take_of(
        &self,
        (peer, own, blocks): (usize, usize, usize),
        to: *mut u8,
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let bytes = self.bytes();
        self.await_token(wires, peer, waiting)?;
        let source = wires.ports.fans.source(peer, blocks * bytes);
        // SAFETY: our caller's promise.
        unsafe { dtype::move_bytes(source.wrapping_add(own * bytes), to, bytes) };
        self.release(wires, peer, blocks * bytes, tracer);
        Ok(())
    }

    #[inline(always)]
    fn release(&self, wires: &mut Wires, peer: usize, bytes: usize, tracer: &mut impl Tracer) {
        wires.ports.fans.release(peer);
        tracer.event(Event::Release {
            link: Link::Fan {
                writer: peer as u32,
            },
            bytes,
        });
    }

    /// One rank alone, of any size: the one copy of the local plan. Its only contribution is the
    /// fold and the average, so no operation is applied (a pre-multiplied sum is not a small call).
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    #[inline]
    pub unsafe fn alone(&self, wires: &mut Wires) {
        if self.recv.cast_const() != self.send {
            let (kernel, bytes) = (self.kernel, self.bytes());
            // SAFETY: our caller's promise; the buffers are distinct (checked with the arguments).
            unsafe { (kernel.copy)(&[self.send], &[self.recv], bytes, &kernel.params) };
        }
        wires.steps_executed += 1;
    }

    /// Publish, then fold everybody's in rank order.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    pub unsafe fn all_reduce(
        &self,
        wires: &mut Wires,
        sources: &mut Sources,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let mut few = [std::ptr::null(); FEW_SOURCES];
        let sources = sources.listed(&mut few, wires.ranks());
        // SAFETY: our caller's promise.
        unsafe {
            self.publish(1, wires, waiting, tracer, None)?;
            self.fold(0, 1, sources, wires, waiting, tracer)?;
        }
        wires.ports.complete_eager();
        wires.steps_executed += 2;
        Ok(())
    }

    /// Publish the blocks of all ranks, then fold everybody's own block in rank order.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    pub unsafe fn reduce_scatter(
        &self,
        wires: &mut Wires,
        sources: &mut Sources,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let (me, ranks) = (wires.me(), wires.ranks());
        let mut few = [std::ptr::null(); FEW_SOURCES];
        let sources = sources.listed(&mut few, ranks);
        // SAFETY: our caller's promise.
        unsafe {
            self.publish(ranks, wires, waiting, tracer, None)?;
            self.fold(me, ranks, sources, wires, waiting, tracer)?;
        }
        wires.ports.complete_eager();
        wires.steps_executed += 3;
        Ok(())
    }

    /// Folds block `own` of the `blocks` of the first ranks in their order: as many ranks as
    /// `sources` has room for.
    ///
    /// # Safety
    /// As [`SmallCall::all_reduce`]; the tokens hold so many blocks.
    #[inline(always)]
    unsafe fn fold(
        &self,
        own: usize,
        blocks: usize,
        sources: &mut [*const u8],
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let (me, bytes) = (wires.me(), self.bytes());
        for (peer, source) in sources.iter_mut().enumerate() {
            let data = match peer == me {
                true => self.send,
                false => {
                    self.await_token(wires, peer, waiting)?;
                    wires.ports.fans.source(peer, blocks * bytes)
                }
            };
            *source = data.wrapping_add(own * bytes);
        }
        let mut params = self.kernel.params;
        params.pre_scale_mask = u64::from(self.kernel.pre_scaled) << (me & 63);
        params.divisor = self.kernel.divisor;
        // SAFETY: every source holds `count` elements until the call completes.
        unsafe { (self.kernel.fold)(sources, &[self.recv], self.count, &params) };
        for peer in (0..sources.len()).filter(|&peer| peer != me) {
            self.release(wires, peer, blocks * bytes, tracer);
        }
        Ok(())
    }

    /// Publish, then take everybody's.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    pub unsafe fn all_gather(
        &self,
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let (me, ranks, bytes) = (wires.me(), wires.ranks(), self.bytes());
        let block = |rank: usize| self.recv.wrapping_add(rank * bytes);
        // SAFETY: our caller's promise.
        unsafe { self.publish(1, wires, waiting, tracer, Some(block(me)))? };
        for peer in (0..ranks).filter(|&peer| peer != me) {
            // SAFETY: the token holds a block, and so does block `peer` of the output.
            unsafe { self.take_of((peer, 0, 1), block(peer), wires, waiting, tracer)? };
        }
        wires.ports.complete_eager();
        wires.steps_executed += ranks as u64;
        Ok(())
    }

    /// Publish the blocks of all ranks, then take the own one of everybody.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    pub unsafe fn all_to_all(
        &self,
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let (me, ranks, bytes) = (wires.me(), wires.ranks(), self.bytes());
        let block = |rank: usize| self.recv.wrapping_add(rank * bytes);
        // SAFETY: our caller's promise; the buffers are apart (checked with the arguments).
        unsafe {
            self.publish(ranks, wires, waiting, tracer, None)?;
            dtype::move_bytes(self.send.wrapping_add(me * bytes), block(me), bytes);
        }
        for peer in (0..ranks).filter(|&peer| peer != me) {
            // SAFETY: the token holds a block for each rank, and the output too.
            unsafe { self.take_of((peer, me, ranks), block(peer), wires, waiting, tracer)? };
        }
        wires.ports.complete_eager();
        wires.steps_executed += 2 * ranks as u64;
        Ok(())
    }

    /// The root publishes, the others read.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    pub unsafe fn broadcast(
        &self,
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        // SAFETY: our caller's promise; the token and the output hold a block.
        unsafe {
            match wires.me() == self.root {
                true => self.publish(1, wires, waiting, tracer, Some(self.recv))?,
                false => self.take_of((self.root, 0, 1), self.recv, wires, waiting, tracer)?,
            }
        }
        wires.ports.complete_eager();
        wires.steps_executed += 1;
        Ok(())
    }

    /// The root publishes the blocks of all ranks, and each of the others takes its own.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    pub unsafe fn scatter(
        &self,
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let (me, ranks) = (wires.me(), wires.ranks());
        // SAFETY: our caller's promise; the token holds a block for each rank. The root's own block
        // either is where it belongs or lies apart (checked with the arguments).
        unsafe {
            if me == self.root {
                let own = self.send.wrapping_add(me * self.bytes());
                self.publish(ranks, wires, waiting, tracer, None)?;
                if own != self.recv.cast_const() {
                    dtype::move_bytes(own, self.recv, self.bytes());
                }
            } else {
                let which = (self.root, me, ranks);
                self.take_of(which, self.recv, wires, waiting, tracer)?;
            }
        }
        wires.ports.complete_eager();
        wires.steps_executed += 2;
        Ok(())
    }

    /// Publish, then fold those of the ranks before, and the own one where `own` is true. The lines
    /// of the other ranks are dropped.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    pub unsafe fn scan(
        &self,
        own: bool,
        wires: &mut Wires,
        sources: &mut Sources,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let (me, ranks, bytes) = (wires.me(), wires.ranks(), self.bytes());
        let folded = me + usize::from(own);
        let mut few = [std::ptr::null(); FEW_SOURCES];
        let sources = sources.listed(&mut few, folded);
        // SAFETY: our caller's promise.
        unsafe {
            self.publish(1, wires, waiting, tracer, None)?;
            if folded > 0 {
                self.fold(0, 1, sources, wires, waiting, tracer)?;
            }
        }
        for peer in me + 1..ranks {
            self.await_token(wires, peer, waiting)?;
            self.release(wires, peer, bytes, tracer);
        }
        wires.ports.complete_eager();
        wires.steps_executed += u64::from(folded > 0) + (ranks - me) as u64;
        Ok(())
    }

    /// Everybody signals, everybody waits for everybody.
    ///
    /// # Errors
    /// See [`Stop`].
    pub fn barrier(
        &self,
        wires: &mut Wires,
        waiting: &mut impl Waiting,
        tracer: &mut impl Tracer,
    ) -> Result<(), Stop> {
        let (me, ranks) = (wires.me(), wires.ranks());
        // SAFETY: a barrier has no payload (`count` is 0), so no buffer is touched.
        unsafe { self.publish(1, wires, waiting, tracer, None)? };
        for peer in (0..ranks).filter(|&peer| peer != me) {
            self.await_token(wires, peer, waiting)?;
        }
        for peer in (0..ranks).filter(|&peer| peer != me) {
            self.release(wires, peer, 0, tracer);
        }
        wires.ports.complete_eager();
        wires.steps_executed += 2;
        Ok(())
    }
}

impl HostEngine {
    /// Runs a small call, waiting where a token is missing.
    ///
    /// # Errors
    /// A rank that called something else, or the error of a wait.
    ///
    /// # Safety
    /// The buffers of the order hold what it says, and nobody else touches them.
    #[inline(always)]
    pub unsafe fn small(
        &mut self,
        order: &SmallOrder,
        waiting: &mut impl Waiting,
    ) -> std::result::Result<(), Stop> {
        let small = SmallCall::of(order, &self.kernels);
        let (wires, sources) = (&mut self.wires, &mut self.sources);
        // SAFETY: our caller's promise.
        unsafe {
            match order.collective {
                Collective::AllReduce => small.all_reduce(wires, sources, waiting, &mut ()),
                Collective::AllGather => small.all_gather(wires, waiting, &mut ()),
                Collective::Broadcast => small.broadcast(wires, waiting, &mut ()),
                Collective::ReduceScatter => small.reduce_scatter(wires, sources, waiting, &mut ()),
                Collective::AllToAll => small.all_to_all(wires, waiting, &mut ()),
                Collective::Scatter => small.scatter(wires, waiting, &mut ()),
                other if other.is_scan() => {
                    small.scan(other.is_inclusive(), wires, sources, waiting, &mut ())
                }
                _ => small.barrier(wires, waiting, &mut ()),
            }
        }
    }

    /// Runs a call of one rank alone, of any size.
    ///
    /// # Safety
    /// As [`HostEngine::small`].
    #[inline(always)]
    pub unsafe fn alone(&mut self, order: &SmallOrder) {
        let small = SmallCall::of(order, &self.kernels);
        // SAFETY: our caller's promise.
        unsafe { small.alone(&mut self.wires) };
    }
}

impl Wires {
    /// Publishes the token written in the own fan, and wakes its readers: what
    /// [`crate::wire::ports::Ports::publish`] does at that port.
    #[inline(always)]
    fn publish_to_all(&mut self, bytes: usize, signature: u64) {
        if self.ports.has_fault() {
            self.ports.inject_fault(PortId::OWN_FAN, bytes);
        }
        self.ports.fans.publish(signature);
        self.ports.ring_others();
        self.ports.fans.claim(bytes);
    }
}
