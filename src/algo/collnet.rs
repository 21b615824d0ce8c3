//! CollNet: the network itself folds. Heads hand their slice to a reducer and take the result.
//!
//! What a switch with SHARP does for a group of heads is one interface, [`Reducer`]: contributions
//! go in, the same result comes out for all. A transport that reaches such a switch implements it
//! with two steps a head. Where there is none, [`Played`] is the reference: the plan of one head
//! stands for the switch. Inside the node it is as for `nvlstree`.
//!
//! Reference: R. L. Graham et al., "Scalable Hierarchical Aggregation Protocol (SHArP): a hardware
//! architecture for efficient data reduction", COMHPC 2016, doi:10.1109/COMHPC.2016.006.

use super::columns::Columns;
use super::group::Group;
use super::hier::all_reduce_over;
use super::levels::TWO_SHOT;
use crate::plan::{Nodes, Operand, Plan, Shape};

/// A reducer in the network, as the heads of one slice see it.
pub trait Reducer {
    /// Piece 0 of all heads, folded, ends at all heads.
    fn all_reduce(&self, heads: &mut Group, slice: u32);
}

/// The plan of a head stands for the switch: of another one for each slice, so that the load of
/// several slices is spread.
pub struct Played;

impl Reducer for Played {
    fn all_reduce(&self, heads: &mut Group, slice: u32) {
        let switch = slice % heads.n;
        if heads.me != switch {
            let (to, from) = (heads.to(switch), heads.from(switch));
            heads.send(to, 0);
            return heads.recv(from, 0);
        }
        let own = heads.own();
        let srcs: Vec<Operand> = (0..heads.n)
            .map(|head| match head == switch {
                true => own,
                false => heads.from(head).operand(),
            })
            .collect();
        let mut dsts = vec![heads.result()];
        for head in heads.others() {
            dsts.push(heads.to(head).operand());
        }
        heads.put(&srcs, &dsts, 0, true);
    }
}

/// The network folds: what is put in at one end comes out, folded, at the other.
pub struct Switch;

impl Reducer for Switch {
    fn all_reduce(&self, heads: &mut Group, _: u32) {
        let (next, previous) = (heads.rank(heads.ahead(1)), heads.rank(heads.behind(1)));
        let (to, from) = heads.e.folded(next, previous);
        heads.send(to, 0);
        heads.take(from, 0);
    }
}

/// The heads among which the network folds what `rank` has, and which of them it is: the leaders of
/// its column.
pub fn heads(nodes: &Nodes, rank: u32) -> Option<(Vec<u32>, usize)> {
    let columns = Columns::of(nodes, rank);
    let leaders = columns.leaders(columns.mine?);
    let me = leaders.iter().position(|&leader| leader == rank)?;
    Some((leaders, me))
}

/// Hubs inside the node, and between the nodes a network that folds.
pub fn all_reduce_in_network(shape: &Shape, nodes: &Nodes) -> Plan {
    all_reduce_by(shape, nodes, &Switch)
}

/// Hubs inside the node, the reducer between the nodes, and from the heads to all ranks.
pub fn all_reduce(shape: &Shape, nodes: &Nodes) -> Plan {
    all_reduce_by(shape, nodes, &Played)
}

/// Hubs inside the node, and this reducer between the nodes.
pub fn all_reduce_by(shape: &Shape, nodes: &Nodes, reducer: &dyn Reducer) -> Plan {
    all_reduce_over(shape, nodes, &TWO_SHOT, (1, false), |heads, slice| {
        reducer.all_reduce(heads, slice);
    })
}
