//! Exchanges: calls that are messages between ranks, moved without a plan. The tokens are those of
//! the plans; a test compares the traces.
//!
//! **Problem.** To write a message of 8 bytes down takes longer than to move it. But where a rank
//! sends to many others, no message may wait for another one.
//!
//! **Idea.** An exchange is what a rank sends, what it receives, its own block, and the fold of a
//! reduce at its root. Two drivers move its tokens ([`super::message`]). One *waits*: the calling
//! thread moves a [`message`], [`both`] halves side by side, or one message after the other
//! ([`RootedExchange`]), and writes nothing down. The other *passes*: a [`Bundle`] lists messages
//! of one token each, and moves what can move as often as it is called, between nodes too.

use super::kernel::Kernels;
use super::message::{Moving, moved, open, receive};
use super::oneshot::SmallCall;
use super::ran::Executor;
use super::schedule::{Latest, Passed, Schedule};
use super::scratch::{FEW_SOURCES, Sources};
use super::wires::Wires;
use crate::base;
use crate::base::exchange::{Transfer, transfers};
use crate::dtype;
use crate::exec::Waiting;
use crate::exec::order::{MessageOrder, SmallOrder};
use crate::exec::stop::{Mismatch, Progress, Stop};
use crate::exec::trace::{Event, Tracer};
use crate::plan::{Collective, ConnectionUse, Direction, Placing};
use crate::wire::line::LINES;
use crate::wire::ports::PortId;
use crate::wire::taken::Tokens;

/// Moves one message on one node, waiting for each of its tokens.
///
/// # Errors
/// See [`Stop`].
///
/// # Safety
/// The place of the message holds what its order says, and belongs to it until this returns.
#[inline(always)]
pub unsafe fn message(
    order: &MessageOrder,
    wires: &mut Wires,
    waiting: &mut impl Waiting,
) -> Result<(), Stop> {
    wires.ran.note(Executor::Message);
    // SAFETY: our caller's promise.
    unsafe { moved(order, wires, waiting) }
}

/// Moves two messages on one node side by side: neither waits for the other.
///
/// # Errors
/// See [`Stop`].
///
/// # Safety
/// As [`message`], for both.
#[inline(always)]
pub unsafe fn both(
    [send, recv]: [&MessageOrder; 2],
    wires: &mut Wires,
    waiting: &mut impl Waiting,
) -> Result<(), Stop> {
    wires.ran.note(Executor::Exchange);
    let mut sent = Moving::begin(send, wires)?;
    let mut received = Moving::begin(recv, wires)?;
    loop {
        // SAFETY: our caller's promise.
        let moved = unsafe {
            let out = !sent.is_done(send) && sent.try_token(send, wires, waiting)?;
            out | (!received.is_done(recv) && received.try_token(recv, wires, waiting)?)
        };
        match (sent.is_done(send), received.is_done(recv)) {
            (true, true) => return Ok(()),
            _ if moved => waiting.moved()?,
            (true, false) => waiting.pause(recv.peer)?,
            (false, _) => waiting.pause(send.peer)?,
        }
    }
}

/// A rooted collective on one node in which this rank sends one message, or none: a gather or
/// reduce, a broadcast or scatter of two ranks, or a broadcast whose root casts.
pub struct RootedExchange<'a> {
    /// Its buffers and sizes.
    pub call: SmallCall<'a>,
    /// The root's message goes to all others.
    pub to_all: bool,
    /// Bytes of each token of a message but the last one.
    pub slice_bytes: usize,
}

