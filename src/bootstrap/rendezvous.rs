//! How a rank meets the others: it checks in with the root, waits until all are there, and joins
//! those of its process. The lowest of these links their process to its neighbours.
//!
//! Every wait is a poll loop that also listens to the root, so that whatever goes wrong at
//! another rank ends the wait here with that rank's name.

use super::check_in::{self, Joiner, told};
use super::circle::Circle;
use super::frame::{Frame, FrameKind, Go, PROTOCOL, Purpose};
use super::link::{RankLink, Seen, Side};
use super::neighbour::{Neighbour, RingPlace};
use super::net::{self, Dial};
use super::report::printable;
use super::settings::{NetSettings, Warn};
use super::stream::{Listener, Stream};
use super::tcp_root::refuse;
use super::team::Team;
use super::unique_id::UniqueId;
use super::{office, opening};
use crate::base::clock::{Moment, now};
use crate::base::record;
use crate::base::{Code, Error, Rank, Result};
use crate::trust::door::{Door, Entry};
use crate::trust::knock::{Knock, Reply};
use crate::trust::proof;
use crate::trust::secrets::GIVEN;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long last words may take to leave.
const WORDS_LIMIT: Duration = Duration::from_secs(1);

/// One rank on its way into the ring.
pub struct Rendezvous<'a> {
    joiner: Joiner<'a>,
    /// Last notice of the root about who is missing.
    notice: String,
}

/// The way to next.
enum Next {
    Dialling,
    Knocking(Knock<Stream>),
    /// It knows the secret, and may still be about to say welcome.
    Proven(RankLink),
    Welcomed(RankLink),
}

struct Linking {
    listener: Listener,
    door: Door<Stream>,
    dial: Dial,
    next: Next,
    prev: Option<RankLink>,
    keeper: Neighbour,
    around: RingPlace,
}

