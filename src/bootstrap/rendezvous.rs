//! How a rank meets the others: it checks in with the root, waits until all are there, and links
//! to its neighbours.
//!
//! Every wait is a poll loop that also listens to the root, so that whatever goes wrong at
//! another rank ends the wait here with that rank's name.

use super::check_in::REFUSAL_LIMIT;
use super::door::{Door, Entry, refuse};
use super::frame::{Frame, Hello, Kind, Purpose, decode_error, decode_go, printable};
use super::link::{Link, Seen};
use super::net::{self, Dial};
use super::settings::{NetSettings, Warn};
use super::tcp_root;
use super::unique_id::{Secret, UniqueId};
use crate::base::clock::{Moment, now};
use crate::base::{Code, Error, Rank, Result};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// How long last words may take to leave.
const WORDS_LIMIT: Duration = Duration::from_secs(1);

/// One rank on its way into the ring.
pub struct Rendezvous<'a> {
    pub(super) id: &'a UniqueId,
    secret: Secret,
    pub(super) rank: u32,
    pub(super) nranks: u32,
    pub(super) settings: &'a NetSettings,
    pub(super) start: Moment,
    /// What the root said last about who is missing.
    notice: String,
}

/// The neighbours, linked.
pub struct Neighbours {
    pub next: Link,
    pub prev: Link,
}

struct Linking {
    root: Link,
    door: Door,
    dial: Dial,
    next: Option<Link>,
    next_welcomed: bool,
    prev: Option<Link>,
}

