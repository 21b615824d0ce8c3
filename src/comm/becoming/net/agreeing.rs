//! Over which interfaces the nodes of a communicator reach each other: agreed on at its start.
//!
//! Problem: a node does not know alone which of its interfaces lead to the others, and finds out
//! about a wrong one half a minute after the first call that takes it. Idea: the ranks tell each
//! other the tables of their nodes ([`ways`]), and the lowest rank of each node tries the ways to
//! others. All tell what failed, and compute from all of it what each uses, or who lacks what.
//! Where the ways of a pair have all failed, those of its next tier are tried in another round.
//!
//! Many nodes try some others each, so that the cost of a start stays small; a way that nobody has
//! tried and that does not work is left when the first connection finds out (`connect` of sockets).

use super::Party;
use super::agreed::AgreedFaces;
use crate::base::interfaces;
use crate::base::interfaces::class::FaceClass;
use crate::base::interfaces::face::{FaceAddress, Signs};
use crate::base::interfaces::ways::{self, Barred, FaceCard, FaceTable, NodeWay};
use crate::base::record::{self, Record};
use crate::base::{Error, Rank, Result};
use crate::bootstrap::report::Reported;
use crate::topo;
use crate::transport::net::socket::SocketOptions;
use crate::transport::net::socket::trial::{self, Targets};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long a way may take to answer. The system of a node that is there answers at once, however
/// busy its processes are; a packet that was lost is sent again after a second.
const TRIAL_LIMIT: Duration = Duration::from_millis(1500);
/// Up to here each node tries every other one.
const ALL_PAIRS: usize = 16;
/// There are as many tiers, and after the last one nothing is left to try.
const MOST_ROUNDS: usize = 16;
/// The most failures that one rank tells in a round.
const MOST_FAILURES: usize = 1024;
/// The most failures that a warning tells.
const MOST_TOLD: usize = 3;

/// Interfaces of a rank's node, or why it cannot tell them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownFaces(std::result::Result<FaceTable, Reported>);

impl Record for ShownFaces {
    const NAME: &'static str = "the interfaces of a rank";
}

/// A way that was tried in vain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Failure {
    from: IpAddr,
    to: IpAddr,
    why: String,
}

/// Report of a rank after a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    failures: Vec<Failure>,
    /// Why it reaches another rank in no way.
    lack: Option<Reported>,
}

impl Record for Tried {
    const NAME: &'static str = "which ways a rank has tried";
}

/// Records of interfaces, for `tests/fuzz`.
pub fn fuzz(bytes: &[u8]) -> [(&'static str, bool); 2] {
    [
        record::fuzz::<ShownFaces>(bytes),
        record::fuzz::<Tried>(bytes),
    ]
}

/// Knowledge of a rank while they agree.
struct Agreeing<'a> {
    party: &'a Party<'a>,
    /// Of all ranks.
    tables: Vec<FaceTable>,
    /// The lowest rank of each node.
    heads: Vec<Rank>,
    barred: Barred,
    /// Trials of this rank.
    tried: BTreeSet<(IpAddr, IpAddr)>,
    /// Failure in words.
    faults: Vec<Failure>,
}

