//! A ring of sockets among processes: each sends to its next and receives from its prev.
//!
//! All-gather by the ring algorithm: contributions travel round, each process keeps a copy and
//! passes on what its next does not have yet; with P processes each receives P - 1 frames. Sending
//! and receiving go on together in one poll loop, so that no length can block the ring.
//!
//! Death: a closed socket where frames are still due is the death of that neighbour. The process
//! that sees it says so in both directions, every process passes it on, and from then on its ranks
//! only return that error. Whoever leaves in good order says farewell, so that its closed socket is
//! not taken for a death.
//!
//! A process is named by its lowest rank.

use super::bell::StartBell;
use super::frame::{Frame, FrameKind};
use super::link::{RankLink, Seen};
use super::net;
use super::ring_words::{garbage, left, operation_name, passed_on};
use super::settings::NetSettings;
use crate::base::clock::Moment;
use crate::base::{Code, Error, Rank, Result};
use std::time::Duration;

/// How long words of failure or farewell may take to leave.
const WORDS_LIMIT: Duration = Duration::from_millis(500);

/// The rank on whose thread an exchange runs.
pub(super) struct Asking<'a> {
    pub rank: Rank,
    pub settings: &'a NetSettings,
    /// When it began to meet the others.
    pub begun: Moment,
}

/// How an exchange that runs may be stopped by another rank of the process.
pub(super) struct Stops<'a> {
    pub bell: &'a StartBell,
    /// An error if it was.
    pub go_on: &'a (dyn Fn() -> Result<()> + Sync),
}

/// A process's links to its neighbours.
pub(super) struct Circle {
    at: usize,
    /// The lowest rank of each process, in the order of the ring.
    leads: Vec<Rank>,
    nranks: u32,
    next: RankLink,
    prev: RankLink,
    /// Why nothing can be sent to next any more, if so.
    next_gone: Option<Error>,
    /// Number of the next operation.
    sequence: u64,
}

/// One operation that is under way.
struct Task<'a> {
    kind: FrameKind,
    sequence: u64,
    /// When the first rank of the process called it.
    since: Moment,
    asking: &'a Asking<'a>,
    stops: Option<Stops<'a>>,
    received: usize,
    pushed: usize,
    warned: bool,
}

impl Circle {
    /// The place of the process of rank `lead` among those of `leads`.
    pub fn new(
        lead: Rank,
        nranks: u32,
        leads: Vec<Rank>,
        next: RankLink,
        mut prev: RankLink,
    ) -> Circle {
        // Where processes share cores, many frames wait when one comes to look.
        prev.read_ahead();
        Circle {
            at: leads.binary_search(&lead).unwrap_or(0),
            leads,
            nranks,
            next,
            prev,
            next_gone: None,
            sequence: 0,
        }
    }

    fn size(&self) -> usize {
        self.leads.len()
    }

    fn next(&self) -> Rank {
        self.leads[(self.at + 1) % self.size()]
    }

    fn prev(&self) -> Rank {
        self.leads[(self.at + self.size() - 1) % self.size()]
    }

