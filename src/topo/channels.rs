//! Channels of a communicator: the rings and trees of all nodes, joined.
//!
//! Every node searches for itself and tells the others its [`NodeGraph`]; from the list, in the
//! order of the nodes, every rank computes the same [`Channels`]. The node with the fewest rings
//! decides how many there are. Then the channels are doubled, as far as the limits allow: the first
//! half of the channels runs the first tree, the second half the second one, each with half the
//! data, so that every node uses both directions of its links. A doubled ring shares the links of
//! its original.
//!
//! **Terms.** Head: the member of a node that talks to the parent node. Part: one node's piece of a
//! ring or tree, numbered before the doubling.
//!
//! Reference: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast,
//! reduction and scan", Parallel Computing 35 (2009), doi:10.1016/j.parco.2009.09.001.

use super::node_graph::{Exit, NodeGraph, RingPart, TreePart};
use crate::base::{Error, Rank, Result};

/// How many channels there may be in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelLimits {
    /// At least so many: rings are repeated.
    pub least: u32,
    /// At most so many.
    pub most: u32,
}

impl Default for ChannelLimits {
    fn default() -> ChannelLimits {
        ChannelLimits { least: 1, most: 32 }
    }
}

/// The way out of a node, as ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankExit {
    /// The port, as an index into the node's list of names.
    pub net: u32,
    /// The rank whose proxy sends.
    pub proxy: Rank,
}

/// One node's ways to the network in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPorts {
    /// The port by which its first rank receives.
    pub entry: Option<u32>,
    /// How its last rank sends.
    pub exit: Option<RankExit>,
}

/// The ring of one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// All ranks in ring order.
    pub order: Vec<Rank>,
    /// For every node its ways to the network.
    pub ports: Vec<RingPorts>,
    /// The number of its part on each node.
    pub part: u32,
    /// Where each rank stands in `order`.
    position: Vec<u32>,
}

/// One node in the tree of one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNode {
    /// Its ranks from the head down: a chain.
    pub chain: Vec<Rank>,
    /// The rank that talks to the second child node: the head, or the one after it.
    pub second: Rank,
    /// How the head sends to the parent node and to the first child node.
    pub head_exit: Option<RankExit>,
    /// How `second` sends to the second child node.
    pub second_exit: Option<RankExit>,
}

/// The tree of one channel: nodes are joined by a binary tree over their numbers, which algorithms
/// compute, ranks inside a node by a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Whether this channel runs the second tree of the pair.
    pub is_second: bool,
    /// The nodes.
    pub nodes: Vec<TreeNode>,
    /// The number of its part on each node.
    pub part: u32,
}

/// The channels of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channels {
    /// One a channel.
    pub rings: Vec<Ring>,
    /// Bandwidth of each ring, in megabytes per second and direction.
    pub ring_megabytes_per_s: u32,
    /// One a channel.
    pub trees: Vec<Tree>,
    /// Bandwidth that a rank in the middle of each tree sends with, half of it up and half down.
    pub tree_megabytes_per_s: u32,
    /// For every node the names of its network ports.
    pub nets: Vec<Vec<String>>,
    /// For every node the bus addresses of their cards, if they are known.
    pub buses: Vec<Vec<String>>,
    /// For every rank its node, and its position there.
    pub seats: Vec<(u32, u32)>,
    /// For every rank the ports that it uses beside rings and trees, in turn; none on one node
    /// alone.
    pub nearest: Vec<Vec<RankExit>>,
    /// For every rank how many before it on its node have the same ports.
    pub turns: Vec<u32>,
}

impl Ring {
    /// The rank before and the rank after `rank`; both are `rank` where it is alone. `rank` must be
    /// in the communicator.
    pub fn neighbours(&self, rank: Rank) -> (Rank, Rank) {
        let (at, count) = (self.position[rank.index()] as usize, self.order.len());
        (
            self.order[(at + count - 1) % count],
            self.order[(at + 1) % count],
        )
    }
}

impl TreeNode {
    /// The rank that talks to the parent node and the first child node.
    pub fn head(&self) -> Rank {
        self.chain[0]
    }
}

impl Channels {
    /// How many channels there are.
    pub fn count(&self) -> usize {
        self.rings.len()
    }
}

