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

use super::columns::Columns;
use super::group::{Pieces, flat};
use super::{binomial, rd};
use crate::plan::{Layout, Nodes, Operand, Plan, Shape};

/// A binomial tree to the leader, recursive doubling between leaders, a binomial tree back.
pub fn all_reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    let columns = Columns::of(nodes, shape.rank);
    let mates = columns.mates();
    let all = || Pieces::Listed(vec![vec![0]]);
    flat(shape, 1, Layout::Split, |g| {
        let mut folded = Operand::INPUT;
        if mates.len() > 1 {
            let places = (Operand::INPUT, Operand::OUTPUT);
            binomial::reduce_in(&mut g.level(mates.clone(), all(), places, false), 0);
            folded = Operand::OUTPUT;
        }
        if columns.mine == Some(0) {
            let places = (folded, Operand::OUTPUT);
            rd::all_reduce_in(&mut g.level(columns.leaders(0), all(), places, true));
        }
        if mates.len() > 1 {
            let places = (Operand::OUTPUT, Operand::OUTPUT);
            binomial::broadcast_in(&mut g.level(mates.clone(), all(), places, true), 0);
        }
    })
}
