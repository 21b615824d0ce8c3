//! The part of one node in the rings and trees: its ranks in ring order and in chain order, channel
//! by channel.
//!
//! Ranks are named by their position on the node (0, 1, ...), so that the same text serves every
//! node of a kind. A ring of one node is closed; on several nodes it is a chain that begins and
//! ends at the network. A tree is a chain inside the node whose head talks to the parent node.

use crate::base::{Error, Rank, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Most ranks of one node.
pub const MAX_LOCAL: usize = 1024;
/// Most channels of one node before they are doubled.
pub const MAX_CHANNELS: usize = 32;
/// Most network ports of one node.
pub const MAX_NETS: usize = 64;

/// How data leaves a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Exit {
    /// The port, as an index into [`NodeGraph::nets`].
    pub net: u32,
    /// The member whose proxy sends: another one than the sender where its GPU is nearer to the
    /// NIC (PXN).
    pub proxy: u32,
}

/// One ring inside a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingPart {
    /// All members in ring order; on several nodes the first receives from the network.
    pub order: Vec<u32>,
    /// The port by which data comes in; none on one node alone.
    pub entry: Option<u32>,
    /// How it goes out.
    pub exit: Option<Exit>,
}

/// One tree inside a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreePart {
    /// All members from the head down. The head talks to the parent node and to the first child
    /// node.
    pub chain: Vec<u32>,
    /// The member that talks to the second child node: the one after the head, which spreads the
    /// port's traffic, or the head itself where only that is near the port.
    pub second: u32,
    /// How the head sends; none on one node alone. It receives by the same port.
    pub head_exit: Option<Exit>,
    /// How `second` sends.
    pub second_exit: Option<Exit>,
}

/// Ports by which members are reached where no ring or tree leads to them; empty on one node alone.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reach {
    /// The bus address of each port's card, by which networks know it; empty where it has none.
    pub buses: Vec<String>,
    /// For every member its nearest ports, and those that are nobody's nearest and fall to it, each
    /// with whose proxy sends.
    pub nearest: Vec<Vec<Exit>>,
}

/// The part of one node in the rings and trees.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NodeGraph {
    /// The ranks of the node, in ascending order: member `i` is `ranks[i]`.
    pub ranks: Vec<Rank>,
    /// Names of the network ports that are used.
    pub nets: Vec<String>,
    /// Rings, one a channel.
    pub rings: Vec<RingPart>,
    /// Bandwidth of each ring, in megabytes per second and direction.
    pub ring_megabytes_per_s: u32,
    /// Trees; fewer than rings where each takes more of the links.
    pub trees: Vec<TreePart>,
    /// Bandwidth that a rank in the middle of each tree sends with, in megabytes per second, half
    /// of it up and half down: a tree and a ring of one rate reduce equally fast.
    pub tree_megabytes_per_s: u32,
    /// How members reach the ports beside that; no part of a graph file.
    pub reach: Reach,
}

impl NodeGraph {
    /// For every member how many before it have the same ports beside rings and trees.
    pub fn turns(&self) -> Vec<u32> {
        let mut seen = HashMap::<Vec<u32>, u32>::new();
        let turn = |member: usize| {
            let exits = self.reach.nearest.get(member).into_iter().flatten();
            let count = seen
                .entry(exits.map(|exit| exit.net).collect())
                .or_default();
            *count += 1;
            *count - 1
        };
        (0..self.ranks.len()).map(turn).collect()
    }

    /// Checks that every ring and tree visits every member once and that ports exist. Errors name
    /// `ring 3` or `tree 0` and what is wrong with it.
    pub fn check(&self) -> Result<()> {
        let bad = |what: String| Err(Error::argument(what, REMEDY));
        let members = self.ranks.len();
        if members == 0 || members > MAX_LOCAL {
            return bad(format!("it has {members} ranks, not 1 to {MAX_LOCAL}"));
        }
        if self.ranks.windows(2).any(|pair| pair[0] >= pair[1]) {
            return bad("its ranks do not ascend".to_owned());
        }
        if self.nets.len() > MAX_NETS {
            return bad(format!("it has more than {MAX_NETS} network ports"));
        }
        for (name, count, rate) in [
            ("ring", self.rings.len(), self.ring_megabytes_per_s),
            ("tree", self.trees.len(), self.tree_megabytes_per_s),
        ] {
            if count == 0 || count > MAX_CHANNELS {
                return bad(format!("it has {count} {name}s, not 1 to {MAX_CHANNELS}"));
            }
            if rate == 0 {
                return bad(format!("its {name}s have no bandwidth"));
            }
        }
        for (index, ring) in self.rings.iter().enumerate() {
            let ports = [ring.entry, ring.exit.map(|exit| exit.net)];
            self.part(&ring.order, ports, &[ring.exit])
                .map_err(|what| Error::argument(format!("ring {index}: {what}"), REMEDY))?;
        }
        for (index, tree) in self.trees.iter().enumerate() {
            let exits = [tree.head_exit, tree.second_exit];
            let ports = exits.map(|exit| exit.map(|exit| exit.net));
            let part = self.part(&tree.chain, ports, &exits);
            let near_top = tree
                .chain
                .iter()
                .take(2)
                .any(|&member| member == tree.second);
            part.and_then(|()| match near_top {
                true => Ok(()),
                false => Err(format!("rank {} is not one of its first two", tree.second)),
            })
            .map_err(|what| Error::argument(format!("tree {index}: {what}"), REMEDY))?;
        }
        self.check_reach().or_else(bad)
    }

