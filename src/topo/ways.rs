//! By which ports two ranks on different nodes talk.
//!
//! **Problem.** A search gives every ring and tree its ports, and so spreads them over the links of
//! the machine. Other messages follow neither, and must be spread too; and both ends should be on
//! one rail, where nodes have the same ports.
//!
//! **Idea.** Two neighbours in the ring of the channel use the ports of the ring; two neighbours in
//! its tree use those of the tree. All others use the ports nearest to them, and those that
//! fall to them as nobody's nearest ([`super::nic`]), in turn ([`crate::base::rails`]), so equal
//! nodes meet on equal ports. All of it is a pure function of what the nodes told each other, the
//! same on every rank.

use super::channels::{Channels, RankExit, TreeNode};
use crate::base::{Rank, rails};

/// The ports of a connection, each as an index into the ports of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// How the sender sends.
    pub exit: RankExit,
    /// Where the receiver receives.
    pub entry: u32,
}

/// The ports between two ranks on a channel; `None` where they share a node, or nothing is
/// known of their ports.
pub fn way(channels: &Channels, from: Rank, to: Rank, channel: usize) -> Option<Way> {
    let (here, there) = (channels.seats[from.index()], channels.seats[to.index()]);
    if here.0 == there.0 {
        return None;
    }
    let nodes = (here.0 as usize, there.0 as usize);
    ring_way(channels, from, to, channel, nodes)
        .or_else(|| tree_way(channels, from, to, channel, nodes))
        .or_else(|| {
            let turn = channels.turns[from.index()] as usize;
            // One of the ports of a rank.
            let near = |rank: Rank| {
                let exits = &channels.nearest[rank.index()];
                let port = rails::port(turn, channel, exits.len());
                Some(exits[port?])
            };
            Some(Way {
                exit: near(from)?,
                entry: near(to)?.net,
            })
        })
}

fn ring_way(
    channels: &Channels,
    from: Rank,
    to: Rank,
    channel: usize,
    (a, b): (usize, usize),
) -> Option<Way> {
    let ring = &channels.rings[channel % channels.rings.len()];
    if ring.neighbours(from).1 != to {
        return None;
    }
    Some(Way {
        exit: ring.ports[a].exit?,
        entry: ring.ports[b].entry?,
    })
}

fn tree_way(
    channels: &Channels,
    from: Rank,
    to: Rank,
    channel: usize,
    (a, b): (usize, usize),
) -> Option<Way> {
    let tree = &channels.trees[channel % channels.trees.len()];
    Some(Way {
        exit: exit_of(&tree.nodes[a], from)?,
        // A rank receives by the port by which it sends.
        entry: exit_of(&tree.nodes[b], to)?.net,
    })
}

/// The rank whose proxy sends what `from` sends in the ring or tree of a channel, if it is
/// another one.
pub fn proxy(channels: &Channels, from: Rank, channel: usize) -> Option<Rank> {
    let node = channels.seats[from.index()].0 as usize;
    let ring = &channels.rings[channel % channels.rings.len()];
    let next = ring.neighbours(from).1;
    let leaves = channels.seats[next.index()].0 as usize != node;
    let of_ring = ring.ports[node].exit.filter(|_| leaves);
    let tree = &channels.trees[channel % channels.trees.len()];
    let exit = of_ring.or_else(|| exit_of(&tree.nodes[node], from));
    exit.map(|exit| exit.proxy).filter(|&proxy| proxy != from)
}

/// The ports of its node that a rank may use on this channel.
pub fn ports_of(channels: &Channels, rank: Rank, channel: usize) -> Vec<u32> {
    let node = channels.seats[rank.index()].0 as usize;
    let ring = &channels.rings[channel % channels.rings.len()];
    let (before, next) = ring.neighbours(rank);
    let elsewhere = |other: Rank| channels.seats[other.index()].0 as usize != node;
    let ports = ring.ports[node];
    let tree = &channels.trees[channel % channels.trees.len()];
    let led = [
        ports.entry.filter(|_| elsewhere(before)),
        ports.exit.filter(|_| elsewhere(next)).map(|exit| exit.net),
        exit_of(&tree.nodes[node], rank).map(|exit| exit.net),
    ];
    let near = channels.nearest[rank.index()].iter().map(|exit| exit.net);
    led.into_iter().flatten().chain(near).collect()
}

