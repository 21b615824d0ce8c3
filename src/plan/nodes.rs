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

use super::Orders;

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
        Ok(Nodes::by_number(new.collect()))
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
}
