//! How the local ranks of a new communicator come to share one segment: who tells whom, over which
//! sockets it comes. What a rank does to the memory itself is [`crate::transport::sharing`].
//!
//! All ranks of the communicator call [`join`] together; each node makes its own segment.
//!
//! 1. Everyone tells everyone the address of its process's service, and which memfds it has of
//!    other communicators (over the bootstrap).
//! 2. The lowest rank of each node makes the segment: if the node's ranks are in several processes
//!    a region of a memfd, of one that all have where there is one; anonymous memory if they are
//!    threads of one. It tells where.
//! 3. The other processes map it, and fetch the memfd before if they lack it; all processes of the
//!    node link up, so that each notices the others' death; every rank writes its confirmation
//!    line.
//! 4. Every rank reads all lines of its node.
//!
//! After each phase the ranks exchange whether they succeeded. So they all succeed or all fail, a
//! failure is told to all in the words of the rank that it happened to, and a failing rank never
//! leaves others in a barrier. Waiting for late ranks and noticing dead ones between the phases is
//! the bootstrap's part.

use super::service::{self, Address, OnDeath, Peer, Published, Service, Until, Watch};
use crate::base::record::{self, Record};
use crate::base::{Code, Error, Rank, Result};
use crate::bootstrap::Bootstrap;
use crate::bootstrap::report::Reported;
use crate::transport::SAME_CONTAINER;
use crate::transport::pool::{Lease, Pool, PoolName, PoolPlace};
use crate::transport::segment::{Nonce, Segment};
use crate::transport::sharing::{Led, Sharing, Terms};
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

/// Things that the ranks of a node share.
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

/// First words of a rank to all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct JoinCard {
    address: Address,
    pid: u32,
    claim: Terms,
    /// The files of its process that may hold the segment.
    files: Vec<PoolName>,
}

/// How a phase went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum JoinWord {
    Card(JoinCard),
    Done,
    Failed(Reported),
    /// Where the segment of its node lies, if it has made that between processes.
    Place(PoolPlace),
}

impl Record for JoinWord {
    const NAME: &'static str = "how a rank got on with the shared memory";
}

/// Decodes `bytes` as a record of this file, for `tests/fuzz`.
pub(super) fn fuzz(bytes: &[u8]) -> (&'static str, bool) {
    record::fuzz::<JoinWord>(bytes)
}

/// One call of `join`.
struct Join<'a> {
    bootstrap: &'a dyn Bootstrap,
    group: &'a LocalGroup,
    nonce: Nonce,
}

/// Gives the caller and its local peers one segment, and a watch over their processes. The first of
/// `lengths` is that of its head, the second that of head and parts; all is zero beyond the
/// confirmation lines (use it from [`Segment::user_offset`] of the number of local ranks).
/// Collective over all ranks of `bootstrap`; several of them may be threads of this process.
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
    lengths: (usize, usize),
    on_death: OnDeath,
) -> Result<Joined> {
    let join = Join {
        bootstrap,
        group,
        nonce,
    };
    join.run(lengths, on_death)
        .map_err(|error| error.at(group.my_rank))
}

/// After the arguments were found good.
struct Entered<'a> {
    /// The memory to be shared.
    sharing: Sharing<'a>,
    /// The files of this process that may hold it.
    files: Vec<Arc<Pool>>,
    service: &'static Service,
    watch: Watch,
}