    /// Gathers what all processes give, in the order of the ring. A failure is told to the
    /// neighbours.
    pub fn gather(
        &mut self,
        asking: &Asking,
        stops: Option<Stops>,
        kind: FrameKind,
        since: Moment,
        mine: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>> {
        let task = Task {
            kind,
            sequence: self.sequence,
            since,
            asking,
            stops,
            received: 0,
            pushed: 0,
            warned: false,
        };
        self.sequence += 1;
        let going = asking.settings.go_on();
        let all = going.and_then(|()| self.exchange(task, mine));
        all.inspect_err(|error| self.abort(error))
    }

    /// Tells the neighbours that this process goes on no more, and why.
    pub fn abort(&mut self, error: &Error) {
        self.part(&Frame::error(FrameKind::Abort, error).encode());
    }

    /// Tells the neighbours that this process leaves in good order.
    pub fn farewell(&mut self) {
        self.part(&Frame::control(FrameKind::Leave, Vec::new()).encode());
    }

    fn part(&mut self, words: &[u8]) {
        for link in [&mut self.next, &mut self.prev] {
            link.push(words.to_vec());
        }
        for link in [&mut self.next, &mut self.prev] {
            link.flush_within(WORDS_LIMIT);
            link.close_write();
        }
    }

    /// Moves the frames of one operation.
    fn exchange(&mut self, mut task: Task, mine: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let (others, mut all) = (self.size() - 1, vec![Vec::new(); self.size()]);
        // A failure that was told while this process was elsewhere counts before anything is sent.
        self.hear_next(true)?;
        if let Some(error) = &self.next_gone {
            return Err(error.clone());
        }
        let frame = Frame {
            kind: task.kind,
            sequence: task.sequence,
            origin: self.at as u32,
            body: mine,
        };
        self.next.push(frame.encode());
        task.pushed = 1;
        all[self.at] = frame.body;
        let next = (self.at + 1) % self.size();
        loop {
            self.send()?;
            while task.received < others {
                let Some(frame) = self.receive(&task)? else {
                    break;
                };
                task.received += 1;
                let origin = frame.origin as usize;
                if origin != next {
                    self.next.push(frame.encode());
                    task.pushed += 1;
                }
                all[origin] = frame.body;
            }
            self.send()?;
            if task.received == others && self.next.is_flushed() {
                return Ok(all);
            }
            self.hear_next(task.pushed < others || !self.next.is_flushed())?;
            self.wait(&mut task)?;
        }
    }

    /// Sleeps until something has come, can be sent, or is to be told.
    fn wait(&self, task: &mut Task) -> Result<()> {
        let limit = self.patience(task)?;
        let mut set = Vec::new();
        if task.received < self.size() - 1 {
            set.push(self.prev.watch());
        }
        if self.next_gone.is_none() {
            set.push(self.next.watch());
        }
        set.extend(task.stops.as_ref().map(|stops| stops.bell.watch()));
        task.asking.settings.wait(&mut set, limit)?;
        task.stops.as_ref().map_or(Ok(()), |stops| (stops.go_on)())
    }

    /// The process whose frame must come after those that were received: that of prev comes first,
    /// the following ones come from the processes before it.
    fn origin(&self, task: &Task) -> usize {
        (self.at + self.size() - 1 - task.received) % self.size()
    }

    /// How long a poll may sleep; warns once, and fails when the timeout has passed.
    fn patience(&self, task: &mut Task) -> Result<Option<Duration>> {
        let Asking {
            rank,
            settings,
            begun,
        } = *task.asking;
        let late = if task.received < self.size() - 1 {
            self.leads[self.origin(task)]
        } else {
            self.next()
        };
        let missing = if self.size() == self.nranks as usize {
            format!("rank {late}")
        } else {
            format!("a rank of the process of rank {late}")
        };
        let words = Waited {
            rank,
            operation: operation_name(task.kind),
            missing: &missing,
            late,
        };
        words.patience(settings, task.since, begun, &mut task.warned)
    }

    fn send(&mut self) -> Result<()> {
        let Err(error) = self.next.flush() else {
            return Ok(());
        };
        // Its reason, if it could give one, is what it sent last.
        let words = loop {
            match self.next.receive() {
                Seen::Frame(frame) => match frame.kind {
                    FrameKind::Abort => return Err(passed_on(&frame)),
                    FrameKind::Leave => return Err(left(self.next())),
                    _ => {}
                },
                _ => break error.to_string(),
            }
        };
        Err(self.died(self.next(), &words))
    }

    /// The next frame of this operation from prev, if one has arrived.
    fn receive(&mut self, task: &Task) -> Result<Option<Frame>> {
        let prev = self.prev();
        let frame = match self.prev.receive() {
            Seen::Nothing => return Ok(None),
            Seen::Closed(words) => return Err(self.died(prev, &words)),
            Seen::Garbage => return Err(garbage(prev)),
            Seen::Frame(frame) => frame,
        };
        match frame.kind {
            FrameKind::Abort => return Err(passed_on(&frame)),
            FrameKind::Leave => return Err(left(prev)),
            FrameKind::Gather | FrameKind::Broadcast => {}
            _ => return Err(garbage(prev)),
        }
        let expected = self.origin(task);
        let comes = (frame.kind, frame.sequence, frame.origin as usize);
        if comes != (task.kind, task.sequence, expected) {
            return Err(self.disorder(&frame, task, self.leads[expected]));
        }
        Ok(Some(frame))
    }

    /// Listens for what next has to say; its farewell matters only while it is owed frames.
    fn hear_next(&mut self, owes: bool) -> Result<()> {
        while self.next_gone.is_none() {
            let gone = match self.next.receive() {
                Seen::Nothing => return Ok(()),
                Seen::Frame(frame) if frame.kind == FrameKind::Abort => {
                    return Err(passed_on(&frame));
                }
                Seen::Frame(frame) if frame.kind == FrameKind::Leave => left(self.next()),
                Seen::Frame(_) | Seen::Garbage => return Err(garbage(self.next())),
                Seen::Closed(words) => self.died(self.next(), &words),
            };
            if owes {
                return Err(gone);
            }
            self.next_gone = Some(gone);
        }
        Ok(())
    }

    fn died(&self, peer: Rank, words: &str) -> Error {
        Error::remote(
            peer,
            format!(
                "rank {peer} was lost (its process ended or was killed, or its node is gone); \
                 rank {} saw it: {words}",
                self.leads[self.at]
            ),
            "look into the output of that rank; if it was killed (out of memory?) restart the job",
        )
    }

    fn disorder(&self, frame: &Frame, task: &Task, expected: Rank) -> Error {
        let origin = self.leads.get(frame.origin as usize);
        Error::usage(
            format!(
                "rank {} called {} as operation {} with data of rank {}, where rank {} called {} \
                 as operation {} and waits for data of rank {expected}",
                self.prev(),
                operation_name(frame.kind),
                frame.sequence,
                origin.map_or(frame.origin, |origin| origin.0),
                self.leads[self.at],
                operation_name(task.kind),
                task.sequence
            ),
            "all ranks must call the same operations in the same order, with the same root",
        )
        .with_peer(self.prev())
    }
}

/// A rank that waits for another in an operation.
pub(super) struct Waited<'a> {
    pub rank: Rank,
    pub operation: &'static str,
    /// Those it waits for, in words.
    pub missing: &'a str,
    /// The lowest of them.
    pub late: Rank,
}