impl RootedExchange<'_> {
    /// The name under which it is counted.
    fn executor(&self) -> Executor {
        if self.to_all {
            Executor::Cast
        } else {
            Executor::Rooted
        }
    }

    /// Sends, receives, moves the own block and folds. Returns how many steps that was.
    ///
    /// # Errors
    /// See [`Stop`].
    ///
    /// # Safety
    /// The buffers hold what the call says and belong to it until it returns.
    #[inline(always)]
    pub unsafe fn wait(
        &self,
        wires: &mut Wires,
        sources: &mut Sources,
        waiting: &mut impl Waiting,
    ) -> Result<u64, Stop> {
        wires.ran.note(self.executor());
        let (me, ranks, bytes) = (wires.me(), wires.ranks(), self.call.bytes());
        let (order, collective) = (self.call.order, self.call.order.collective);
        let gathers = matches!(collective, Collective::Gather | Collective::Reduce);
        let slice_bytes = self.slice_bytes;
        let message_with = |peer, direction, place| MessageOrder {
            to_all: self.to_all,
            slice_bytes,
            ..order.message(peer, direction, place)
        };
        if me != order.root {
            // One message, and nothing beside it.
            let (direction, place) = if gathers {
                (Direction::Send, order.send.cast_mut())
            } else {
                (Direction::Recv, order.recv)
            };
            let order = message_with(order.root, direction, place);
            // SAFETY: our caller's promise.
            unsafe { moved(&order, wires, waiting)? };
            return Ok(order.tokens());
        }
        if collective == Collective::Reduce {
            // SAFETY: our caller's promise.
            return unsafe { self.fold(wires, sources, waiting) };
        }
        // At the root of a gather or scatter each rank has its block.
        let is_split = matches!(collective, Collective::Gather | Collective::Scatter);
        let block =
            |base: *mut u8, rank: usize| base.wrapping_add(if is_split { rank * bytes } else { 0 });
        let (mut direction, mut theirs, mut own) =
            (Direction::Send, order.send.cast_mut(), order.recv);
        if gathers {
            (direction, theirs, own) = (Direction::Recv, own, theirs);
        }
        let move_own = || {
            let mine = block(theirs, me);
            let (from, to) = if gathers { (own, mine) } else { (mine, own) };
            if from != to {
                // SAFETY: our caller's promise; not in place, so they are apart.
                unsafe { dtype::move_bytes(from.cast_const(), to, bytes) };
            }
        };
        // The other ranks get their part first, and meanwhile the root moves its own.
        let mut steps = 0;
        if gathers {
            move_own();
            steps = 1;
            wires.steps_executed += 1;
        }
        let peers = if self.to_all { me..me + 1 } else { 0..ranks };
        for peer in peers.filter(|&peer| peer != me || self.to_all) {
            let order = message_with(peer, direction, block(theirs, peer));
            // SAFETY: our caller's promise.
            unsafe { moved(&order, wires, waiting)? };
            steps += order.tokens();
        }
        if !gathers {
            move_own();
        }
        Ok(steps)
    }

    /// The root of a reduce: folds what the only other rank sends as it comes, or what all send
    /// when it is there.
    ///
    /// # Safety
    /// As [`RootedExchange::wait`].
    #[inline(always)]
    unsafe fn fold(
        &self,
        wires: &mut Wires,
        sources: &mut Sources,
        waiting: &mut impl Waiting,
    ) -> Result<u64, Stop> {
        let (call, me) = (self.call, wires.me());
        if wires.ranks() == 2 {
            let order = MessageOrder {
                slice_bytes: self.slice_bytes,
                ..call.order.message(1 - me, Direction::Recv, call.order.recv)
            };
            let element = call.kernel.element_bytes;
            receive(&order, element, wires, waiting, |theirs, part| {
                let mine = call.order.send.wrapping_add(part.start);
                let sources = if me == 0 {
                    [mine, theirs]
                } else {
                    [theirs, mine]
                };
                let to = order.place.wrapping_add(part.start);
                // SAFETY: our caller's promise; the part is there until the token is given back.
                unsafe { call.fold_all(&sources, to, part.len() / element) };
            })?;
            return Ok(order.tokens());
        }
        let mut few = [std::ptr::null(); FEW_SOURCES];
        let sources = sources.listed(&mut few, wires.ranks());
        let (mut arrived, near) = (0, Placing::Planned);
        loop {
            // SAFETY: our caller's promise.
            match unsafe { fold(call, near, &mut arrived, sources, wires, waiting)? } {
                Progress::Blocked(peer) => waiting.pause(peer)?,
                _ => return Ok(1),
            }
        }
    }
}

