//! Groups: some ranks as an algorithm sees them, so that algorithms compose.
//!
//! The problem: a schedule for many nodes is "this one inside every node, that one between their
//! leaders". Written out it would be a new algorithm for every pair. The idea: an algorithm is
//! written for a *group*, whose members are numbered from 0 and whose data are *pieces*. The group
//! says which rank a member is, which chunk of the plan a piece is, where a member's contribution
//! lies and where the result goes. Run on all ranks it is the plain algorithm; run on the ranks of
//! a node, and then on leaders, it is a level of a hierarchy.
//!
//! A piece may be missing (nodes of unequal sizes): steps of a missing piece are left out, on every
//! member alike, for all of them evaluate the same mapping.

use crate::plan::emit::Connection;
use crate::plan::{Emitter, Layout, Operand, POST_SCALE, PRE_SCALE, Plan, Shape, Space, StepOp};
use std::ops::Range;

/// Which chunk a piece is.
#[derive(Clone, Debug)]
pub enum Pieces {
    /// Piece p is chunk p; as many as there are.
    All,
    /// Piece p of `count` is chunk `first + p * stride`.
    Strided {
        /// How many.
        count: u32,
        /// Chunk of piece 0.
        first: u32,
        /// Chunks from a piece to the next.
        stride: u32,
    },
    /// The chunk of every piece; `None` for one that is missing.
    Listed(Vec<Option<u32>>),
}

/// Some ranks, and some chunks of the plan under construction.
pub struct Group<'e> {
    /// Where the steps go.
    pub e: &'e mut Emitter,
    /// The number of this rank.
    pub me: u32,
    /// How many members there are.
    pub n: u32,
    /// The channel of the lane.
    pub channel: u16,
    /// Ranks by number; empty for all ranks in their order.
    members: Vec<u32>,
    pieces: Pieces,
    /// Where a contribution lies.
    source: Operand,
    /// Where results go.
    target: Operand,
    /// Folds here are the result of the call.
    is_last: bool,
    /// The lane is the algorithm's own: it may open more.
    owns_lane: bool,
    reduces: bool,
}

/// The plan of an algorithm that runs once a channel on all ranks.
pub fn flat(shape: &Shape, chunks: u32, layout: Layout, body: impl Fn(&mut Group)) -> Plan {
    let mut e = Emitter::new(*shape, chunks, layout);
    for channel in 0..shape.channels {
        e.lane(channel);
        body(&mut Group::all(&mut e, shape, channel));
    }
    e.finish()
}

impl<'e> Group<'e> {
    /// All ranks, from input to output.
    pub fn all(e: &'e mut Emitter, shape: &Shape, channel: u16) -> Group<'e> {
        Group {
            e,
            me: shape.rank,
            n: shape.nranks,
            channel,
            members: Vec::new(),
            pieces: Pieces::All,
            source: Operand::INPUT,
            target: Operand::OUTPUT,
            is_last: true,
            owns_lane: true,
            reduces: shape.collective.reduces(),
        }
    }

    /// These ranks in this order. `None` if this rank is not among them.
    pub fn among(&mut self, members: Vec<u32>) -> Option<Group<'_>> {
        let mine = self.rank(self.me);
        let me = members.iter().position(|&rank| rank == mine)?;
        Some(Group {
            e: self.e,
            me: me as u32,
            n: members.len() as u32,
            members,
            pieces: self.pieces.clone(),
            ..*self
        })
    }

