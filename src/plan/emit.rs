//! The emitter: named primitives that append steps.
//!
//! A primitive is named by what it does, in order: `recv_reduce_copy_send` receives, reduces with
//! the own input, copies to the output and sends. Steps that differ from their predecessor only by
//! a constant chunk distance are merged into it (`repeat`, `stride`), so an algorithm is written as
//! a plain loop and a ring of any size stays a handful of steps.

mod packed;

pub use packed::Runs;

use super::{
    ConnectionUse, Direction, Lane, Layout, Link, ListId, Lists, Operand, PACKED, POST_SCALE,
    PRE_SCALE, Plan, Readers, Shape, Space, Step, StepOp,
};

/// Builds one plan.
pub struct Emitter {
    plan: Plan,
    lane_start: usize,
    channel: u16,
}

/// A connection of the plan under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection(u16);

impl Connection {
    /// The connection as an operand.
    pub fn operand(self) -> Operand {
        Operand::connection(self.0)
    }
}

impl Emitter {
    /// Starts a plan whose chunk numbers are taken modulo `chunks`.
    pub fn new(shape: Shape, chunks: u32, layout: Layout) -> Emitter {
        Emitter {
            plan: Plan {
                shape,
                steps: Vec::new(),
                lists: Lists::default(),
                lanes: Vec::new(),
                connections: Vec::new(),
                chunks,
                layout,
                pieces: 1,
                scratch: 0,
            },
            lane_start: 0,
            channel: 0,
        }
    }

    /// Begins the lane of `channel`; the steps that follow belong to it.
    pub fn lane(&mut self, channel: u16) -> &mut Emitter {
        self.close_lane();
        self.channel = channel;
        self
    }

    fn close_lane(&mut self) {
        let steps = self.lane_start..self.plan.steps.len();
        if !steps.is_empty() {
            self.lane_start = steps.end;
            self.plan.lanes.push(Lane {
                channel: self.channel,
                steps,
            });
        }
    }

    /// Says how many chunks of scratch memory each lane has; chunk numbers of
    /// [`Operand::SCRATCH`] are taken modulo this. Left out, a plan that uses scratch has as many
    /// chunks of it as its data have.
    pub fn scratch(&mut self, chunks: u32) -> &mut Emitter {
        self.plan.scratch = self.plan.scratch.max(chunks);
        self
    }

    /// The finished plan.
    pub fn finish(mut self) -> Plan {
        self.close_lane();
        let lists = 0..self.plan.lists.len() as u16;
        let mut operands = lists.flat_map(|list| self.plan.lists.get(ListId(list)));
        if self.plan.scratch == 0 && operands.any(|operand| operand.space == Space::Scratch) {
            self.plan.scratch = self.plan.chunks.max(1);
        }
        self.plan
    }

    /// Uses the pair connection from this rank to `peer` on the current channel.
    pub fn to(&mut self, peer: u32) -> Connection {
        let writer = self.plan.shape.rank;
        let link = Link::Pair {
            writer,
            reader: peer,
            channel: self.channel,
        };
        self.use_connection(link, Direction::Send)
    }

    /// Uses the pair connection from `peer` to this rank on the current channel.
    pub fn from(&mut self, peer: u32) -> Connection {
        let reader = self.plan.shape.rank;
        let link = Link::Pair {
            writer: peer,
            reader,
            channel: self.channel,
        };
        self.use_connection(link, Direction::Recv)
    }

    /// Uses what the network folds on the current channel: the end to put into, of the pair to
    /// `next`, and the end to take from, of the pair from `previous`.
    pub fn folded(&mut self, next: u32, previous: u32) -> (Connection, Connection) {
        let (me, channel) = (self.plan.shape.rank, Link::FOLDS | self.channel);
        let link = |writer, reader| Link::Pair {
            writer,
            reader,
            channel,
        };
        let to = self.use_connection(link(me, next), Direction::Send);
        (to, self.use_connection(link(previous, me), Direction::Recv))
    }

    /// Uses the fan of `writer`: to write if that is this rank, else to read.
    pub fn fan(&mut self, writer: u32) -> Connection {
        self.use_one_to_all(Link::Fan { writer })
    }

    /// Uses the cast of `writer` on the current channel: to write if that is this rank, else to
    /// read. Every other rank must read every token.
    pub fn cast(&mut self, writer: u32) -> Connection {
        self.cast_to(writer, Readers::ALL)
    }