/// Lists the contributions that are there, each one token; those of the ranks before `arrived` are
/// listed. Folds all in the order of ranks when the last one is.
///
/// # Safety
/// The buffers of the call hold its elements; nobody else touches the list until it is done.
#[inline(always)]
unsafe fn fold(
    call: SmallCall<'_>,
    placing: Placing,
    arrived: &mut usize,
    sources: &mut [*const u8],
    wires: &mut Wires,
    tracer: &mut impl Tracer,
) -> Result<Progress, Stop> {
    let (me, bytes, signature) = (wires.me(), call.bytes(), call.order.signature);
    while let Some(source) = sources.get_mut(*arrived) {
        *source = call.order.send;
        if *arrived != me {
            let (end, _) = open(wires, *arrived, Direction::Recv, placing)?;
            if !wires.ports.ready_for(end, (bytes, signature)) {
                return Ok(Progress::Blocked(*arrived));
            }
            wires.check(end, signature, 0)?;
            *source = wires.ports.place(end, bytes, 0).cast_const();
        }
        *arrived += 1;
    }
    // SAFETY: our caller's promise; slots hold the contributions until they are released.
    unsafe { call.fold_all(sources, call.order.recv, call.order.count) };
    for peer in (0..sources.len()).filter(|&peer| peer != me) {
        let (end, used) = open(wires, peer, Direction::Recv, placing)?;
        wires.ports.release(end, 1);
        let link = used.link;
        tracer.event(Event::Release { link, bytes });
    }
    wires.steps_executed += 1;
    Ok(Progress::Done)
}

/// A message of a bundle.
#[derive(Clone, Copy)]
struct Listed {
    order: MessageOrder,
    moving: Moving,
    /// The network was told of it.
    begun: bool,
}

/// Messages that are on their way together, or a small reduce at its root. Its memory is kept for
/// the next one.
#[derive(Default)]
pub struct Bundle {
    list: Schedule<Listed>,
    latest: Latest,
    /// Numbers this bundle among launches.
    launch: u64,
    /// Ends to other nodes.
    carried: Vec<PortId>,
    /// A reduce, where its connections are, and how many contributions are listed.
    fold: Option<(SmallOrder, Placing, usize)>,
    sources: Vec<*const u8>,
}

// SAFETY: the buffers belong to the call until its bundle has ended; one driver at a time.
unsafe impl Send for Bundle {}

impl Bundle {
    /// Forgets the last bundle.
    pub fn clear(&mut self) {
        self.list.clear(usize::MAX);
        self.latest.next();
        self.carried.clear();
        self.fold = None;
    }

    /// Messages of the bundle; a fold counts as one.
    pub fn steps(&self) -> u64 {
        self.list.len() as u64 + u64::from(self.fold.is_some())
    }

    /// Adds a message of at most a slot, to or from another rank.
    ///
    /// # Errors
    /// The connection cannot be made.
    pub fn add(
        &mut self,
        order: &MessageOrder,
        placing: Placing,
        wires: &mut Wires,
    ) -> base::Result<()> {
        let (end, used) = open(wires, order.peer, order.direction, placing)?;
        let stamp = self.latest.stamp();
        let after = self.latest.replace(stamp, end, self.list.len());
        // Behind another message it is not known yet which slot is next.
        let count = after.map_or(1, |_| LINES as u64);
        wires.ports.reserve(end, Tokens::some(order.bytes, count))?;
        if self.list.len() == 0 {
            self.launch = wires.carried.number_launch();
        }
        if order.direction == Direction::Send && wires.carried.is_remote(order.peer) {
            self.carried.push(end);
        }
        let listed = Listed {
            order: *order,
            moving: Moving::new(used.link, end),
            begun: false,
        };
        self.list.push(after, || listed, |old| *old = listed);
        Ok(())
    }