impl Waited<'_> {
    /// How long it may sleep, where the operation and the start of the rank have begun then; warns
    /// once, and fails when the timeout has passed.
    pub fn patience(
        &self,
        settings: &NetSettings,
        since: Moment,
        begun: Moment,
        warned: &mut bool,
    ) -> Result<Option<Duration>> {
        let Waited {
            rank,
            operation,
            missing,
            late,
        } = *self;
        let waiting = settings.timeout.map(|limit| (since, limit, "KOLO_TIMEOUT"));
        let meeting = settings.meet_limit;
        let meeting = meeting.map(|limit| (begun, limit, "KOLO_START_TIMEOUT"));
        let limits = || waiting.into_iter().chain(meeting);
        if let Some((_, _, name)) = limits().find(|(since, limit, _)| since.past(*limit)) {
            return Err(Error::new(
                Code::Timeout,
                format!(
                    "rank {rank} waited {:.1} s in {operation} for {missing}, which is alive but \
                     has not called it",
                    since.elapsed().as_secs_f64()
                ),
                format!("find out what that rank is doing, or raise {name}"),
            )
            .with_peer(late));
        }
        let warn_after = settings.warn_after;
        if !*warned && since.past(warn_after) {
            *warned = true;
            (settings.warn)(&format!(
                "kolo: rank {rank} has waited {} s in {operation} for {missing}",
                warn_after.as_secs()
            ));
        }
        let until_warning = (!*warned).then(|| net::left(since, warn_after));
        let until_timeout = limits()
            .map(|(since, limit, _)| net::left(since, limit))
            .min();
        Ok(net::sooner(until_warning, until_timeout))
    }
}
