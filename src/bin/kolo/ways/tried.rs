//! Answers that only trying gives, and ways between nodes, which follow from two tables: each rank
//! and each node has its part of the work, so none has all of it.

use super::said::RankWays;
use kolo::base::Rank;
use kolo::base::interfaces::ways::{self, Barred, FaceTable};
use kolo::topo::NodeMap;
use kolo::transport::cma::Peer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Up to here every node looks at every other one, as communicators do.
const ALL_PAIRS: usize = 64;

/// Ways from one node to some others.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct JoinedBy {
    /// Interfaces, as `eth0` or `eth0 to ib0`; none where no network joins them.
    pub faces: Vec<String>,
    /// They lie in different subnets, so a router must be between them.
    pub is_routed: bool,
    /// Where nothing joins them, what each has.
    pub lack: String,
}

/// Findings of one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RankTried {
    /// Why the memory of a mate cannot be read, and what to do.
    pub refused: Option<(String, String)>,
    /// Of the lowest rank of a node: other nodes, by their numbers.
    pub joined: Vec<(JoinedBy, Vec<usize>)>,
}

/// Tries what concerns rank `me`, after all have told.
pub fn of(me: Rank, nodes: &NodeMap, all: &[RankWays]) -> RankTried {
    let node = nodes.node_of[me.index()] as usize;
    let mates = &nodes.ranks[node];
    let mut tried = RankTried::default();
    if all[me.index()].private_from.is_some() {
        tried.refused = probed(me, mates, all);
    }
    if mates[0] == me {
        tried.joined = joined(node, nodes, all);
    }
    tried
}

/// Really reads a word of each mate.
fn probed(me: Rank, mates: &[Rank], all: &[RankWays]) -> Option<(String, String)> {
    mates.iter().filter(|&&mate| mate != me).find_map(|&mate| {
        let said = &all[mate.index()];
        let (place, mark) = (said.place.as_ref()?, said.mark?);
        let error = Peer::new(mate, &place.host, place.pid, mark)
            .probe()
            .err()?;
        let parts = error.into_parts();
        Some((parts.what, parts.remedy.into_owned()))
    })
}

/// Ways to other nodes, by the tables of their lowest ranks.
fn joined(node: usize, nodes: &NodeMap, all: &[RankWays]) -> Vec<(JoinedBy, Vec<usize>)> {
    let table = |node: usize| &all[nodes.ranks[node][0].index()].table;
    let mut found: BTreeMap<JoinedBy, Vec<usize>> = BTreeMap::new();
    for other in ways::partners(node, nodes.ranks.len(), ALL_PAIRS) {
        let by = between(table(node), table(other));
        found.entry(by).or_default().push(other);
    }
    found.into_iter().collect()
}

/// Joins two nodes by their tables, as communicators do before they have tried.
pub fn between(from: &FaceTable, to: &FaceTable) -> JoinedBy {
    let all = ways::ways(from, to, &Barred::new());
    let best = ways::best(&all);
    let Some(first) = best.first() else {
        return JoinedBy {
            lack: format!("{} and {}", ways::told(from, to), ways::told(to, from)),
            ..JoinedBy::default()
        };
    };
    let mut faces = Vec::new();
    for way in best {
        let (exit, entry) = (&from.cards[way.exit].name, &to.cards[way.entry].name);
        let name = if exit == entry {
            exit.clone()
        } else {
            format!("{exit} to {entry}")
        };
        if !faces.contains(&name) {
            faces.push(name);
        }
    }
    JoinedBy {
        faces,
        is_routed: first.tier.is_far,
        lack: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up;
    use super::*;

    #[test]
    fn tables_say_by_which_interfaces_nodes_are_joined() {
        let of = |one: &[(&str, &str)], other: &[(&str, &str)]| {
            between(&made_up::table(1, one), &made_up::table(2, other))
        };
        let two = of(
            &[("eth0", "10.0.0.1/24"), ("eth1", "10.1.0.1/24")],
            &[("eth0", "10.0.0.2/24"), ("ib0", "10.1.0.2/24")],
        );
        assert_eq!(two.faces, ["eth0", "eth1 to ib0"]);
        assert!(!two.is_routed);
        let routed = of(&[("eth0", "10.0.0.1/24")], &[("eth0", "10.9.0.2/24")]);
        assert!(routed.is_routed && routed.faces == ["eth0"]);
        let none = of(
            &[("docker0", "172.17.0.1/16")],
            &[("docker0", "172.17.0.1/16")],
        );
        assert!(
            none.faces.is_empty() && none.lack.contains("which both have"),
            "{none:?}"
        );
    }

    #[test]
    fn the_lowest_rank_of_a_node_joins_it_and_no_other() {
        let job = made_up::job(3, 2);
        let nodes = job.nodes().expect("all have told");
        let of = |rank| of(Rank(rank), &nodes, &job.ranks);
        let of_lowest = of(2);
        assert_eq!(of_lowest.joined.len(), 1);
        assert_eq!(of_lowest.joined[0].1, [0, 2]);
        assert!(of(3).joined.is_empty());
    }

    #[test]
    fn a_mate_without_its_mark_is_refused() {
        let mut job = made_up::job(1, 2);
        job.ranks[0].private_from = Some(0);
        // Nobody has this process number.
        let place = job.ranks[1].place.as_mut().expect("a place");
        place.pid = u32::MAX >> 2;
        let nodes = job.nodes().expect("all have told");
        let refused = of(Rank(0), &nodes, &job.ranks)
            .refused
            .expect("nobody is there");
        assert!(refused.0.contains("rank 1"), "{refused:?}");
        job.ranks[0].private_from = None;
        assert_eq!(
            of(Rank(0), &nodes, &job.ranks).refused,
            None,
            "nobody wants it"
        );
    }
}