    /// Uses the cast of `writer` to these ranks on the current channel: to write if that is this
    /// rank, else to read. Every one of them must read every token.
    pub fn cast_to(&mut self, writer: u32, readers: Readers) -> Connection {
        let channel = self.channel;
        self.use_one_to_all(Link::Cast {
            writer,
            channel,
            readers,
        })
    }

    fn use_one_to_all(&mut self, link: Link) -> Connection {
        let direction = match link.writer() == self.plan.shape.rank {
            true => Direction::Send,
            false => Direction::Recv,
        };
        self.use_connection(link, direction)
    }

    fn use_connection(&mut self, link: Link, direction: Direction) -> Connection {
        let wanted = ConnectionUse { link, direction };
        let connections = &mut self.plan.connections;
        let known = connections.iter().rposition(|known| *known == wanted);
        let index = known.unwrap_or_else(|| {
            connections.push(wanted);
            connections.len() - 1
        });
        Connection(u16::try_from(index).expect("a rank has fewer than 65,536 connections a plan"))
    }

    /// Appends a step, or lengthens the last one. `chunk` may be negative or too large: it is
    /// taken modulo the chunks of the plan.
    pub fn step(&mut self, op: StepOp, flags: u8, srcs: &[Operand], dsts: &[Operand], chunk: i64) {
        let srcs = self.plan.lists.intern(srcs);
        let dsts = self.plan.lists.intern(dsts);
        self.append(op, flags, (srcs, dsts), chunk);
    }

    fn append(&mut self, op: StepOp, flags: u8, (srcs, dsts): (ListId, ListId), chunk: i64) {
        let modulus = i64::from(self.plan.chunks.max(1));
        let step = Step {
            op,
            flags,
            srcs,
            dsts,
            chunks: u16::from(op != StepOp::Token),
            chunk: chunk.rem_euclid(modulus) as u32,
            repeat: 1,
            stride: 0,
        };
        if self.plan.steps.len() > self.lane_start
            && let Some(last) = self.plan.steps.last_mut()
            && let Some(stride) = merged_stride(last, &step, modulus)
        {
            last.stride = stride;
            last.repeat += 1;
            return;
        }
        self.plan.steps.push(step);
    }

    /// input -> next
    pub fn send(&mut self, next: Connection, chunk: i64) {
        self.step(
            StepOp::Copy,
            PRE_SCALE,
            &[Operand::INPUT],
            &[next.operand()],
            chunk,
        );
    }

    /// output -> next
    pub fn send_from_output(&mut self, next: Connection, chunk: i64) {
        self.step(
            StepOp::Copy,
            0,
            &[Operand::OUTPUT],
            &[next.operand()],
            chunk,
        );
    }

    /// input -> output
    pub fn copy(&mut self, chunk: i64) {
        let flags = PRE_SCALE | POST_SCALE;
        self.step(
            StepOp::Copy,
            flags,
            &[Operand::INPUT],
            &[Operand::OUTPUT],
            chunk,
        );
    }

    /// input -> output, next
    pub fn copy_send(&mut self, next: Connection, chunk: i64) {
        let dsts = [Operand::OUTPUT, next.operand()];
        self.step(StepOp::Copy, PRE_SCALE, &[Operand::INPUT], &dsts, chunk);
    }

    /// prev -> output
    pub fn recv(&mut self, prev: Connection, chunk: i64) {
        self.step(
            StepOp::Copy,
            0,
            &[prev.operand()],
            &[Operand::OUTPUT],
            chunk,
        );
    }

    /// prev -> output, next
    pub fn recv_copy_send(&mut self, prev: Connection, next: Connection, chunk: i64) {
        let dsts = [Operand::OUTPUT, next.operand()];
        self.step(StepOp::Copy, 0, &[prev.operand()], &dsts, chunk);
    }

    /// prev + input -> next
    pub fn recv_reduce_send(&mut self, prev: Connection, next: Connection, chunk: i64) {
        let srcs = [prev.operand(), Operand::INPUT];
        self.step(StepOp::Fold, PRE_SCALE, &srcs, &[next.operand()], chunk);
    }

