//! The first half of a rank's meeting: it finds the root, both prove that they know the secret, and
//! it is welcomed.
//!
//! A root whose address was known before it was started may not be there yet, may be at another of
//! a few ports, and the port may belong to another job: the search goes on until its limit, and
//! says once what it looks for. The ranks of a large job come one after the other.

use super::frame::{self, FrameKind, Hello, PROTOCOL, Purpose, UNKNOWN_ID};
use super::link::{RankLink, Seen, Side};
use super::net::{self, Dial};
use super::rendezvous::{Rendezvous, told};
use super::secrets;
use super::settings::NetSettings;
use super::stream::Stream;
use crate::base::clock::{Moment, now};
use crate::base::knock::{Knock, Reply};
use crate::base::proof;
use crate::base::{Error, Result};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// When a rank says that it still looks for rank 0, unless `warn_after` is less.
const LOOK_NOTICE: Duration = Duration::from_secs(10);
/// How long a port that may belong to somebody else may accept without an answer. A root answers
/// at once; one that has read the hello would take the farewell for a death.
const FOREIGN_LIMIT: Duration = Duration::from_secs(20);

impl Rendezvous<'_> {
    /// Connects to the root, again if need be, until the root says welcome.
    pub(super) fn check_in(&self, address: SocketAddr) -> Result<RankLink> {
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
            match self.introduce(stream, address)? {
                Some(link) => return Ok(link),
                // A root flooded with strays may have thrown this connection out with them, or
                // this is the root of another job.
                None => dial
                    .again(io::ErrorKind::UnexpectedEof.into())
                    .map_err(|error| self.no_root(&error))?,
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

    /// How long one that accepts may take to welcome this rank.
    fn patience(&self) -> Duration {
        match self.id.is_by_slurm() {
            true => FOREIGN_LIMIT,
            false if self.id.is_named() => self.settings.start_limit,
            false => self.settings.connect_limit,
        }
    }

    /// The link once the root has said welcome; `None` when it closed without a word, or when a
    /// port that only follows from a formula belongs to somebody else.
    fn introduce(&self, stream: Stream, own: SocketAddr) -> Result<Option<RankLink>> {
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
                    return self.wait_for_welcome(link, begin);
                }
                Reply::Foreign(stream, heard) => {
                    return self.wait_for_welcome(RankLink::begun(stream, heard), begin);
                }
                Reply::Version(version) => return Err(frame::other_version(version)),
                Reply::Stranger => return self.foreign(self.no_proof()),
                Reply::Lost(_) => return Ok(None),
            }
            if begin.past(self.patience()) {
                return self.foreign(self.not_a_root());
            }
            let left = net::left(begin, self.patience());
            let mut set = vec![net::watch(knock.stream(), false)];
            self.settings.wait(&mut set, Some(left))?;
        }
    }

    /// Somebody else is at the port: no wonder where it only follows from a formula.
    fn foreign(&self, error: Error) -> Result<Option<RankLink>> {
        match self.id.is_by_slurm() {
            true => Ok(None),
            false => Err(error),
        }
    }

    fn wait_for_welcome(&self, mut link: RankLink, begin: Moment) -> Result<Option<RankLink>> {
        loop {
            match link.receive() {
                Seen::Frame(frame) => match frame.kind {
                    FrameKind::Welcome if link.is_sealed() => return Ok(Some(link)),
                    FrameKind::Refused | FrameKind::Abort => {
                        return match told(&frame) {
                            error if error.what == UNKNOWN_ID => self.foreign(error),
                            error => Err(error),
                        };
                    }
                    _ => {}
                },
                Seen::Closed(_) => return Ok(None),
                Seen::Garbage => return self.foreign(self.not_a_root()),
                Seen::Nothing if begin.past(self.patience()) => {
                    return self.foreign(self.not_a_root());
                }
                Seen::Nothing => {
                    let left = net::left(begin, self.patience());
                    self.settings.wait(&mut vec![link.watch()], Some(left))?;
                }
            }
        }
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
        if self.id.is_named() {
            return Error::system(
                format!("cannot reach rank 0 at {address}, which KOLO_COMM_ID names"),
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

    pub(super) fn not_a_root(&self) -> Error {
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
}

impl Search {
    fn new(limit: Duration, settings: &NetSettings) -> Search {
        let tell_after = LOOK_NOTICE.min(settings.warn_after);
        Search {
            start: now(),
            tell_after: (tell_after < limit).then_some(tell_after),
        }
    }

    fn connect(
        &mut self,
        rank: &Rendezvous,
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
