//! Which ranks share a machine: pure functions over the gathered places.
//!
//! Ranks are on one node when host hash and boot id are both equal: two machines may have one name
//! (containers do), and one boot id may be seen from several containers with names of their own.
//! The relation is an equivalence, so every rank numbers the nodes alike. It is a good guess only:
//! the hand-over of shared memory confirms it later.

use super::RankPlace;
use crate::base::{Error, Rank, Result};
use std::collections::HashMap;

/// The nodes of a communicator, numbered in the order of their lowest ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMap {
    /// For every rank the number of its node.
    pub node_of: Vec<u32>,
    /// For every node its ranks in ascending order, never empty.
    pub ranks: Vec<Vec<Rank>>,
}

impl NodeMap {
    /// Position of a rank among the ranks of its node: the local rank.
    pub fn local_rank(&self, rank: Rank) -> u32 {
        let mates = &self.ranks[self.node_of[rank.index()] as usize];
        mates.binary_search(&rank).expect("a rank is on its node") as u32
    }
}

/// Checks what an all-gather brought, one place a rank. Errors: a place that no rank has, or that
/// is another rank's; the error names the rank it came from as peer.
pub fn gathered(places: Vec<RankPlace>) -> Result<Vec<RankPlace>> {
    for (from, place) in (0..).map(Rank).zip(&places) {
        if place.rank != from {
            let what = format!("rank {from} says that it is rank {}", place.rank);
            let remedy = "start every rank once, with a number of its own";
            return Err(Error::usage(what, remedy).with_peer(from));
        }
        place.check().map_err(|error| error.with_peer(from))?;
    }
    Ok(places)
}

/// Whether two ranks seem to share a machine.
fn same_node(a: &RankPlace, b: &RankPlace) -> bool {
    a.host_hash == b.host_hash && a.boot_id == b.boot_id
}

/// The ranks on the node of `me`, itself included, in ascending order. `all` is indexed by rank.
pub fn local_ranks(me: Rank, all: &[RankPlace]) -> Vec<Rank> {
    local_places(me, all)
        .iter()
        .map(|place| place.rank)
        .collect()
}

/// The places of [`local_ranks`].
pub fn local_places(me: Rank, all: &[RankPlace]) -> Vec<&RankPlace> {
    all.iter()
        .filter(|place| same_node(place, &all[me.index()]))
        .collect()
}

/// Numbers the nodes. `all` is indexed by rank.
pub fn nodes(all: &[RankPlace]) -> NodeMap {
    let mut numbers: HashMap<(u64, &str), u32> = HashMap::new();
    let mut nodes = NodeMap {
        node_of: Vec::with_capacity(all.len()),
        ranks: Vec::new(),
    };
    for place in all {
        let next = nodes.ranks.len() as u32;
        let number = *numbers
            .entry((place.host_hash, &place.boot_id))
            .or_insert(next);
        if number == next {
            nodes.ranks.push(Vec::new());
        }
        nodes.ranks[number as usize].push(place.rank);
        nodes.node_of.push(number);
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::super::CpuSet;
    use super::*;
    use crate::base::hash;

    fn at(rank: u32, host: &str, boot_id: &str) -> RankPlace {
        RankPlace {
            rank: Rank(rank),
            host: host.to_owned(),
            host_hash: hash::host(host),
            boot_id: boot_id.to_owned(),
            pid: 100 + rank,
            process: 0,
            cpus: CpuSet::single(rank),
            cores: CpuSet::single(rank),
            quota: None,
            numa: CpuSet::single(0),
            sharing: Default::default(),
        }
    }

    fn sample() -> Vec<RankPlace> {
        vec![
            at(0, "b", "1"),
            at(1, "a", "2"),
            at(2, "b", "1"),
            at(3, "b", "3"),
            at(4, "a", "2"),
            at(5, "a", ""),
            at(6, "c", "1"),
        ]
    }

    #[test]
    fn host_and_boot_must_both_agree() {
        let all = sample();
        let local = |me| {
            local_ranks(Rank(me), &all)
                .iter()
                .map(|rank| rank.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(local(0), [0, 2]);
        assert_eq!(local(2), [0, 2]);
        assert_eq!(local(3), [3], "same name, other boot");
        assert_eq!(local(4), [1, 4]);
        assert_eq!(local(5), [5], "an unknown boot id is not a known one");
        assert_eq!(local(6), [6], "same boot, other name");
    }

    #[test]
    fn nodes_are_numbered_by_their_lowest_rank() {
        let nodes = nodes(&sample());
        assert_eq!(nodes.node_of, [0, 1, 0, 2, 1, 3, 4]);
        let ranks: Vec<Vec<u32>> = nodes
            .ranks
            .iter()
            .map(|node| node.iter().map(|rank| rank.0).collect())
            .collect();
        assert_eq!(ranks, [vec![0, 2], vec![1, 4], vec![3], vec![5], vec![6]]);
        let local: Vec<u32> = (0..7).map(|rank| nodes.local_rank(Rank(rank))).collect();
        assert_eq!(local, [0, 0, 1, 0, 1, 0, 0]);
    }

    #[test]
    fn gathered_entries_must_be_in_order() {
        let all = sample();
        assert_eq!(gathered(all.clone()).unwrap(), all);
        let mut swapped = all.clone();
        swapped.swap(1, 2);
        let error = gathered(swapped).unwrap_err();
        assert_eq!(
            (error.peer, error.what.as_str()),
            (Some(Rank(1)), "rank 1 says that it is rank 2")
        );
        let mut nowhere = all;
        nowhere[4].cpus = CpuSet::new();
        assert_eq!(gathered(nowhere).unwrap_err().peer, Some(Rank(4)));
    }
}