/// Joins what the nodes found, in the order of the nodes. Pure: the same on every rank. Errors: no
/// node, a rank that is on two nodes or on none, several nodes of which one has no network port,
/// limits that exclude each other.
pub fn merge(nodes: &[NodeGraph], limits: ChannelLimits) -> Result<Channels> {
    let seats = members(nodes)?;
    let ports = |node: &NodeGraph| {
        let tree = |part: &TreePart| part.head_exit.is_some() && part.second_exit.is_some();
        node.rings
            .iter()
            .all(|ring| ring.entry.is_some() && ring.exit.is_some())
            && node.trees.iter().all(tree)
    };
    if let Some(node) = nodes.iter().find(|node| nodes.len() > 1 && !ports(node)) {
        let rank = node.ranks[0];
        let what = format!("the graph of rank {rank}'s node leads to no network port");
        return Err(
            Error::argument(what, "search it, or load it, for several nodes").with_peer(rank),
        );
    }
    if limits.least > limits.most || limits.most == 0 {
        let what = format!(
            "at least {} and at most {} channels",
            limits.least, limits.most
        );
        return Err(Error::argument(
            what,
            "set KOLO_MIN_NCHANNELS below KOLO_MAX_NCHANNELS",
        ));
    }
    let least = |count: fn(&NodeGraph) -> usize| nodes.iter().map(count).min().unwrap_or(0);
    let most = limits.most as usize;
    let rings = least(|node| node.rings.len()).min(most).max(1);
    let trees = least(|node| node.trees.len()).min(rings);
    let count = (2 * rings).min(most).max(limits.least as usize);
    let mut uses = [vec![0_u32; rings], vec![0_u32; trees]];
    let turns: Vec<Vec<u32>> = nodes.iter().map(NodeGraph::turns).collect();
    let mut channels = Channels {
        rings: Vec::with_capacity(count),
        ring_megabytes_per_s: 0,
        trees: Vec::with_capacity(count),
        tree_megabytes_per_s: 0,
        nets: nodes.iter().map(|node| node.nets.clone()).collect(),
        buses: nodes.iter().map(|node| node.reach.buses.clone()).collect(),
        nearest: seats.iter().map(|&seat| nearest(nodes, seat)).collect(),
        turns: seats
            .iter()
            .map(|&(node, member)| turns[node as usize][member as usize])
            .collect(),
        seats,
    };
    for channel in 0..count {
        let part = channel % rings;
        uses[0][part] += 1;
        uses[1][part % trees] += 1;
        channels.rings.push(ring(nodes, part, channels.seats.len()));
        channels
            .trees
            .push(tree(nodes, part % trees, 2 * channel >= count && count > 1));
    }
    // A part that serves more channels than another decides: all channels carry the same.
    let share = |rate: Option<u32>, uses: &[u32]| {
        rate.unwrap_or(0) / uses.iter().max().copied().unwrap_or(1).max(1)
    };
    let rings = nodes.iter().map(|node| node.ring_megabytes_per_s).min();
    let trees = nodes.iter().map(|node| node.tree_megabytes_per_s).min();
    channels.ring_megabytes_per_s = share(rings, &uses[0]).max(1);
    channels.tree_megabytes_per_s = share(trees, &uses[1]).max(1);
    Ok(channels)
}

/// The ports that are nearest to the rank at this place.
fn nearest(nodes: &[NodeGraph], (node, member): (u32, u32)) -> Vec<RankExit> {
    let node = &nodes[node as usize];
    let exits = node.reach.nearest.get(member as usize);
    let exits = exits.into_iter().flatten();
    exits.filter_map(|&it| exit(node, Some(it))).collect()
}

/// Checks the nodes, and that together they have every rank once; gives for each rank its node and
/// its position there.
fn members(nodes: &[NodeGraph]) -> Result<Vec<(u32, u32)>> {
    let remedy = "let each node tell its own ranks, in the order of the nodes";
    for (index, node) in nodes.iter().enumerate() {
        node.check().map_err(|mut error| {
            error.what = format!("graph of node {index}: {}", error.what);
            error
        })?;
    }
    let count: usize = nodes.iter().map(|node| node.ranks.len()).sum();
    let mut seats = vec![(u32::MAX, 0); count];
    for (index, node) in (0..).zip(nodes) {
        for (member, &rank) in (0..).zip(&node.ranks) {
            match seats.get_mut(rank.index()) {
                Some(seat) if seat.0 == u32::MAX => *seat = (index, member),
                Some(_) => {
                    let what = format!("rank {rank} is on two nodes");
                    return Err(Error::argument(what, remedy).with_peer(rank));
                }
                None => {
                    let what = format!("rank {rank} is not one of {count}");
                    return Err(Error::argument(what, remedy).with_peer(rank));
                }
            }
        }
    }
    match count {
        0 => Err(Error::argument("there is no node", remedy)),
        _ => Ok(seats),
    }
}

