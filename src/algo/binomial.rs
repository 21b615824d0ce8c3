//! Binomial trees: in every hand-over, all ranks that have something serve one that has not.
//!
//! Members are numbered from the root. The parent of v is v without its lowest set bit, its
//! children are v + 2^k below that bit, and its subtree is a run of members, so that everybody
//! knows the tree without asking. For small data; the root sends all of it log n times.
//!
//! Reference: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication
//! operations in MPICH", Int. J. High Perform. Comput. Appl. 19 (2005),
//! doi:10.1177/1094342005051521, sections 4 and 5.

use super::group::{Group, flat};
use crate::plan::{Layout, Nodes, Plan, Shape};

/// Large subtrees are served first.
pub fn broadcast(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, 1, Layout::Blocks, |g| broadcast_in(g, shape.root))
}

/// A rank folds itself and its subtrees in one step.
pub fn reduce(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, 1, Layout::Blocks, |g| reduce_in(g, shape.root))
}

/// Blocks pass through the ranks of the tree one by one, without being stored there.
pub fn gather(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, |g| {
        gather_in(g, shape.root)
    })
}

/// Blocks go down the tree from the root, the way of [`gather`] backwards.
pub fn scatter(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, |g| {
        scatter_in(g, shape.root)
    })
}

/// The place of a member in the tree with a root.
pub(super) struct Place {
    n: u32,
    root: u32,
    /// Distance from the root.
    v: u32,
}

impl Place {
    fn of(g: &Group, root: u32) -> Place {
        Place::among(g.n, root, g.me)
    }

    /// That of member `me` of `n`.
    pub(super) fn among(n: u32, root: u32, me: u32) -> Place {
        let v = (me + n - root) % n;
        Place { n, root, v }
    }

    /// The member at a distance.
    pub(super) fn member(&self, v: u32) -> u32 {
        (v + self.root) % self.n
    }

    /// The member above.
    pub(super) fn parent(&self) -> Option<u32> {
        (self.v > 0).then(|| self.member(self.v & (self.v - 1)))
    }

    /// Distances of the children, nearest first.
    pub(super) fn children(&self) -> impl DoubleEndedIterator<Item = u32> + use<> {
        let (n, v) = (self.n, self.v);
        let bits = match v {
            0 => n.next_power_of_two().ilog2(),
            _ => v.trailing_zeros(),
        };
        (0..bits)
            .map(move |k| v + (1 << k))
            .filter(move |&child| child < n)
    }

    /// Distances of the members below a child, itself included.
    fn below(&self, child: u32) -> std::ops::Range<u32> {
        child..(child + (child & child.wrapping_neg())).min(self.n)
    }
}

/// Piece 0 of member `root` ends at all.
pub fn broadcast_in(g: &mut Group, root: u32) {
    let place = Place::of(g, root);
    let children: Vec<u32> = place.children().rev().map(|v| place.member(v)).collect();
    g.down(place.parent(), &children, 0);
}

/// Piece 0 ends, folded, at member `root`.
pub fn reduce_in(g: &mut Group, root: u32) {
    let place = Place::of(g, root);
    let children: Vec<u32> = place.children().map(|v| place.member(v)).collect();
    g.up(place.parent(), &[], &children, 0);
}

/// Piece c of member c ends at member `root`.
pub fn gather_in(g: &mut Group, root: u32) {
    let place = Place::of(g, root);
    let me = i64::from(g.me);
    match place.parent() {
        None => g.copy(me, false),
        Some(parent) => {
            let up = g.to(parent);
            g.send(up, me);
        }
    }
    for child in place.children() {
        let from = g.from(place.member(child));
        for piece in place.below(child).map(|v| i64::from(place.member(v))) {
            match place.parent() {
                None => g.recv(from, piece),
                Some(parent) => {
                    let up = g.to(parent);
                    g.recv_send(from, up, piece);
                }
            }
        }
    }
}

/// Piece c of member `root` ends at member c. The blocks of the farthest go first.
pub fn scatter_in(g: &mut Group, root: u32) {
    let place = Place::of(g, root);
    let parent = place.parent().map(|parent| g.from(parent));
    for child in place.children().rev() {
        let to = g.to(place.member(child));
        for piece in place.below(child).rev().map(|v| i64::from(place.member(v))) {
            match parent {
                None => g.send(to, piece),
                Some(parent) => g.recv_send(parent, to, piece),
            }
        }
    }
    match parent {
        None => g.copy(i64::from(g.me), false),
        Some(parent) => g.recv(parent, i64::from(g.me)),
    }
}
