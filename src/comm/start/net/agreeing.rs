//! Over which interfaces the nodes of a communicator reach each other: agreed on at its start.
//!
//! Problem: a node does not know alone which of its interfaces lead to the others, and finds out
//! about a wrong one half a minute after the first call that takes it. Idea: the ranks tell each
//! other the tables of their nodes ([`ways`]), and the lowest rank of each node tries the ways to
//! others. All tell what failed, and compute from all of it what each uses, or who lacks what.
//! Ranks of one node may have been given different interfaces: then the lowest rank of each kind
//! tries. Where the ways of a pair have all failed, those of its next tier are tried in another
//! round.
//!
//! Many nodes try some others each, so that the cost of a start stays small; a way that nobody has
//! tried and that does not work is left when the first connection finds out (`connect` of sockets).

use super::agreed::AgreedFaces;
use crate::base::interfaces;
use crate::base::interfaces::class::FaceClass;
use crate::base::interfaces::face::{FaceAddress, Signs};
use crate::base::interfaces::ways::{self, Barred, FaceCard, FaceTable, NodeWay};
use crate::base::record::{self, Record};
use crate::base::{Error, Rank, Result};
use crate::bootstrap::report::Reported;
use crate::comm::start::party::Party;
use crate::topo;
use crate::transport::net::socket::SocketOptions;
use crate::transport::net::socket::trial::{self, Targets};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
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
    tables: Arc<Vec<FaceTable>>,
    nodes: Vec<Vec<Rank>>,
    /// Those that try: see [`heads`].
    heads: Vec<Rank>,
    barred: Barred,
    /// Trials of this rank.
    tried: BTreeSet<(IpAddr, IpAddr)>,
    /// Failure in words.
    faults: Vec<Failure>,
}

