//! Recursive doubling: partners at doubling distances exchange all they have.
//!
//! After k exchanges a rank knows what 2^k ranks knew, so everything is everywhere after log n
//! hand-overs: for small data. Any number of ranks: with c the largest power of two and n = c + r,
//! the first 2r ranks form pairs. The first of a pair hands in what it has and waits for the
//! result, the second one takes part for both. Pairs are neighbours and partners fold the lower
//! half first, so rank order is kept.
//!
//! Reference: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication
//! operations in MPICH", Int. J. High Perform. Comput. Appl. 19 (2005),
//! doi:10.1177/1094342005051521, section 4.

use super::group::{Group, flat};
use crate::plan::{Layout, Nodes, Plan, Shape};

/// All data in every exchange.
pub fn all_reduce(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, 1, Layout::Split, all_reduce_in)
}

/// Blocks are exchanged one against one, so that connections never fill up.
pub fn all_gather(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, all_gather_in)
}

/// Signals instead of data.
pub fn barrier(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, 1, Layout::Blocks, barrier_in)
}

/// Who takes part in the exchanges, and for whom.
pub(super) struct Cores {
    /// A power of two.
    pub count: u32,
    /// Members that another one takes part for.
    extra: u32,
}

/// What a member does.
pub(super) enum Role {
    /// Hands in to the next member, takes the result from it.
    Guest,
    /// Takes part with this number, for the member before it too if `host`.
    Core { number: u32, host: bool },
}

impl Cores {
    pub fn of(n: u32) -> Cores {
        let count = 1 << n.ilog2();
        let extra = n - count;
        Cores { count, extra }
    }

    pub fn role(&self, member: u32) -> Role {
        let (number, host) = match member < 2 * self.extra {
            true if member.is_multiple_of(2) => return Role::Guest,
            true => (member / 2, true),
            false => (member - self.extra, false),
        };
        Role::Core { number, host }
    }

    /// The member that takes part with this number.
    pub fn member(&self, number: u32) -> u32 {
        match number < self.extra {
            true => 2 * number + 1,
            false => number + self.extra,
        }
    }

    /// The first member that cores from this number on stand for; n for the end.
    pub fn first(&self, number: u32) -> u32 {
        number + number.min(self.extra)
    }

    /// How many exchanges there are.
    pub fn exchanges(&self) -> u32 {
        self.count.ilog2()
    }
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
        let (to, from) = (g.to(partner).operand(), g.from(partner).operand());
        g.put(&[mine], &[to], 0, false);
        let srcs = match partner < g.me {
            true => [from, mine],
            false => [mine, from],
        };
        g.put(&srcs, &[g.result()], 0, k + 1 == cores.exchanges());
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
    let Role::Core { number, host } = cores.role(g.me) else {
        let (to, from) = (g.to(g.me + 1), g.from(g.me + 1));
        g.copy_send(to, me);
        return (1..i64::from(g.n)).for_each(|distance| g.recv(from, me + distance));
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
        g.exchange(cores.member(other), half(number), half(other));
    }
    if host {
        let guest = g.to(g.me - 1);
        (0..i64::from(g.n) - 1).for_each(|distance| g.send_result(guest, me + distance));
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
