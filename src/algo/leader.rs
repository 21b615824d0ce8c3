//! One leader a node: for data so small that messages are counted, not bytes.
//!
//! Partners of `rd` that are on different nodes all send at once, so each exchange costs a node as
//! many messages as it has ranks, which share one NIC and, where the system's TCP carries them, the
//! cores. Here the first rank of every node folds what its mates have, exchanges it with the other
//! leaders, and hands out the result: one message a node and exchange, for two more ways through
//! shared memory.
//!
//! Reference: the single leader of M. Bayatpour et al., "Scalable reduction collectives with data
//! partitioning-based multi-leader design", SC 2017, doi:10.1145/3126908.3126954; trees as in
//! `binomial`, exchanges as in `rd`.

use super::group::{Pieces, flat};
use super::{binomial, rd};
use crate::plan::{Layout, Nodes, Operand, Plan, Shape};

/// A binomial tree to the leader, recursive doubling between leaders, a binomial tree back.
pub fn all_reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    let mine = nodes.ranks_of(nodes.node_of(shape.rank)).to_vec();
    let leaders: Vec<u32> = (0..nodes.count())
        .map(|node| nodes.leader(node, 0))
        .collect();
    let pieces = || Pieces::Listed(vec![vec![0]]);
    flat(shape, 1, Layout::Split, |g| {
        let places = (Operand::INPUT, Operand::OUTPUT);
        let alone = mine.len() == 1;
        if !alone {
            binomial::reduce_in(&mut g.level(mine.clone(), pieces(), places, false), 0);
        }
        if leaders.contains(&shape.rank) {
            let from = if alone {
                Operand::INPUT
            } else {
                Operand::OUTPUT
            };
            let places = (from, Operand::OUTPUT);
            rd::all_reduce_in(&mut g.level(leaders.clone(), pieces(), places, true));
        }
        if !alone {
            let places = (Operand::OUTPUT, Operand::OUTPUT);
            binomial::broadcast_in(&mut g.level(mine.clone(), pieces(), places, true), 0);
        }
    })
}