impl<'a> Rendezvous<'a> {
    /// For rank `rank` of `nranks`.
    pub fn new(
        id: &'a UniqueId,
        rank: u32,
        nranks: u32,
        settings: &'a NetSettings,
    ) -> Result<Rendezvous<'a>> {
        let joiner = Joiner {
            id,
            secrets: id.secrets(settings)?,
            rank,
            nranks,
            settings,
            start: now(),
            process: match settings.process_of {
                Some(number) => u128::from(number(rank)).to_be_bytes(),
                None => check_in::process()?,
            },
        };
        Ok(Rendezvous {
            joiner,
            notice: String::new(),
        })
    }

    /// Meets the others, and joins those of its process.
    pub fn meet(mut self) -> Result<Arc<Team>> {
        // Slurm's names of nodes say nothing of the network that is meant for the job.
        let is_network = self.joiner.id.is_named() && !self.joiner.id.is_by_slurm();
        let meeting_point = is_network.then(|| self.joiner.id.address().ip());
        // Nor does an own name that stands for the loopback, where the others are elsewhere.
        let meeting_point =
            meeting_point.filter(|ip| !self.joiner.id.is_everywhere() || !ip.is_loopback());
        let interface = &self.joiner.settings.interfaces(meeting_point)?[0];
        let (listener, address) = opening::open(interface.socket_address(0), &interface.name)?;
        let mut root = self.joiner.check_in(address)?;
        let go = match self.wait_for_all(&mut root) {
            Ok(go) => go,
            Err(error) => {
                tell_root(&mut root, &error);
                return Err(error);
            }
        };
        let mates = go.mates.clone();
        let team = if self.is_mine(&go) {
            Team::join(go.secret, mates, self.joiner.nranks)
        } else {
            Err(self.joiner.not_a_root())
        };
        let team = team.inspect_err(|error| tell_root(&mut root, error))?;
        let is_alone = go.mates.len() == self.joiner.nranks as usize;
        let is_lead = go.mates[0].0 == self.joiner.rank;
        let linked = if is_lead && !is_alone {
            self.link_process(&mut root, listener, address, &go, &team)
        } else {
            self.wait_for_team(&mut root, &team)
        };
        match linked {
            Ok(()) => {
                ready(&mut root);
                Ok(team)
            }
            Err(error) => {
                team.fail(&error);
                tell_root(&mut root, &error);
                Err(error)
            }
        }
    }

    /// Whether the root names ranks of this one's process that can be.
    fn is_mine(&self, go: &Go) -> bool {
        let is_ascending = go.mates.is_sorted_by(|a, b| a < b);
        let is_known = go.mates.iter().all(|mate| mate.0 < self.joiner.nranks);
        let me = Rank(self.joiner.rank);
        is_ascending && is_known && go.mates.binary_search(&me).is_ok()
    }

    /// Waits until all ranks of the process have come, and its lead has made the links.
    fn wait_for_team(&self, root: &mut RankLink, team: &Team) -> Result<()> {
        while !team.is_formed()? {
            self.listen_to_root(root)?;
            let left = self.time_left()?;
            let mut set = vec![root.watch()];
            team.watch_formed(&mut set);
            self.joiner.settings.wait(&mut set, left)?;
        }
        Ok(())
    }

    /// Links the process to its neighbours, and waits for the others of its ranks.
    fn link_process(
        &self,
        root: &mut RankLink,
        listener: Listener,
        address: SocketAddr,
        go: &Go,
        team: &Team,
    ) -> Result<()> {
        let nranks = self.joiner.nranks;
        let (leads, lead) = (go.leads.ranks(nranks).unwrap_or_default(), go.mates[0]);
        let at = leads.binary_search(&lead);
        let at = at.map_err(|_| self.joiner.not_a_root())?;
        let around = RingPlace {
            lead,
            next: leads[(at + 1) % leads.len()],
            prev: leads[(at + leads.len() - 1) % leads.len()],
        };
        let limit = self.joiner.settings.connect_limit;
        let mut linking = Linking {
            listener,
            door: Door::new(PROTOCOL, office::limits(self.joiner.settings.hello_limit)),
            dial: Dial::start(vec![go.next], limit, net::REFUSAL_LIMIT),
            next: Next::Dialling,
            prev: None,
            keeper: Neighbour {
                secret: go.secret(),
                around,
                nranks,
            },
            around,
        };
        match self.link(root, &mut linking, go, team, address) {
            Ok((next, prev)) => {
                team.form(Circle::new(lead, nranks, leads, next, prev));
                self.wait_for_team(root, team)
            }
            Err(error) => {
                // A neighbour that has both of its links listens to the root no more.
                let welcomed = match linking.next {
                    Next::Welcomed(link) => Some(link),
                    _ => None,
                };
                for mut link in welcomed.into_iter().chain(linking.prev.take()) {
                    tell(&mut link, &error);
                }
                Err(error)
            }
        }
    }

    fn wait_for_all(&mut self, root: &mut RankLink) -> Result<Go> {
        let mut asked: Option<Moment> = None;
        loop {
            match root.receive() {
                Seen::Frame(frame) => match frame.kind {
                    FrameKind::Go => {
                        return record::decode(&frame.body).map_err(|_| self.joiner.not_a_root());
                    }
                    FrameKind::Refused | FrameKind::Abort => return Err(told(&frame)),
                    FrameKind::Notice if asked.is_some() => {
                        self.notice = printable(&frame.body);
                        self.time_left()?;
                    }
                    FrameKind::Notice => self.note(&frame, &self.joiner.settings.warn.clone()),
                    _ => {}
                },
                Seen::Closed(words) => return Err(self.root_ended(&words)),
                Seen::Garbage => return Err(self.joiner.not_a_root()),
                Seen::Nothing => {
                    let left = match (self.time_left(), asked) {
                        (Ok(left), _) => left,
                        (Err(_), None) => {
                            // Who is missing now is what the error must say.
                            root.push(Frame::control(FrameKind::Notice, Vec::new()).encode());
                            root.flush_within(WORDS_LIMIT);
                            asked = Some(now());
                            Some(WORDS_LIMIT)
                        }
                        (Err(error), Some(since)) if since.past(WORDS_LIMIT) => return Err(error),
                        (Err(_), Some(since)) => Some(net::left(since, WORDS_LIMIT)),
                    };
                    self.joiner.settings.wait(&mut vec![root.watch()], left)?;
                }
            }
        }
    }

    fn note(&mut self, frame: &Frame, warn: &Warn) {
        self.notice = printable(&frame.body);
        warn(&format!(
            "kolo: rank {} of {} has waited {} s for the other ranks to start; {}{}",
            self.joiner.rank,
            self.joiner.nranks,
            self.joiner.start.elapsed().as_secs(),
            self.notice,
            self.where_it_listens()
        ));
    }

    /// The links to next and from prev.
    fn link(
        &self,
        root: &mut RankLink,
        linking: &mut Linking,
        go: &Go,
        team: &Team,
        address: SocketAddr,
    ) -> Result<(RankLink, RankLink)> {
        loop {
            self.listen_to_root(root)?;
            team.is_formed()?;
            self.reach_next(linking, go, address)?;
            let listener = &linking.listener;
            let entries = linking
                .door
                .serve(&mut linking.keeper, || office::accept(listener));
            for entry in entries {
                self.let_in(linking, entry);
            }
            if let (Next::Welcomed(_), Some(_)) = (&linking.next, &linking.prev)
                && let Next::Welcomed(next) = std::mem::replace(&mut linking.next, Next::Dialling)
                && let Some(prev) = linking.prev.take()
            {
                return Ok((next, prev));
            }
            let mut set = vec![root.watch()];
            team.watch_alarm(&mut set);
            let around = linking.around;
            let mut limit = self
                .time_left()
                .map_err(|error| self.late_links(error, around, go.prev))?;
            limit = net::sooner(limit, linking.door.watch(&linking.listener, &mut set));
            match &linking.next {
                Next::Proven(link) | Next::Welcomed(link) => set.push(link.watch()),
                Next::Knocking(knock) => set.push(net::watch(knock.stream(), false)),
                Next::Dialling => {
                    let (entry, pause) = linking.dial.watch();
                    set.extend(entry);
                    limit = net::sooner(limit, pause);
                }
            }
            self.joiner.settings.wait(&mut set, limit)?;
        }
    }

    fn listen_to_root(&self, root: &mut RankLink) -> Result<()> {
        loop {
            match root.receive() {
                Seen::Nothing => return Ok(()),
                Seen::Frame(frame)
                    if matches!(frame.kind, FrameKind::Refused | FrameKind::Abort) =>
                {
                    return Err(told(&frame));
                }
                Seen::Frame(_) => {}
                Seen::Closed(words) => return Err(self.root_ended(&words)),
                Seen::Garbage => return Err(self.joiner.not_a_root()),
            }
        }
    }

    /// Goes on towards next until something has to be waited for.
    fn reach_next(&self, linking: &mut Linking, go: &Go, own: SocketAddr) -> Result<()> {
        let next = linking.around.next;
        let failed = |error: io::Error| unreachable_next(next, go.next, &error);
        loop {
            let again = match std::mem::replace(&mut linking.next, Next::Dialling) {
                Next::Dialling => {
                    let Some(stream) = linking.dial.advance().map_err(failed)? else {
                        return Ok(());
                    };
                    linking.next = Next::Knocking(self.knock_at(next, stream, go, own)?);
                    continue;
                }
                Next::Knocking(knock) => {
                    let key = |choice| (choice == GIVEN).then(|| Neighbour::key(&go.secret()));
                    match knock.go_on(key) {
                        Reply::Wait(knock) => {
                            linking.next = Next::Knocking(knock);
                            return Ok(());
                        }
                        Reply::In(stream, session) => {
                            let link = RankLink::sealed(stream, &session, Side::Caller);
                            linking.next = Next::Proven(link);
                            continue;
                        }
                        // Whatever it says: next has told where it listens, and knows the secret.
                        // If next has ended, the root knows more, and will say it.
                        Reply::Foreign(..) | Reply::Version(_) | Reply::Stranger => {
                            net::unproven("that rank")
                        }
                        Reply::Lost(error) => error,
                    }
                }
                Next::Proven(mut link) => match link.receive() {
                    Seen::Nothing => {
                        linking.next = Next::Proven(link);
                        return Ok(());
                    }
                    Seen::Frame(frame) if frame.kind == FrameKind::Welcome => {
                        linking.next = Next::Welcomed(link);
                        return Ok(());
                    }
                    Seen::Frame(frame) if frame.kind == FrameKind::Refused => {
                        return Err(told(&frame));
                    }
                    Seen::Frame(_) | Seen::Garbage => {
                        return Err(failed(io::ErrorKind::InvalidData.into()));
                    }
                    Seen::Closed(_) => io::ErrorKind::UnexpectedEof.into(),
                },
                Next::Welcomed(link) => {
                    linking.next = Next::Welcomed(link);
                    return Ok(());
                }
            };
            linking.dial.again(again).map_err(failed)?;
        }
    }

    fn knock_at(
        &self,
        next: Rank,
        stream: Stream,
        go: &Go,
        own: SocketAddr,
    ) -> Result<Knock<Stream>> {
        let (said, nonce) = (self.joiner.hello(next.0, own), proof::random()?);
        let hello = said.encode(Purpose::Ring, go.secret().public(), GIVEN, nonce);
        Ok(Knock::new(stream, PROTOCOL, &hello))
    }

    fn let_in(&self, linking: &mut Linking, entry: Entry<Stream>) {
        let mut link = RankLink::sealed(entry.stream, &entry.session, Side::Host);
        if linking.prev.is_some() {
            let what = format!("two processes want to be rank {}", linking.around.prev);
            refuse(
                &mut link,
                &Error::usage(what, "give every process a rank of its own"),
            );
            return;
        }
        link.push(Frame::control(FrameKind::Welcome, Vec::new()).encode());
        // The first bytes on a link always fit; a broken link shows itself in the first call.
        let _ = link.flush();
        linking.prev = Some(link);
    }

    /// Where rank 0 waits for the others, in its own words about itself.
    fn where_it_listens(&self) -> String {
        let (place, port) = (self.joiner.id.place(), self.joiner.id.address().port());
        match (self.joiner.rank, self.joiner.id.is_named()) {
            (0, true) if self.joiner.id.is_everywhere() && !self.joiner.id.is_by_slurm() => {
                format!(
                    "; rank 0 listens at port {port} of all addresses of this machine ({place})"
                )
            }
            (0, true) if !self.joiner.id.is_by_slurm() => {
                format!("; rank 0 listens at {place} only")
            }
            _ => String::new(),
        }
    }

    /// Time until the timeout (`None`: no limit), or the error that it has passed.
    fn time_left(&self) -> Result<Option<Duration>> {
        let Some((timeout, name)) = self.joiner.settings.meeting_limit() else {
            return Ok(None);
        };
        if !self.joiner.start.past(timeout) {
            return Ok(Some(net::left(self.joiner.start, timeout)));
        }
        let mut what = format!(
            "waited {:.1} s for the other ranks of {} to start",
            timeout.as_secs_f64(),
            self.joiner.nranks
        );
        if !self.notice.is_empty() {
            what += &format!("; {}{}", self.notice, self.where_it_listens());
        }
        Err(Error::new(
            Code::Timeout,
            what,
            format!("find out why those ranks do not start, or raise {name}"),
        ))
    }

    fn late_links(&self, mut error: Error, around: RingPlace, prev: SocketAddr) -> Error {
        error.what = format!(
            "all ranks are there, but the links to rank {} and from rank {} at {prev} were not \
             made in time",
            around.next, around.prev
        );
        let name = self
            .joiner
            .settings
            .meeting_limit()
            .map_or("", |(_, name)| name);
        error.remedy = format!(
            "check that every node can reach the others on the interface that KOLO_SOCKET_IFNAME \
             chooses, or raise {name}"
        )
        .into();
        error
    }

    fn root_ended(&self, words: &str) -> Error {
        Error::new(
            Code::RemoteError,
            format!(
                "the process that calls the roll, at {}, was lost before the start was complete: \
                 {words}",
                self.joiner.id.address()
            ),
            "look into the output of rank 0 or of the process that called koloGetUniqueId",
        )
    }
}

fn ready(root: &mut RankLink) {
    root.push(Frame::control(FrameKind::Ready, Vec::new()).encode());
    root.flush_within(WORDS_LIMIT);
    root.close_write();
}

/// Says why this rank leaves, so that the others learn it too.
fn tell(link: &mut RankLink, error: &Error) {
    link.push(Frame::error(FrameKind::Abort, error).encode());
    link.flush_within(WORDS_LIMIT);
    link.close_write();
}

/// The root closes once it has told the others: it may be in this process, and end with it.
fn tell_root(root: &mut RankLink, error: &Error) {
    tell(root, error);
    root.await_end(WORDS_LIMIT);
}

fn unreachable_next(next: Rank, address: SocketAddr, error: &io::Error) -> Error {
    let mut failure = Error::system(
        format!("cannot link to rank {next} at {address}"),
        error,
        "if that rank ended, look into its output; otherwise check that the nodes reach each \
         other on the interface that KOLO_SOCKET_IFNAME chooses",
    );
    failure.peer = Some(next);
    failure
}
