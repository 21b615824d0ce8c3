//! Bodies of algorithms, by name, that may run at a level of a hierarchy.
//!
//! A body is written for a group ([`super::group`]), so the same one runs on all ranks, on the
//! ranks of a node or on the leaders of all nodes.

use super::group::Group;
use super::{binomial, dissemination, hd, owners, rd, ring, tree, twoshot};

/// The bodies of one family.
#[derive(Clone, Copy, Debug)]
pub struct Bodies {
    /// For messages.
    pub name: &'static str,
    /// Pieces that its all-reduce among n members has.
    pub pieces: fn(n: u32) -> u32,
    /// Its all-reduce passes many pieces in one token.
    pub packs: bool,
    /// Its reduce-scatter and all-gather do.
    pub packs_blocks: bool,
    /// Of [`Bodies::pieces`] pieces.
    pub all_reduce: fn(&mut Group),
    /// Piece c ends, folded, at member c.
    pub reduce_scatter: fn(&mut Group),
    /// Piece c, a contribution of member c, ends at all.
    pub all_gather: fn(&mut Group),
    /// Piece 0 of a member ends at all.
    pub broadcast: fn(&mut Group, u32),
    /// Piece 0 ends, folded, at a member.
    pub reduce: fn(&mut Group, u32),
    /// Nobody leaves before all have entered.
    pub barrier: fn(&mut Group),
}

/// Least bytes over links that are not shared.
pub const RING: Bodies = Bodies {
    name: "ring",
    pieces: |n| n,
    packs: false,
    packs_blocks: false,
    all_reduce: ring::all_reduce_in,
    reduce_scatter: ring::reduce_scatter_in,
    all_gather: ring::all_gather_in,
    broadcast: ring::broadcast_in,
    reduce: ring::reduce_in,
    barrier: dissemination::barrier_in,
};

/// Least hand-overs in shared memory.
pub const TWO_SHOT: Bodies = Bodies {
    name: "twoshot",
    all_reduce: twoshot::all_reduce_in,
    reduce_scatter: owners::reduce_scatter_in,
    all_gather: twoshot::all_gather_in,
    broadcast: binomial::broadcast_in,
    reduce: binomial::reduce_in,
    ..RING
};

/// Few hand-overs, all data in each.
pub const DOUBLING: Bodies = Bodies {
    name: "rd",
    pieces: |_| 1,
    packs: false,
    packs_blocks: true,
    all_reduce: rd::all_reduce_in,
    reduce_scatter: hd::reduce_scatter_in,
    all_gather: rd::all_gather_in,
    broadcast: binomial::broadcast_in,
    reduce: binomial::reduce_in,
    barrier: rd::barrier_in,
};

/// Few hand-overs with the bytes of a ring.
pub const HALVING: Bodies = Bodies {
    name: "hd",
    pieces: hd::pieces,
    packs: true,
    all_reduce: hd::all_reduce_in,
    all_gather: hd::all_gather_in,
    ..DOUBLING
};

/// Two binary trees.
pub const TREES: Bodies = Bodies {
    name: "tree",
    all_reduce: tree::all_reduce_in,
    all_gather: dissemination::all_gather_in,
    broadcast: tree::broadcast_in,
    reduce: tree::reduce_in,
    barrier: dissemination::barrier_in,
    ..DOUBLING
};

/// All of them: any may run at each level.
pub const ALL: [Bodies; 5] = [RING, TWO_SHOT, DOUBLING, HALVING, TREES];