    /// Begins with the messages of a small collective in the order of its plan, or the fold of a
    /// reduce at its root, and moves what this rank sends to itself. Returns how many steps that
    /// was.
    ///
    /// # Errors
    /// As [`Bundle::add`].
    ///
    /// # Safety
    /// The buffers hold what the order says, and belong to the bundle until it is done.
    pub unsafe fn begin(
        &mut self,
        order: &SmallOrder,
        placing: Placing,
        wires: &mut Wires,
    ) -> base::Result<u64> {
        use Direction::{Recv, Send};
        self.clear();
        let (me, ranks, root) = (wires.me(), wires.ranks(), order.root);
        let (bytes, mut copied) = (order.count * order.dtype.size_bytes(), 0);
        let block = |base: *mut u8, number: usize| base.wrapping_add(number * bytes);
        let (send, recv) = (order.send.cast_mut(), order.recv);
        if order.collective == Collective::Reduce && me == root {
            self.fold = Some((*order, placing, 0));
            self.sources.resize(ranks, std::ptr::null());
            return self.expect_all(placing, wires).map(|()| 0);
        }
        let mut add = |peer, direction, place| {
            self.add(&order.message(peer, direction, place), placing, wires)
        };
        match order.collective {
            // A message of its own, or the contribution to a fold.
            Collective::Send | Collective::Reduce => return add(root, Send, send).map(|()| 0),
            Collective::Recv => return add(root, Recv, recv).map(|()| 0),
            _ => {}
        }
        for transfer in transfers(order.collective, me as u32, ranks as u32, root as u32) {
            match transfer {
                Transfer::Send { to, block: it } => add(to as usize, Send, block(send, it))?,
                Transfer::Recv { from, block: it } => add(from as usize, Recv, block(recv, it))?,
                Transfer::Own { from, to } => {
                    let (from, to) = (block(send, from), block(recv, to));
                    // SAFETY: our caller's promise; equal in place, otherwise apart.
                    unsafe { std::ptr::copy(from.cast_const(), to, bytes) };
                    copied += 1;
                }
                // No exchange that folds is a small one.
                Transfer::Fold { .. } => {}
            }
        }
        wires.steps_executed += copied;
        Ok(copied)
    }

    /// Tells the network of a message of each other rank.
    fn expect_all(&self, placing: Placing, wires: &mut Wires) -> base::Result<()> {
        let (me, launch) = (wires.me(), wires.carried.number_launch());
        for peer in (0..wires.ranks()).filter(|&peer| peer != me) {
            let (_, used) = open(wires, peer, Direction::Recv, placing)?;
            wires.carried.expect(launch, &used, 1, false);
        }
        Ok(())
    }

    /// Moves what can move.
    ///
    /// # Errors
    /// A rank that called something else; see [`Stop`].
    ///
    /// # Safety
    /// The places hold what was said, and belong to the bundle until it is done.
    pub unsafe fn pass(
        &mut self,
        kernels: &Kernels,
        wires: &mut Wires,
        tracer: &mut impl Tracer,
    ) -> Result<Progress, Stop> {
        if let Some((order, placing, arrived)) = &mut self.fold {
            let kernel = kernels.get(order.dtype, order.op);
            let call = SmallCall { order, kernel };
            // SAFETY: our caller's promise.
            let progress =
                unsafe { fold(call, *placing, arrived, &mut self.sources, wires, tracer) };
            if let Ok(Progress::Done) = progress {
                wires.ran.note(Executor::Bundle);
            }
            return progress;
        }
        let launch = self.launch;
        let Passed { moved, mut missing } = self.list.pass(|_, listed| {
            let (order, moving) = (&listed.order, &mut listed.moving);
            if !std::mem::replace(&mut listed.begun, true) {
                let (link, direction) = (moving.link, order.direction);
                let used = ConnectionUse { link, direction };
                wires.carried.expect(launch, &used, 1, false);
            }
            // SAFETY: our caller's promise.
            let moved = unsafe { moving.try_token(order, wires, tracer)? };
            if moved {
                return Ok::<_, Mismatch>(Progress::Done);
            }
            Ok(Progress::Blocked(wires.ports.waits_for(moving.end)))
        })?;
        let pending = self.list.pending();
        let mut carried = self.carried.iter();
        if pending == 0
            && let Some(&end) = carried.find(|&&end| !wires.ports.port(end).drained())
        {
            // Handed to the network, which nobody may drive when the call has returned.
            missing.get_or_insert(wires.ports.waits_for(end));
        }
        Ok(match missing {
            None if pending == 0 => {
                wires.ran.note(Executor::Bundle);
                Progress::Done
            }
            Some(peer) if moved => Progress::Moved(peer),
            Some(peer) => Progress::Blocked(peer),
            // What is left waited for a message that has just moved.
            None => Progress::Moved(wires.me()),
        })
    }
}
