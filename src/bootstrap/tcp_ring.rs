//! A ring of sockets: every rank sends to its next and receives from its prev.
//!
//! All-gather by the ring algorithm: contributions travel round, each rank keeps a copy and
//! passes on what its next does not have yet; n - 1 frames are received by every rank. Sending and
//! receiving go on together in one poll loop, so that no length can block the ring.
//!
//! Death: a closed socket where frames are still due is the death of that neighbour. The rank
//! that sees it says so in both directions, every rank passes it on, and from then on the ring
//! only returns that error. A rank that leaves in good order says farewell, so that its closed
//! socket is not taken for a death.

use super::frame::{Frame, FrameKind, check_length};
use super::link::{RankLink, Seen};
use super::net;
use super::rendezvous::{Neighbours, Rendezvous};
use super::ring_words::{garbage, inherited, left, operation_name, passed_on};
use super::settings::NetSettings;
use super::unique_id::UniqueId;
use super::{Bootstrap, opening};
use crate::base::birth::Birth;
use crate::base::clock::{Moment, now};
use crate::base::{Code, Error, Rank, Result, fork};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long words of failure or farewell may take to leave.
const WORDS_LIMIT: Duration = Duration::from_millis(500);

/// A [`Bootstrap`] over TCP.
///
/// Cost: two sockets a rank. Safe for calls from several threads (one waits for the other).
pub struct TcpRing {
    rank: Rank,
    nranks: u32,
    settings: NetSettings,
    /// The process that made it: a forked child has no sockets, and must not speak for it.
    generation: u32,
    /// When this rank began to meet the others.
    begun: Moment,
    state: Mutex<State>,
}

struct State {
    /// `None` when there is only one rank.
    links: Option<Links>,
    /// Number of the next operation.
    sequence: u64,
    broken: Option<Error>,
}

struct Links {
    next: RankLink,
    prev: RankLink,
    /// Why nothing can be sent to next any more, if so.
    next_gone: Option<Error>,
}

/// Frames that one operation sends and receives at this rank.
struct Task {
    kind: FrameKind,
    sequence: u64,
    /// This rank's own contribution.
    own: Option<Vec<u8>>,
    /// Frames that this rank sends to its next, forwarded ones included.
    to_send: u32,
    to_receive: u32,
    /// Whose frame comes first from prev; the following ones come from the ranks before it.
    first_origin: u32,
}

/// Takes a frame that arrived. Returns whether next needs it too.
type Keep<'a> = dyn FnMut(u32, &[u8]) -> bool + 'a;

impl TcpRing {
    /// Joins the communicator of `id` as `rank` of `nranks`; returns when all ranks are there.
    ///
    /// Errors: the id is garbled, the root cannot be reached, this rank does not fit (out of
    /// range, twice, another number of ranks), another rank died or gave up, or the timeout
    /// passed. Every error names what to do; a refused rank does not harm the others.
    pub fn connect(
        id: &UniqueId,
        rank: u32,
        nranks: u32,
        settings: &NetSettings,
    ) -> Result<TcpRing> {
        TcpRing::join(id, rank, nranks, settings)
            .map_err(|error| error.at(Rank(rank)).during("start over TCP"))
    }

    fn join(id: &UniqueId, rank: u32, nranks: u32, settings: &NetSettings) -> Result<TcpRing> {
        let id = &UniqueId::from_bytes(*id.as_bytes())?;
        if rank >= nranks {
            return Err(Error::argument(
                format!("rank {rank} of {nranks} does not exist"),
                "ranks count from 0 to nranks - 1: check the arguments of koloCommInitRank",
            ));
        }
        // Ranks that are threads of one process have their sockets in one table.
        net::raise_file_limit();
        if id.is_named() && rank == 0 {
            opening::start_named(id, settings)?;
        }
        let begun = now();
        let neighbours = Rendezvous::new(id, rank, nranks, settings)?.meet()?;
        let links = neighbours.map(|Neighbours { next, mut prev }| {
            // Where ranks share cores, many frames wait when one comes to look.
            prev.read_ahead();
            Links {
                next,
                prev,
                next_gone: None,
            }
        });
        Ok(TcpRing {
            rank: Rank(rank),
            nranks,
            settings: settings.clone(),
            generation: fork::generation(),
            begun,
            state: Mutex::new(State {
                links,
                sequence: 0,
                broken: None,
            }),
        })
    }

    fn next(&self) -> Rank {
        Rank((self.rank.0 + 1) % self.nranks)
    }

