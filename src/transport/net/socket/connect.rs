//! The sender's way to a connection: dial all sockets, prove on each that this end has the handle
//! and hear the same from the other, wait for the welcomes.
//!
//! Two devices may have several ways to each other, and a sender several devices: a *path* is a
//! local address and one of the listener. They are tried in turn, the best first. What gets no
//! answer is barred for the connections that follow, with one warning.
//!
//! The receiver's system answers the dialling; its process says welcome when it accepts, which a
//! live rank may do late: that is waited for without limit. An attempt that fails in a way that
//! may pass (the listener dropped it among many strays, the link was down for a moment) is
//! repeated as a whole until the limit.

use super::super::{Connecting, SendComm};
use super::ends::Ends;
use super::frame::{self, HANDLE, Hello, PROTOCOL, Secret, VERSION, WELCOME_BYTES};
use super::input::Opening;
use super::options::SocketOptions;
use super::send::SocketSender;
use super::stream::Stream;
use crate::base::clock::{Moment, now};
use crate::base::interfaces::face::FaceAddress;
use crate::base::interfaces::ways::Barred;
use crate::base::{Code, Error, Result};
use crate::trust::knock::{Knock, Reply};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long attempts are repeated when links are borne without limit.
const USUAL_LIMIT: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

const OPERATION: &str = "connect over sockets";

/// The most paths that an error tells of.
const MOST_TOLD: usize = 4;

/// How long a path may stay silent while there are others.
const PATH_LIMIT: Duration = Duration::from_secs(2);

/// From a local address to one of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketPath {
    /// The local interface.
    interface: String,
    local: SocketAddr,
    peer: SocketAddr,
}

impl SocketPath {
    /// From an address of an interface.
    pub fn new(interface: &str, from: &FaceAddress, to: &FaceAddress) -> SocketPath {
        SocketPath {
            interface: interface.to_owned(),
            local: from.own(),
            peer: to.at(to.port, from.scope),
        }
    }

    /// Both addresses.
    pub fn ends(&self) -> (IpAddr, IpAddr) {
        (self.local.ip(), self.peer.ip())
    }
}

/// One socket of an attempt.
enum Dialled {
    /// The system connects.
    Reaching(Stream),
    /// The proof is going on.
    Knocking(Knock<Stream>),
    /// Both ends have proven themselves; the welcome is awaited.
    Proven(Stream, Opening<WELCOME_BYTES>),
    Welcomed(Stream),
    /// Only between two states.
    Gone,
}

/// Stage of a connection that is being made.
enum Stage {
    /// Nothing, for so long since then.
    Pausing(Moment, Duration),
    Trying(Vec<Dialled>),
    Done,
}

/// A connection that is being made.
pub struct Connector {
    /// The ways, the best first, each with the secret of its listener.
    paths: Vec<(SocketPath, Secret)>,
    /// Which one is tried.
    at: usize,
    /// Why each was given up, the last time.
    faults: Vec<Option<String>>,
    options: SocketOptions,
    barred: Arc<Mutex<Barred>>,
    connection: u64,
    stage: Stage,
    /// How long the pause before this round over the paths was; zero in the first round.
    pause: Duration,
    /// Every path of this round so far failed in a way that stays.
    is_vain: bool,
    /// When the path began to be tried.
    begun: Moment,
    /// When the row of failures began that no wait for a live rank breaks.
    since: Moment,
}

impl Connector {
    /// Over the first of some paths that works; at least one. Begins at the next
    /// [`Connecting::poll`].
    pub fn new(
        paths: Vec<(SocketPath, Secret)>,
        options: SocketOptions,
        barred: Arc<Mutex<Barred>>,
    ) -> Connector {
        let start = now();
        Connector {
            faults: vec![None; paths.len()],
            paths,
            at: 0,
            options,
            barred,
            connection: 0,
            stage: Stage::Pausing(start, Duration::ZERO),
            pause: Duration::ZERO,
            is_vain: true,
            begun: start,
            since: start,
        }
    }

    fn path(&self) -> &SocketPath {
        &self.paths[self.at].0
    }

    fn attempt(&mut self) -> io::Result<Stage> {
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(|error| io::Error::other(error.to_string()))?;
        self.connection = u64::from_ne_bytes(number);
        self.begun = now();
        let SocketPath { local, peer, .. } = *self.path();
        let dial = |_| {
            let stream = Stream::dial(local, peer, self.options.link_timeout)?;
            Ok(Dialled::Reaching(stream))
        };
        let dialled = (0..self.options.sockets).map(dial);
        Ok(Stage::Trying(dialled.collect::<io::Result<_>>()?))
    }

