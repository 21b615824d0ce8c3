//! NVLS tree: hubs inside the node, two binary trees between nodes.
//!
//! Inside the node every slice has a head, whose hub folds what the ranks of the node put there.
//! The heads of a slice on all nodes form a tree, and so a head has at most three children: its
//! hub and two heads. Slices, and channels, take the two trees in turns, so that both carry half.
//! A head that is inside of its tree has six links to other nodes, and opens them in the order in
//! which they are used: from both children, to the parent, to both children, from the parent.
//!
//! References: P. Sanders, J. Speck, J. L. Träff, Parallel Computing 35 (2009),
//! doi:10.1016/j.parco.2009.09.001, for the trees; `nvls` for the hubs.

use super::hier::all_reduce_over;
use super::levels::TWO_SHOT;
use super::tree;
use crate::plan::{Nodes, Plan, Shape};

/// Hubs, trees, and from the heads to all ranks of the node.
pub fn all_reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    all_reduce_over(shape, nodes, &TWO_SHOT, (1, false), |heads, slice| {
        let is_second = (slice + u32::from(heads.channel)) % 2 == 1;
        tree::among(heads, is_second);
    })
}