    fn prev(&self) -> Rank {
        Rank((self.rank.0 + self.nranks - 1) % self.nranks)
    }

    /// Runs one operation; a failure is told to the others and kept.
    fn operate(
        &self,
        name: &'static str,
        run: impl FnOnce(&mut Links, u64) -> Result<()>,
    ) -> Result<()> {
        if self.is_inherited() {
            return Err(inherited().at(self.rank));
        }
        let mut state = self.lock();
        let state = &mut *state;
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        let Some(links) = &mut state.links else {
            return Ok(());
        };
        let sequence = state.sequence;
        state.sequence += 1;
        let going = self.settings.go_on();
        going.and_then(|()| run(links, sequence)).map_err(|error| {
            let words = Frame::error(FrameKind::Abort, &error).encode();
            for link in [&mut links.next, &mut links.prev] {
                link.push(words.clone());
            }
            for link in [&mut links.next, &mut links.prev] {
                link.flush_within(WORDS_LIMIT);
                link.close_write();
            }
            let error = error.at(self.rank).during(format!("bootstrap {name}"));
            state.broken = Some(error.clone());
            error
        })
    }

    fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the frames of one operation.
    fn exchange(&self, links: &mut Links, mut task: Task, keep: &mut Keep) -> Result<()> {
        let start = now();
        let (mut received, mut pushed, mut warned) = (0, 0, false);
        // A failure that was told while this rank was elsewhere counts before anything is sent.
        self.hear_next(links, task.to_send > 0)?;
        if let (Some(error), true) = (&links.next_gone, task.to_send > 0) {
            return Err(error.clone());
        }
        if let Some(body) = task.own.take() {
            let frame = Frame {
                kind: task.kind,
                sequence: task.sequence,
                origin: self.rank.0,
                body,
            };
            links.next.push(frame.encode());
            pushed += 1;
        }
        let task = &task;
        loop {
            self.send(links)?;
            while received < task.to_receive {
                let Some(frame) = self.receive(links, task, received)? else {
                    break;
                };
                received += 1;
                if keep(frame.origin, &frame.body) {
                    links.next.push(frame.encode());
                    pushed += 1;
                }
            }
            self.send(links)?;
            if received == task.to_receive && links.next.is_flushed() {
                return Ok(());
            }
            let owes = pushed < task.to_send || !links.next.is_flushed();
            self.hear_next(links, owes)?;
            let late = match received < task.to_receive {
                true => self.origin(task, received),
                false => self.next(),
            };
            let limit = self.patience(start, &mut warned, task.kind, late)?;
            let mut set = Vec::new();
            if received < task.to_receive {
                set.push(links.prev.watch());
            }
            if links.next_gone.is_none() {
                set.push(links.next.watch());
            }
            self.settings.wait(&mut set, limit)?;
        }
    }

    /// The rank whose frame must come after `received` ones.
    fn origin(&self, task: &Task, received: u32) -> Rank {
        let n = u64::from(self.nranks);
        Rank(((u64::from(task.first_origin) + n - u64::from(received) % n) % n) as u32)
    }

    /// How long a poll may sleep; warns once, and fails when the timeout has passed.
    fn patience(
        &self,
        start: Moment,
        warned: &mut bool,
        kind: FrameKind,
        late: Rank,
    ) -> Result<Option<Duration>> {
        let operation = operation_name(kind);
        let missing = match kind {
            FrameKind::Broadcast => format!("rank {late}, or a rank between it and this one"),
            _ => format!("rank {late}"),
        };
        let waiting = self
            .settings
            .timeout
            .map(|limit| (start, limit, "KOLO_TIMEOUT"));
        let meeting = self.settings.meet_limit;
        let meeting = meeting.map(|limit| (self.begun, limit, "KOLO_START_TIMEOUT"));
        let limits = || waiting.into_iter().chain(meeting);
        if let Some((_, _, name)) = limits().find(|(since, limit, _)| since.past(*limit)) {
            return Err(Error::new(
                Code::Timeout,
                format!(
                    "rank {} waited {:.1} s in {operation} for {missing}, which is alive but has \
                     not called it",
                    self.rank,
                    start.elapsed().as_secs_f64()
                ),
                format!("find out what that rank is doing, or raise {name}"),
            )
            .with_peer(late));
        }
        let warn_after = self.settings.warn_after;
        if !*warned && start.past(warn_after) {
            *warned = true;
            (self.settings.warn)(&format!(
                "kolo: rank {} has waited {} s in {operation} for {missing}",
                self.rank,
                warn_after.as_secs()
            ));
        }
        let until_warning = (!*warned).then(|| net::left(start, warn_after));
        let until_timeout = limits()
            .map(|(since, limit, _)| net::left(since, limit))
            .min();
        Ok(net::sooner(until_warning, until_timeout))
    }

