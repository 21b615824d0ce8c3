//! All ranks' programs in flat arrays with 32-bit numbers.
//!
//! An operand is one number: a local buffer, a connection with one reader (a *wire*), or a fan,
//! which is a run of wires. A connection of many readers is one wire per reader, so that each
//! reader has its own latency and its own credits.

use super::job::{Job, MOST_ACTIONS};
use crate::base::{Error, Result};
use crate::plan::analysis::inlets;
use crate::plan::analysis::outlets::{self, Outlets};
use crate::plan::{Direction, Layout, Link, Operand, Plan, Program, Space, Step, StepOp, Window};
use crate::price::Cluster;
use std::collections::HashMap;

/// An operand in the caller's memory.
pub(super) const LOCAL: u32 = u32::MAX;
/// Set in a source whose token is kept.
pub(super) const KEEP: u32 = 1 << 31;
/// Set in a destination that is a run of wires, by its number.
pub(super) const RUN: u32 = 1 << 30;
/// Most wires: the two bits above.
const MOST_WIRES: usize = RUN as usize - 1;
/// So many plans say what all of them will take.
const FEW_RANKS: u32 = 16;
/// No lane.
pub(super) const NONE: u32 = u32::MAX;

/// A step, with its operands as a part of [`AllRanks::operands`].
#[derive(Clone, Copy)]
pub(super) struct FlatStep {
    pub step: Step,
    pub operands: u32,
    pub srcs: u16,
    pub dsts: u16,
    /// It hands over to another node, or from one.
    pub is_far: bool,
    /// Ways on which its tokens need no slot.
    pub without_slot: WithoutSlot,
}

/// Ways on which the tokens of a step need no slot, as the executor finds them.
#[derive(Clone, Copy, Default)]
pub(super) struct WithoutSlot {
    /// To mates, who read them where they lie.
    pub near: bool,
    /// To other nodes, from where they lie.
    pub far: bool,
    /// From another node, to where they are wanted.
    pub from_far: bool,
}

/// One writer, one reader.
pub(super) struct Wire {
    pub writer: u32,
    pub reader: u32,
    /// The lanes at both ends.
    pub writer_lane: u32,
    pub reader_lane: u32,
    /// Tokens published, arrived, given back.
    pub sent: u32,
    pub arrived: u32,
    pub freed: u32,
    /// Whether a lane sleeps until something arrives, or until a credit does.
    pub reader_waits: bool,
    pub writer_waits: bool,
    /// Its tokens lie in the writer's buffers.
    pub is_shown: bool,
    pub channel: u16,
}

/// A lane of a rank.
pub(super) struct Lane {
    pub rank: u32,
    pub first: u32,
    pub end: u32,
    pub window: u32,
    pub number: u16,
    /// Chunks of the plan.
    pub chunks: u32,
}

#[derive(Default)]
pub(super) struct AllRanks {
    pub steps: Vec<FlatStep>,
    pub operands: Vec<u32>,
    pub lanes: Vec<Lane>,
    pub wires: Vec<Wire>,
    /// (first wire, wires) of connections with many readers.
    pub runs: Vec<(u32, u32)>,
    pub windows: Vec<Window>,
    /// Slices of steps that all lanes execute.
    pub actions: u64,
    /// Most tokens of one wire.
    pub most_tokens: u64,
}

#[derive(Default)]
struct Compiler {
    all: AllRanks,
    pairs: HashMap<Link, u32>,
    window_numbers: HashMap<(u32, u32, u32, u32, bool), u32>,
}

/// Steps of a plan whose tokens need no slot, by lane.
struct SlotFree {
    near: Outlets,
    far: Outlets,
    from_far: Vec<Vec<bool>>,
}

impl SlotFree {
    fn of(job: &Job, plan: &Plan) -> SlotFree {
        let machine = &job.machine;
        let is = |index: usize, near: bool| match plan.connections[index].link {
            Link::Pair { writer, reader, .. } => {
                near == (machine.node_of(writer) == machine.node_of(reader))
            }
            _ => false,
        };
        let comes_in = |step: &Step| {
            let (srcs, dsts) = (plan.lists.get(step.srcs), plan.lists.get(step.dsts));
            let from = srcs.first().and_then(Operand::as_connection);
            from.is_some_and(|from| is(from, false)) && inlets::place(step, srcs, dsts).is_some()
        };
        let of_lane = |lane: usize| plan.lane_steps(lane).iter().map(comes_in).collect();
        SlotFree {
            near: outlets::shown(plan, |index| is(index, true), false),
            far: outlets::outlets(plan, |index| is(index, false), false),
            from_far: (0..plan.lanes.len()).map(of_lane).collect(),
        }
    }

