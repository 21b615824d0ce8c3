//! Halving and doubling: partners exchange halves of what they still have to fold, then double
//! what they have.
//!
//! The reduce-scatter half: in exchange k, partners 2^k apart give each other the chunks that the
//! other one keeps, and fold what they get: half of the data, a quarter, an eighth ... The
//! all-gather half goes the same way back. So log n hand-overs each, with the traffic of a ring,
//! and most of the data goes to the nearest. Partners fold the lower half first, so rank order is
//! kept. Any number of ranks, by guests and hosts (`cores`).
//!
//! Reference: R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication
//! operations in MPICH", Int. J. High Perform. Comput. Appl. 19 (2005),
//! doi:10.1177/1094342005051521, section 4.5.

use super::cores::{Cores, Role};
use super::group::{Group, flat};
use crate::plan::{Layout, Nodes, Operand, Plan, Shape};
use std::ops::Range;

/// Halving, then doubling.
pub fn all_reduce(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, pieces(shape.nranks), Layout::Split, all_reduce_in)
}

/// Halving over blocks.
pub fn reduce_scatter(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, reduce_scatter_in)
}

/// Doubling over blocks, with the farthest first.
pub fn all_gather(shape: &Shape, _: &Nodes) -> Plan {
    flat(shape, shape.nranks, Layout::Blocks, all_gather_in)
}

/// Pieces that an all-reduce among n members has: the largest power of two.
pub fn pieces(n: u32) -> u32 {
    Cores::of(n).count
}

/// All-reduce of [`pieces`] pieces. Piece p is kept by the core with the bits of p in reverse
/// order, so that what a core keeps is a run.
pub fn all_reduce_in(g: &mut Group) {
    let halving = Halving::of(g.n, g.me);
    halving.hand_in(g);
    halving.exchange(g);
    halving.take_out(g);
}

/// Steps that the members of a column run together.
pub type Together<'a> = &'a dyn Fn(&mut Group);

/// The all-reduce of a member in three stages, between which a hierarchy may work on one half of
/// the pieces while the other one is on its way.
pub struct Halving {
    cores: Cores,
    role: Role,
    halves: [Range<i64>; 2],
}

impl Halving {
    /// All-reduce as member `me` of n does it.
    pub fn of(n: u32, me: u32) -> Halving {
        let cores = Cores::of(n);
        let all = i64::from(cores.count);
        Halving {
            role: cores.role(me),
            halves: [0..all / 2, all / 2..all],
            cores,
        }
    }

    /// Runs in a hierarchy: `fold` makes a half of the pieces ready in the part of this member,
    /// `across` runs a stage among the members, `spread` takes a half that is done. Ranks of one
    /// part are the same member, so they agree which half comes first.
    pub fn between(
        &self,
        g: &mut Group,
        fold: &dyn Fn(&mut Group, Range<u32>),
        across: &dyn Fn(&mut Group, Together),
        spread: &dyn Fn(&mut Group, Range<u32>),
    ) {
        let (wanted, there) = (self.wanted_first(), self.there_first());
        let run = |half: &Range<i64>| half.start as u32..half.end as u32;
        let other = |half: &Range<i64>| run(&self.half(half.start == 0));
        fold(g, run(&wanted));
        across(g, &|members| self.hand_in(members));
        fold(g, other(&wanted));
        across(g, &|members| self.exchange(members));
        spread(g, run(&there));
        across(g, &|members| self.take_out(members));
        spread(g, other(&there));
    }

    /// The half that [`Halving::hand_in`] wants.
    fn wanted_first(&self) -> Range<i64> {
        match self.role {
            Role::Core { number, host } => self.half(!host && number & 1 == 0),
            Role::Guest => self.half(false),
        }
    }

    /// The half that is there before [`Halving::take_out`].
    fn there_first(&self) -> Range<i64> {
        match self.role {
            Role::Core { number, host } => self.half(!host && number & 1 == 1),
            Role::Guest => self.half(false),
        }
    }

    fn half(&self, is_high: bool) -> Range<i64> {
        self.halves[usize::from(is_high)].clone()
    }

    /// Halves of what this core has: the one that it keeps in exchange k, and the other.
    fn parted(&self, number: u32, k: u32, range: &Range<i64>) -> (Range<i64>, Range<i64>) {
        let middle = (range.start + range.end) / 2;
        let (low, high) = (range.start..middle, middle..range.end);
        match number >> k & 1 {
            0 => (low, high),
            _ => (high, low),
        }
    }

    /// Begins with the half of [`Halving::wanted_first`].
    fn hand_in(&self, g: &mut Group) {
        let (mine, result, first) = (g.own(), g.result(), self.wanted_first());
        match self.role {
            Role::Guest => {
                let to = g.to(g.me + 1).operand();
                g.put_many(&[mine], &[to], first, false);
            }
            Role::Core { host: true, .. } => {
                let guest = g.from(g.me - 1).operand();
                g.put_many(&[guest, mine], &[result], first, false);
            }
            Role::Core { number, .. } if self.cores.exchanges() > 0 => {
                g.give(self.cores.member(number ^ 1), mine, first);
            }
            Role::Core { .. } => {}
        }
    }

