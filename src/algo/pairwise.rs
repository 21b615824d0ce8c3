//! Pairwise exchange: in every step each rank exchanges a block with one other rank.
//!
//! n - 1 steps with one message in flight a rank: no rank is flooded, and every block travels once.
//! For large blocks. In step k the partner is `me xor k` where n is a power of two, so that both
//! send to each other; else blocks go k ranks ahead and come from k ranks behind.
//!
//! Reference: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication
//! operations in MPICH", Int. J. High Perform. Comput. Appl. 19 (2005),
//! doi:10.1177/1094342005051521, section 4.

use super::group::{Group, flat};
use crate::plan::{Layout, Nodes, Plan, Shape};

/// Block p goes to rank p, block p comes from rank p.
pub fn all_to_all(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, all_to_all_in)
}

/// Piece p goes to member p, piece p comes from member p.
pub fn all_to_all_in(g: &mut Group) {
    g.copy(i64::from(g.me), false);
    for k in 1..g.n {
        let (ahead, behind) = match g.n.is_power_of_two() {
            true => (g.me ^ k, g.me ^ k),
            false => (g.ahead(k), g.behind(k)),
        };
        let (to, from) = (g.to(ahead), g.from(behind));
        g.send(to, i64::from(ahead));
        g.recv(from, i64::from(behind));
    }
}
