//! The root of one communicator: it calls the roll and tells every rank its neighbours.
//!
//! It lives in the process that made the unique id (or in rank 0's, with `KOLO_COMM_ID`), and ends
//! when every rank has its links. Until then it keeps one connection to every rank, so that the
//! death of a rank, even before it has neighbours, is seen at once and told to all. All roots of a
//! process are served by one thread ([`super::office`]).

use super::frame::{Frame, FrameKind, Go, Hello};
use super::leads::Leads;
use super::link::{RankLink, Seen};
use super::net;
use super::roll::{CheckIn, MemberId, Order, Roll, RollSeat};
use super::settings::NetSettings;
use crate::base::clock::{Moment, now};
use crate::base::record;
use crate::base::{Error, Rank, Result};
use crate::trust::proof::KEY_BYTES;
use crate::trust::secret::Secret;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

/// How long queued words may take to leave once the root is done.
const FAREWELL_LIMIT: Duration = Duration::from_secs(10);
/// How long late ranks are still told why the start has failed.
const FAILURE_LINGER: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the roll.
    Present,
    /// Has its last words; leaves when they are sent.
    Leaving,
}

struct Member {
    link: RankLink,
    rank: u32,
    nranks: u32,
    since: Moment,
    noticed: bool,
    state: State,
}

/// The root of one communicator.
pub(super) struct Root {
    /// Whether ranks are still to come.
    open: bool,
    roll: Roll,
    members: BTreeMap<MemberId, Member>,
    next_id: MemberId,
    notice_after: Duration,
    /// When the last words were queued to all, after a failure while the ring was made.
    failed: Option<Moment>,
    /// When the roll became impossible to complete.
    over: Option<Moment>,
    /// By which the links of the ring prove themselves; told to those who have checked in.
    ring_secret: [u8; KEY_BYTES],
}

impl Root {
    pub(super) fn new(settings: &NetSettings) -> Result<Root> {
        // A timeout should find the names of the late ranks in hand.
        let notice_after = match settings.meeting_limit() {
            Some((timeout, _)) => settings.warn_after.min(timeout / 4 * 3),
            None => settings.warn_after,
        };
        Ok(Root {
            open: true,
            roll: Roll::default(),
            members: BTreeMap::new(),
            next_id: 0,
            notice_after,
            failed: None,
            over: None,
            ring_secret: *Secret::random()?.bytes(),
        })
    }

    /// Adds what a poll may sleep on, one entry for each member; how long it may sleep.
    pub fn watch(&self, set: &mut Vec<libc::pollfd>) -> Option<Duration> {
        set.extend(self.members.values().map(|member| member.link.watch()));
        let limit = self.next_notice();
        let limit = net::sooner(limit, self.failed.map(|at| net::left(at, FAREWELL_LIMIT)));
        net::sooner(limit, self.over.map(|at| net::left(at, FAILURE_LINGER)))
    }

    /// Serves the members for which the poll found something: `set` is what `watch` has added.
    pub fn look(&mut self, set: &[libc::pollfd]) {
        let ids: Vec<MemberId> = self.members.keys().copied().collect();
        for (id, entry) in ids.into_iter().zip(set) {
            if entry.revents != 0 {
                self.serve(id);
            }
        }
        self.send_notices();
        if self.roll.is_over() {
            self.over.get_or_insert_with(now);
        }
    }

    /// Whether ranks are still to come.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether nothing is left to do.
    pub fn is_done(&self) -> bool {
        let past = |since: Option<Moment>, limit| since.is_some_and(|at| at.past(limit));
        let left = !self.open && self.members.is_empty();
        left || past(self.failed, FAREWELL_LIMIT) || past(self.over, FAILURE_LINGER)
    }

    /// How long until the next rank has waited long enough to be told who is missing.
    fn next_notice(&self) -> Option<Duration> {
        if !self.open {
            return None;
        }
        let waiting = self
            .members
            .values()
            .filter(|m| m.state == State::Present && !m.noticed);
        waiting
            .map(|member| net::left(member.since, self.notice_after))
            .min()
    }

