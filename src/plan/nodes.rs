//! Which rank lives on which node, as algorithms see it.
//!
//! The problem: a schedule for many nodes crosses the slow links between them as seldom as it can.
//! For that it needs one fact more than a [`super::Shape`]: the node of every rank. It is one per
//! communicator and equal on all ranks, so it is no part of the key of a plan.
//!
//! Terms: *node*: ranks that reach each other through memory; *local rank*: a rank's position
//! among those of its node, in ascending order; *leader* i of a node: its rank with local rank i.
//! Nodes are numbered in the order of their lowest ranks, or as the network wants them
//! ([`Nodes::numbered`]), and none is empty.

use super::{Chain, NodeParts, Orders};
use std::borrow::Cow;

/// The nodes of a communicator. Cheap to share, never changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    node_of: Vec<u32>,
    local: Vec<u32>,
    /// All ranks, node by node.
    ranks: Vec<u32>,
    /// Where the ranks of a node begin in `ranks`; one entry more than there are nodes.
    starts: Vec<u32>,
    orders: Orders,
    parts: NodeParts,
}

impl Nodes {
    /// From any numbering of the nodes: `names[r]` is equal for ranks that share a node.
    pub fn of(names: &[u32]) -> Nodes {
        let mut numbers = std::collections::HashMap::new();
        let number = |name| {
            let next = numbers.len() as u32;
            *numbers.entry(name).or_insert(next)
        };
        Nodes::by_number(names.iter().map(number).collect())
    }

    /// Numbers these nodes in this order: node `order[i]` gets number i. They have no orders of
    /// their own yet.
    ///
    /// # Errors
    /// It does not name every node once.
    pub fn numbered(self, order: &[u32]) -> Result<Nodes, String> {
        let mut number = vec![None; self.count() as usize];
        for (new, &old) in (0..).zip(order) {
            let place = number.get_mut(old as usize);
            *place.ok_or_else(|| format!("there is no node {old}"))? = Some(new);
        }
        let number: Option<Vec<u32>> = number.into_iter().collect();
        let number = number.filter(|number| number.len() == order.len());
        let number = number.ok_or("the order does not name every node once")?;
        let new = self.node_of.iter().map(|&old| number[old as usize]);
        Ok(Nodes {
            parts: self.parts.clone(),
            ..Nodes::by_number(new.collect())
        })
    }

    /// From numbers without gaps.
    fn by_number(node_of: Vec<u32>) -> Nodes {
        let count = node_of.iter().max().map_or(0, |last| last + 1);
        let mut sizes = vec![0; count as usize];
        let mut local = Vec::with_capacity(node_of.len());
        for &node in &node_of {
            let size: &mut u32 = &mut sizes[node as usize];
            local.push(*size);
            *size += 1;
        }
        let mut starts = vec![0];
        for size in &sizes {
            starts.push(starts[starts.len() - 1] + size);
        }
        let mut ranks = vec![0; node_of.len()];
        for (rank, (&node, &local)) in node_of.iter().zip(&local).enumerate() {
            ranks[(starts[node as usize] + local) as usize] = rank as u32;
        }
        Nodes {
            node_of,
            local,
            ranks,
            starts,
            orders: Orders::default(),
            parts: NodeParts::default(),
        }
    }

    /// With other orders.
    pub(super) fn with(self, orders: Orders) -> Nodes {
        Nodes { orders, ..self }
    }

    /// In which orders channels pass the ranks.
    pub(super) fn orders(&self) -> &Orders {
        &self.orders
    }

    /// With these parts: `levels[k][r]` is equal for ranks that share a part of level k, the
    /// smallest parts first.
    pub fn with_parts(self, levels: &[Vec<u32>]) -> Nodes {
        Nodes {
            parts: NodeParts::of(levels, &self.node_of),
            ..self
        }
    }

    /// Parts of the nodes, level by level.
    pub fn parts(&self) -> &NodeParts {
        &self.parts
    }

    /// All ranks on one node.
    pub fn one(nranks: u32) -> Nodes {
        Nodes::of(&vec![0; nranks as usize])
    }