fn exit(node: &NodeGraph, exit: Option<Exit>) -> Option<RankExit> {
    exit.map(|exit| RankExit {
        net: exit.net,
        proxy: node.ranks[exit.proxy as usize],
    })
}

/// The rings of a node the other way round, where that keeps them on their rails.
///
/// A ring that comes in by port 0 and goes out by port 1 meets port 0 of the next node, on another
/// switch. If every second node runs it the other way round, port 1 meets port 1. All rings of a
/// node turn together, as only then the links have room for them in the other direction; and none
/// turns where a rank sends through another one's proxy, as receiving has no such help.
fn turned(node: &NodeGraph) -> Option<Vec<RingPart>> {
    let crosses = |ring: &RingPart| ring.exit.is_some_and(|exit| ring.entry != Some(exit.net));
    let turns = |ring: &RingPart| {
        ring.exit
            .is_some_and(|e| ring.order.last() == Some(&e.proxy))
    };
    if !node.rings.iter().any(crosses) || !node.rings.iter().all(turns) {
        return None;
    }
    let turn = |ring: &RingPart| RingPart {
        order: ring.order.iter().rev().copied().collect(),
        entry: ring.exit.map(|exit| exit.net),
        exit: ring.entry.map(|net| Exit {
            net,
            proxy: ring.order[0],
        }),
    };
    Some(node.rings.iter().map(turn).collect())
}

fn ring(nodes: &[NodeGraph], part: usize, count: usize) -> Ring {
    let mut ring = Ring {
        order: Vec::with_capacity(count),
        ports: Vec::with_capacity(nodes.len()),
        part: part as u32,
        position: vec![0; count],
    };
    for (index, node) in nodes.iter().enumerate() {
        let other_way = (index % 2 == 1).then(|| turned(node)).flatten();
        let piece = other_way
            .as_ref()
            .map_or(&node.rings[part], |rings| &rings[part]);
        ring.order.extend(
            piece
                .order
                .iter()
                .map(|&member| node.ranks[member as usize]),
        );
        ring.ports.push(RingPorts {
            entry: piece.entry,
            exit: exit(node, piece.exit),
        });
    }
    for (at, rank) in ring.order.iter().enumerate() {
        ring.position[rank.index()] = at as u32;
    }
    ring
}

