//! Groups: some ranks as an algorithm sees them, so that algorithms compose.
//!
//! The problem: a schedule for many nodes is "this one inside every node, that one between their
//! leaders". Written out it would be a new algorithm for every pair. The idea: an algorithm is
//! written for a *group*, whose members are numbered from 0 and whose data are *pieces*. The group
//! says which rank a member is, which chunk of the plan a piece is, where a member's contribution
//! lies and where the result goes. Run on all ranks it is the plain algorithm; run on the ranks of
//! a node, and then on leaders, it is a level of a hierarchy.
//!
//! A piece may be several chunks, or none (nodes of unequal sizes): steps of a missing piece are
//! left out, on every member alike, for all of them evaluate the same mapping.

use crate::plan::emit::Connection;
use crate::plan::{
    Emitter, Layout, Operand, POST_SCALE, PRE_SCALE, Plan, Runs, Shape, Space, StepOp,
};

/// Which chunks a piece is.
#[derive(Clone, Debug)]
pub enum Pieces {
    /// Piece p is chunk p; as many as there are.
    All,
    /// The chunks of every piece. A piece of several chunks passes in one token; one of none is
    /// missing.
    Listed(Vec<Vec<u32>>),
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

/// A step to be.
struct Token {
    how: (StepOp, u8),
    srcs: Vec<Operand>,
    dsts: Vec<Operand>,
    runs: Runs,
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

    /// All ranks in another order.
    ///
    /// # Panics
    /// If this rank is missing.
    pub fn in_order(&mut self, order: &[u32]) -> Group<'_> {
        self.among(order.to_vec())
            .expect("an order visits all ranks")
    }