    /// A level of a composition: contributions lie in `source`, results go to `target`, and only
    /// the last level makes them final.
    pub fn level(self, source: Operand, target: Operand, is_last: bool) -> Group<'e> {
        Group {
            source,
            target,
            is_last,
            owns_lane: false,
            ..self
        }
    }

    /// With these pieces.
    pub fn with(self, pieces: Pieces) -> Group<'e> {
        Group { pieces, ..self }
    }

    /// The rank of a member.
    pub fn rank(&self, member: u32) -> u32 {
        match self.members.is_empty() {
            true => member,
            false => self.members[member as usize],
        }
    }

    /// The member `distance` behind this one, around.
    pub fn ahead(&self, distance: u32) -> u32 {
        (self.me + distance) % self.n
    }

    /// The member `distance` before this one, around.
    pub fn behind(&self, distance: u32) -> u32 {
        (self.me + self.n - distance % self.n) % self.n
    }

    /// All other members, the next one first.
    pub fn others(&self) -> Vec<u32> {
        (1..self.n).map(|distance| self.ahead(distance)).collect()
    }

    /// The connection to a member.
    pub fn to(&mut self, member: u32) -> Connection {
        self.e.to(self.rank(member))
    }

    /// The connection from a member.
    pub fn from(&mut self, member: u32) -> Connection {
        self.e.from(self.rank(member))
    }

    /// What follows may run beside what came before: it depends on it through connections only.
    pub fn beside(&mut self) {
        if self.owns_lane {
            self.e.lane(self.channel);
        }
    }

    /// Where the own contribution lies.
    pub fn own(&self) -> Operand {
        self.source
    }

    /// Where results go.
    pub fn result(&self) -> Operand {
        self.target
    }

    fn chunk(&self, piece: i64) -> Option<i64> {
        match &self.pieces {
            Pieces::All => Some(piece),
            Pieces::Strided {
                count,
                first,
                stride,
            } => {
                let piece = piece.rem_euclid(i64::from(*count));
                Some(i64::from(*first) + piece * i64::from(*stride))
            }
            Pieces::Listed(chunks) => {
                let piece = piece.rem_euclid(chunks.len() as i64);
                chunks[piece as usize].map(i64::from)
            }
        }
    }

    /// One step: sources, folded in order, to all destinations. `is_result`: nothing of the group
    /// is missing in it.
    pub fn put(&mut self, srcs: &[Operand], dsts: &[Operand], piece: i64, is_result: bool) {
        let Some(chunk) = self.chunk(piece) else {
            return;
        };
        let mut flags = 0;
        if srcs.iter().any(|operand| operand.space == Space::Input) {
            flags |= PRE_SCALE;
        }
        if is_result && self.is_last && self.reduces {
            flags |= POST_SCALE;
        }
        let op = match srcs.len() {
            1 => StepOp::Copy,
            _ => StepOp::Fold,
        };
        if op == StepOp::Copy && flags & POST_SCALE == 0 && dsts.contains(&srcs[0]) {
            // It is where it belongs already.
            let dsts: Vec<Operand> = dsts.iter().copied().filter(|d| *d != srcs[0]).collect();
            if !dsts.is_empty() {
                self.e.step(op, flags, srcs, &dsts, chunk);
            }
            return;
        }
        self.e.step(op, flags, srcs, dsts, chunk);
    }

    /// Sources in the order of folding: `before`, own, `after`.
    fn around_own(&mut self, before: &[u32], after: &[u32]) -> Vec<Operand> {
        let mut srcs: Vec<Operand> = before.iter().map(|&m| self.from(m).operand()).collect();
        srcs.push(self.source);
        srcs.extend(after.iter().map(|&m| self.from(m).operand()));
        srcs
    }

    /// The step of a tree of reductions: members `before`, own, members `after` -> parent, or
    /// result at the top.
    pub fn up(&mut self, parent: Option<u32>, before: &[u32], after: &[u32], piece: i64) {
        let srcs = self.around_own(before, after);
        match parent {
            Some(parent) => {
                let dsts = [self.to(parent).operand()];
                self.put(&srcs, &dsts, piece, false);
            }
            None => self.put(&srcs, &[self.target], piece, true),
        }
    }

    /// The top of a tree of reductions and of the tree that spreads the result:
    /// members `before`, own, members `after` -> result, members `to`.
    pub fn turn(&mut self, before: &[u32], after: &[u32], to: &[u32], piece: i64) {
        let srcs = self.around_own(before, after);
        let mut dsts = vec![self.target];
        dsts.extend(to.iter().map(|&m| self.to(m).operand()));
        self.put(&srcs, &dsts, piece, true);
    }

    /// The step of a tree that spreads: parent, or own at the top -> result, members `to`.
    pub fn down(&mut self, parent: Option<u32>, to: &[u32], piece: i64) {
        let src = match parent {
            Some(parent) => self.from(parent).operand(),
            None => self.source,
        };
        let mut dsts = vec![self.target];
        dsts.extend(to.iter().map(|&m| self.to(m).operand()));
        self.put(&[src], &dsts, piece, false);
    }

    /// Hands pieces of the result to a member against other pieces of the result, one against one,
    /// so that no connection fills up.
    pub fn exchange(&mut self, with: u32, give: Range<i64>, take: Range<i64>) {
        let (to, from) = (self.to(with), self.from(with));
        let most = (give.end - give.start).max(take.end - take.start);
        for k in 0..most {
            if give.start + k < give.end {
                self.send_result(to, give.start + k);
            }
            if take.start + k < take.end {
                self.recv(from, take.start + k);
            }
        }
    }

    /// Signals these members without payload.
    pub fn signal(&mut self, to: &[u32]) {
        let dsts: Vec<Operand> = to.iter().map(|&m| self.to(m).operand()).collect();
        self.e.signal(&dsts);
    }

    /// Waits for a signal of each of these members.
    pub fn wait(&mut self, from: &[u32]) {
        let srcs: Vec<Operand> = from.iter().map(|&m| self.from(m).operand()).collect();
        self.e.wait(&srcs);
    }

    /// own -> next
    pub fn send(&mut self, next: Connection, piece: i64) {
        self.put(&[self.source], &[next.operand()], piece, false);
    }

    /// result -> next
    pub fn send_result(&mut self, next: Connection, piece: i64) {
        self.put(&[self.target], &[next.operand()], piece, false);
    }

    /// own -> result; `is_result` as in [`Group::put`].
    pub fn copy(&mut self, piece: i64, is_result: bool) {
        self.put(&[self.source], &[self.target], piece, is_result);
    }

    /// own -> result, next
    pub fn copy_send(&mut self, next: Connection, piece: i64) {
        let dsts = [self.target, next.operand()];
        self.put(&[self.source], &dsts, piece, false);
    }

    /// prev -> result
    pub fn recv(&mut self, prev: Connection, piece: i64) {
        self.put(&[prev.operand()], &[self.target], piece, false);
    }

    /// prev -> next
    pub fn recv_send(&mut self, prev: Connection, next: Connection, piece: i64) {
        self.put(&[prev.operand()], &[next.operand()], piece, false);
    }

    /// prev -> result, next
    pub fn recv_copy_send(&mut self, prev: Connection, next: Connection, piece: i64) {
        let dsts = [self.target, next.operand()];
        self.put(&[prev.operand()], &dsts, piece, false);
    }

    /// prev + own -> next
    pub fn recv_reduce_send(&mut self, prev: Connection, next: Connection, piece: i64) {
        let srcs = [prev.operand(), self.source];
        self.put(&srcs, &[next.operand()], piece, false);
    }

    /// prev + own -> result
    pub fn recv_reduce_copy(&mut self, prev: Connection, piece: i64) {
        let srcs = [prev.operand(), self.source];
        self.put(&srcs, &[self.target], piece, true);
    }

    /// prev + own -> result, next
    pub fn recv_reduce_copy_send(&mut self, prev: Connection, next: Connection, piece: i64) {
        let srcs = [prev.operand(), self.source];
        let dsts = [self.target, next.operand()];
        self.put(&srcs, &dsts, piece, true);
    }
}