fn tree(nodes: &[NodeGraph], part: usize, is_second: bool) -> Tree {
    let node = |node: &NodeGraph| {
        let piece = &node.trees[part];
        TreeNode {
            chain: piece
                .chain
                .iter()
                .map(|&member| node.ranks[member as usize])
                .collect(),
            second: node.ranks[piece.second as usize],
            head_exit: exit(node, piece.head_exit),
            second_exit: exit(node, piece.second_exit),
        }
    };
    Tree {
        is_second,
        nodes: nodes.iter().map(node).collect(),
        part: part as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node with `rings` rings over its ranks, each beginning one further.
    fn node(ranks: &[u32], rings: u32, trees: u32) -> NodeGraph {
        let members = ranks.len() as u32;
        let from = |start: u32| {
            (0..members)
                .map(|i| (start + i) % members)
                .collect::<Vec<u32>>()
        };
        let exit = |proxy| Some(Exit { net: 0, proxy });
        let ring = |c| RingPart {
            order: from(c % members),
            entry: Some(0),
            exit: exit(0),
        };
        let tree = |c| TreePart {
            chain: from(c % members),
            second: c % members,
            head_exit: exit(c % members),
            second_exit: exit(0),
        };
        NodeGraph {
            ranks: ranks.iter().map(|&rank| Rank(rank)).collect(),
            nets: vec!["ib0".to_owned()],
            rings: (0..rings).map(ring).collect(),
            ring_megabytes_per_s: 1000 * ranks[0] + 24_000,
            trees: (0..trees).map(tree).collect(),
            tree_megabytes_per_s: 12_000,
            reach: Default::default(),
        }
    }

    fn numbers(ranks: impl IntoIterator<Item = Rank>) -> Vec<u32> {
        ranks.into_iter().map(|rank| rank.0).collect()
    }

    #[test]
    fn nodes_are_joined_and_channels_doubled() {
        let nodes = [node(&[0, 2, 4], 3, 2), node(&[1, 3], 2, 2)];
        let channels = merge(&nodes, ChannelLimits::default()).unwrap();
        assert_eq!((channels.count(), channels.trees.len()), (4, 4));
        assert_eq!(numbers(channels.rings[1].order.clone()), [2, 4, 0, 3, 1]);
        assert_eq!(channels.rings[1], channels.rings[3]);
        assert_eq!(
            channels.ring_megabytes_per_s, 12_000,
            "the least, shared by two"
        );
        assert_eq!(channels.tree_megabytes_per_s, 6_000);
        let second: Vec<bool> = channels.trees.iter().map(|tree| tree.is_second).collect();
        assert_eq!(second, [false, false, true, true]);
        let first = &channels.trees[1].nodes[0];
        assert_eq!(numbers(first.chain.clone()), [2, 4, 0]);
        assert_eq!((first.head(), first.second), (Rank(2), Rank(2)));
        assert_eq!(
            first.head_exit,
            Some(RankExit {
                net: 0,
                proxy: Rank(2)
            })
        );
        let ring = &channels.rings[1];
        assert_eq!(ring.neighbours(Rank(2)), (Rank(1), Rank(4)));
        assert_eq!(ring.neighbours(Rank(0)), (Rank(4), Rank(3)));
        assert_eq!(
            ring.ports[1].exit,
            Some(RankExit {
                net: 0,
                proxy: Rank(1)
            })
        );
    }

    #[test]
    fn rings_that_cross_ports_turn_on_every_second_node() {
        let mut nodes = [
            node(&[0, 1], 1, 1),
            node(&[2, 3], 1, 1),
            node(&[4, 5], 1, 1),
        ];
        for node in &mut nodes {
            node.nets.push("ib1".to_owned());
            node.rings[0].exit = Some(Exit { net: 1, proxy: 1 });
        }
        let channels = |nodes: &[NodeGraph]| merge(nodes, ChannelLimits::default()).unwrap();
        let ring = &channels(&nodes).rings[0];
        assert_eq!(numbers(ring.order.clone()), [0, 1, 3, 2, 4, 5]);
        let exit = Some(RankExit {
            net: 0,
            proxy: Rank(2),
        });
        assert_eq!(
            ring.ports[1],
            RingPorts {
                entry: Some(1),
                exit
            }
        );
        // Rank 3 sends through the proxy of rank 2: it could not receive that way.
        nodes[1].rings[0].exit = Some(Exit { net: 1, proxy: 0 });
        assert_eq!(
            numbers(channels(&nodes).rings[0].order.clone()),
            [0, 1, 2, 3, 4, 5]
        );
    }

    #[test]
    fn limits_are_kept() {
        let nodes = [node(&[0, 1], 2, 1)];
        let with = |least, most| merge(&nodes, ChannelLimits { least, most }).unwrap();
        assert_eq!(with(1, 32).count(), 4);
        assert_eq!(
            (with(1, 1).count(), with(1, 1).ring_megabytes_per_s),
            (1, 24_000)
        );
        assert_eq!(
            (with(1, 3).count(), with(1, 3).ring_megabytes_per_s),
            (3, 12_000)
        );
        assert_eq!(
            (with(6, 8).count(), with(6, 8).ring_megabytes_per_s),
            (6, 8_000)
        );
        let second = |tree: &Tree| tree.is_second;
        assert!(!with(6, 8).trees[..3].iter().any(second), "half of them");
        assert!(with(6, 8).trees[3..].iter().all(second), "the other half");
        assert!(merge(&nodes, ChannelLimits { least: 3, most: 2 }).is_err());
    }

    #[test]
    fn nodes_that_do_not_fit_together_are_refused() {
        let error = |nodes: &[NodeGraph]| {
            merge(nodes, ChannelLimits::default())
                .unwrap_err()
                .into_what()
        };
        assert!(error(&[]).contains("no node"));
        assert!(error(&[node(&[0, 1], 1, 1), node(&[1, 2], 1, 1)]).contains("two nodes"));
        assert!(error(&[node(&[0, 5], 1, 1)]).contains("rank 5 is not one of 2"));
        let mut inner = node(&[0], 1, 1);
        inner.rings[0].entry = None;
        inner.rings[0].exit = None;
        assert!(merge(&[inner.clone()], ChannelLimits::default()).is_ok());
        assert!(error(&[inner, node(&[1], 1, 1)]).contains("no network port"));
    }

    #[test]
    fn graphs_of_other_nodes_are_checked() {
        let mut nodes = [node(&[0, 2], 1, 1), node(&[1, 3], 1, 1)];
        assert!(merge(&nodes, ChannelLimits::default()).is_ok());
        nodes[1].rings[0].order.pop();
        let error = merge(&nodes, ChannelLimits::default()).unwrap_err();
        assert!(
            error.what.starts_with("graph of node 1: ring 0: "),
            "{error}"
        );
    }
}
