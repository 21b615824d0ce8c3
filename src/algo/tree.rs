//! Double binary trees between the nodes, a chain inside each node.
//!
//! In one binary tree half of the ranks are leaves and send nothing. Two trees, each for half of
//! the data, use everybody: whoever is a leaf in one is inside of the other. So the bandwidth of a
//! ring at the depth of a tree. Trees connect nodes, for inside a node a chain has the same cost
//! and fewer connections: the *head* of a node stands in the tree, and behind it hangs the chain.
//! Where the machine says so, the second child node hangs below the rank behind the head.
//!
//! What the trees look like is in `btree`. With a root, the root feeds both, over the other nodes.
//! The first half of the channels runs the first tree, the second half the second one. Reductions
//! go up in one lane and results down in another: chunks follow each other in both.
//!
//! Reference: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast,
//! reduction and scan", Parallel Computing 35 (2009), doi:10.1016/j.parco.2009.09.001.

use super::btree::double;
use super::group::{Group, flat};
use crate::plan::{Chain, Layout, Nodes, Plan, Shape};

/// Both trees up, and down again.
pub fn all_reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    flat(shape, 1, Layout::Split, |g| {
        let links = hang(g, shape, nodes, None);
        up_and_down(g, &links);
    })
}

/// From the root down both trees.
pub fn broadcast(shape: &Shape, nodes: &Nodes) -> Plan {
    flat(shape, 1, Layout::Split, |g| {
        let links = hang(g, shape, nodes, Some(shape.root));
        g.down(links.parent, &links.children(), 0);
    })
}

/// Up both trees to the root.
pub fn reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    flat(shape, 1, Layout::Split, |g| {
        let links = hang(g, shape, nodes, Some(shape.root));
        g.up(links.parent, &links.before, &links.after, 0);
    })
}

/// A rank's place in a tree. Children are those of lower and of higher rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeLinks {
    /// `None` at the top.
    pub parent: Option<u32>,
    /// Children that are folded before the own contribution.
    pub before: Vec<u32>,
    /// Children that are folded after it.
    pub after: Vec<u32>,
}

impl TreeLinks {
    /// All children.
    pub fn children(&self) -> Vec<u32> {
        [&self.before[..], &self.after].concat()
    }

    /// In the tree below a root, whose numbers are those of the group from the root on.
    fn below(g: &Group, root: u32) -> TreeLinks {
        let v = (g.me + g.n - root) % g.n;
        let member = |v: u32| (v + root) % g.n;
        let (parent, children) = double(g.n, v, g.channel % 2 == 1, true);
        let children = children.into_iter().map(member).collect();
        TreeLinks::new(g.me, parent.map(member), children)
    }

    fn new(me: u32, parent: Option<u32>, mut children: Vec<u32>) -> TreeLinks {
        children.sort_unstable();
        let (before, after) = children.into_iter().partition(|&child| child < me);
        TreeLinks {
            parent,
            before,
            after,
        }
    }
}

/// The reduction in one lane, the spreading of the result in another one beside it.
pub fn up_and_down(g: &mut Group, links: &TreeLinks) {
    if links.parent.is_none() {
        return g.turn(&links.before, &links.after, &links.children(), 0);
    }
    g.up(links.parent, &links.before, &links.after, 0);
    g.beside();
    g.down(links.parent, &links.children(), 0);
}

/// All-reduce of piece 0 over the first or the second tree, whose numbers are those of the group.
pub fn among(g: &mut Group, is_second: bool) {
    let (parent, children) = double(g.n, g.me, is_second, false);
    let links = TreeLinks::new(g.me, parent, children);
    up_and_down(g, &links);
}

/// All-reduce of piece 0; channels take the trees in turns.
pub fn all_reduce_in(g: &mut Group) {
    among(g, g.channel % 2 == 1);
}

/// Piece 0 of member `root` ends at all.
pub fn broadcast_in(g: &mut Group, root: u32) {
    let links = TreeLinks::below(g, root);
    g.down(links.parent, &links.children(), 0);
}

/// Piece 0 ends, folded, at member `root`.
pub fn reduce_in(g: &mut Group, root: u32) {
    let links = TreeLinks::below(g, root);
    g.up(links.parent, &links.before, &links.after, 0);
}

/// The place of this rank for a channel: trees between nodes, chains inside them.
fn hang(g: &Group, shape: &Shape, nodes: &Nodes, root: Option<u32>) -> TreeLinks {
    let is_second = 2 * g.channel >= shape.channels && shape.channels > 1;
    let (mine, count) = (nodes.node_of(g.me), nodes.count());
    let chain = chain(nodes, g.channel, mine, root);
    let position = chain.ranks.iter().position(|&rank| rank == g.me);
    let position = position.expect("a chain visits all ranks of its node");
    let mut children: Vec<u32> = chain.ranks.get(position + 1).copied().into_iter().collect();
    // Numbers in the tree count from the root's node on.
    let first = root.map_or(0, |root| nodes.node_of(root));
    let at = |v: u32| (v + first) % count;
    let (above, below) = double(
        count,
        (mine + count - first) % count,
        is_second,
        root.is_some(),
    );
    for (place, &v) in below.iter().enumerate() {
        if chain.holder(place) == g.me {
            children.push(self::chain(nodes, g.channel, at(v), root).ranks[0]);
        }
    }
    let parent = match position {
        0 => above.map(|v| {
            let (_, siblings) = double(count, v, is_second, root.is_some());
            let place = siblings.iter().position(|&v| at(v) == mine);
            let place = place.expect("a parent knows its children");
            self::chain(nodes, g.channel, at(v), root).holder(place)
        }),
        _ => Some(chain.ranks[position - 1]),
    };
    TreeLinks::new(g.me, parent, children)
}

/// The chain of a node. The root is the head of its node.
fn chain(nodes: &Nodes, channel: u16, node: u32, root: Option<u32>) -> Chain {
    let mut chain = nodes.chain(channel, node);
    let is_root = |&rank: &u32| Some(rank) == root;
    if let Some(at) = chain.ranks.iter().position(is_root) {
        chain.ranks.rotate_left(at);
    }
    chain
}