    /// Moves every socket on; true when all are welcomed.
    fn greet(&mut self) -> io::Result<bool> {
        let secret = self.paths[self.at].1;
        let Stage::Trying(dialled) = &mut self.stage else {
            return Ok(false);
        };
        let sockets = dialled.len() as u16;
        let mut all = true;
        for (socket, one) in (0..sockets).zip(dialled.iter_mut()) {
            let hello = Hello {
                socket,
                sockets,
                connection: self.connection,
            };
            *one = std::mem::replace(one, Dialled::Gone).go_on(&hello, &secret)?;
            all &= matches!(one, Dialled::Welcomed(_));
        }
        Ok(all)
    }

    /// Whether every socket waits for the receiver's process and none for its system.
    fn waits_for_process(&self) -> bool {
        match &self.stage {
            Stage::Trying(dialled) => {
                let reaching = |one: &Dialled| matches!(one, Dialled::Reaching(_));
                !dialled.iter().any(reaching)
            }
            Stage::Pausing(..) | Stage::Done => false,
        }
    }

    fn limit(&self) -> Duration {
        self.options.link_timeout.unwrap_or(USUAL_LIMIT)
    }

    /// Notes a failed attempt: the next path at once, or a pause before the next round over all, or
    /// the error when another round is in vain.
    fn again(&mut self, error: &io::Error) -> Result<()> {
        self.faults[self.at] = Some(reason(error));
        self.is_vain &= !is_passing(error);
        if self.at + 1 < self.paths.len() {
            self.at += 1;
            self.stage = Stage::Pausing(now(), Duration::ZERO);
            return Ok(());
        }
        if self.is_vain || self.since.waited() + self.pause > self.limit() {
            self.stage = Stage::Done;
            return Err(self.error(error));
        }
        (self.at, self.is_vain) = (0, true);
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.stage = Stage::Pausing(now(), self.pause);
        Ok(())
    }

    /// Bars the paths that were given up before one that works, and warns of those that were not
    /// barred yet.
    fn settle(&self) {
        let before = self.paths[..self.at].iter().zip(&self.faults);
        for ((path, _), fault) in before {
            let mut barred = self.barred.lock().unwrap_or_else(PoisonError::into_inner);
            let is_new = barred.insert(path.ends());
            drop(barred);
            if is_new {
                let (SocketPath { local, peer, .. }, taken) = (path, self.path());
                tracing::warn!(
                    "no connection from {} (interface {}) to {}: {}; its data go by {} from {} \
                     to {}",
                    local.ip(),
                    path.interface,
                    peer.ip(),
                    fault.as_deref().unwrap_or("it does not answer"),
                    taken.interface,
                    taken.local.ip(),
                    taken.peer.ip()
                );
            }
        }
    }

    fn error(&self, error: &io::Error) -> Error {
        let path = self.path();
        let mut what = format!(
            "no connection from {} (interface {}) to {}: {}",
            path.local.ip(),
            path.interface,
            path.peer,
            reason(error)
        );
        let others = self.paths.iter().zip(&self.faults).enumerate();
        for (at, ((path, _), fault)) in others.take(MOST_TOLD) {
            if let (true, Some(fault)) = (at != self.at, fault) {
                let (from, to) = (path.local.ip(), path.peer.ip());
                what += &format!("; nor from {from} ({}) to {to}: {fault}", path.interface);
            }
        }
        let remedy = "check that the rank at that address is alive and runs the same kolo, that no \
                      firewall is between the nodes, and that KOLO_SOCKET_IFNAME names a network \
                      that all nodes share";
        Error::new(Code::RemoteError, what, remedy).during(OPERATION)
    }

    fn finish(&mut self) -> Result<Option<Box<dyn SendComm>>> {
        let Stage::Trying(dialled) = std::mem::replace(&mut self.stage, Stage::Done) else {
            return Ok(None);
        };
        let streams = dialled.into_iter().filter_map(|one| match one {
            Dialled::Welcomed(stream) => Some(stream),
            _ => None,
        });
        let streams: Vec<Stream> = streams.collect();
        self.settle();
        let ends = Ends {
            interface: self.path().interface.clone(),
            local: match streams[0].local_address() {
                Ok(address) => address,
                Err(error) => return Err(self.error(&error)),
            },
            peer: self.path().peer,
        };
        let sender = SocketSender::new(ends, self.connection, streams, &self.options);
        Ok(Some(Box::new(sender)))
    }
}

