//! The progress engine of connections between nodes.
//!
//! **Problem.** Executors move tokens through memory that both ends can address. Between nodes
//! there is none, and the network's calls must neither wait nor be made by two threads at once.
//!
//! **Idea.** Data path: executor -> slot of the connection in this node's memory -> the engine
//! reads it as a peer would -> [`Net`] -> the engine on the other node writes it to the same place
//! of that node's memory -> executor. An executor says beforehand how many slots will pass (an
//! *op*, by way of a bounded queue without locks); the plan knows. [`Links::pass`] looks once at
//! everything that is under way; whoever waits calls it, one thread at a time. An engine without
//! ops does nothing and costs nothing.
//!
//! - [`active`]: ops, grouped and in order.
//! - [`closing`]: how connections end.
//! - [`doors`]: where connections arrive while nobody is inside a call.
//! - [`ends`]: what the ends of connections are made with.
//! - [`fold`]: tokens that the network folds on their way.
//! - [`link`]: the phases of one end of a connection.
//! - [`live`]: what is under way, for people who look at a job that hangs.
//! - [`meet`]: how connections come about on first use.
//! - [`profile`]: begin and end of what happens to each step, for profilers.
//! - [`proxied`]: engines for other ranks of the node, which send through this one (PXN).
//! - [`rails`]: over which devices connections go.
//! - [`token`]: what a token is on the network.
//! - [`trace`]: what happened, for tests.
//! - [`wanted`]: where readers want payload that needs no slot.

mod active;
mod closing;
mod doors;
mod ends;
pub mod fold;
mod link;
pub mod live;
mod meet;
pub mod profile;
pub mod proxied;
mod rails;
mod token;
pub mod trace;
mod wanted;

#[cfg(test)]
mod tests;

pub use active::{Op, Taking};
pub use ends::{Handles, Open, Setup, Through};
pub use proxied::ProxiedSenders;
pub use rails::{Rail, Rails};
pub use token::SPARE_BYTES;

use crate::base::{Error, Rank, Result};
use crate::plan::Direction;
use crate::proxy::progress::Pass;
use crate::proxy::service::Elsewhere;
use crate::transport::net::Net;
use crate::wire::Bell;
use active::{Active, Args};
use closing::Closing;
use crossbeam_queue::ArrayQueue;
use ends::Ends;
use fold::{FoldLink, Foldings};
use link::RecvLink;
use meet::{Arrivals, Outgoing};
use profile::{Profiler, Step};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use trace::Trace;
use wanted::Wanted;

/// Ops that may wait to be taken over; more make their caller drive the engine.
const QUEUE: usize = 4096;

/// What the driver works on.
struct State {
    arrivals: Arrivals,
    outgoing: Vec<Option<Box<Outgoing>>>,
    incoming: Vec<Option<Box<RecvLink>>>,
    active: Active,
    /// Passes since ops were last taken over.
    passes: u32,
    trace: Trace,
    profiler: Option<Arc<dyn Profiler>>,
    folds: Vec<FoldLink>,
    closed: bool,
}

impl Open {
    /// The engine, with the handles of all ranks in their order. What it sends may go `through`
    /// other ranks of the node.
    pub fn links(self, handles: Arc<[Handles]>, through: Through) -> Links {
        let mut links = Links::new(self.setup, self.arrivals, handles);
        links.through = through;
        links
    }
}

/// All connections of one rank to ranks on other nodes.
///
/// Safe to call from any thread; one drives at a time.
pub struct Links {
    me: usize,
    is_remote: Box<[bool]>,
    ends: Ends,
    bell: Box<dyn Bell>,
    posted: ArrayQueue<Op>,
    taking: Taking,
    /// By connection.
    wanted: Box<[Wanted]>,
    foldings: Mutex<Foldings>,
    /// Ops that are not done.
    busy: AtomicUsize,
    state: Mutex<State>,
    failed: AtomicBool,
    failure: OnceLock<Error>,
    through: Through,
}

impl Links {
    fn new(setup: Setup, arrivals: Arrivals, handles: Arc<[Handles]>) -> Links {
        let count = setup.is_remote.len() * setup.channels;
        Links {
            me: setup.me.index(),
            is_remote: setup.is_remote.clone().into(),
            state: Mutex::new(State {
                arrivals,
                outgoing: (0..count).map(|_| None).collect(),
                incoming: (0..count).map(|_| None).collect(),
                active: Active::new(count),
                passes: 0,
                trace: Trace::default(),
                profiler: None,
                folds: Vec::new(),
                closed: false,
            }),
            ends: Ends {
                net: setup.net,
                source: setup.source,
                me: setup.me.index(),
                channels: setup.channels,
                nonce: setup.nonce,
                is_remote: setup.is_remote,
                handles,
                rails: None,
                begun: Mutex::default(),
                slot_bytes: setup.slot_bytes,
                slice: u64::from(setup.slice.max(1)),
            },
            bell: setup.bell,
            posted: ArrayQueue::new(QUEUE),
            taking: setup.taking,
            wanted: (0..count).map(|_| Wanted::new()).collect(),
            foldings: Mutex::default(),
            busy: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            failure: OnceLock::new(),
            through: Through::default(),
        }
    }

