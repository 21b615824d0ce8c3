//! How the local ranks of a new communicator come to share one segment.
//!
//! All ranks of the communicator call [`join`] together; each node makes its own segment.
//!
//! 1. Everyone tells everyone the address of its process's service (over the bootstrap).
//! 2. The lowest rank of each node makes the segment: a memfd if the node's ranks are in several
//!    processes, anonymous memory if they are threads of one.
//! 3. The other processes fetch the memfd and map it; all processes of the node link up, so that
//!    each notices the others' death; every rank writes its confirmation line.
//! 4. Every rank reads all lines of its node.
//!
//! After each phase the ranks exchange whether they succeeded. So they all succeed or all fail, a
//! failure is told to all in the words of the rank that it happened to, and a failing rank never
//! leaves others in a barrier. Waiting for late ranks and noticing dead ones between the phases is
//! the bootstrap's part.

use super::service::{self, Address, OnDeath, Peer, Published, Service, Until, Watch};
use crate::base::record::{self, Record};
use crate::base::{Code, Error, Rank, Result, hash};
use crate::bootstrap::Bootstrap;
use crate::bootstrap::report::Reported;
use crate::transport::pool::Lease;
use crate::transport::segment::{Key, Nonce, Segment};
use crate::transport::{SAME_CONTAINER, confirm, segment};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The ranks that are thought to share a machine with the caller.
#[derive(Clone, Debug)]
pub struct LocalGroup {
    /// The caller's rank in the communicator.
    pub my_rank: Rank,
    /// All local ranks in ascending order, the caller's included, each with its process number
    /// (for messages: equal numbers do not make one process).
    pub ranks: Vec<(Rank, u32)>,
    /// The machine's name, for messages.
    pub node: String,
}

/// What the ranks of a node share.
#[derive(Debug)]
pub struct Joined {
    /// The memory; the same object for ranks that are threads of one process.
    pub segment: Arc<Segment>,
    /// This rank's use of it.
    pub lease: Lease,
    /// The watch over the node's processes; drop it to leave in good order.
    pub watch: Watch,
    /// The services of the local ranks' processes, in order of ranks.
    pub services: Vec<Address>,
}

/// What a rank tells all others at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct JoinCard {
    address: Address,
    pid: u32,
    /// Of the list of local ranks.
    group_hash: u64,
    /// Of the nonce, which itself is nobody's business.
    nonce_hash: u64,
    length: u64,
}

/// How a phase went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum JoinWord {
    Card(JoinCard),
    Done,
    Failed(Reported),
}

impl Record for JoinWord {
    const NAME: &'static str = "how a rank got on with the shared memory";
}

/// What ranks tell each other here, for `tests/fuzz`.
pub(super) fn fuzz(bytes: &[u8]) -> (&'static str, bool) {
    record::fuzz::<JoinWord>(bytes)
}

/// One call of `join`.
struct Join<'a> {
    bootstrap: &'a dyn Bootstrap,
    group: &'a LocalGroup,
    nonce: Nonce,
    length: usize,
    span: usize,
}

/// Gives the caller and its local peers one segment whose head has `length` bytes of
/// `span`, all zero beyond the
/// confirmation lines (use it from [`Segment::user_offset`] of the number of local ranks), and a
/// watch over their processes. Collective over all ranks of `bootstrap`; several of them may be
/// threads of this process.
///
/// `nonce` is the same on all ranks, random, and never used for two communicators that live at the
/// same time. `on_death` is called on the service thread, possibly before `join` returns.
///
/// # Errors
/// The same outcome on all ranks: what the ranks' arguments contradict, what the system refused,
/// or why ranks that should be local cannot reach each other. An error of the bootstrap (a rank
/// died) is returned as it is.
pub fn join(
    bootstrap: &dyn Bootstrap,
    group: &LocalGroup,
    nonce: Nonce,
    (length, span): (usize, usize),
    on_death: OnDeath,
) -> Result<Joined> {
    let join = Join {
        bootstrap,
        group,
        nonce,
        length,
        span,
    };
    join.run(on_death).map_err(|error| error.at(group.my_rank))
}