impl Dialled {
    fn go_on(self, hello: &Hello, secret: &Secret) -> io::Result<Dialled> {
        let mut one = self;
        loop {
            one = match one {
                Dialled::Reaching(stream) if stream.connected()? => {
                    let hello = hello
                        .encode()
                        .map_err(|error| io::Error::other(error.into_what()))?;
                    Dialled::Knocking(Knock::new(stream, PROTOCOL, &hello))
                }
                Dialled::Knocking(knock) => {
                    match knock.go_on(|choice| (choice == HANDLE).then(|| secret.key())) {
                        Reply::Wait(knock) => return Ok(Dialled::Knocking(knock)),
                        Reply::In(stream, _) => Dialled::Proven(stream, Opening::new()),
                        Reply::Stranger => {
                            let why = "what listens there does not know the secret of the handle";
                            return Err(io::Error::other(why));
                        }
                        Reply::Version(version) => return Err(other_version(version)),
                        Reply::Foreign(_, heard) => {
                            return Err(match frame::version_of(&heard) {
                                Some(version) => other_version(version),
                                None => io::ErrorKind::InvalidData.into(),
                            });
                        }
                        Reply::Lost(error) => return Err(error),
                    }
                }
                Dialled::Proven(stream, mut welcome) => match welcome.read(&stream)? {
                    None => return Ok(Dialled::Proven(stream, welcome)),
                    Some(bytes) => match frame::decode_welcome(&bytes) {
                        Some((VERSION, connection)) if connection == hello.connection => {
                            Dialled::Welcomed(stream)
                        }
                        _ => return Err(io::ErrorKind::InvalidData.into()),
                    },
                },
                other => return Ok(other),
            }
        }
    }

    fn watch(&self) -> Option<libc::pollfd> {
        match self {
            Dialled::Reaching(stream) => Some(stream.watch(true)),
            Dialled::Knocking(knock) => Some(knock.stream().watch(false)),
            Dialled::Proven(stream, _) => Some(stream.watch(false)),
            Dialled::Welcomed(_) | Dialled::Gone => None,
        }
    }
}

fn other_version(version: u16) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!("it speaks version {version}, this kolo {VERSION}"),
    )
}

/// Why an attempt failed, in words.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            "it hung up before the welcome, as it does when the handle is not its own".into()
        }
        io::ErrorKind::InvalidData => "something other than kolo answers there".into(),
        io::ErrorKind::TimedOut => "it does not answer".into(),
        _ => error.to_string(),
    }
}

/// Errors that may be gone at the next attempt.
fn is_passing(error: &io::Error) -> bool {
    let numbers = [
        libc::ECONNREFUSED,
        libc::ECONNRESET,
        libc::ECONNABORTED,
        libc::EPIPE,
        libc::ETIMEDOUT,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::EAGAIN,
        libc::EADDRNOTAVAIL,
        libc::EMFILE,
        libc::ENFILE,
    ];
    match error.raw_os_error() {
        Some(number) => numbers.contains(&number),
        None => error.kind() == io::ErrorKind::UnexpectedEof,
    }
}

impl Connecting for Connector {
    fn poll(&mut self) -> Result<Option<Box<dyn SendComm>>> {
        match &self.stage {
            Stage::Pausing(since, pause) if !since.past(*pause) => return Ok(None),
            Stage::Pausing(..) => match self.attempt() {
                Ok(stage) => self.stage = stage,
                Err(error) => return self.again(&error).map(|()| None),
            },
            Stage::Trying(_) => {}
            Stage::Done => {
                return Err(Error::usage(
                    "a connection that was made, or could not be made, was polled again",
                    "connect anew",
                )
                .during(OPERATION));
            }
        }
        match self.greet() {
            Ok(true) => self.finish(),
            Ok(false) if self.waits_for_process() => Ok(None),
            Ok(false) if self.since.past(self.limit()) => {
                self.stage = Stage::Done;
                Err(self.error(&io::ErrorKind::TimedOut.into()))
            }
            Ok(false) if self.paths.len() > 1 && self.begun.past(PATH_LIMIT) => {
                let silent = io::Error::from_raw_os_error(libc::ETIMEDOUT);
                self.again(&silent).map(|()| None)
            }
            Ok(false) => Ok(None),
            Err(error) => {
                if self.waits_for_process() && self.pause.is_zero() {
                    // The time that a live rank took to come does not count.
                    self.since = now();
                }
                self.again(&error).map(|()| None)
            }
        }
    }

    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        if let Stage::Trying(dialled) = &self.stage {
            set.extend(dialled.iter().filter_map(Dialled::watch));
        }
        // The end of a pause, or of the patience with a silent path, is no event of a socket.
        self.waits_for_process()
    }
}