    /// prev + input -> output
    pub fn recv_reduce_copy(&mut self, prev: Connection, chunk: i64) {
        let srcs = [prev.operand(), Operand::INPUT];
        self.step(
            StepOp::Fold,
            PRE_SCALE | POST_SCALE,
            &srcs,
            &[Operand::OUTPUT],
            chunk,
        );
    }

    /// prev + input -> output, next
    pub fn recv_reduce_copy_send(&mut self, prev: Connection, next: Connection, chunk: i64) {
        let srcs = [prev.operand(), Operand::INPUT];
        let dsts = [Operand::OUTPUT, next.operand()];
        self.step(StepOp::Fold, PRE_SCALE | POST_SCALE, &srcs, &dsts, chunk);
    }

    /// A list of sources, folded in order -> output
    pub fn fold(&mut self, srcs: &[Operand], chunk: i64) {
        self.step(
            StepOp::Fold,
            PRE_SCALE | POST_SCALE,
            srcs,
            &[Operand::OUTPUT],
            chunk,
        );
    }

    /// Signals every destination without payload.
    pub fn signal(&mut self, dsts: &[Operand]) {
        self.step(StepOp::Token, 0, &[], dsts, 0);
    }

    /// Waits for every source without payload.
    pub fn wait(&mut self, srcs: &[Operand]) {
        self.step(StepOp::Token, 0, srcs, &[], 0);
    }
}

/// The stride with which `next` continues `last`, if it does.
fn merged_stride(last: &Step, next: &Step, modulus: i64) -> Option<i16> {
    let same = (last.op, last.flags, last.srcs, last.dsts, last.chunks)
        == (next.op, next.flags, next.srcs, next.dsts, next.chunks);
    if !same || last.repeat == u16::MAX || last.flags & PACKED != 0 {
        return None;
    }
    let distance = (i64::from(next.chunk) - i64::from(last.chunk)).rem_euclid(modulus);
    if last.repeat == 1 {
        return i16::try_from(nearest(distance, modulus)).ok();
    }
    let expected = (i64::from(last.stride) * i64::from(last.repeat)).rem_euclid(modulus);
    (distance == expected).then_some(last.stride)
}

/// Returns the distance modulo `modulus`, as near to 0 as can be.
fn nearest(distance: i64, modulus: i64) -> i64 {
    let distance = distance.rem_euclid(modulus);
    if distance * 2 > modulus {
        distance - modulus
    } else {
        distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Algorithm, Collective};

    fn emitter(chunks: u32) -> Emitter {
        let shape = Shape {
            collective: Collective::AllReduce,
            algorithm: Algorithm::Ring,
            rank: 0,
            nranks: chunks,
            root: 0,
            channels: 1,
        };
        Emitter::new(shape, chunks, Layout::Split)
    }

    #[test]
    fn a_loop_becomes_one_step_with_the_same_chunks() {
        let mut e = emitter(7);
        let (prev, next) = (e.from(6), e.to(1));
        for j in 2..7 {
            e.recv_reduce_send(prev, next, 3 - j);
        }
        let plan = e.finish();
        assert_eq!(plan.steps.len(), 1);
        let step = plan.steps[0];
        let chunks: Vec<u32> = (0..step.repeat).map(|k| step.chunk_at(k, 7)).collect();
        assert_eq!(chunks, [1, 0, 6, 5, 4]);
        assert_eq!((plan.touches(0), plan.touches(1)), (5, 5));
    }

    #[test]
    fn irregular_chunks_are_not_merged() {
        let mut e = emitter(9);
        let next = e.to(1);
        let wanted = [0, 2, 3, 5, 7, 8];
        for chunk in wanted {
            e.send(next, chunk);
        }
        let plan = e.finish();
        let unrolled: Vec<i64> = plan
            .steps
            .iter()
            .flat_map(|s| (0..s.repeat).map(|k| i64::from(s.chunk_at(k, 9))))
            .collect();
        assert_eq!(unrolled, wanted);
    }

    #[test]
    fn lanes_are_not_merged_into_each_other() {
        let mut e = emitter(4);
        let next = e.lane(0).to(1);
        e.send(next, 0);
        let other = e.lane(1).to(1);
        assert_ne!(next, other);
        e.send(other, 1);
        let plan = e.finish();
        assert_eq!(plan.lanes.len(), 2);
        assert_eq!(plan.lane_steps(1).len(), 1);
    }
}
