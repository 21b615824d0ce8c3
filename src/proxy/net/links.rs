//! The engine: all connections of one rank to ranks on other nodes.

use super::active::{Active, Args, Op, Sub, Taking};
use super::closing::Closing;
use super::counts::Counts;
use super::ends::{Ends, Handles, Setup, Through};
use super::fold::{Fold, FoldLink, Foldings};
use super::fold_links::{FoldedSub, fold, fold_of};
use super::link::Went;
use super::meet::{Arrivals, Outgoing};
use super::open::Open;
use super::profile::Profiler;
use super::rails::{Rail, Rails};
use super::recv_link::RecvLink;
use super::trace::Trace;
use super::wanted::Wanted;
use crate::base::{Error, Rank, Result};
use crate::plan::Direction;
use crate::proxy::progress::Pass;
use crate::proxy::service::Elsewhere;
use crate::transport::net::Net;
use crate::wire::Bell;
use crossbeam_queue::ArrayQueue;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Ops that may wait to be taken over; more make their caller drive the engine.
pub(super) const QUEUE: usize = 4096;

/// State that the driver works on.
pub(super) struct State {
    pub(super) arrivals: Arrivals,
    pub(super) outgoing: Vec<Option<Box<Outgoing>>>,
    pub(super) incoming: Vec<Option<Box<RecvLink>>>,
    pub(super) active: Active,
    /// Passes since ops were last taken over.
    pub(super) passes: u32,
    pub(super) trace: Trace,
    pub(super) profiler: Option<Arc<dyn Profiler>>,
    pub(super) folds: Vec<FoldLink>,
    pub(super) closed: bool,
}

/// All connections of one rank to ranks on other nodes.
///
/// Safe to call from any thread; one drives at a time.
pub struct Links {
    pub(super) me: usize,
    pub(super) is_remote: Box<[bool]>,
    pub(super) ends: Ends,
    pub(super) bell: Box<dyn Bell>,
    pub(super) posted: ArrayQueue<Op>,
    pub(super) taking: Taking,
    /// By connection.
    pub(super) wanted: Box<[Wanted]>,
    pub(super) foldings: Mutex<Foldings>,
    /// Ops that are not done.
    pub(super) busy: AtomicUsize,
    pub(super) state: Mutex<State>,
    pub(super) failed: AtomicBool,
    pub(super) failure: OnceLock<Error>,
    pub(super) through: Through,
}