    /// An engine that only sends, for a rank that does not listen here.
    pub fn sending(setup: Setup, handles: Arc<[Handles]>) -> Links {
        Links::new(setup, Arrivals::none(), handles)
    }

    /// Whether a rank is on another node.
    #[inline(always)]
    pub fn is_remote(&self, rank: usize) -> bool {
        self.is_remote[rank]
    }

    /// The network.
    pub fn net(&self) -> &Arc<dyn Net> {
        &self.ends.net
    }

    /// Says that `slots` slots will pass to (`is_send`) or from a rank on another node, on a
    /// channel. Ops of the same `launch` belong together.
    pub fn expect(&self, launch: u64, (peer, channel): (usize, usize), is_send: bool, slots: u64) {
        if slots == 0 {
            return;
        }
        let mut op = Op {
            launch,
            direction: match is_send {
                true => Direction::Send,
                false => Direction::Recv,
            },
            peer: Rank(peer as u32),
            channel: channel as u16,
            slots,
        };
        if is_send && self.through.proxy(channel).is_some() {
            self.busy.fetch_add(1, Ordering::Relaxed);
            self.through.put(op);
            self.tell();
            return;
        }
        while let Err(back) = self.offer(op) {
            op = back;
            if self.failed() || self.lock().closed {
                return;
            }
            if self.pass() != Pass::Moved {
                std::thread::yield_now();
            }
        }
    }

    /// Tells proxy ranks what waits for them.
    fn tell(&self) {
        self.finished(self.through.tell());
    }

    /// Whether an op is for a connection of this engine.
    fn knows(&self, op: &Op) -> bool {
        let remote = self.is_remote.get(op.peer.index()).copied();
        remote.unwrap_or(false) && usize::from(op.channel) < self.ends.channels && op.slots > 0
    }