    fn send(&self, links: &mut Links) -> Result<()> {
        let Err(error) = links.next.flush() else {
            return Ok(());
        };
        // Its reason, if it could give one, is what it sent last.
        let words = loop {
            match links.next.receive() {
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
    fn receive(&self, links: &mut Links, task: &Task, received: u32) -> Result<Option<Frame>> {
        let prev = self.prev();
        let frame = match links.prev.receive() {
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
        let expected = self.origin(task, received);
        if (frame.kind, frame.sequence) != (task.kind, task.sequence) || frame.origin != expected.0
        {
            return Err(self.disorder(&frame, task, expected));
        }
        Ok(Some(frame))
    }

    /// Listens for what next has to say; its farewell matters only while it is owed frames.
    fn hear_next(&self, links: &mut Links, owes: bool) -> Result<()> {
        while links.next_gone.is_none() {
            let gone = match links.next.receive() {
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
            links.next_gone = Some(gone);
        }
        Ok(())
    }

    fn died(&self, peer: Rank, words: &str) -> Error {
        Error::remote(
            peer,
            format!(
                "rank {peer} was lost (its process ended or was killed, or its node is gone); \
                 rank {} saw it: {words}",
                self.rank
            ),
            "look into the output of that rank; if it was killed (out of memory?) restart the job",
        )
    }

    fn disorder(&self, frame: &Frame, task: &Task, expected: Rank) -> Error {
        Error::usage(
            format!(
                "rank {} called {} as operation {} with data of rank {}, where rank {} called {} \
                 as operation {} and waits for data of rank {expected}",
                self.prev(),
                operation_name(frame.kind),
                frame.sequence,
                frame.origin,
                self.rank,
                operation_name(task.kind),
                task.sequence
            ),
            "all ranks must call the same operations in the same order, with the same root",
        )
        .with_peer(self.prev())
    }
}

impl Bootstrap for TcpRing {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn nranks(&self) -> u32 {
        self.nranks
    }

    fn birth(&self) -> Option<&Birth> {
        self.settings.birth.as_deref()
    }

    fn time_left(&self) -> Option<Duration> {
        let limit = self.settings.meet_limit;
        limit.map(|limit| net::left(self.begun, limit))
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut all = vec![Vec::new(); self.nranks as usize];
        all[self.rank.index()] = mine.to_vec();
        let next = self.next();
        self.operate("all_gather", |links, sequence| {
            check_length(mine.len())?;
            let task = Task {
                kind: FrameKind::Gather,
                sequence,
                own: Some(mine.to_vec()),
                to_send: self.nranks - 1,
                to_receive: self.nranks - 1,
                first_origin: self.prev().0,
            };
            self.exchange(links, task, &mut |origin, body| {
                all[origin as usize] = body.to_vec();
                origin != next.0
            })
        })?;
        Ok(all)
    }

    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()> {
        let next = self.next();
        self.operate("broadcast", |links, sequence| {
            if root.0 >= self.nranks {
                return Err(Error::argument(
                    format!("root {root} of a broadcast among {} ranks", self.nranks),
                    "roots count from 0 to nranks - 1",
                ));
            }
            let is_root = root == self.rank;
            if is_root {
                check_length(data.len())?;
            }
            let task = Task {
                kind: FrameKind::Broadcast,
                sequence,
                own: is_root.then(|| data.clone()),
                to_send: u32::from(next != root),
                to_receive: u32::from(!is_root),
                first_origin: root.0,
            };
            self.exchange(links, task, &mut |_, body| {
                *data = body.to_vec();
                next != root
            })
        })
    }

    fn barrier(&self) -> Result<()> {
        self.all_gather(&[]).map(|_| ())
    }
}

impl Drop for TcpRing {
    fn drop(&mut self) {
        if self.is_inherited() {
            return;
        }
        let mut state = self.lock();
        if state.broken.is_some() {
            return;
        }
        let words = match self.settings.go_on() {
            Ok(()) => Frame::control(FrameKind::Leave, Vec::new()),
            Err(why) => Frame::error(FrameKind::Abort, &why),
        };
        if let Some(links) = &mut state.links {
            for link in [&mut links.next, &mut links.prev] {
                link.push(words.encode());
                link.flush_within(WORDS_LIMIT);
                link.close_write();
            }
        }
    }
}