    /// `nodes` nodes of `per_node` consecutive ranks each.
    pub fn uniform(nodes: u32, per_node: u32) -> Nodes {
        Nodes::every(nodes * per_node, per_node)
    }

    /// Every `per_node` consecutive ranks share a node; the last one may have fewer.
    pub fn every(nranks: u32, per_node: u32) -> Nodes {
        let names: Vec<u32> = (0..nranks).map(|rank| rank / per_node.max(1)).collect();
        Nodes::of(&names)
    }

    /// Consecutive ranks in nodes of these sizes; sizes of 0 are left out.
    pub fn sizes(sizes: &[u32]) -> Nodes {
        let names = sizes.iter().enumerate();
        let names = names.flat_map(|(node, &size)| (0..size).map(move |_| node as u32));
        Nodes::of(&names.collect::<Vec<_>>())
    }

    /// How many ranks there are.
    pub fn nranks(&self) -> u32 {
        self.node_of.len() as u32
    }

    /// How many nodes there are.
    pub fn count(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        self.node_of[rank as usize]
    }

    /// A rank's position among the ranks of its node.
    pub fn local_rank(&self, rank: u32) -> u32 {
        self.local[rank as usize]
    }

    /// The ranks of a node, ascending.
    pub fn ranks_of(&self, node: u32) -> &[u32] {
        let (start, end) = (self.starts[node as usize], self.starts[node as usize + 1]);
        &self.ranks[start as usize..end as usize]
    }

    /// Leader `i` of a node; leaders repeat on nodes with fewer ranks.
    pub fn leader(&self, node: u32, i: u32) -> u32 {
        let ranks = self.ranks_of(node);
        ranks[i as usize % ranks.len()]
    }

    /// Ranks of the smallest node: as many leaders exist everywhere without repetition.
    pub fn least_ranks(&self) -> u32 {
        let sizes = self.starts.windows(2).map(|pair| pair[1] - pair[0]);
        sizes.min().unwrap_or(0)
    }

    /// Lets plans pass these nodes in these orders.
    ///
    /// # Errors
    /// Orders that miss a rank, or visit one twice.
    pub fn in_orders(self, orders: Orders) -> Result<Nodes, String> {
        check(&orders, &self)?;
        let orders = normal(orders, &self);
        Ok(self.with(orders))
    }

    /// The nodes of some of the ranks, in the orders of all: `members[r]` is to be rank r. Only
    /// where all ranks are on one node: of several, a part may have better orders.
    ///
    /// # Errors
    /// Ranks that do not exist, or twice.
    pub fn restricted(&self, members: &[u32]) -> Result<Nodes, String> {
        if self.count() != 1 {
            return Err("the ranks are on several nodes".into());
        }
        let mut number = vec![None; self.nranks() as usize];
        for (new, &old) in (0..).zip(members) {
            let place = number.get_mut(old as usize);
            *place.ok_or_else(|| format!("there is no rank {old}"))? = Some(new);
        }
        let part = |order: &[u32]| -> Vec<u32> {
            let numbers = order.iter().filter_map(|&old| number[old as usize]);
            numbers.collect()
        };
        let orders = self.orders();
        let chain = |chain: &Chain| Chain {
            ranks: part(&chain.ranks),
            second_behind: chain.second_behind,
        };
        let trees = orders.trees.iter();
        let orders = Orders {
            rings: orders.rings.iter().map(|ring| part(ring)).collect(),
            trees: trees.map(|tree| tree.iter().map(chain).collect()).collect(),
        };
        let nodes = Nodes {
            parts: self.parts.restricted(members),
            ..Nodes::one(members.len() as u32)
        };
        nodes.in_orders(orders)
    }

    /// The ring of a channel, all ranks in order; `None` where it is 0, 1, 2, ...
    pub fn ring(&self, channel: u16) -> Option<&[u32]> {
        let rings = &self.orders().rings;
        let at = usize::from(channel).checked_rem(rings.len())?;
        Some(&rings[at])
    }