/// How a rank of a node sends in a tree, if it talks to other nodes there.
fn exit_of(node: &TreeNode, rank: Rank) -> Option<RankExit> {
    match rank {
        _ if rank == node.head() => node.head_exit,
        _ if rank == node.second => node.second_exit,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topo::channels::{ChannelLimits, merge};
    use crate::topo::node_graph::{Exit, NodeGraph, Reach, RingPart, TreePart};

    /// A node of three ranks and three ports: the ring comes in by port 0 and goes out by port 1,
    /// the tree uses port 2, and all ranks are near ports 1 and 2.
    fn node(first: u32) -> NodeGraph {
        let exit = |net, proxy| Some(Exit { net, proxy });
        let near = |member| [1, 2].map(|net| Exit { net, proxy: member });
        NodeGraph {
            ranks: (first..first + 3).map(Rank).collect(),
            nets: ["eth0", "eth1", "eth2"].map(str::to_owned).to_vec(),
            rings: vec![RingPart {
                order: vec![2, 0, 1],
                entry: Some(0),
                exit: exit(1, 0),
            }],
            ring_megabytes_per_s: 1000,
            trees: vec![TreePart {
                chain: vec![0, 1, 2],
                second: 1,
                head_exit: exit(2, 0),
                second_exit: exit(2, 1),
            }],
            tree_megabytes_per_s: 1000,
            reach: Reach {
                buses: Vec::new(),
                nearest: (0..3).map(|member| near(member).to_vec()).collect(),
            },
        }
    }

    fn channels() -> Channels {
        let nodes = [node(0), node(3)];
        merge(&nodes, ChannelLimits::default()).unwrap()
    }

    fn ports(from: u32, to: u32, channel: usize) -> (u32, u32) {
        let way = way(&channels(), Rank(from), Rank(to), channel).unwrap();
        (way.exit.net, way.entry)
    }

    #[test]
    fn rings_and_trees_have_the_ports_that_were_found_for_them() {
        // Rank 1 is the last of its node, rank 5 the first of the other one.
        assert_eq!(channels().rings[0].neighbours(Rank(1)).1, Rank(5));
        assert_eq!(ports(1, 5, 0), (1, 0));
        assert_eq!(ports(4, 2, 1), (1, 0));
        // The other way round the ring does not go; heads and seconds talk in the tree.
        assert_eq!((ports(0, 3, 0), ports(3, 1, 1)), ((2, 2), (2, 2)));
        assert_eq!(way(&channels(), Rank(0), Rank(1), 0), None, "one node");
    }

    #[test]
    fn other_messages_take_the_nearest_ports_in_turn_and_meet_on_equal_ones() {
        assert_eq!(
            ports(2, 5, 0),
            (1, 1),
            "the sender is the third of its node"
        );
        assert_eq!(ports(2, 5, 1), (2, 2), "the next channel");
        assert_eq!((ports(5, 1, 1), ports(0, 5, 0)), ((2, 2), (1, 1)));
        let mut blind = channels();
        blind.nearest[5].clear();
        assert_eq!(way(&blind, Rank(2), Rank(5), 0), None);
    }

    #[test]
    fn whoever_leaves_by_another_ranks_proxy_is_known() {
        let channels = channels();
        let proxies = [0, 1, 2, 4].map(|rank| proxy(&channels, Rank(rank), 0));
        assert_eq!(proxies, [None, Some(Rank(0)), None, Some(Rank(3))]);
        assert_eq!(
            ports_of(&channels, Rank(5), 0),
            [0, 1, 2],
            "entry, and near ones"
        );
        assert_eq!(
            ports_of(&channels, Rank(0), 0),
            [2, 1, 2],
            "the tree's, and near ones"
        );
    }
}