impl Party<'_> {
    /// Agrees with all ranks on interfaces. Every rank calls it, if there are several nodes.
    ///
    /// # Errors
    /// The own one, or that of the lowest rank that has one: it can list no interfaces, or has no
    /// way to another rank.
    pub(super) fn agree(&self) -> Result<AgreedFaces> {
        let me = self.bootstrap.rank();
        let options = SocketOptions::from(self.settings);
        let mut table = interfaces::table(options.family, options.ifname.as_deref());
        // Only ranks that are tried need ports.
        let is_head = self.mates().first() == Some(&me);
        let targets = match &mut table {
            Ok(table) if is_head => Some(Targets::open(table)),
            _ => None,
        };
        let shown = ShownFaces(match &table {
            Ok(table) => Ok(table.clone()),
            Err(error) => Err(Reported::of(error)),
        });
        let all = self.bootstrap.all_gather(&record::encode(&shown));
        let table = table?;
        let mut agreeing = Agreeing {
            party: self,
            tables: self.tables(&all?)?,
            heads: self.heads(),
            barred: Barred::new(),
            tried: BTreeSet::new(),
            faults: Vec::new(),
        };
        for _ in 0..MOST_ROUNDS {
            if !agreeing.round(is_head)? {
                break;
            }
        }
        drop(targets);
        agreeing.warn();
        let cards = agreeing.used()?;
        let barred = agreeing.barred;
        Ok(AgreedFaces {
            table,
            cards,
            barred,
        })
    }

    /// The lowest rank of each node.
    fn heads(&self) -> Vec<Rank> {
        let nodes = topo::nodes(self.places).ranks;
        nodes.iter().map(|ranks| ranks[0]).collect()
    }

    /// The tables of all ranks.
    fn tables(&self, shown: &[Vec<u8>]) -> Result<Vec<FaceTable>> {
        let all: Vec<ShownFaces> = record::decode_all(shown)?;
        let table = |(rank, shown): (Rank, ShownFaces)| match shown.0 {
            Ok(table) if table.is_possible() => Ok(table),
            Ok(_) => Err(Error::internal("a rank has too many interfaces").with_peer(rank)),
            Err(problem) => Err(self.told(rank, &problem)),
        };
        (0..).map(Rank).zip(all).map(table).collect()
    }

    /// The error of another rank.
    fn told(&self, rank: Rank, problem: &Reported) -> Error {
        let place = format!(" on {}", self.places[rank.index()].host);
        problem.by(rank, &place).told_elsewhere(true)
    }
}