    /// The ranks of a node in the order in which the ring of a channel passes them.
    pub fn along_ring(&self, channel: u16, node: u32) -> Cow<'_, [u32]> {
        match self.ring(channel) {
            None => Cow::Borrowed(self.ranks_of(node)),
            Some(ring) => {
                let here = |&rank: &u32| self.node_of(rank) == node;
                Cow::Owned(ring.iter().copied().filter(here).collect())
            }
        }
    }

    /// The chain of a node in the tree of a channel. A natural one begins with another rank on
    /// every channel, and its head talks to both child nodes.
    pub fn chain(&self, channel: u16, node: u32) -> Chain {
        let trees = &self.orders().trees;
        match usize::from(channel).checked_rem(trees.len()) {
            Some(at) => trees[at][node as usize].clone(),
            None => {
                let mut ranks = self.ranks_of(node).to_vec();
                let first = usize::from(channel) % ranks.len();
                ranks.rotate_left(first);
                Chain {
                    ranks,
                    second_behind: false,
                }
            }
        }
    }
}

/// Whether every ring visits all ranks of `nodes` once, and every chain all ranks of its node; if
/// not, what is wrong.
fn check(orders: &Orders, nodes: &Nodes) -> Result<(), String> {
    let all: Vec<u32> = (0..nodes.nranks()).collect();
    let visits = |order: &[u32], wanted: &[u32]| {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        sorted == wanted
    };
    for (channel, ring) in orders.rings.iter().enumerate() {
        if !visits(ring, &all) {
            return Err(format!("ring {channel} does not visit every rank once"));
        }
    }
    for (channel, tree) in orders.trees.iter().enumerate() {
        if tree.len() != nodes.count() as usize {
            return Err(format!("tree {channel} has not one chain for each node"));
        }
        for (node, chain) in (0..).zip(tree) {
            if !visits(&chain.ranks, nodes.ranks_of(node)) {
                return Err(format!(
                    "tree {channel} does not visit every rank of node {node} once"
                ));
            }
        }
    }
    Ok(())
}

/// Leaves out what is natural anyway. On one node a ring has no beginning: it is turned to
/// begin with rank 0.
fn normal(mut orders: Orders, nodes: &Nodes) -> Orders {
    if nodes.count() == 1 {
        for ring in &mut orders.rings {
            let first = ring.iter().position(|&rank| rank == 0).unwrap_or(0);
            ring.rotate_left(first);
        }
        // Chains on one node that all count from 0 up come from a machine that prefers none.
        let counts = |tree: &Vec<Chain>| tree.iter().all(|chain| ascends(&chain.ranks));
        if orders.trees.iter().all(counts) {
            orders.trees.clear();
        }
    }
    if orders.rings.iter().all(|ring| ascends(ring)) {
        orders.rings.clear();
    }
    orders
}