    /// Does all but what is left to the last stage. Wants both halves.
    fn exchange(&self, g: &mut Group) {
        let (mut mine, result) = (g.own(), g.result());
        let Role::Core { number, host } = self.role else {
            let (to, from) = (g.to(g.me + 1).operand(), g.from(g.me + 1).operand());
            g.put_many(&[mine], &[to], self.half(true), false);
            return g.put_many(&[from], &[result], self.half(false), false);
        };
        if host {
            let guest = g.from(g.me - 1).operand();
            g.put_many(&[guest, mine], &[result], self.half(true), false);
            mine = result;
        }
        if g.n == 1 {
            return g.copy(0, true);
        }
        let mut range = 0..i64::from(self.cores.count);
        let mut exchanged = Vec::new();
        for k in 0..self.cores.exchanges() {
            let (keep, give) = self.parted(number, k, &range);
            let partner = self.cores.member(number ^ 1 << k);
            if k > 0 || host {
                g.give(partner, mine, give.clone());
            }
            let is_result = k + 1 == self.cores.exchanges();
            g.fold_from(partner, mine, keep.clone(), is_result);
            (mine, range) = (result, keep.clone());
            exchanged.push((partner, keep, give));
        }
        for (k, (partner, keep, give)) in exchanged.into_iter().enumerate().rev() {
            g.give(partner, result, keep);
            if k > 0 || host {
                g.take_from(partner, give);
            }
        }
        if host {
            let guest = g.to(g.me - 1).operand();
            g.put_many(&[result], &[guest], self.half(false), false);
        }
    }

    /// Ends with the half that was not there.
    fn take_out(&self, g: &mut Group) {
        let result = g.result();
        match self.role {
            Role::Guest => g.take_from(g.me + 1, self.half(true)),
            Role::Core { host: true, .. } => {
                let guest = g.to(g.me - 1).operand();
                g.put_many(&[result], &[guest], self.half(true), false);
            }
            Role::Core { number, .. } if self.cores.exchanges() > 0 => {
                g.take_from(self.cores.member(number ^ 1), self.wanted_first());
            }
            Role::Core { .. } => {}
        }
    }
}

/// Piece c ends, folded, at member c; partial results lie in scratch.
pub fn reduce_scatter_in(g: &mut Group) {
    let (cores, me) = (Cores::of(g.n), i64::from(g.me));
    if g.n == 1 {
        return g.copy(me, true);
    }
    let halves = [cores.agreeing(0, 1), cores.agreeing(1, 1)];
    g.pieces(halves[0].len() as u32);
    let (mut mine, target) = (g.own(), g.result());
    let Role::Core { number, host } = cores.role(g.me) else {
        let (to, from) = (g.to(g.me + 1).operand(), g.from(g.me + 1));
        g.put_each(&[mine], &[to], &halves);
        return g.recv(from, me);
    };
    let g = &mut g.again(Operand::SCRATCH);
    if host {
        let srcs = [g.from(g.me - 1).operand(), mine];
        g.put_each(&srcs, &[Operand::SCRATCH], &halves);
        mine = Operand::SCRATCH;
    }
    for k in 0..cores.exchanges() {
        let (partner, bits) = (number ^ 1 << k, k + 1);
        let keep = cores.agreeing(number, bits);
        let give = cores.agreeing(partner, bits);
        g.fold_with(
            cores.member(partner),
            mine,
            give,
            keep,
            bits == cores.exchanges(),
        );
        mine = Operand::SCRATCH;
    }
    g.put(&[Operand::SCRATCH], &[target], me, false);
    if host {
        let guest = g.to(g.me - 1);
        g.send_result(guest, me - 1);
    }
}

/// Piece c, a contribution of member c, ends at all.
pub fn all_gather_in(g: &mut Group) {
    let (cores, me) = (Cores::of(g.n), i64::from(g.me));
    let halves = [cores.agreeing(0, 1), cores.agreeing(1, 1)];
    g.pieces(halves[0].len() as u32);
    let result = g.result();
    let Role::Core { number, host } = cores.role(g.me) else {
        let (to, from) = (g.to(g.me + 1), g.from(g.me + 1).operand());
        g.copy_send(to, me);
        return g.put_each(&[from], &[result], &halves);
    };
    g.copy(me, false);
    if host {
        let guest = g.from(g.me - 1);
        g.recv(guest, me - 1);
    }
    for k in (0..cores.exchanges()).rev() {
        let (partner, bits) = (number ^ 1 << k, k + 1);
        let give = cores.agreeing(number, bits);
        let take = cores.agreeing(partner, bits);
        let partner = cores.member(partner);
        g.exchange((partner, give), (partner, take));
    }
    if host {
        let guest = g.to(g.me - 1).operand();
        g.put_each(&[result], &[guest], &halves);
    }
}