    fn check_reach(&self) -> std::result::Result<(), String> {
        let Reach { buses, nearest } = &self.reach;
        let all = |count: usize, of: usize| count == 0 || count == of;
        if !all(buses.len(), self.nets.len()) || !all(nearest.len(), self.ranks.len()) {
            return Err("its ports are not those of all its ranks".to_owned());
        }
        let known = |exit: &&Exit| {
            (exit.net as usize) < self.nets.len() && (exit.proxy as usize) < self.ranks.len()
        };
        match nearest.iter().flatten().all(|exit| known(&exit)) {
            true => Ok(()),
            false => Err("a rank is near a port, or a proxy, that does not exist".to_owned()),
        }
    }

    fn part(
        &self,
        order: &[u32],
        ports: [Option<u32>; 2],
        exits: &[Option<Exit>],
    ) -> std::result::Result<(), String> {
        visits_all(order, self.ranks.len())?;
        if ports[0].is_some() != ports[1].is_some() {
            return Err("it has a way in and none out, or the other way round".to_owned());
        }
        if let Some(net) = ports
            .iter()
            .flatten()
            .find(|&&net| net as usize >= self.nets.len())
        {
            return Err(format!("there is no network port {net}"));
        }
        let proxies = exits.iter().flatten().map(|exit| exit.proxy);
        match proxies
            .into_iter()
            .find(|&proxy| proxy as usize >= self.ranks.len())
        {
            Some(proxy) => Err(format!("its proxy {proxy} is no rank of the node")),
            None => Ok(()),
        }
    }
}

const REMEDY: &str = "correct the graph file, or leave KOLO_GRAPH_FILE out and let kolo search";

/// Whether an order visits the members `0..members` once each; if not, what is wrong.
pub(super) fn visits_all(order: &[u32], members: usize) -> std::result::Result<(), String> {
    let mut seen = vec![false; members];
    for &member in order {
        match seen.get_mut(member as usize) {
            None => return Err(format!("rank {member} is not on the node")),
            Some(seen) if *seen => {
                return Err(format!(
                    "rank {member} stands in it twice, which makes a cycle"
                ));
            }
            Some(seen) => *seen = true,
        }
    }
    match seen.iter().position(|seen| !seen) {
        Some(missing) => Err(format!("rank {missing} is missing")),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::topo) fn sample() -> NodeGraph {
        let exit = Some(Exit { net: 0, proxy: 1 });
        NodeGraph {
            ranks: vec![Rank(4), Rank(6)],
            nets: vec!["mlx5_0".to_owned()],
            rings: vec![RingPart {
                order: vec![1, 0],
                entry: Some(0),
                exit,
            }],
            ring_megabytes_per_s: 24_000,
            trees: vec![TreePart {
                chain: vec![1, 0],
                second: 0,
                head_exit: exit,
                second_exit: exit,
            }],
            tree_megabytes_per_s: 12_000,
            reach: Reach {
                buses: vec!["0000:3b:00.0".to_owned()],
                nearest: vec![vec![Exit { net: 0, proxy: 1 }]; 2],
            },
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        sample().check().unwrap();
        let error = |change: fn(&mut NodeGraph)| {
            let mut graph = sample();
            change(&mut graph);
            graph.check().unwrap_err().into_what()
        };
        assert_eq!(
            error(|g| g.rings[0].order = vec![0, 2]),
            "ring 0: rank 2 is not on the node"
        );
        assert_eq!(
            error(|g| g.rings[0].order = vec![0]),
            "ring 0: rank 1 is missing"
        );
        let twice = "tree 0: rank 0 stands in it twice, which makes a cycle";
        assert_eq!(error(|g| g.trees[0].chain = vec![0, 0]), twice);
        assert_eq!(
            error(|g| g.rings[0].entry = Some(1)),
            "ring 0: there is no network port 1"
        );
        assert!(error(|g| g.rings[0].entry = None).contains("none out"));
        assert!(
            error(|g| g.trees[0].head_exit = Some(Exit { net: 0, proxy: 9 })).contains("proxy 9")
        );
        let second = error(|g| g.trees[0].second = 7);
        assert_eq!(second, "tree 0: rank 7 is not one of its first two");
        let near = error(|g| g.reach.nearest[1][0].net = 5);
        assert!(near.contains("a rank is near a port"), "{near}");
        let few = error(|g| drop(g.reach.nearest.pop()));
        assert!(few.contains("not those of all its ranks"), "{few}");
        assert!(error(|g| g.ranks.reverse()).contains("ascend"));
        assert!(error(|g| g.rings.clear()).contains("0 rings"));
        assert!(error(|g| g.tree_megabytes_per_s = 0).contains("no bandwidth"));
        assert!(error(|g| g.ranks.clear()).contains("0 ranks"));
    }
}