fn ascends(order: &[u32]) -> bool {
    order.is_sorted()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_by_their_lowest_ranks() {
        let nodes = Nodes::of(&[7, 3, 7, 3, 9]);
        assert_eq!(nodes.count(), 3);
        assert_eq!([nodes.ranks_of(0), nodes.ranks_of(2)], [&[0, 2][..], &[4]]);
        assert_eq!([nodes.node_of(3), nodes.local_rank(3)], [1, 1]);
        assert_eq!([nodes.leader(1, 0), nodes.leader(1, 1)], [1, 3]);
        assert_eq!(nodes.leader(2, 5), 4, "leaders repeat");
        assert_eq!(nodes.least_ranks(), 1);
    }

    #[test]
    fn nodes_are_numbered_as_the_network_wants_them() {
        let nodes = Nodes::of(&[7, 3, 7, 3, 9]).numbered(&[2, 0, 1]).unwrap();
        assert_eq!(nodes.count(), 3);
        assert_eq!([nodes.ranks_of(0), nodes.ranks_of(1)], [&[4][..], &[0, 2]]);
        assert_eq!([nodes.node_of(3), nodes.local_rank(3)], [2, 1]);
        for wrong in [&[0, 1][..], &[0, 1, 1], &[0, 1, 3], &[0, 1, 2, 0]] {
            assert!(Nodes::of(&[7, 3, 9]).numbered(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_forms_of_making_agree() {
        assert_eq!(Nodes::uniform(3, 4), Nodes::sizes(&[4, 4, 4]));
        assert_eq!(Nodes::every(7, 3), Nodes::sizes(&[3, 0, 3, 1]));
        assert_eq!(Nodes::one(5), Nodes::every(5, 5));
        assert_eq!(Nodes::one(5).least_ranks(), 5);
    }

    fn chain(ranks: &[u32], second_behind: bool) -> Chain {
        Chain {
            ranks: ranks.to_vec(),
            second_behind,
        }
    }

    #[test]
    fn natural_orders_are_left_out_and_channels_begin_again() {
        let orders = Orders {
            rings: vec![vec![2, 3, 0, 1]],
            trees: vec![vec![chain(&[0, 1, 2, 3], true)]],
        };
        let nodes = Nodes::one(4).in_orders(orders).unwrap();
        assert_eq!(nodes, Nodes::one(4));
        assert_eq!(nodes.chain(5, 0), chain(&[1, 2, 3, 0], false));
        let orders = Orders {
            rings: vec![vec![0, 1, 2, 3], vec![1, 3, 0, 2]],
            trees: Vec::new(),
        };
        let nodes = Nodes::one(4).in_orders(orders).unwrap();
        assert_eq!(nodes.ring(2), Some(&[0, 1, 2, 3][..]));
        assert_eq!(nodes.ring(3), Some(&[0, 2, 1, 3][..]), "begins with rank 0");
    }

    #[test]
    fn several_nodes_keep_what_they_are_told() {
        let orders = Orders {
            rings: vec![vec![1, 0, 3, 2]],
            trees: vec![vec![chain(&[0, 1], true), chain(&[3, 2], false)]],
        };
        let nodes = Nodes::uniform(2, 2).in_orders(orders).unwrap();
        assert_eq!(nodes.ring(0), Some(&[1, 0, 3, 2][..]));
        assert_eq!(nodes.along_ring(0, 1).as_ref(), [3, 2]);
        assert_eq!(nodes.chain(7, 0), chain(&[0, 1], true));
    }

    #[test]
    fn what_misses_a_rank_is_refused() {
        let refused = |rings: &[&[u32]], trees: Vec<Vec<Chain>>| {
            let rings = rings.iter().map(|ring| ring.to_vec()).collect();
            let orders = Orders { rings, trees };
            Nodes::uniform(2, 2).in_orders(orders).unwrap_err()
        };
        assert!(refused(&[&[0, 1, 2, 3], &[0, 1, 1, 3]], vec![]).contains("ring 1"));
        assert!(refused(&[&[0, 1, 2]], vec![]).contains("ring 0"));
        let half = vec![vec![chain(&[0, 1], false)]];
        assert!(refused(&[], half).contains("one chain for each node"));
        let wrong = vec![vec![chain(&[0, 1], false), chain(&[1, 2], false)]];
        assert!(refused(&[], wrong).contains("rank of node 1"));
    }

    #[test]
    fn a_part_of_the_ranks_keeps_their_order() {
        let chain = |ranks: &[u32]| Chain {
            ranks: ranks.to_vec(),
            second_behind: false,
        };
        let orders = Orders {
            rings: vec![vec![0, 3, 1, 4, 2, 5], vec![0, 5, 4, 3, 2, 1]],
            trees: vec![vec![chain(&[5, 3, 1, 0, 2, 4])]],
        };
        let all = Nodes::one(6).in_orders(orders).expect("orders");
        // Rank 4 is to be rank 0, rank 1 rank 1 and so on.
        let part = all.restricted(&[4, 1, 5, 3]).expect("a part");
        assert_eq!((part.nranks(), part.count()), (4, 1));
        assert_eq!(part.ring(0), Some(&[0, 2, 3, 1][..]));
        assert_eq!(part.ring(1), Some(&[0, 3, 1, 2][..]));
        assert_eq!(part.chain(0, 0).ranks, [2, 3, 1, 0]);
        assert!(all.restricted(&[1, 1]).is_err() && all.restricted(&[6]).is_err());
        assert!(Nodes::uniform(2, 2).restricted(&[0]).is_err());
        let natural = Nodes::one(6).restricted(&[3, 2]).expect("a part");
        assert_eq!(natural.ring(0), None);
        assert_eq!(natural, Nodes::one(2));
    }
}