    fn send_notices(&mut self) {
        if !self.open {
            return;
        }
        let (roll, after) = (&self.roll, self.notice_after);
        for member in self.members.values_mut() {
            if member.state == State::Present && !member.noticed && member.since.past(after) {
                member.noticed = true;
                let text = roll.missing(member.nranks).into_bytes();
                member
                    .link
                    .push(Frame::control(FrameKind::Notice, text).encode());
                // A broken link shows itself at the next look.
                let _ = member.link.flush();
            }
        }
    }

    /// A rank has proven itself. True when it was the last: its port may close, and then
    /// [`Root::send_off`] is due.
    pub fn enter(&mut self, hello: &Hello, mut link: RankLink, from: SocketAddr) -> bool {
        if !self.open {
            // It came in the same burst as the last rank.
            refuse(&mut link, &too_late(hello.rank));
            return false;
        }
        let id = self.next_id;
        self.next_id += 1;
        let member = Member {
            link,
            rank: hello.rank,
            nranks: hello.nranks,
            since: now(),
            noticed: false,
            state: State::Present,
        };
        self.members.insert(id, member);
        let who = CheckIn {
            rank: hello.rank,
            nranks: hello.nranks,
            address: hello.address,
            from,
            process: hello.process,
        };
        let orders = self.roll.check_in(id, who);
        self.obey(orders);
        !self.open
    }

    fn obey(&mut self, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Welcome(id) => self.tell(id, Frame::control(FrameKind::Welcome, Vec::new())),
                Order::Refuse(id, error) => {
                    self.dismiss(id, Frame::error(FrameKind::Refused, &error))
                }
                Order::Complete => self.open = false,
            }
        }
    }

    fn tell(&mut self, id: MemberId, frame: Frame) {
        if let Some(member) = self.members.get_mut(&id) {
            member.link.push(frame.encode());
            // A broken link shows itself at the next look.
            let _ = member.link.flush();
        }
    }

    /// Says the last words to a member and drops it once they are sent.
    fn dismiss(&mut self, id: MemberId, frame: Frame) {
        self.tell(id, frame);
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        member.state = State::Leaving;
        if member.link.is_flushed() {
            member.link.close_write();
            self.members.remove(&id);
        }
    }

    /// All are there, and the port is closed, so that a later root can use it at once.
    pub fn send_off(&mut self) {
        for (member, go) in last_words(&self.roll.ring(), self.ring_secret) {
            self.tell(member, Frame::control(FrameKind::Go, record::encode(&go)));
        }
    }

    fn serve(&mut self, id: MemberId) {
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        // A broken link shows itself in the receive below.
        let _ = member.link.flush();
        if member.state == State::Leaving {
            let gone = matches!(member.link.receive(), Seen::Closed(_) | Seen::Garbage);
            if gone || member.link.is_flushed() {
                member.link.close_write();
                self.members.remove(&id);
            }
            return;
        }
        match member.link.receive() {
            Seen::Nothing => {}
            Seen::Frame(frame) if frame.kind == FrameKind::Ready => {
                self.members.remove(&id);
            }
            // It has waited for as long as it may, and asks for whom.
            Seen::Frame(frame) if frame.kind == FrameKind::Notice => {
                let missing = self.roll.missing(member.nranks).into_bytes();
                self.tell(id, Frame::control(FrameKind::Notice, missing));
            }
            Seen::Frame(frame) if frame.kind == FrameKind::Abort => {
                let own = frame.reported();
                self.lose(id, "it sent an error that cannot be read", own);
            }
            Seen::Frame(_) | Seen::Garbage => self.lose(id, "it sent what no rank sends", None),
            Seen::Closed(words) => self.lose(id, &words, None),
        }
    }

    /// A member died or gave up; `own` is the error that it reported itself.
    fn lose(&mut self, id: MemberId, words: &str, own: Option<Error>) {
        let Some(member) = self.members.remove(&id) else {
            return;
        };
        let rank = member.rank;
        let own = own.map(|mut error| {
            error.what = format!("rank {rank} gave up its start: {}", error.what);
            error.code = crate::base::Code::RemoteError;
            error.with_peer(Rank(rank))
        });
        if !self.roll.is_complete() {
            let words = own.map_or(words.to_string(), Error::into_what);
            let orders = self.roll.lost(id, &words);
            self.obey(orders);
            return;
        }
        let error = own.unwrap_or_else(|| lost_while_linking(rank, words));
        self.failed.get_or_insert_with(now);
        // Rank 0 last, as in `Roll::spoil`.
        let ranks = self.members.iter().map(|(&id, member)| (member.rank, id));
        let ranks: BTreeMap<u32, MemberId> = ranks.collect();
        for id in ranks.into_values().rev() {
            self.dismiss(id, Frame::error(FrameKind::Abort, &error));
        }
    }
}