impl Agreeing<'_> {
    fn me(&self) -> Rank {
        self.party.bootstrap.rank()
    }

    fn host(&self, rank: Rank) -> &str {
        &self.party.places[rank.index()].host
    }

    /// Tries what is to be tried, and hears what others have; whether there may be more to try.
    ///
    /// # Errors
    /// As [`Party::agree`].
    fn round(&mut self, is_head: bool) -> Result<bool> {
        let lack = self.used().err();
        let mut mine = Tried {
            failures: Vec::new(),
            lack: lack.as_ref().map(Reported::of),
        };
        if is_head && lack.is_none() {
            mine.failures = self.try_ways();
        }
        let told = self.party.bootstrap.all_gather(&record::encode(&mine));
        if let Some(lack) = lack {
            return Err(lack);
        }
        let told: Vec<Tried> = record::decode_all(&told?)?;
        let mut is_news = false;
        for (rank, told) in (0..).map(Rank).zip(told) {
            if let Some(problem) = &told.lack {
                return Err(self.party.told(rank, problem));
            }
            for failure in told.failures {
                is_news |= self.barred.insert((failure.from, failure.to));
                self.faults.push(failure);
            }
        }
        Ok(is_news)
    }

    /// Tries the best ways to the nodes that this one tries; those that failed.
    fn try_ways(&mut self) -> Vec<Failure> {
        let me = self.me();
        let node = self.heads.iter().position(|&rank| rank == me);
        let partners = ways::partners(node.unwrap_or(0), self.heads.len(), ALL_PAIRS);
        let mut questions: Vec<(FaceAddress, FaceAddress)> = Vec::new();
        for partner in partners {
            let there = &self.tables[self.heads[partner].index()];
            let all = ways::ways(&self.tables[me.index()], there, &self.barred);
            // At a place without a port nobody can be tried.
            let open = |way: &&NodeWay| way.to.port != 0;
            let wanted = ways::best(&all).iter().filter(open);
            questions.extend(wanted.map(|way| (way.from, way.to)));
        }
        questions.retain(|(from, to)| self.tried.insert((from.ip, to.ip)));
        let pair =
            |&(from, to): &(FaceAddress, FaceAddress)| (from.own(), to.at(to.port, from.scope));
        let pairs: Vec<(SocketAddr, SocketAddr)> = questions.iter().map(pair).collect();
        let answers = trial::try_all(&pairs, TRIAL_LIMIT).into_iter();
        let failure = |((from, to), why): ((FaceAddress, FaceAddress), Option<String>)| {
            why.map(|why| Failure {
                from: from.ip,
                to: to.ip,
                why,
            })
        };
        let failed = questions.into_iter().zip(answers).filter_map(failure);
        failed.take(MOST_FAILURES).collect()
    }

    /// The interfaces that this rank uses.
    ///
    /// # Errors
    /// There is no way to another rank: which one, and what both have.
    fn used(&self) -> Result<Vec<FaceCard>> {
        let me = self.me();
        let mates = self.party.mates();
        let others = (0..).map(Rank).zip(&self.tables);
        let others: Vec<(Rank, &FaceTable)> =
            others.filter(|(it, _)| !mates.contains(it)).collect();
        let tables: Vec<&FaceTable> = others.iter().map(|(_, table)| *table).collect();
        let mine = &self.tables[me.index()];
        ways::used(mine, &tables, &self.barred).map_err(|at| {
            let (rank, other) = others[at];
            let (here, there) = (self.host(me), self.host(rank));
            let told = (ways::told(mine, other), ways::told(other, mine));
            let mut what = format!(
                "no network joins {here} and {there}: {here} has {}; {there} has {}",
                told.0, told.1
            );
            let both = |fault: &&Failure| {
                let has = |table: &FaceTable, ip| table.places().any(|(_, place)| place.ip == ip);
                let (from, to) = (fault.from, fault.to);
                has(mine, from) && has(other, to) || has(other, from) && has(mine, to)
            };
            for Failure { from, to, why } in self.faults.iter().filter(both).take(MOST_TOLD) {
                what += &format!("; {from} to {to}: {why}");
            }
            let remedy = "give both an address in one subnet (`ip address` on each), let firewalls \
                          pass TCP between the nodes, and do not exclude that interface by \
                          KOLO_SOCKET_IFNAME; `kolo doctor` tries all of it";
            Error::usage(what, remedy).with_peer(rank)
        })
    }

    /// Rank 0 says once what the job does without.
    fn warn(&self) {
        if self.me() != Rank(0) {
            return;
        }
        let dark = self.dark();
        if self.faults.is_empty() && dark.is_empty() {
            return;
        }
        let named = |ip: IpAddr| {
            let has = |rank: &&Rank| {
                self.tables[rank.index()]
                    .places()
                    .any(|(_, it)| it.ip == ip)
            };
            let rank = self.heads.iter().find(has);
            let of_card = |card: &&FaceCard| card.places.iter().any(|place| place.ip == ip);
            let card = rank.and_then(|rank| {
                let cards = &self.tables[rank.index()].cards;
                Some((self.host(*rank), &cards.iter().find(of_card)?.name))
            });
            card.map_or_else(
                || ip.to_string(),
                |(host, name)| format!("{name} of {host} ({ip})"),
            )
        };
        let failed = self.faults.iter().map(|fault| {
            let (from, to) = (named(fault.from), named(fault.to));
            format!("{from} does not reach {to}: {}", fault.why)
        });
        let count = dark.len() + self.faults.len();
        let told: Vec<String> = dark.into_iter().chain(failed).take(MOST_TOLD).collect();
        tracing::warn!(
            "{count} of the ways between nodes do not work, and the data go over others: {}",
            told.join("; ")
        );
    }

    /// Interfaces that would join nodes if they had a signal.
    fn dark(&self) -> Vec<String> {
        let all = || {
            self.heads
                .iter()
                .map(|rank| (*rank, &self.tables[rank.index()]))
        };
        let is_joined = |rank: Rank, card: &FaceCard| {
            let usual = |other: &&FaceCard| other.class < FaceClass::Made;
            let near = |other: &FaceCard| {
                let of =
                    |a: &FaceAddress| other.places.iter().any(|b| a.is_near(b.ip) && a.ip != b.ip);
                card.places
                    .iter()
                    .filter(|place| !place.is_of_link())
                    .any(of)
            };
            let mut others = all().filter(|(other, _)| *other != rank);
            others.any(|(_, table)| table.cards.iter().filter(usual).any(near))
        };
        let mut found = Vec::new();
        for (rank, table) in all() {
            let dark = table.cards.iter().filter(|card| {
                let lit = FaceClass::of(&card.name, &card.places, Signs::default(), (false, false));
                card.class == FaceClass::Dark && lit < FaceClass::Made
            });
            let joined = dark.filter(|card| is_joined(rank, card));
            found.extend(joined.map(|card| {
                let (name, host) = (&card.name, self.host(rank));
                format!("{name} of {host} has no signal")
            }));
            if found.len() > MOST_TOLD {
                break;
            }
        }
        found
    }
}