impl Join<'_> {
    fn run(&self, on_death: OnDeath) -> Result<Joined> {
        let begun = self.begin(on_death);
        let ((service, watch), words) = self.exchange(begun)?;
        let members = self.members(&words);
        let made = members.and_then(|members| Ok((self.lead(service, &members)?, members)));
        let (lead, members) = self.done(made)?;
        let segment = self.done(self.map_and_link(service, &watch, &members))?;
        // Every process has its own descriptor by now.
        drop(lead);
        let ranks: Vec<Rank> = members.iter().map(|(rank, _)| *rank).collect();
        self.done(confirm::check(&segment, self.nonce, &ranks))?;
        let services = members.iter().map(|(_, card)| card.address).collect();
        Ok(Joined {
            lease: Lease::of(segment.region().map(|(pool, at)| (Arc::clone(pool), at))),
            segment,
            watch,
            services,
        })
    }

    /// Checks the arguments, starts watching, and writes the card.
    fn begin(&self, on_death: OnDeath) -> Result<((&'static Service, Watch), JoinWord)> {
        let LocalGroup {
            my_rank,
            ranks,
            node,
        } = self.group;
        let ascending = ranks.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let known = ranks
            .iter()
            .all(|(rank, _)| rank.0 < self.bootstrap.nranks());
        if !ascending || !known || *my_rank != self.bootstrap.rank() || self.my_index().is_none() {
            return Err(Error::internal(format!(
                "the list of local ranks {ranks:?} of rank {my_rank} is not in order"
            )));
        }
        if self.length < Segment::user_offset(ranks.len()) {
            return Err(Error::internal(format!(
                "a segment of {} bytes has no room for the confirmations of {} ranks",
                self.length,
                ranks.len()
            )));
        }
        let service = service::get()?;
        let watch = service.watch(self.nonce, *my_rank, node, on_death);
        let list: Vec<u8> = ranks.iter().flat_map(|(r, _)| r.0.to_le_bytes()).collect();
        let card = JoinCard {
            address: service.address(),
            pid: std::process::id(),
            group_hash: hash::fnv1a(&list),
            nonce_hash: hash::fnv1a(&self.nonce.0.to_le_bytes()),
            length: self.span as u64,
        };
        Ok(((service, watch), JoinWord::Card(card)))
    }

    fn my_index(&self) -> Option<usize> {
        let mut ranks = self.group.ranks.iter();
        ranks.position(|(rank, _)| *rank == self.group.my_rank)
    }

    fn lengths(&self) -> (usize, usize) {
        (self.length, self.span)
    }

    fn leader(&self) -> Rank {
        self.group.ranks[0].0
    }

    fn key(&self) -> Key {
        Key::new(self.nonce, self.leader())
    }

    /// The local ranks with their cards, if all of them agree with the caller.
    fn members(&self, words: &[JoinWord]) -> Result<Vec<(Rank, JoinCard)>> {
        let card = |rank: Rank| match words[rank.index()] {
            JoinWord::Card(card) => Ok(card),
            _ => Err(elsewhere()),
        };
        let mine = card(self.group.my_rank)?;
        let mut members = Vec::new();
        for (rank, _) in &self.group.ranks {
            let card = card(*rank)?;
            let differ = if card.group_hash != mine.group_hash {
                format!("which ranks run on {}", self.group.node)
            } else if card.nonce_hash != mine.nonce_hash {
                "the communicator's secret".to_owned()
            } else if card.length != mine.length {
                format!(
                    "the length of the shared memory ({} and {} bytes)",
                    mine.length, card.length
                )
            } else {
                members.push((*rank, card));
                continue;
            };
            return Err(Error::new(
                Code::InvalidUsage,
                format!(
                    "ranks {} and {rank} disagree about {differ}",
                    self.group.my_rank
                ),
                "start all ranks with the same settings and the same version of kolo (`kolo info \
                 --config` on each node shows them)",
            )
            .with_peer(*rank));
        }
        Ok(members)
    }

    /// The leader's part: makes the segment, and publishes it if other processes need it. The
    /// result keeps it alive and fetchable.
    fn lead(
        &self,
        service: &'static Service,
        members: &[(Rank, JoinCard)],
    ) -> Result<Option<(Arc<Segment>, Option<Published>)>> {
        if self.group.my_rank != self.leader() {
            return Ok(None);
        }
        if members
            .iter()
            .all(|(_, card)| card.address == service.address())
        {
            let segment =
                segment::shared(self.key(), || Segment::in_process(self.length, self.span))?;
            return Ok(Some((segment, None)));
        }
        let mut published = None;
        let segment = segment::shared(self.key(), || {
            let lines = Segment::user_offset(members.len());
            let (segment, file) = Segment::create(self.lengths(), lines, members.len() as u32)?;
            published = Some(service.publish(self.key(), file));
            Ok(segment)
        })?;
        if published.is_none() {
            return Err(Error::internal(
                "two communicators were given the same secret",
            ));
        }
        Ok(Some((segment, published)))
    }

    /// Everyone's part: maps the segment, links the process to the others, writes the line.
    fn map_and_link(
        &self,
        service: &'static Service,
        watch: &Watch,
        members: &[(Rank, JoinCard)],
    ) -> Result<Arc<Segment>> {
        let (leader, source) = members[0];
        let segment = segment::shared(self.key(), || {
            if source.address == service.address() {
                return Err(Error::internal("the leader's segment is gone"));
            }
            let fd = service
                .fetch_until(&source.address, self.key(), Until::of(self.bootstrap))
                .map_err(|cause| self.unreachable(leader, source.pid, &cause))?;
            Segment::open(Arc::new(fd), self.lengths())
        })?;
        for peer in peers(service.address(), members).values() {
            watch
                .link(peer, Until::of(self.bootstrap))
                .map_err(|cause| self.unreachable(peer.ranks[0], peer.pid, &cause))?;
        }
        if let Some(index) = self.my_index() {
            confirm::write(&segment, self.nonce, index, self.group.my_rank);
        }
        Ok(segment)
    }

    /// Why the process of `peer` could not be reached.
    fn unreachable(&self, peer: Rank, pid: u32, cause: &io::Error) -> Error {
        let me = self.group.my_rank;
        let node = &self.group.node;
        let who = format!("rank {me} cannot reach rank {peer} (process {pid}) on {node}");
        let error = match cause.kind() {
            io::ErrorKind::ConnectionRefused => Error::new(
                Code::SystemError,
                format!(
                    "{who}, although both report this host and the same boot id: that process has \
                     ended, or the two run in different containers (network namespaces)"
                ),
                SAME_CONTAINER,
            ),
            io::ErrorKind::ConnectionReset => Error::new(
                Code::SystemError,
                format!(
                    "{who}: its service closed the connection; the process is ending, runs another \
                     version of kolo, or has no file descriptor left"
                ),
                "look for messages of that process, start the same version of kolo everywhere, and \
                 raise the limit on open files (`ulimit -n 65536` in the job script)",
            ),
            io::ErrorKind::QuotaExceeded => Error::new(
                Code::SystemError,
                format!("{who}: {cause}"),
                "raise the limit on open files (`ulimit -n 65536` in the job script)",
            ),
            // What rang the bell says more, and is the end of all that follows.
            io::ErrorKind::ConnectionAborted => Error::new(
                Code::RemoteError,
                format!("{who}: {cause}"),
                "see why the start was given up",
            ),
            io::ErrorKind::TimedOut => Error::new(
                Code::Timeout,
                format!("{who}: that process lives and does not answer"),
                "see whether it is stopped, by a signal or a debugger, or raise KOLO_START_TIMEOUT",
            ),
            io::ErrorKind::PermissionDenied => Error::system(
                who,
                cause,
                "start all ranks of a job as the same user (and in the same user namespace)",
            ),
            _ => Error::system(
                who,
                cause,
                "raise the limit on open files (`ulimit -n 65536` in the job script), and see \
                 whether the machine is out of memory",
            ),
        };
        error.with_peer(peer)
    }

    /// Exchanges the outcome of a phase that has no word of its own.
    fn done<T>(&self, mine: Result<T>) -> Result<T> {
        let mine = mine.map(|value| (value, JoinWord::Done));
        self.exchange(mine).map(|(value, _)| value)
    }

    /// Exchanges the outcome of a phase, with a word from each rank that succeeded. If any rank
    /// failed, all get an error: the failed ones their own, the others the one of the lowest
    /// failed rank.
    fn exchange<T>(&self, mine: Result<(T, JoinWord)>) -> Result<(T, Vec<JoinWord>)> {
        let word = match &mine {
            Ok((_, word)) => word.clone(),
            Err(error) => JoinWord::Failed(Reported::of(error)),
        };
        let words = match (self.bootstrap.all_gather(&record::encode(&word)), &mine) {
            // The others have waited as long: what this rank waited for says more.
            (Err(_), Err(error)) if error.code == Code::Timeout => return Err(error.clone()),
            (words, _) => words?,
        };
        let (value, _) = mine?;
        if words.len() != self.bootstrap.nranks() as usize {
            return Err(elsewhere());
        }
        let words: Vec<JoinWord> = record::decode_all(&words)?;
        for (rank, word) in (0..).map(Rank).zip(&words) {
            if let JoinWord::Failed(why) = word {
                return Err(why.by(rank, ""));
            }
        }
        Ok((value, words))
    }
}

fn elsewhere() -> Error {
    Error::internal("the ranks are not at the same point of making a communicator")
}

/// The other processes among `members`, each with its ranks.
fn peers(mine: Address, members: &[(Rank, JoinCard)]) -> BTreeMap<Address, Peer> {
    let mut peers = BTreeMap::new();
    for (rank, card) in members.iter().filter(|(_, card)| card.address != mine) {
        let peer = peers.entry(card.address).or_insert_with(|| Peer {
            address: card.address,
            pid: card.pid,
            ranks: Vec::new(),
        });
        peer.ranks.push(*rank);
    }
    peers
}