/// The words to each rank when all are there.
fn last_words(ring: &[RollSeat], secret: [u8; KEY_BYTES]) -> Vec<(MemberId, Go)> {
    let processes = processes(ring);
    let leads: Vec<Rank> = processes.iter().map(|mates| mates[0]).collect();
    let (told, count) = (Leads::of(&leads), leads.len());
    let address = |at: usize| ring[leads[at % count].index()].address;
    let mut words = Vec::with_capacity(ring.len());
    for (at, mates) in processes.iter().enumerate() {
        for rank in mates {
            let go = Go {
                next: address(at + 1),
                prev: address(at + count - 1),
                secret,
                mates: mates.clone(),
                leads: if rank == &mates[0] {
                    told.clone()
                } else {
                    Leads::default()
                },
            };
            words.push((ring[rank.index()].member, go));
        }
    }
    words
}

/// The ranks of each process, ascending; the processes in the order of their lowest ranks.
fn processes(ring: &[RollSeat]) -> Vec<Vec<Rank>> {
    let mut places = HashMap::new();
    let mut processes: Vec<Vec<Rank>> = Vec::new();
    for (rank, seated) in (0..).map(Rank).zip(ring) {
        let at = *places.entry(seated.process).or_insert(processes.len());
        match processes.get_mut(at) {
            Some(mates) => mates.push(rank),
            None => processes.push(vec![rank]),
        }
    }
    processes
}

/// Sends a refusal and closes. A new connection always has room for it in the kernel.
pub(super) fn refuse(link: &mut RankLink, error: &Error) {
    link.push(Frame::error(FrameKind::Refused, error).encode());
    // The offender may be gone already; then nobody misses the sentence.
    let _ = link.flush();
    link.close_write();
}

fn too_late(rank: u32) -> Error {
    Error::usage(
        format!("rank {rank} checks in after all ranks of this communicator have checked in"),
        "start as many processes as nranks says, and give every communicator an id of its own",
    )
}

fn lost_while_linking(rank: u32, words: &str) -> Error {
    Error::remote(
        Rank(rank),
        format!("rank {rank} was lost while the ring was being made: {words}"),
        "look into the output of that rank; if it was killed (out of memory?) restart the job",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100,000 ranks, in processes of their own, in blocks of 16, dealt in turn to 1,000: the words
    /// to a rank do not grow with their number, but by that of its own process.
    #[test]
    fn last_words_to_a_hundred_thousand_ranks_are_short() {
        const NRANKS: u32 = 100_000;
        type ProcessOf = fn(u32) -> u32;
        let kinds: [(ProcessOf, u32); 3] = [
            (|rank| rank, 1),
            (|rank| rank / 16, 16),
            (|rank| rank % 1000, 100),
        ];
        for (process_of, mates) in kinds {
            let seated = |rank: u32| RollSeat {
                member: u64::from(rank) + 5,
                address: SocketAddr::from(([10, 0, 0, 1], rank as u16)),
                process: u128::from(process_of(rank)).to_be_bytes(),
            };
            let ring: Vec<RollSeat> = (0..NRANKS).map(seated).collect();
            let words = last_words(&ring, [3; KEY_BYTES]);
            assert_eq!(words.len(), NRANKS as usize);
            for (member, go) in words {
                let rank = Rank((member - 5) as u32);
                assert!(go.mates.len() == mates as usize && go.mates.binary_search(&rank).is_ok());
                let leads = match go.mates[0] == rank {
                    true => NRANKS / mates,
                    false => 0,
                };
                // Reading each list of leads would take minutes.
                if rank.0.is_multiple_of(4096) {
                    let told = go.leads.ranks(NRANKS).unwrap();
                    assert_eq!(told.len(), leads as usize);
                }
                let bytes = record::encode(&go).len();
                assert!(bytes <= 64 + 3 * mates as usize, "{bytes}");
            }
        }
    }
}