impl Links {
    fn new(setup: Setup, arrivals: Arrivals, handles: Arc<[Handles]>) -> Links {
        let of_devices = setup.stages.as_ref().map_or(0, |it| it.channels());
        let channels = setup.channels + of_devices;
        let count = setup.is_remote.len() * channels;
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
                stages: setup.stages,
                me: setup.me.index(),
                on_host: setup.channels,
                channels,
                nonce: setup.nonce,
                is_remote: setup.is_remote,
                handles,
                rails: None,
                begun: Mutex::default(),
                slot_bytes: setup.slot_bytes,
                slice: u64::from(setup.slice.max(1)),
                lasting: setup.lasting,
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

    /// The engine of a rank that listens, with the handles of all ranks in their order. What it
    /// sends may go `through` other ranks of the node.
    pub fn opened(open: Open, handles: Arc<[Handles]>, through: Through) -> Links {
        let mut links = Links::new(open.setup, open.arrivals, handles);
        links.through = through;
        links
    }

    /// An engine that only sends, for a rank that does not listen here.
    pub fn sending(setup: Setup, handles: Arc<[Handles]>) -> Links {
        Links::new(setup, Arrivals::none(), handles)
    }

    /// Takes the devices that `rails` chooses. Without it channels take them in turn.
    pub fn over(mut self, rails: Option<Arc<dyn Rails>>) -> Links {
        self.ends.rails = rails;
        self
    }

    /// From now on tokens on the last channels, as many as there are groups, are folded; at most
    /// `launches` are in flight.
    pub fn fold_by(&self, groups: Vec<Fold>, launches: usize) {
        let mut state = self.lock();
        state.folds = groups.into_iter().map(FoldLink::new).collect();
        drop(state);
        let mut foldings = self.foldings.lock().unwrap_or_else(PoisonError::into_inner);
        foldings.most = launches;
    }

    /// Over which devices this rank has begun to send: peer, channel and devices of each
    /// connection.
    pub fn rails(&self) -> Vec<(Rank, u16, Rail)> {
        let begun = self.ends.begun.lock();
        begun.unwrap_or_else(PoisonError::into_inner).clone()
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

    /// Tells proxy ranks what waits for them.
    pub(super) fn tell(&self) {
        self.finished(self.through.tell());
    }

    /// Whether an op is for a connection of this engine.
    pub(super) fn knows(&self, op: &Op) -> bool {
        let remote = self.is_remote.get(op.peer.index()).copied();
        remote.unwrap_or(false) && usize::from(op.channel) < self.ends.channels && op.slots > 0
    }

    /// Takes an op over, or gives it back if there is no room now.
    pub(super) fn offer(&self, op: Op) -> std::result::Result<(), Op> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.posted.push(op).inspect_err(|_| {
            self.finished(1);
        })
    }

    /// So many ops are done. An end may have counted them before.
    pub(super) fn finished(&self, ops: usize) {
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
    pub(super) fn end(&self) -> Closing {
        let mut state = self.lock();
        state.closed = true;
        // Those who have come and not said yet who they are hear of the end, too.
        let arrivals = std::mem::replace(&mut state.arrivals, Arrivals::none());
        let folds = std::mem::take(&mut state.folds);
        let outgoing = std::mem::take(&mut state.outgoing);
        let incoming = std::mem::take(&mut state.incoming);
        state.active = Active::default();
        self.through.forget();
        self.busy.store(0, Ordering::Relaxed);
        // The thread that would have to wait for the lock may also serve a peer.
        drop(state);
        drop((arrivals, folds));
        Closing::new(outgoing, incoming)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(&self, result: Result<bool>) -> bool {
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
    pub(super) fn take_over(&self, state: &mut State) {
        for _ in 0..self.taking.batch {
            let Some(op) = self.posted.pop() else { return };
            let link = self.ends.index(op.peer, op.channel);
            state.active.append(&op, link, &mut state.trace);
        }
    }

    pub(super) fn look(&self, state: &mut State) -> Result<bool> {
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
            let waits = |sub: &Sub| {
                incoming[sub.link].is_none() && fold_of(&self.ends, folds, sub.channel).is_none()
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
                let group = fold_of(&self.ends, folds.len(), sub.channel);
                let result = match (group, direction) {
                    (Some(group), _) => {
                        self.fold(&mut folds[group], (sub, launch, direction), trace)
                    }
                    (_, Direction::Send) => self.send(&mut outgoing[sub.link], (sub, depth), trace),
                    (_, Direction::Recv) => match &mut incoming[sub.link] {
                        None => Ok((false, 0)),
                        Some(link) => {
                            let went = link.progress(sub, &self.wanted[sub.link], trace);
                            went.map(|went| (self.tell_of(went), link.done()))
                        }
                    },
                };
                let (went, done) = result.map_err(|error| error.with_peer(sub.peer))?;
                moved |= went;
                if let Some(profiler) = profiler {
                    let now = match group {
                        Some(group) => folds[group].counts(direction),
                        None => counts((outgoing, incoming), direction, sub.link),
                    };
                    let step = sub.first_step(launch, direction);
                    let slice = self.ends.shape(sub.peer, sub.channel).slice;
                    let steps = (sub.end, slice);
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

    /// Wakes the rank for whom something has come or left; whether anything moved.
    fn tell_of(&self, went: Went) -> bool {
        if went == Went::Token {
            self.bell.ring(self.me);
        }
        went != Went::Nothing
    }

    /// One look at what is folded for a sub.
    fn fold(
        &self,
        link: &mut FoldLink,
        (sub, launch, direction): (&Sub, u64, Direction),
        trace: &mut Trace,
    ) -> Result<(bool, u64)> {
        let folded = FoldedSub {
            ends: &self.ends,
            foldings: &self.foldings,
            link,
            sub,
            launch,
            direction,
        };
        let (moved, done) = fold(folded, trace)?;
        if moved {
            self.bell.ring(self.me);
        }
        Ok((moved, done))
    }

    /// One look at a sending end, which is connected first.
    fn send(
        &self,
        link: &mut Option<Box<Outgoing>>,
        (sub, depth): (&Sub, u64),
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
            let went = link.progress(sub.end, depth, trace)?;
            return Ok((self.tell_of(went), link.done()));
        }
        let shape = self.ends.shape(sub.peer, sub.channel);
        Ok((link.go_on(&self.ends, shape)?, 0))
    }
}

type Both<'a> = (&'a [Option<Box<Outgoing>>], &'a [Option<Box<RecvLink>>]);

/// The counts of a connection that is up.
pub(super) fn up(
    (outgoing, incoming): Both<'_>,
    direction: Direction,
    link: usize,
) -> Option<Counts> {
    match direction {
        Direction::Send => match outgoing[link].as_deref() {
            Some(Outgoing::Up(link)) => Some(link.counts()),
            _ => None,
        },
        Direction::Recv => incoming[link].as_ref().map(|link| link.counts()),
    }
}

/// The counts of a connection: nothing where it is not up.
fn counts(ends: Both<'_>, direction: Direction, link: usize) -> Counts {
    up(ends, direction, link).unwrap_or_default()
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Links(rank {} over {})", self.me, self.ends.net.name())
    }
}
