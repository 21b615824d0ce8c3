//! The first half of a rank's meeting: it finds the root, both prove that they know the secret, and
//! it is welcomed.
//!
//! A root whose address was known before it was started may not be there yet, may be at another of
//! a few ports, and the port may belong to another job or user: the search goes on until its limit,
//! and says once what it looks for. The ranks of a large job come one after the other.
//!
//! Whoever listens at such a port can say anything. Words before the proof are therefore *doubts*:
//! they are told as what an unknown program said, and the search goes on. They never end it, and
//! nothing of them becomes part of an error or of its remedy.

use super::frame::{self, Frame, FrameKind, Hello, PROCESS_BYTES, PROTOCOL, Purpose, UNKNOWN_ID};
use super::link::{RankLink, Seen, Side};
use super::net::{self, Dial};
use super::report::printable;
use super::settings::NetSettings;
use super::stream::Stream;
use super::unique_id::UniqueId;
use crate::base::clock::{Moment, now};
use crate::base::{Error, Result, fork};
use crate::trust::knock::{Knock, Reply};
use crate::trust::proof;
use crate::trust::secrets::{self, Secrets};
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// When a rank says that it still looks for rank 0, unless `warn_after` is less.
const LOOK_NOTICE: Duration = Duration::from_secs(10);
/// How long one that accepts may take to prove itself, in times of what a root allows a caller. A
/// root answers at once, and one that comes to it later has thrown this caller out already.
const PROOF_TIMES: u32 = 4;
/// How long a rank that has proven itself may wait for the welcome. The root says it at once; and
/// it would take a farewell for a death.
const WELCOME_LIMIT: Duration = Duration::from_secs(20);
/// The most doubts that a rank tells its user.
const MOST_TOLD: usize = 4;
/// The most characters of foreign words that are told.
const MOST_QUOTED: usize = 300;

/// Outcome of a connection to where the root may be.
enum Greeted {
    /// The root, which says welcome.
    Root(Box<RankLink>),
    /// It ended without a word.
    Lost,
    /// Somebody who has not proven to be the root.
    Doubted(Doubt),
}

/// Acts of somebody without a proof. It may be a root of another job, or anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Doubt {
    /// Refuses, in these words.
    Refuses(String),
    /// Says that it speaks this version.
    Version(u16),
    /// Answers without knowing the secret.
    Stranger,
    /// Is silent, or says what kolo does not say.
    NoRoot,
}

/// One rank on its way to the root: who it is, and whom it looks for.
pub(super) struct Joiner<'a> {
    pub id: &'a UniqueId,
    pub secrets: Secrets,
    pub rank: u32,
    pub nranks: u32,
    pub settings: &'a NetSettings,
    /// The begin of its search.
    pub start: Moment,
    /// Drawn by its process.
    pub process: [u8; PROCESS_BYTES],
}

/// A number that this process has drawn, and none of its forked children.
pub(super) fn process() -> Result<[u8; PROCESS_BYTES]> {
    static DRAWN: Mutex<Option<(u32, [u8; PROCESS_BYTES])>> = Mutex::new(None);
    let mut drawn = DRAWN.lock().unwrap_or_else(PoisonError::into_inner);
    let generation = fork::generation();
    match *drawn {
        Some((of, number)) if of == generation => Ok(number),
        _ => {
            let number = proof::random()?;
            *drawn = Some((generation, number));
            Ok(number)
        }
    }
}