    fn step(&self, lane: usize, number: usize) -> WithoutSlot {
        WithoutSlot {
            near: self.near[lane][number].is_some(),
            far: self.far[lane][number].is_some(),
            from_far: self.from_far[lane][number],
        }
    }
}

impl AllRanks {
    /// Makes, flattens and drops the plan of every rank.
    pub fn compile(job: &Job, plan: &dyn Fn(u32) -> Result<Plan>) -> Result<AllRanks> {
        let mut compiler = Compiler::default();
        let nranks = job.machine.nranks();
        for rank in 0..nranks {
            let plan = plan(rank)?;
            let slot_free = job.mapped.then(|| SlotFree::of(job, &plan));
            let program = Program::lower(&plan)?;
            compiler.add(job, rank, &program, slot_free.as_ref())?;
            // The other ranks are about alike: what is far too much is refused at once.
            let so_far = u128::from(compiler.all.actions) * u128::from(nranks);
            let estimate = so_far / u128::from(rank + 1);
            if rank >= FEW_RANKS && estimate > 16 * u128::from(MOST_ACTIONS) {
                compiler.all.actions = estimate as u64;
                return Ok(compiler.all);
            }
        }
        Ok(compiler.all)
    }

    /// Bytes of the arrays.
    pub fn memory_bytes(&self) -> usize {
        self.steps.capacity() * size_of::<FlatStep>()
            + self.operands.capacity() * 4
            + self.lanes.capacity() * size_of::<Lane>()
            + self.wires.capacity() * size_of::<Wire>()
    }
}

impl Compiler {
    fn add(
        &mut self,
        job: &Job,
        rank: u32,
        plan: &Program,
        slot_free: Option<&SlotFree>,
    ) -> Result<()> {
        let nranks = job.machine.nranks();
        let ends: Vec<u32> = plan
            .connections()
            .iter()
            .map(|used| self.end(used.link(), used.direction, rank, nranks))
            .collect::<Result<_>>()?;
        for number in 0..plan.lanes().len() {
            let window = self.window(job, plan, number);
            let lane = self.all.lanes.len() as u32;
            let first = self.all.steps.len() as u32;
            for (at, step) in plan.lane_steps(number).iter().enumerate() {
                self.step(&job.machine, plan, step, &ends, lane);
                if let Some(slot_free) = slot_free {
                    self.without_slot(&job.machine, slot_free.step(number, at));
                }
            }
            let end = self.all.steps.len() as u32;
            let bound = &self.all.windows[window as usize];
            let slices = bound.rounds() * u64::from(bound.slices());
            let lane_steps = &self.all.steps[first as usize..end as usize];
            let tokens = lane_steps
                .iter()
                .map(|flat| tokens(&flat.step))
                .sum::<u64>();
            self.all.actions += tokens * slices;
            self.all.most_tokens = self.all.most_tokens.max(tokens * slices);
            self.all.lanes.push(Lane {
                rank,
                first,
                end,
                window,
                number: number as u16,
                chunks: plan.chunks(),
            });
        }
        Ok(())
    }

    fn step(&mut self, machine: &Cluster, plan: &Program, step: &Step, ends: &[u32], lane: u32) {
        let operands = self.all.operands.len();
        let encode = |operand: &Operand| match operand.as_connection() {
            None => LOCAL,
            Some(index) if operand.keep => ends[index] | KEEP,
            Some(index) => ends[index],
        };
        let (srcs, dsts) = (plan.list(step.srcs), plan.list(step.dsts));
        self.all
            .operands
            .extend(srcs.iter().chain(dsts).map(encode));
        // The lane sleeps at these wires.
        for &source in &self.all.operands[operands..operands + srcs.len()] {
            if source != LOCAL {
                self.all.wires[(source & !KEEP) as usize].reader_lane = lane;
            }
        }
        for at in operands + srcs.len()..self.all.operands.len() {
            let target = self.all.operands[at];
            for wire in self.all.targets(target) {
                self.all.wires[wire].writer_lane = lane;
            }
        }
        let all = &self.all;
        let used = all.operands[operands..].iter().filter(|&&it| it != LOCAL);
        let mut wires = used.flat_map(|it| all.targets(it & !KEEP));
        let is_far = wires.any(|wire| {
            let Wire { writer, reader, .. } = all.wires[wire];
            machine.node_of(writer) != machine.node_of(reader)
        });
        self.all.steps.push(FlatStep {
            step: *step,
            operands: operands as u32,
            srcs: srcs.len() as u16,
            dsts: dsts.len() as u16,
            is_far,
            without_slot: WithoutSlot::default(),
        });
    }