impl Join<'_> {
    fn run(&self, lengths: (usize, usize), on_death: OnDeath) -> Result<Joined> {
        let begun = self.begin(lengths, on_death);
        let (entered, words) = self.exchange(begun)?;
        let members = self.members(&entered.sharing, &words);
        let made = members.and_then(|members| Ok((lead(&entered, &members)?, members)));
        let made = made.map(|(lead, members)| {
            let place = lead.as_ref().and_then(|(led, _)| led.place);
            let word = place.map_or(JoinWord::Done, JoinWord::Place);
            ((lead, members), word)
        });
        let ((lead, members), words) = self.exchange(made)?;
        let place = match words[members[0].0.index()] {
            JoinWord::Place(place) => Some(place),
            _ => None,
        };
        let mapped = self.map_and_link(&entered, place.as_ref(), &members);
        let (segment, lease) = self.done(mapped)?;
        // Every process has its own descriptor by now, and every rank its lease.
        drop(lead);
        self.done(entered.sharing.check(&segment))?;
        let services = members.iter().map(|(_, card)| card.address).collect();
        Ok(Joined {
            lease,
            segment,
            watch: entered.watch,
            services,
        })
    }

    /// Checks the arguments, starts watching, and writes the card.
    fn begin(&self, lengths: (usize, usize), on_death: OnDeath) -> Result<(Entered<'_>, JoinWord)> {
        let LocalGroup {
            my_rank,
            ranks,
            node,
        } = self.group;
        let me = (self.bootstrap.rank(), self.bootstrap.nranks());
        if *my_rank != me.0 {
            let what = format!("rank {} was to join as rank {my_rank}", me.0);
            return Err(Error::internal(what));
        }
        let ranks = ranks.iter().map(|(rank, _)| *rank).collect();
        let sharing = Sharing::new(self.nonce, me, (node, ranks), lengths)?;
        let files = sharing.files();
        let service = service::get()?;
        let watch = Watch::begin(service, self.nonce, *my_rank, node, on_death);
        watch.tell_exit();
        let card = JoinCard {
            address: service.address(),
            pid: std::process::id(),
            claim: sharing.claim(),
            files: files.iter().map(|pool| pool.name()).collect(),
        };
        let entered = Entered {
            sharing,
            files,
            service,
            watch,
        };
        Ok((entered, JoinWord::Card(card)))
    }

    /// The local ranks with their cards, if all of them agree with the caller.
    fn members(&self, sharing: &Sharing, words: &[JoinWord]) -> Result<Vec<(Rank, JoinCard)>> {
        let ranks = self.group.ranks.iter();
        let member = |&(rank, _): &(Rank, u32)| match &words[rank.index()] {
            JoinWord::Card(card) => {
                sharing.agree(rank, &card.claim)?;
                Ok((rank, card.clone()))
            }
            _ => Err(elsewhere()),
        };
        ranks.map(member).collect()
    }

    /// Everyone's part: maps the segment, links the process to the others, writes the line.
    fn map_and_link(
        &self,
        entered: &Entered,
        place: Option<&PoolPlace>,
        members: &[(Rank, JoinCard)],
    ) -> Result<(Arc<Segment>, Lease)> {
        let Entered {
            sharing,
            files,
            service,
            watch,
        } = entered;
        let (leader, source) = &members[0];
        let (segment, lease) = sharing.open(place, files, || {
            if source.address == service.address() {
                return Err(Error::internal("the leader's segment is gone"));
            }
            service
                .fetch_until(&source.address, sharing.key(), Until::of(self.bootstrap))
                .map_err(|cause| self.unreachable(*leader, source.pid, &cause))
        })?;
        for peer in peers(service.address(), members).values() {
            watch
                .link(peer, Until::of(self.bootstrap))
                .map_err(|cause| self.unreachable(peer.ranks[0], peer.pid, &cause))?;
        }
        sharing.confirm(&segment);
        Ok((segment, lease))
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
    fn exchange<T>(&self, mine: Result<(T, JoinWord)>) -> Result<(T, Arc<Vec<JoinWord>>)> {
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
        let words = words.once(|words| {
            let words: Vec<JoinWord> = record::decode_all(words)?;
            for (rank, word) in (0..).map(Rank).zip(&words) {
                if let JoinWord::Failed(why) = word {
                    return Err(why.by(rank, ""));
                }
            }
            Ok(words)
        })?;
        Ok((value, words))
    }
}

fn elsewhere() -> Error {
    Error::internal("the ranks are not at the same point of making a communicator")
}

/// The leader's part: makes the segment, and publishes its file if another process lacks it. The
/// result keeps it alive and fetchable.
fn lead(
    entered: &Entered,
    members: &[(Rank, JoinCard)],
) -> Result<Option<(Led, Option<Published>)>> {
    // Whoever is not the leader has nothing to make.
    if !entered.sharing.is_leader() {
        return Ok(None);
    }
    let here = entered.service.address();
    let is_alone = members.iter().all(|(_, card)| card.address == here);
    let cards = members.iter().map(|(_, card)| card);
    let others = cards.filter(|card| card.address != here);
    let theirs: Vec<&[PoolName]> = others.map(|card| card.files.as_slice()).collect();
    let mut led = entered.sharing.lead(is_alone, &entered.files, &theirs)?;
    let key = entered.sharing.key();
    let file = led.file.take();
    let published = file.map(|file| entered.service.publish(key, file));
    Ok(Some((led, published)))
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