impl Joiner<'_> {
    /// Words to `target` that say who this rank is, and at which address it listens.
    pub fn hello(&self, target: u32, address: SocketAddr) -> Hello {
        Hello {
            rank: self.rank,
            nranks: self.nranks,
            target,
            address,
            credential: Vec::new(),
            process: self.process,
        }
    }

    /// Connects to the root, again if need be, until the root says welcome.
    pub fn check_in(&self, address: SocketAddr) -> Result<RankLink> {
        self.take_turn()?;
        // A named root may start later than this rank; any other was there first.
        let (limit, refusal_limit) = match self.id.is_named() {
            true => (self.settings.start_limit, self.settings.start_limit),
            false => (self.settings.connect_limit, net::REFUSAL_LIMIT),
        };
        let mut dial = Dial::start(self.id.addresses(), limit, refusal_limit);
        let mut search = Search::new(limit, self.settings);
        loop {
            let stream = search.connect(self, &mut dial, limit)?;
            let place = stream.peer_addr().unwrap_or_else(|_| self.id.address());
            match self.introduce(stream, address)? {
                Greeted::Root(link) => return Ok(*link),
                // A root flooded with strays may have thrown this connection out with them.
                Greeted::Lost => dial
                    .again(io::ErrorKind::UnexpectedEof.into())
                    .map_err(|error| self.no_root(&error))?,
                // As good as nobody: rank 0 may be at the next port, or come here later.
                Greeted::Doubted(doubt) => {
                    search.tell(self, place, &doubt);
                    dial.again(net::unproven("rank 0"))
                        .map_err(|error| self.doubted(&doubt, &error))?;
                }
            }
        }
    }

    /// Waits for this rank's turn, so that a root of many ranks is not flooded by all at once.
    fn take_turn(&self) -> Result<()> {
        if self.nranks > self.settings.stagger_threshold {
            let seconds = f64::from(self.rank) / f64::from(self.settings.stagger_rate.max(1));
            self.settings.rest(Duration::from_secs_f64(seconds))?;
        }
        Ok(())
    }

    /// Tells that rank 0 is not there yet.
    fn look_on(&self, limit: Duration) {
        let left = net::left(self.start, limit).as_secs();
        (self.settings.warn)(&format!(
            "kolo: rank {} of {} has looked for rank 0 at {} for {} s, and does so for {left} s \
             more",
            self.rank,
            self.nranks,
            self.id.place(),
            self.start.elapsed().as_secs(),
        ));
    }

    /// How long one that accepts may take to prove itself.
    fn patience(&self) -> Duration {
        let limit = match self.id.is_named() {
            true => self.settings.start_limit,
            false => self.settings.connect_limit,
        };
        limit.min(self.settings.hello_limit * PROOF_TIMES)
    }

    /// Proves that this rank belongs to the job, and wants the same of who listens.
    fn introduce(&self, stream: Stream, own: SocketAddr) -> Result<Greeted> {
        let begin = now();
        let (id, nonce) = (self.id.public(), proof::random()?);
        let shown = self.secrets.show(&id, &nonce, self.rank)?;
        let said = Hello {
            credential: shown.credential.clone(),
            ..self.hello(0, own)
        };
        let hello = said.encode(Purpose::CheckIn, id, self.secrets.offers(), nonce);
        let mut knock = Knock::new(stream, PROTOCOL, &hello);
        let mut chosen = 0;
        loop {
            let key = |choice| {
                chosen = choice;
                self.secrets.key(choice, &shown, &id)
            };
            match knock.go_on(key) {
                Reply::Wait(still) => knock = still,
                Reply::In(stream, session) => {
                    let (rank, by) = (self.rank, secrets::names(chosen));
                    tracing::info!("rank {rank} and the root know each other by {by}");
                    let link = RankLink::sealed(stream, &session, Side::Caller);
                    return self.wait_for_welcome(link);
                }
                Reply::Foreign(stream, heard) => {
                    return self.hear(RankLink::begun(stream, heard), begin);
                }
                Reply::Version(version) => return Ok(Greeted::Doubted(Doubt::Version(version))),
                Reply::Stranger => return Ok(Greeted::Doubted(Doubt::Stranger)),
                Reply::Lost(_) => return Ok(Greeted::Lost),
            }
            if begin.past(self.patience()) {
                return Ok(Greeted::Doubted(Doubt::NoRoot));
            }
            let left = net::left(begin, self.patience());
            let mut set = vec![net::watch(knock.stream(), false)];
            self.settings.wait(&mut set, Some(left))?;
        }
    }

    /// Hears the first thing that one says who does not prove himself.
    fn hear(&self, mut link: RankLink, begin: Moment) -> Result<Greeted> {
        loop {
            let doubt = match link.receive() {
                Seen::Frame(frame) if frame.kind == FrameKind::Refused => match frame.reported() {
                    Some(error) => Doubt::Refuses(error.into_what()),
                    None => Doubt::NoRoot,
                },
                Seen::Nothing if !begin.past(self.patience()) => {
                    let left = net::left(begin, self.patience());
                    self.settings.wait(&mut vec![link.watch()], Some(left))?;
                    continue;
                }
                _ => Doubt::NoRoot,
            };
            return Ok(Greeted::Doubted(doubt));
        }
    }

    /// Waits for the word of a root that has proven itself.
    fn wait_for_welcome(&self, mut link: RankLink) -> Result<Greeted> {
        let begin = now();
        loop {
            match link.receive() {
                Seen::Frame(frame) => match frame.kind {
                    FrameKind::Welcome => return Ok(Greeted::Root(Box::new(link))),
                    FrameKind::Refused | FrameKind::Abort => return Err(told(&frame)),
                    _ => {}
                },
                Seen::Closed(_) => return Ok(Greeted::Lost),
                Seen::Garbage => return Ok(Greeted::Doubted(Doubt::NoRoot)),
                Seen::Nothing if begin.past(WELCOME_LIMIT) => {
                    return Ok(Greeted::Doubted(Doubt::NoRoot));
                }
                Seen::Nothing => {
                    let left = net::left(begin, WELCOME_LIMIT);
                    self.settings.wait(&mut vec![link.watch()], Some(left))?;
                }
            }
        }
    }

    /// The error of a search that met only those who do not prove themselves.
    fn doubted(&self, doubt: &Doubt, error: &io::Error) -> Error {
        if self.id.is_by_slurm() {
            return self.no_root(error);
        }
        match doubt {
            Doubt::Refuses(_) => self.refused(),
            Doubt::Version(version) => self.other_version(*version),
            Doubt::Stranger => self.no_proof(),
            Doubt::NoRoot => self.not_a_root(),
        }
    }

    fn refused(&self) -> Error {
        let place = self.id.address();
        if self.id.is_named() {
            return Error::usage(
                format!(
                    "what listens at {place} refuses rank {}, and has not proven that it is rank 0 \
                     of this job",
                    self.rank
                ),
                "let munge run on all nodes of the job or on none, and give all ranks the same \
                 KOLO_SECRET_FILE and KOLO_COMM_ID; if a program of another user or job listens \
                 there, name another port in KOLO_COMM_ID",
            );
        }
        Error::usage(
            format!(
                "what listens at {place}, where this unique id was made, does not show that it \
                 knows the secret of the id: another program has that port now, or all ranks of \
                 the communicator are already there"
            ),
            "give every rank the 128 bytes of the same koloGetUniqueId call (is an id of an \
             earlier job in use?), and use every id for one communicator only",
        )
    }

    fn other_version(&self, version: u16) -> Error {
        let mut error = frame::other_version(version);
        error.what = format!("at {}: {}", self.id.address(), error.what);
        if self.id.is_named() {
            error.remedy = "use the same version of kolo on every rank; if a program of another \
                            user listens there, name another port in KOLO_COMM_ID"
                .into();
        }
        error
    }

    fn no_proof(&self) -> Error {
        let elsewhere = match (self.id.is_by_slurm(), self.id.is_named()) {
            (true, _) => "set another KOLO_SLURM_PORT for all ranks",
            (_, true) => "name another port in KOLO_COMM_ID, the same on all ranks",
            _ => "make a new unique id",
        };
        Error::usage(
            format!(
                "what listens at {} does not know the secret of this communicator",
                self.id.address()
            ),
            format!(
                "give every rank the 128 bytes of the same koloGetUniqueId call, or the same \
                 KOLO_SECRET_FILE; if a program of another user listens there, {elsewhere}"
            ),
        )
    }

    fn no_root(&self, error: &io::Error) -> Error {
        let address = self.id.address();
        let refused = error.kind() == io::ErrorKind::ConnectionRefused;
        if self.id.is_by_slurm() {
            return Error::system(
                format!(
                    "cannot find rank 0 at {}, where the Slurm variables say that it is",
                    self.id.place()
                ),
                error,
                "look into the output of rank 0; check that its node can be reached at the ports \
                 from KOLO_SLURM_PORT on, or name another address of it in KOLO_COMM_ID; \
                 KOLO_START_TIMEOUT is how long to look for it",
            );
        }
        if self.id.is_named() && self.id.is_everywhere() && address.ip().is_loopback() {
            return Error::system(
                format!(
                    "cannot reach rank 0 at {}, which KOLO_COMM_ID names: on this machine that \
                     name stands for this machine itself",
                    self.id.place()
                ),
                error,
                "start rank 0 on this machine, or give KOLO_COMM_ID a name or an address of the \
                 machine where rank 0 runs; KOLO_START_TIMEOUT is how long to look for it",
            );
        }
        if self.id.is_named() {
            return Error::system(
                format!(
                    "cannot reach rank 0 at {}, which KOLO_COMM_ID names",
                    self.id.place()
                ),
                error,
                "check that rank 0 was started on that machine with the same KOLO_COMM_ID and \
                 that no firewall is in the way; KOLO_START_TIMEOUT is how long to look for it",
            );
        }
        if refused {
            return Error::system(
                format!(
                    "nobody listens any more at {address}, where this unique id was made: its \
                     process has ended, or all ranks of the communicator are already there"
                ),
                error,
                "keep the process that called koloGetUniqueId alive until all ranks have \
                 joined, and use every id for one communicator only",
            );
        }
        Error::system(
            format!("cannot reach the process that made the unique id, at {address}"),
            error,
            "check that this node can reach that address; choose another network with \
             KOLO_SOCKET_IFNAME",
        )
    }

    pub fn not_a_root(&self) -> Error {
        Error::usage(
            format!(
                "what listens at {} does not answer as kolo does",
                self.id.address()
            ),
            "check the host and port of KOLO_COMM_ID, and that all ranks use one version of kolo",
        )
    }
}

