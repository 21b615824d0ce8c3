//! The orders in which the ranks of given nodes are passed: held against the nodes, and asked for.

use super::{Chain, Nodes, Orders};
use std::borrow::Cow;

impl Orders {
    /// Whether every ring visits all ranks of `nodes` once, and every chain all ranks of its node;
    /// if not, what is wrong.
    pub fn check(&self, nodes: &Nodes) -> Result<(), String> {
        let all: Vec<u32> = (0..nodes.nranks()).collect();
        let visits = |order: &[u32], wanted: &[u32]| {
            let mut sorted = order.to_vec();
            sorted.sort_unstable();
            sorted == wanted
        };
        for (channel, ring) in self.rings.iter().enumerate() {
            if !visits(ring, &all) {
                return Err(format!("ring {channel} does not visit every rank once"));
            }
        }
        for (channel, tree) in self.trees.iter().enumerate() {
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
    fn normal(mut self, nodes: &Nodes) -> Orders {
        if nodes.count() == 1 {
            for ring in &mut self.rings {
                let first = ring.iter().position(|&rank| rank == 0).unwrap_or(0);
                ring.rotate_left(first);
            }
            // Chains on one node that all count from 0 up come from a machine that prefers none.
            let counts = |tree: &Vec<Chain>| tree.iter().all(|chain| ascends(&chain.ranks));
            if self.trees.iter().all(counts) {
                self.trees.clear();
            }
        }
        if self.rings.iter().all(|ring| ascends(ring)) {
            self.rings.clear();
        }
        self
    }
}

fn ascends(order: &[u32]) -> bool {
    order.is_sorted()
}

impl Nodes {
    /// Lets plans pass these nodes in these orders.
    ///
    /// # Errors
    /// Those of [`Orders::check`].
    pub fn in_orders(self, orders: Orders) -> Result<Nodes, String> {
        orders.check(&self)?;
        let orders = orders.normal(&self);
        Ok(self.with(orders))
    }

    /// The nodes of some of the ranks, in the orders of all: `members[r]` is to be rank r. Only
    /// where all ranks are on one node: of several, a part may have better orders.
    ///
    /// # Errors
    /// Those of [`Orders::check`]: ranks that do not exist, or twice.
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
        Nodes::one(members.len() as u32).in_orders(orders)
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

#[cfg(test)]
mod tests {
    use super::*;

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