    /// Notes on which ways the last step needs no slot, where its tokens are large.
    fn without_slot(&mut self, machine: &Cluster, without: WithoutSlot) {
        let all = &mut self.all;
        let Some(flat) = all.steps.last_mut() else {
            return;
        };
        flat.without_slot = without;
        let first = flat.operands as usize + usize::from(flat.srcs);
        let dsts = &all.operands[first..first + usize::from(flat.dsts)];
        for &target in dsts.iter().filter(|_| without.near) {
            if target != LOCAL && target & RUN == 0 {
                let wire = &mut all.wires[target as usize];
                wire.is_shown |= machine.node_of(wire.writer) == machine.node_of(wire.reader);
            }
        }
    }

    /// The number of this end: a wire, or a run of them.
    fn end(&mut self, link: Link, direction: Direction, rank: u32, nranks: u32) -> Result<u32> {
        let known = self.pairs.get(&link).copied();
        let first = match known {
            Some(first) => first,
            None => self.connect(link, nranks)?,
        };
        Ok(match (link, direction) {
            (Link::Pair { .. }, _) => first,
            (_, Direction::Send) => first | RUN,
            (_, Direction::Recv) => self.all.runs[first as usize].0 + link.number_of(rank),
        })
    }

    /// Makes the wires of a connection; its number is that of the wire or of the run.
    fn connect(&mut self, link: Link, nranks: u32) -> Result<u32> {
        let wires = &mut self.all.wires;
        let start = wires.len() as u32;
        let channel = match link {
            Link::Pair { channel, .. } => channel,
            _ => 0,
        };
        let wire = |writer, reader| Wire {
            writer,
            reader,
            writer_lane: NONE,
            reader_lane: NONE,
            sent: 0,
            arrived: 0,
            freed: 0,
            reader_waits: false,
            writer_waits: false,
            is_shown: false,
            channel,
        };
        let number = match link {
            Link::Pair { writer, reader, .. } => {
                wires.push(wire(writer, reader));
                start
            }
            Link::Fan { writer } | Link::Cast { writer, .. } => {
                wires.extend(link.read_by(nranks).map(|reader| wire(writer, reader)));
                self.all.runs.push((start, link.readers(nranks)));
                self.all.runs.len() as u32 - 1
            }
        };
        if wires.len() > MOST_WIRES {
            return Err(Error::usage(
                format!("the plans have more than {MOST_WIRES} connections"),
                "choose fewer ranks, or an algorithm in which a rank talks to fewer others",
            ));
        }
        self.pairs.insert(link, number);
        Ok(number)
    }

    fn window(&mut self, job: &Job, plan: &Program, lane: usize) -> u32 {
        let channel = plan.lanes()[lane].channel;
        let header = plan.header();
        let split = header.layout == Layout::Split;
        let key = (
            header.chunks,
            channel,
            header.channels,
            header.pieces,
            split,
        );
        let windows = &mut self.all.windows;
        *self.window_numbers.entry(key).or_insert_with(|| {
            windows.push(job.window(plan, channel));
            windows.len() as u32 - 1
        })
    }
}

impl AllRanks {
    /// The wires of a destination.
    pub fn targets(&self, target: u32) -> std::ops::Range<usize> {
        if target == LOCAL {
            return 0..0;
        }
        if target & RUN == 0 {
            return target as usize..target as usize + 1;
        }
        let (first, count) = self.runs[(target & !RUN) as usize];
        first as usize..(first + count) as usize
    }
}

/// Tokens of one round and slice of a step.
pub(super) fn tokens(step: &Step) -> u64 {
    u64::from(step.tokens())
}

/// Bytes of one slice of one token.
pub(super) fn token_bytes(
    step: &Step,
    window: &Window,
    place: (u32, u64, u32, u16),
    element_bytes: usize,
) -> u64 {
    let (chunks, round, slice, repetition) = place;
    if step.op == StepOp::Token {
        return 0;
    }
    let piece = |piece| {
        let chunk = step.piece_at(repetition, piece, chunks);
        window.region(Space::Output, chunk, round, slice).count
    };
    let elements: usize = (0..step.pieces()).map(piece).sum();
    (elements * element_bytes) as u64
}