/// The search for a root that may not be there yet; tells once that it takes long.
struct Search {
    start: Moment,
    /// When to tell; never for a search that ends before.
    tell_after: Option<Duration>,
    /// Those who do not prove themselves, as far as the user was told of them.
    told: Vec<(SocketAddr, Doubt)>,
}

impl Search {
    fn new(limit: Duration, settings: &NetSettings) -> Search {
        let tell_after = LOOK_NOTICE.min(settings.warn_after);
        Search {
            start: now(),
            tell_after: (tell_after < limit).then_some(tell_after),
            told: Vec::new(),
        }
    }

    /// Tells, once and for a few, who does not prove himself: the user may know what to make of it.
    fn tell(&mut self, rank: &Joiner, place: SocketAddr, doubt: &Doubt) {
        let is_known = self.told.iter().any(|it| it.0 == place && it.1 == *doubt);
        if is_known || self.told.len() == MOST_TOLD {
            return;
        }
        self.told.push((place, doubt.clone()));
        let what = match doubt {
            Doubt::Refuses(words) => {
                let words: String = words.chars().take(MOST_QUOTED).collect();
                format!("says \"{}\"", printable(words.as_bytes()))
            }
            Doubt::Version(version) => format!("speaks version {version} of kolo's protocol"),
            Doubt::Stranger => "does not know the secret".into(),
            Doubt::NoRoot => "does not answer as kolo does".into(),
        };
        let text = format!(
            "kolo: rank {} of {} met a program at {place} that has not proven to be rank 0 of this \
             job; it {what}; the search goes on",
            rank.rank, rank.nranks
        );
        // Another job may have a port that only follows from a formula.
        let is_usual = rank.id.is_by_slurm() && *doubt == Doubt::Refuses(UNKNOWN_ID.into());
        match is_usual || !rank.id.is_named() {
            true => tracing::info!("{text}"),
            false => (rank.settings.warn)(&text),
        }
    }

    fn connect(
        &mut self,
        rank: &Joiner,
        dial: &mut Dial,
        limit_of_all: Duration,
    ) -> Result<Stream> {
        loop {
            let found = dial.advance().map_err(|error| rank.no_root(&error))?;
            if let Some(stream) = found {
                return Ok(stream);
            }
            if self.tell_after.is_some_and(|after| self.start.past(after)) {
                self.tell_after = None;
                rank.look_on(limit_of_all);
            }
            let (entry, limit) = dial.watch();
            let until_notice = self.tell_after.map(|after| net::left(self.start, after));
            let limit = net::sooner(limit, until_notice);
            rank.settings.wait(&mut Vec::from_iter(entry), limit)?;
        }
    }
}

/// The error of another rank, in a frame that ends a wait.
pub(super) fn told(frame: &Frame) -> Error {
    frame
        .reported()
        .unwrap_or_else(|| Error::internal("a refusal arrived that cannot be read"))
}