    /// All ranks in another order; piece c is the block of member c.
    ///
    /// # Panics
    /// If this rank is missing.
    pub fn in_order_with_blocks(&mut self, order: &[u32]) -> Group<'_> {
        let blocks = order.iter().map(|&rank| vec![rank]).collect();
        Group {
            pieces: Pieces::Listed(blocks),
            ..self.in_order(order)
        }
    }

    /// Makes a group of these members whose results go somewhere else.
    pub fn again(&mut self, target: Operand) -> Group<'_> {
        Group {
            e: self.e,
            members: self.members.clone(),
            pieces: self.pieces.clone(),
            target,
            ..*self
        }
    }

    /// A level of a composition: these ranks, this one among them, with these pieces.
    /// Contributions lie in the first place, results go to the second, and they are final if
    /// `is_last`.
    ///
    /// # Panics
    /// If this rank is not among the members.
    pub fn level(
        &mut self,
        members: Vec<u32>,
        pieces: Pieces,
        (source, target): (Operand, Operand),
        is_last: bool,
    ) -> Group<'_> {
        Group {
            source,
            target,
            is_last,
            pieces,
            owns_lane: false,
            ..self
                .among(members)
                .expect("a rank runs the levels it belongs to")
        }
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

    /// Begins steps that may run beside those before: they depend on these through connections
    /// only.
    pub fn beside(&mut self) {
        if self.owns_lane {
            self.e.lane(self.channel);
        }
    }

    /// Says how many pieces the largest token of any member holds. A composition says it itself:
    /// groups of one level may differ in size.
    pub fn pieces(&mut self, pieces: u32) {
        if self.owns_lane {
            self.e.pieces(pieces);
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

    fn chunks(&self, pieces: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let pieces = pieces.into_iter();
        match &self.pieces {
            Pieces::All => pieces.collect(),
            Pieces::Listed(lists) => {
                let of = |piece: i64| &lists[piece.rem_euclid(lists.len() as i64) as usize];
                pieces.flat_map(of).map(|&chunk| i64::from(chunk)).collect()
            }
        }
    }

    /// One step: sources, folded in order, to all destinations. `is_result`: nothing of the group
    /// is missing in it.
    pub fn put(&mut self, srcs: &[Operand], dsts: &[Operand], piece: i64, is_result: bool) {
        self.put_many(srcs, dsts, [piece], is_result);
    }

    /// Hands over as [`Group::put`] does, with many pieces in one token; in a few tokens where
    /// their chunks are irregular. [`Group::pieces`] must be told of the largest token of any
    /// member.
    pub fn put_many(
        &mut self,
        srcs: &[Operand],
        dsts: &[Operand],
        pieces: impl IntoIterator<Item = i64>,
        is_result: bool,
    ) {
        for token in self.tokens(srcs, dsts, pieces, is_result) {
            self.emit(&token);
        }
    }

    fn tokens(
        &self,
        srcs: &[Operand],
        dsts: &[Operand],
        pieces: impl IntoIterator<Item = i64>,
        is_result: bool,
    ) -> Vec<Token> {
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
        // What is where it belongs already stays there.
        let stays = op == StepOp::Copy && flags & POST_SCALE == 0;
        let leaves = |dst: &Operand| !(stays && *dst == srcs[0]);
        let dsts: Vec<Operand> = dsts.iter().copied().filter(leaves).collect();
        if dsts.is_empty() {
            return Vec::new();
        }
        let groups = self.e.grouped(&self.chunks(pieces));
        let token = |runs| Token {
            how: (op, flags),
            srcs: srcs.to_vec(),
            dsts: dsts.clone(),
            runs,
        };
        groups.into_iter().map(token).collect()
    }

    fn emit(&mut self, token: &Token) {
        self.e.pack(token.how, &token.srcs, &token.dsts, token.runs);
    }

    /// Tokens that go out and tokens that come in, in turns, so that no connection fills up.
    fn in_turns(&mut self, out: Vec<Token>, back: Vec<Token>) {
        for k in 0..out.len().max(back.len()) {
            for token in [out.get(k), back.get(k)].into_iter().flatten() {
                self.emit(token);
            }
        }
    }

    /// A list of chunks in parts that pass in one token each.
    pub fn regular(&self, chunks: &[u32]) -> Vec<Vec<u32>> {
        let wide: Vec<i64> = chunks.iter().copied().map(i64::from).collect();
        let mut rest = chunks;
        let mut parts = Vec::new();
        for runs in self.e.grouped(&wide) {
            let (part, behind) = rest.split_at((runs.length * runs.count) as usize);
            parts.push(part.to_vec());
            rest = behind;
        }
        parts
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
        let mut dsts = vec![self.target];
        dsts.extend(to.iter().map(|&m| self.to(m).operand()));
        let src = match parent {
            Some(parent) => self.from(parent).operand(),
            None => self.source,
        };
        self.put(&[src], &dsts, piece, false);
    }

    /// Hands over as [`Group::put_many`] does, with one token for each list.
    pub fn put_each(&mut self, srcs: &[Operand], dsts: &[Operand], lists: &[Vec<i64>]) {
        for list in lists {
            self.put_many(srcs, dsts, list.iter().copied(), false);
        }
    }

    /// Sources of a fold with a partner: what belongs to the lower member comes first, so that both
    /// fold alike.
    fn lower_first(&mut self, partner: u32, mine: Operand) -> [Operand; 2] {
        let from = self.from(partner).operand();
        if partner < self.me {
            [from, mine]
        } else {
            [mine, from]
        }
    }

    /// from -> partner: many pieces in one token.
    pub fn give(&mut self, to: u32, from: Operand, pieces: impl IntoIterator<Item = i64>) {
        let to = self.to(to).operand();
        self.put_many(&[from], &[to], pieces, false);
    }

    /// partner -> result: many pieces in one token.
    pub fn take_from(&mut self, from: u32, pieces: impl IntoIterator<Item = i64>) {
        let from = self.from(from).operand();
        self.put_many(&[from], &[self.target], pieces, false);
    }

    /// mine + partner -> result: many pieces in one token.
    pub fn fold_from(
        &mut self,
        partner: u32,
        mine: Operand,
        pieces: impl IntoIterator<Item = i64>,
        is_result: bool,
    ) {
        let srcs = self.lower_first(partner, mine);
        self.put_many(&srcs, &[self.target], pieces, is_result);
    }

    /// mine -> partner, mine + partner -> result.
    pub fn fold_with(
        &mut self,
        partner: u32,
        mine: Operand,
        give: impl IntoIterator<Item = i64>,
        keep: impl IntoIterator<Item = i64>,
        is_result: bool,
    ) {
        let to = self.to(partner).operand();
        let out = self.tokens(&[mine], &[to], give, false);
        let srcs = self.lower_first(partner, mine);
        let back = self.tokens(&srcs, &[self.target], keep, is_result);
        self.in_turns(out, back);
    }

    /// result -> to, from -> result: many pieces in one token each.
    pub fn exchange(
        &mut self,
        (to, give): (u32, impl IntoIterator<Item = i64>),
        (from, take): (u32, impl IntoIterator<Item = i64>),
    ) {
        let (to, from) = (self.to(to).operand(), self.from(from).operand());
        let out = self.tokens(&[self.target], &[to], give, false);
        let back = self.tokens(&[from], &[self.target], take, false);
        self.in_turns(out, back);
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

    /// network -> result, of which nothing is missing
    pub fn take(&mut self, from: Connection, piece: i64) {
        self.put(&[from.operand()], &[self.target], piece, true);
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