impl<'a> Rendezvous<'a> {
    /// For rank `rank` of `nranks`.
    pub fn new(
        id: &'a UniqueId,
        rank: u32,
        nranks: u32,
        settings: &'a NetSettings,
    ) -> Rendezvous<'a> {
        Rendezvous {
            id,
            secret: id.secret(),
            rank,
            nranks,
            settings,
            start: now(),
            notice: String::new(),
        }
    }

    /// Meets the others; `None` when this rank is alone.
    pub fn meet(mut self) -> Result<Option<Neighbours>> {
        // Slurm's names of nodes say nothing of the network that is meant for the job.
        let is_network = self.id.is_named() && !self.id.is_by_slurm();
        let meeting_point = is_network.then(|| self.id.address().ip());
        let interface = &self.settings.interfaces(meeting_point)?[0];
        let (listener, address) = tcp_root::open(interface.socket_address(0), &interface.name)?;
        let limit = self.settings.hello_limit;
        let door = Door::new(listener, self.secret.clone(), Purpose::Ring, limit);
        let mut root = self.check_in(address)?;
        let (next, prev) = match self.wait_for_all(&mut root) {
            Ok(addresses) => addresses,
            Err(error) => {
                tell(&mut root, &error);
                return Err(error);
            }
        };
        if self.nranks == 1 {
            ready(&mut root);
            return Ok(None);
        }
        let limit = self.settings.connect_limit;
        let mut linking = Linking {
            root,
            door,
            dial: Dial::start(vec![next], limit, REFUSAL_LIMIT),
            next: None,
            next_welcomed: false,
            prev: None,
        };
        match self.link(&mut linking, next, prev, address) {
            Ok(neighbours) => {
                ready(&mut linking.root);
                Ok(Some(neighbours))
            }
            Err(error) => {
                // A neighbour that has both of its links listens to the root no more.
                let welcomed = linking.next.take().filter(|_| linking.next_welcomed);
                for mut link in welcomed.into_iter().chain(linking.prev.take()) {
                    tell(&mut link, &error);
                }
                tell(&mut linking.root, &error);
                Err(error)
            }
        }
    }

    pub(super) fn hello(&self, purpose: Purpose, target: u32, address: SocketAddr) -> Vec<u8> {
        let hello = Hello {
            purpose,
            rank: self.rank,
            nranks: self.nranks,
            target,
            address,
        };
        hello.encode(&self.secret).to_vec()
    }

    fn wait_for_all(&mut self, root: &mut Link) -> Result<(SocketAddr, SocketAddr)> {
        loop {
            match root.receive() {
                Seen::Frame(frame) => match frame.kind {
                    Kind::Go => return decode_go(&frame.body).ok_or_else(|| self.not_a_root()),
                    Kind::Refused | Kind::Abort => return Err(told(&frame)),
                    Kind::Notice => self.note(&frame, &self.settings.warn.clone()),
                    _ => {}
                },
                Seen::Closed(words) => return Err(self.root_ended(&words)),
                Seen::Garbage => return Err(self.not_a_root()),
                Seen::Nothing => {
                    let left = self.time_left()?;
                    net::poll(&mut [root.watch()], left).map_err(poll_failed)?;
                }
            }
        }
    }

    fn note(&mut self, frame: &Frame, warn: &Warn) {
        self.notice = printable(&frame.body);
        warn(&format!(
            "kolo: rank {} of {} has waited {} s for the other ranks to start; {}",
            self.rank,
            self.nranks,
            self.start.elapsed().as_secs(),
            self.notice
        ));
    }

    fn link(
        &mut self,
        linking: &mut Linking,
        next: SocketAddr,
        prev: SocketAddr,
        address: SocketAddr,
    ) -> Result<Neighbours> {
        loop {
            self.listen_to_root(linking)?;
            self.reach_next(linking, next, address)?;
            for entry in linking.door.serve() {
                self.let_in(linking, entry);
            }
            if linking.next_welcomed
                && linking.prev.is_some()
                && let (Some(next), Some(prev)) = (linking.next.take(), linking.prev.take())
            {
                return Ok(Neighbours { next, prev });
            }
            let mut set = vec![linking.root.watch()];
            let mut limit = self
                .time_left()
                .map_err(|error| self.late_links(error, prev))?;
            limit = net::sooner(limit, linking.door.watch(&mut set));
            match &linking.next {
                Some(link) => set.push(link.watch()),
                None => {
                    let (entry, pause) = linking.dial.watch();
                    set.extend(entry);
                    limit = net::sooner(limit, pause);
                }
            }
            net::poll(&mut set, limit).map_err(poll_failed)?;
        }
    }

    fn listen_to_root(&self, linking: &mut Linking) -> Result<()> {
        loop {
            match linking.root.receive() {
                Seen::Nothing => return Ok(()),
                Seen::Frame(frame) if matches!(frame.kind, Kind::Refused | Kind::Abort) => {
                    return Err(told(&frame));
                }
                Seen::Frame(_) => {}
                Seen::Closed(words) => return Err(self.root_ended(&words)),
                Seen::Garbage => return Err(self.not_a_root()),
            }
        }
    }

    fn reach_next(
        &self,
        linking: &mut Linking,
        address: SocketAddr,
        own: SocketAddr,
    ) -> Result<()> {
        if linking.next_welcomed {
            return Ok(());
        }
        let next = self.next();
        let failed = |error: io::Error| unreachable_next(next, address, &error);
        let Some(link) = &mut linking.next else {
            if let Some(stream) = linking.dial.advance().map_err(failed)? {
                let mut link = Link::new(stream);
                link.push(self.hello(Purpose::Ring, next.0, own));
                linking.next = Some(link);
                return self.reach_next(linking, address, own);
            }
            return Ok(());
        };
        // A broken link shows itself in the receive below.
        let _ = link.flush();
        match link.receive() {
            Seen::Nothing => Ok(()),
            Seen::Frame(frame) if frame.kind == Kind::Welcome => {
                linking.next_welcomed = true;
                Ok(())
            }
            Seen::Frame(frame) if frame.kind == Kind::Refused => Err(told(&frame)),
            Seen::Frame(_) | Seen::Garbage => Err(failed(io::ErrorKind::InvalidData.into())),
            Seen::Closed(_) => {
                linking.next = None;
                linking
                    .dial
                    .again(io::ErrorKind::UnexpectedEof.into())
                    .map_err(failed)
            }
        }
    }

    fn let_in(&self, linking: &mut Linking, entry: Entry) {
        let Entry {
            hello, mut link, ..
        } = entry;
        let expected = (self.prev().0, self.rank, self.nranks);
        let is_prev = (hello.rank, hello.target, hello.nranks) == expected;
        if !is_prev || linking.prev.is_some() {
            let error = Error::usage(
                format!(
                    "rank {} of {} wants to link to rank {}, but this is rank {}'s port and its \
                     predecessor is rank {}",
                    hello.rank, hello.nranks, hello.target, self.rank, expected.0
                ),
                "give every communicator an id of its own",
            );
            refuse(&mut link, &error);
            return;
        }
        link.push(Frame::control(Kind::Welcome, Vec::new()).encode());
        // The first bytes on a link always fit; a broken link shows itself in the first call.
        let _ = link.flush();
        linking.prev = Some(link);
    }

    fn next(&self) -> Rank {
        Rank((self.rank + 1) % self.nranks)
    }

    fn prev(&self) -> Rank {
        Rank((self.rank + self.nranks - 1) % self.nranks)
    }

    /// What is left until the timeout (`None`: no limit), or the error that it has passed.
    fn time_left(&self) -> Result<Option<Duration>> {
        let Some(timeout) = self.settings.timeout else {
            return Ok(None);
        };
        if !self.start.past(timeout) {
            return Ok(Some(net::left(self.start, timeout)));
        }
        let mut what = format!(
            "waited {:.1} s for the other ranks of {} to start",
            timeout.as_secs_f64(),
            self.nranks
        );
        if !self.notice.is_empty() {
            what += &format!("; {}", self.notice);
        }
        Err(Error::new(
            Code::Timeout,
            what,
            "find out why those ranks do not start, or raise KOLO_TIMEOUT",
        ))
    }

    fn late_links(&self, mut error: Error, prev: SocketAddr) -> Error {
        error.what = format!(
            "all ranks are there, but the links to rank {} and from rank {} at {prev} were not \
             made in time",
            self.next(),
            self.prev()
        );
        error.remedy = "check that every node can reach the others on the interface that \
                        KOLO_SOCKET_IFNAME chooses, or raise KOLO_TIMEOUT"
            .into();
        error
    }

    fn root_ended(&self, words: &str) -> Error {
        Error::new(
            Code::RemoteError,
            format!(
                "the process that calls the roll, at {}, was lost before the start was complete: \
                 {words}",
                self.id.address()
            ),
            "look into the output of rank 0 or of the process that called koloGetUniqueId",
        )
    }
}

fn ready(root: &mut Link) {
    root.push(Frame::control(Kind::Ready, Vec::new()).encode());
    root.flush_within(WORDS_LIMIT);
    root.close_write();
}

/// Says why this rank leaves, so that the others learn it too.
fn tell(link: &mut Link, error: &Error) {
    link.push(Frame::error(Kind::Abort, error).encode());
    link.flush_within(WORDS_LIMIT);
    link.close_write();
}

pub(super) fn told(frame: &Frame) -> Error {
    decode_error(&frame.body)
        .unwrap_or_else(|| Error::internal("a refusal arrived that cannot be read"))
}

pub(super) fn poll_failed(error: io::Error) -> Error {
    Error::system(
        "cannot wait for the network",
        &error,
        "check the memory of this node",
    )
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