    /// Takes an op over, or gives it back if there is no room now.
    fn offer(&self, op: Op) -> std::result::Result<(), Op> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.posted.push(op).inspect_err(|_| {
            self.finished(1);
        })
    }

    /// So many ops are done. An end may have counted them before.
    fn finished(&self, ops: usize) {
        let less = |busy: usize| Some(busy.saturating_sub(ops));
        let _ = self
            .busy
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// The ranks of the node through which this one sends.
    pub fn proxies(&self) -> BTreeSet<Rank> {
        self.through.proxies()
    }

    /// The rank of the node through which what is sent on a channel goes, if not this one.
    #[inline(always)]
    pub fn proxy(&self, channel: usize) -> Option<Rank> {
        self.through.proxy(channel)
    }

    /// Says where the payload of a token that comes from a rank on another node had best be put;
    /// see [`crate::wire::Carrier::want`].
    pub fn want(&self, (peer, channel): (usize, usize), position: u64, data: (*mut u8, usize)) {
        let link = self.ends.index(Rank(peer as u32), channel as u16);
        self.wanted[link].want(position, data);
    }

    /// When the communicator has stopped: nothing moves any more, and the network touches the
    /// memory of callers no more.
    pub fn let_go(&self) {
        // Peers see it too, should the news not reach them.
        self.close(true);
    }

    /// Whether something is under way: one load.
    #[inline(always)]
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }

    /// Whether the network has failed: one load.
    #[inline(always)]
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Why the network failed, if it did.
    pub fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    /// Looks once at everything that is under way, unless another thread does so now.
    pub fn pass(&self) -> Pass {
        if self.failed() {
            return Pass::Idle;
        }
        if self.is_busy() {
            self.tell();
        }
        match self.state.try_lock() {
            Ok(mut state) => self.drive(&mut state),
            Err(_) => Pass::Elsewhere,
        }
    }

    /// Closes all connections; afterwards nothing moves. What was handed to the network, or to
    /// other ranks of the node, arrives, unless the links are `given_up`.
    pub fn close(&self, given_up: bool) {
        let settles = !given_up && !self.failed();
        // Those who send for a rank that gives up hear of it when it leaves.
        let elsewhere = match settles {
            true => self.through.close(),
            false => Vec::new(),
        };
        let mut closing = self.end();
        if settles {
            closing.settle();
            elsewhere.into_iter().for_each(Elsewhere::wait);
        }
    }

    /// Ends all traffic; the connections are closed by what is returned.
    fn end(&self) -> Closing {
        let mut state = self.lock();
        state.closed = true;
        state.arrivals.listeners.clear();
        let folds = std::mem::take(&mut state.folds);
        let outgoing = std::mem::take(&mut state.outgoing);
        let incoming = std::mem::take(&mut state.incoming);
        state.active = Active::default();
        self.through.forget();
        self.busy.store(0, Ordering::Relaxed);
        // The thread that would have to wait for the lock may also serve a peer.
        drop(state);
        drop(folds);
        Closing::new(outgoing, incoming)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, result: Result<bool>) -> bool {
        match result {
            Ok(moved) => moved,
            Err(error) => {
                let _ = self.failure.set(error.at(Rank(self.me as u32)));
                self.failed.store(true, Ordering::Release);
                true
            }
        }
    }

    fn drive(&self, state: &mut State) -> Pass {
        if state.closed {
            return Pass::Idle;
        }
        state.passes += 1;
        if state.active.list.is_empty() || state.passes >= self.taking.every {
            state.passes = 0;
            self.take_over(state);
        }
        if state.active.list.is_empty() {
            return Pass::Idle;
        }
        let progressed = self.progress(state);
        match self.keep(progressed) {
            true => Pass::Moved,
            false => Pass::Waiting,
        }
    }

    /// Takes over a batch of what was posted.
    fn take_over(&self, state: &mut State) {
        for _ in 0..self.taking.batch {
            let Some(op) = self.posted.pop() else { return };
            let link = self.ends.index(op.peer, op.channel);
            state.active.append(&op, link, &mut state.trace);
        }
    }

    fn look(&self, state: &mut State) -> Result<bool> {
        let State {
            arrivals,
            incoming,
            trace,
            ..
        } = state;
        arrivals.look(&self.ends, |shape, mut link| {
            let place = &mut incoming[self.ends.index(shape.peer, shape.channel)];
            if place.is_some() {
                let what = format!("rank {} connected twice", shape.peer);
                return Err(Error::internal(what).with_peer(shape.peer));
            }
            link.post_ahead(trace);
            *place = Some(Box::new(link));
            Ok(())
        })
    }

    /// One pass over all args.
    fn progress(&self, state: &mut State) -> Result<bool> {
        let (mut moved, folds) = (false, state.folds.len());
        let waits = |args: &Args, incoming: &[Option<Box<RecvLink>>]| {
            let waits = |sub: &active::Sub| {
                incoming[sub.link].is_none() && self.fold_of(folds, sub.channel).is_none()
            };
            args.direction == Direction::Recv && args.subs.iter().any(waits)
        };
        if state
            .active
            .list
            .iter()
            .any(|args| waits(args, &state.incoming))
        {
            moved |= self.look(state)?;
        }
        let State {
            outgoing,
            incoming,
            active,
            trace,
            profiler,
            folds,
            ..
        } = state;
        let mut finished = 0;
        for args in &mut active.list {
            let depth = args.depth();
            let (launch, direction) = (args.launch, args.direction);
            for sub in args.subs.iter_mut().filter(|sub| !sub.done) {
                let fold = self.fold_of(folds.len(), sub.channel);
                let result = match (fold, direction) {
                    (Some(fold), _) => self.fold(&mut folds[fold], (sub, launch, direction), trace),
                    (_, Direction::Send) => self.send(&mut outgoing[sub.link], (sub, depth), trace),
                    (_, Direction::Recv) => match &mut incoming[sub.link] {
                        None => Ok((false, 0)),
                        Some(link) => {
                            let moved = link.progress(sub.end, &self.wanted[sub.link], trace);
                            moved.map(|moved| (moved, link.done()))
                        }
                    },
                };
                let (went, done) = result.map_err(|error| error.with_peer(sub.peer))?;
                moved |= went;
                if went && args.direction == Direction::Recv {
                    self.bell.ring(self.me);
                }
                if let Some(profiler) = profiler {
                    let now = match fold {
                        Some(fold) => folds[fold].counts(direction),
                        None => live::counts((outgoing, incoming), direction, sub.link),
                    };
                    let step = Step::first(launch, direction, sub);
                    let steps = (sub.end, self.ends.slice);
                    sub.steps.look(now, steps, step, &**profiler);
                }
                if done >= sub.end {
                    sub.done = true;
                    args.done += 1;
                    finished += 1;
                }
            }
        }
        if finished > 0 {
            active.sweep();
            self.finished(finished);
        }
        Ok(moved)
    }

    /// One look at a sending end, which is connected first.
    fn send(
        &self,
        link: &mut Option<Box<Outgoing>>,
        (sub, depth): (&active::Sub, u64),
        trace: &mut Trace,
    ) -> Result<(bool, u64)> {
        let link = match link {
            Some(link) => link,
            None => link.insert(Box::new(Outgoing::begin(
                &self.ends,
                sub.peer,
                sub.channel,
            )?)),
        };
        if let Outgoing::Up(link) = &mut **link {
            let moved = link.progress(sub.end, depth, trace)?;
            if moved {
                self.bell.ring(self.me);
            }
            return Ok((moved, link.done()));
        }
        let shape = self.ends.shape(sub.peer, sub.channel);
        Ok((link.go_on(&self.ends, shape)?, 0))
    }
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Links(rank {} over {})", self.me, self.ends.net.name())
    }
}
