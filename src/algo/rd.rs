//! Recursive doubling: partners at doubling distances exchange all they have.
//!
//! After k exchanges a rank knows what 2^k ranks knew, so everything is everywhere after log n
//! hand-overs: for small data. Any number of ranks, by guests and hosts (`cores`). Partners fold
//! the lower half first, so rank order is kept.
//!
//! Reference: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication
//! operations in MPICH", Int. J. High Perform. Comput. Appl. 19 (2005),
//! doi:10.1177/1094342005051521, section 4.

use super::cores::{Cores, Role};
use super::group::{Group, flat};
use crate::plan::{Layout, Nodes, Plan, Shape};

/// All data in every exchange.
pub fn all_reduce(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, 1, Layout::Split, all_reduce_in)
}

/// All known blocks in every exchange.
pub fn all_gather(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, all_gather_in)
}

/// Signals instead of data.
pub fn barrier(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, 1, Layout::Blocks, barrier_in)
}

/// All-reduce of piece 0.
pub fn all_reduce_in(g: &mut Group) {
    let cores = Cores::of(g.n);
    let Role::Core { number, host } = cores.role(g.me) else {
        let (to, from) = (g.to(g.me + 1), g.from(g.me + 1));
        g.send(to, 0);
        return g.recv(from, 0);
    };
    let mut mine = g.own();
    if host {
        let guest = g.from(g.me - 1).operand();
        g.put(&[guest, mine], &[g.result()], 0, false);
        mine = g.result();
    }
    for k in 0..cores.exchanges() {
        let partner = cores.member(number ^ (1 << k));
        let is_result = k + 1 == cores.exchanges();
        g.fold_with(partner, mine, [0], [0], is_result);
        mine = g.result();
    }
    if g.n == 1 {
        g.copy(0, true);
    }
    if host {
        let guest = g.to(g.me - 1);
        g.send_result(guest, 0);
    }
}

/// Piece c, a contribution of member c, ends at all.
pub fn all_gather_in(g: &mut Group) {
    let cores = Cores::of(g.n);
    let me = i64::from(g.me);
    // A guest takes all blocks but its own; without guests, the last exchange is half of them.
    let largest = cores
        .first(cores.count / 2)
        .max(g.n - cores.first(cores.count / 2));
    g.pieces(if cores.extra > 0 { g.n - 1 } else { largest });
    let Role::Core { number, host } = cores.role(g.me) else {
        let (to, from) = (g.to(g.me + 1), g.from(g.me + 1));
        g.copy_send(to, me);
        let result = g.result();
        let others = (1..i64::from(g.n)).map(|distance| me + distance);
        return g.put_many(&[from.operand()], &[result], others, false);
    };
    g.copy(me, false);
    if host {
        let guest = g.from(g.me - 1);
        g.recv(guest, me - 1);
    }
    for k in 0..cores.exchanges() {
        let half = |number: u32| {
            let low = number >> k << k;
            i64::from(cores.first(low))..i64::from(cores.first(low + (1 << k)))
        };
        let other = number ^ (1 << k);
        let partner = cores.member(other);
        g.exchange((partner, half(number)), (partner, half(other)));
    }
    if host {
        let (guest, result) = (g.to(g.me - 1).operand(), g.result());
        let others = (0..i64::from(g.n) - 1).map(|distance| me + distance);
        g.put_many(&[result], &[guest], others, false);
    }
}

/// Nobody leaves before all have entered.
pub fn barrier_in(g: &mut Group) {
    let cores = Cores::of(g.n);
    let Role::Core { number, host } = cores.role(g.me) else {
        g.signal(&[g.me + 1]);
        return g.wait(&[g.me + 1]);
    };
    if host {
        g.wait(&[g.me - 1]);
    }
    for k in 0..cores.exchanges() {
        let partner = cores.member(number ^ (1 << k));
        g.signal(&[partner]);
        g.wait(&[partner]);
    }
    if host {
        g.signal(&[g.me - 1]);
    }
}