/// Agrees with all ranks on interfaces. Every rank calls it, if there are several nodes.
///
/// # Errors
/// The own one, or that of the lowest rank that has one: it can list no interfaces, or has no
/// way to another rank.
pub(super) fn agree(party: &Party) -> Result<AgreedFaces> {
    let me = party.bootstrap.rank();
    let options = SocketOptions::from(party.settings);
    let mut table = interfaces::table(options.family, options.ifname.as_deref());
    // Only ranks that are tried need ports.
    let is_lowest = party.mates().first() == Some(&me);
    let mut targets = match &mut table {
        Ok(table) if is_lowest => Some(Targets::open(table)),
        _ => None,
    };
    let mut tables = shown(party, &table);
    let mut table = table?;
    let nodes = topo::nodes(party.places).ranks;
    let heads = heads(
        &nodes,
        tables.as_ref().map_or(&[], |tables| tables.as_slice()),
    );
    let is_head = heads.contains(&me);
    if heads.len() > nodes.len() && tables.is_ok() {
        if is_head && !is_lowest {
            targets = Some(Targets::open(&mut table));
        }
        let opened = Ok(table);
        tables = shown(party, &opened);
        table = opened?;
    }
    let mut agreeing = Agreeing {
        party,
        tables: tables?,
        nodes,
        heads,
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

/// Tells the others its table, or why it has none, and hears theirs.
fn shown(party: &Party, mine: &Result<FaceTable>) -> Result<Arc<Vec<FaceTable>>> {
    let shown = ShownFaces(match mine {
        Ok(table) => Ok(table.clone()),
        Err(error) => Err(Reported::of(error)),
    });
    let shown = party.bootstrap.all_gather(&record::encode(&shown))?;
    shown.once(|shown| tables(party, shown))
}

/// The tables of all ranks.
fn tables(party: &Party, shown: &[Vec<u8>]) -> Result<Vec<FaceTable>> {
    let all: Vec<ShownFaces> = record::decode_all(shown)?;
    let table = |(rank, shown): (Rank, ShownFaces)| match shown.0 {
        Ok(table) if table.is_possible() => Ok(table),
        Ok(_) => Err(Error::internal("a rank has too many interfaces").with_peer(rank)),
        Err(problem) => Err(told(party, rank, &problem)),
    };
    (0..).map(Rank).zip(all).map(table).collect()
}

/// The error of another rank.
fn told(party: &Party, rank: Rank, problem: &Reported) -> Error {
    let place = format!(" on {}", party.places[rank.index()].host);
    problem.by(rank, &place).told_elsewhere(true)
}

/// Those that try ways for their node: the lowest rank of each kind of table that its ranks have,
/// mostly one. In the order of the nodes.
fn heads(nodes: &[Vec<Rank>], tables: &[FaceTable]) -> Vec<Rank> {
    let is_new = |ranks: &[Rank], at: usize| {
        let table = |rank: Rank| tables.get(rank.index());
        let like = |before: &Rank| match (table(*before), table(ranks[at])) {
            (Some(one), Some(other)) => one.is_alike(other),
            _ => true,
        };
        !ranks[..at].iter().any(like)
    };
    let of_node = |ranks: &Vec<Rank>| -> Vec<Rank> {
        let places = (0..ranks.len()).filter(|&at| is_new(ranks, at));
        places.map(|at| ranks[at]).collect()
    };
    nodes.iter().flat_map(of_node).collect()
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
    /// Those of [`agree`].
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
        let told = told?.once(record::decode_all::<Tried>)?;
        let mut is_news = false;
        for (rank, told) in (0..).map(Rank).zip(told.iter()) {
            if let Some(problem) = &told.lack {
                return Err(self::told(self.party, rank, problem));
            }
            for failure in told.failures.iter().cloned() {
                is_news |= self.barred.insert((failure.from, failure.to));
                self.faults.push(failure);
            }
        }
        Ok(is_news)
    }

    /// Tries the best ways to the nodes that this one tries; those that failed.
    fn try_ways(&mut self) -> Vec<Failure> {
        let me = self.me();
        let own = self.heads.iter().position(|&rank| rank == me);
        let partners = ways::partners(own.unwrap_or(0), self.heads.len(), ALL_PAIRS);
        let mates = self.party.mates();
        let is_afar = |partner: &usize| !mates.contains(&self.heads[*partner]);
        let mut questions: Vec<(FaceAddress, FaceAddress)> = Vec::new();
        for partner in partners.into_iter().filter(is_afar) {
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
        let others = (0..).map(Rank).zip(self.tables.iter());
        let others: Vec<(Rank, &FaceTable)> = others
            .filter(|(it, _)| mates.binary_search(it).is_err())
            .collect();
        let tables: Vec<&FaceTable> = others.iter().map(|(_, table)| *table).collect();
        let mine = &self.tables[me.index()];
        ways::used(mine, &tables, &self.barred).map_err(|at| {
            let (rank, other) = others[at];
            let (here, there) = (self.place(me), self.place(rank));
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
            let differ: Vec<String> = [me, rank]
                .map(|it| self.differ(it))
                .into_iter()
                .flatten()
                .collect();
            if differ.is_empty() {
                return Error::usage(what, remedy).with_peer(rank);
            }
            what += &format!("; {}", differ.join("; "));
            let remedy = "let all ranks of a node use the same interfaces: KOLO_SOCKET_IFNAME (or \
                          NCCL_SOCKET_IFNAME, or `socket_ifname` of a file) must not differ there";
            Error::usage(what, remedy).with_peer(rank)
        })
    }

    fn mates_of(&self, rank: Rank) -> &[Rank] {
        let node = self.nodes.iter().find(|ranks| ranks.contains(&rank));
        node.map_or(&[], Vec::as_slice)
    }

    /// The node of a rank in words, and the rank where others of its node have other interfaces.
    fn place(&self, rank: Rank) -> String {
        match self.differ(rank) {
            None => self.host(rank).to_string(),
            Some(_) => format!("rank {rank} on {}", self.host(rank)),
        }
    }

    /// That another rank of this one's node has other interfaces, if one has.
    fn differ(&self, rank: Rank) -> Option<String> {
        let table = |rank: Rank| &self.tables[rank.index()];
        let mates = self.mates_of(rank).iter();
        let other = mates
            .copied()
            .find(|&mate| !table(mate).is_alike(table(rank)))?;
        Some(format!(
            "rank {other}, which is on {} too, has {}",
            self.host(rank),
            ways::told(table(other), table(rank))
        ))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn table(name: &str, last: u8, port: u16) -> FaceTable {
        let place = FaceAddress {
            ip: Ipv4Addr::new(10, 77, 0, last).into(),
            prefix: 24,
            scope: 0,
            port,
        };
        let card = FaceCard {
            name: name.into(),
            class: FaceClass::Usual,
            places: vec![place],
        };
        FaceTable {
            cards: vec![card],
            ..FaceTable::default()
        }
    }

    #[test]
    fn one_rank_of_each_kind_of_interfaces_tries() {
        let nodes = [vec![0, 2, 4], vec![1, 3, 5, 6]];
        let nodes = nodes.map(|ranks| ranks.into_iter().map(Rank).collect::<Vec<Rank>>());
        // A port is no difference; an address or a name is one.
        let mut tables: Vec<FaceTable> = (0..7)
            .map(|rank| {
                table(
                    "eth0",
                    u8::from(nodes[1].contains(&Rank(rank))),
                    rank as u16,
                )
            })
            .collect();
        let found = |tables: &[FaceTable]| -> Vec<u32> {
            heads(&nodes, tables).iter().map(|rank| rank.0).collect()
        };
        assert_eq!(found(&tables), [0, 1]);
        tables[4] = table("eth0", 9, 0);
        tables[3] = table("eth1", 1, 0);
        tables[5] = table("eth1", 1, 0);
        assert_eq!(found(&tables), [0, 4, 1, 3]);
        assert_eq!(found(&[]), [0, 1]);
    }
}
