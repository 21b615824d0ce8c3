//! A naive machine that runs plans with numbers, lane by lane in random order. It shares nothing
//! with the checker: what the checker accepts must give the right numbers here.

use kolo::plan::{
    Collective, Layout, Link, Operand, PACKED, POST_SCALE, PRE_SCALE, Plan, Space, Step, StepOp,
};
use std::collections::{HashMap, VecDeque};

/// How the plans are run.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub rounds: u64,
    pub slices: u64,
    pub capacity: usize,
    pub in_place: bool,
    pub seed: u64,
}

/// Where a number lies: rank, space (0 input, 1 output, 2 scratch), channel, chunk, round, slice.
type Place = (u32, u8, u16, u32, u64, u64);

#[derive(Clone, Copy, Default)]
struct Cursor {
    round: u64,
    step: usize,
    repetition: u16,
    slice: u64,
}

struct Machine<'p> {
    plans: &'p [Plan],
    setting: Setting,
    memory: HashMap<Place, u64>,
    /// Tokens, each with the numbers of its pieces.
    queues: HashMap<(Link, u32), VecDeque<Vec<u64>>>,
}

/// The input of a rank: any numbers, the same in every run.
fn input(rank: u32, channel: u16, chunk: u32, round: u64, slice: u64) -> u64 {
    let mut x = u64::from(rank) << 40
        | u64::from(channel) << 32
        | u64::from(chunk) << 16
        | round << 8
        | slice;
    for _ in 0..3 {
        x = (x ^ (x >> 31))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(1);
    }
    x
}

const PRE: u64 = 3;
const POST: u64 = 5;

/// Runs the plans. Err: stuck, a token left over, or a wrong number.
pub fn run(plans: &[Plan], setting: Setting) -> Result<(), String> {
    let mut machine = Machine {
        plans,
        setting,
        memory: HashMap::new(),
        queues: HashMap::new(),
    };
    machine.fill();
    machine.run_lanes()?;
    if machine.queues.values().any(|queue| !queue.is_empty()) {
        return Err("a token is left over".into());
    }
    machine.compare()
}

impl Machine<'_> {
    fn blocks(&self, plan: &Plan, space: u8) -> u32 {
        let nranks = plan.shape.nranks;
        match (plan.layout, space) {
            (Layout::Split, _) => plan.chunks,
            (Layout::Blocks, 0) => plan.shape.collective.input_blocks(nranks),
            (Layout::Blocks, _) => plan.shape.collective.output_blocks(nranks),
        }
    }

    /// In place, the smaller buffer lies in the larger one at the rank's block.
    fn place(&self, rank: u32, space: u8, channel: u16, chunk: u32, at: (u64, u64)) -> Place {
        let plan = &self.plans[rank as usize];
        let (inputs, outputs) = (self.blocks(plan, 0), self.blocks(plan, 1));
        let (space, chunk) = match space {
            0 if self.setting.in_place && inputs <= outputs => {
                (1, if inputs < outputs { rank } else { chunk })
            }
            1 if self.setting.in_place && outputs < inputs => (0, rank),
            _ => (space, chunk),
        };
        (rank, space, channel, chunk, at.0, at.1)
    }

    fn channels(&self, rank: u32) -> u16 {
        let lanes = self.plans[rank as usize].lanes.iter();
        lanes.map(|lane| lane.channel + 1).max().unwrap_or(1)
    }

    fn each(&self, rank: u32, space: u8, mut f: impl FnMut(u16, u32, (u64, u64))) {
        for channel in 0..self.channels(rank) {
            for chunk in 0..self.blocks(&self.plans[rank as usize], space) {
                for round in 0..self.setting.rounds {
                    (0..self.setting.slices).for_each(|slice| f(channel, chunk, (round, slice)));
                }
            }
        }
    }

    fn fill(&mut self) {
        for rank in 0..self.plans.len() as u32 {
            let mut filled = Vec::new();
            self.each(rank, 0, |channel, chunk, at| {
                let place = self.place(rank, 0, channel, chunk, at);
                filled.push((place, input(rank, channel, chunk, at.0, at.1)));
            });
            self.memory.extend(filled);
        }
    }

    fn run_lanes(&mut self) -> Result<(), String> {
        let mut random = fastrand::Rng::with_seed(self.setting.seed);
        let mut lanes: Vec<(usize, usize, Cursor)> = Vec::new();
        for (rank, plan) in self.plans.iter().enumerate() {
            lanes.extend((0..plan.lanes.len()).map(|lane| (rank, lane, Cursor::default())));
        }
        let mut idle = 0;
        while !lanes.is_empty() {
            random.shuffle(&mut lanes);
            let mut moved = false;
            for (rank, lane, cursor) in &mut lanes {
                for _ in 0..random.u32(0..6) {
                    let open = cursor.round < self.setting.rounds;
                    moved |= open && self.slice(*rank, *lane, cursor);
                }
            }
            // A sweep may pass all lanes over, but not this often.
            idle = if moved { 0 } else { idle + 1 };
            if idle == 50 {
                return Err("stuck".into());
            }
            self.leave_barrier(&lanes)?;
            lanes.retain(|(_, _, cursor)| cursor.round < self.setting.rounds);
        }
        Ok(())
    }

    /// A rank has left a barrier when all its lanes have ended, and entered it with its first
    /// step.
    fn leave_barrier(&self, lanes: &[(usize, usize, Cursor)]) -> Result<(), String> {
        if self.plans[0].shape.collective != Collective::Barrier {
            return Ok(());
        }
        let of_rank = |rank| lanes.iter().filter(move |lane| lane.0 == rank);
        let ended = |cursor: &Cursor| cursor.round == self.setting.rounds;
        let has_left = |rank| of_rank(rank).all(|(_, _, cursor)| ended(cursor));
        let is_out = |cursor: &Cursor| (cursor.round, cursor.step, cursor.slice) == (0, 0, 0);
        let is_absent =
            |rank| of_rank(rank).count() > 0 && of_rank(rank).all(|(_, _, cursor)| is_out(cursor));
        let mut ranks = 0..self.plans.len();
        match ranks.clone().any(has_left) && ranks.any(is_absent) {
            true => Err("a rank left the barrier before another one entered".into()),
            false => Ok(()),
        }
    }

    /// Does one slice of one step, if its tokens and credits are there.
    fn slice(&mut self, rank: usize, lane: usize, cursor: &mut Cursor) -> bool {
        let plan = &self.plans[rank];
        let step = plan.lane_steps(lane)[cursor.step];
        let links = |operands: &[Operand]| -> Vec<Link> {
            let used = operands.iter().filter_map(Operand::as_connection);
            used.map(|index| plan.connections[index].link).collect()
        };
        let (srcs, dsts) = (plan.lists.get(step.srcs), plan.lists.get(step.dsts));
        let readers = |link: Link| -> Vec<u32> { link.read_by(plan.shape.nranks).collect() };
        let length = |machine: &Self, link, reader| {
            machine.queues.get(&(link, reader)).map_or(0, VecDeque::len)
        };
        // Of kept tokens, those of the slices before are still there.
        let has_tokens = srcs.iter().all(|operand| {
            let ahead = if operand.keep { cursor.slice } else { 0 };
            let link = operand
                .as_connection()
                .map(|index| plan.connections[index].link);
            link.is_none_or(|link| length(self, link, rank as u32) > ahead as usize)
        });
        let has_credit = links(dsts).iter().all(|&link| {
            let mut readers = readers(link).into_iter();
            readers.all(|reader| length(self, link, reader) < self.setting.capacity)
        });
        if !has_tokens || !has_credit {
            return false;
        }
        let taken = self.take(rank as u32, cursor, &step);
        let mut token = Vec::new();
        for piece in 0..step.pieces().max(1) {
            let at = (lane, &*cursor, piece);
            let value = self.sources(rank as u32, at, &step, &taken);
            token.push(value);
            for operand in dsts.iter().filter(|o| o.as_connection().is_none()) {
                let place = self.operand(rank as u32, at, &step, operand);
                self.memory.insert(place, value);
            }
        }
        for link in links(dsts) {
            for reader in readers(link) {
                let queue = self.queues.entry((link, reader)).or_default();
                queue.push_back(token.clone());
            }
        }
        self.step_on(rank, lane, cursor);
        true
    }

    fn step_on(&self, rank: usize, lane: usize, cursor: &mut Cursor) {
        let steps = self.plans[rank].lane_steps(lane);
        cursor.slice += 1;
        if cursor.slice == self.setting.slices {
            (cursor.slice, cursor.repetition) = (0, cursor.repetition + 1);
        }
        if cursor.repetition == steps[cursor.step].tokens() {
            (cursor.repetition, cursor.step) = (0, cursor.step + 1);
        }
        if cursor.step == steps.len() {
            (cursor.step, cursor.round) = (0, cursor.round + 1);
        }
    }

    fn operand(
        &self,
        rank: u32,
        (lane, cursor, piece): (usize, &Cursor, u32),
        step: &Step,
        operand: &Operand,
    ) -> Place {
        let plan = &self.plans[rank as usize];
        let space = match operand.space {
            Space::Input => 0,
            Space::Output => 1,
            _ => 2,
        };
        let (times, within) = match step.flags & PACKED {
            0 => (u32::from(cursor.repetition), 0),
            _ => (
                piece / u32::from(step.chunks),
                piece % u32::from(step.chunks),
            ),
        };
        let chunk = i64::from(step.chunk)
            + i64::from(times) * i64::from(step.stride)
            + i64::from(within)
            + i64::from(operand.offset);
        if space == 2 {
            // Each lane has its own, and it does not outlive the round.
            let chunk = chunk.rem_euclid(i64::from(plan.scratch)) as u32;
            return (rank, 2, lane as u16, chunk, cursor.round, cursor.slice);
        }
        let chunk = chunk.rem_euclid(i64::from(plan.chunks)) as u32 % self.blocks(plan, space);
        let channel = plan.lanes[lane].channel;
        self.place(rank, space, channel, chunk, (cursor.round, cursor.slice))
    }

    /// The tokens of the sources, in order; kept ones stay.
    fn take(&mut self, rank: u32, cursor: &Cursor, step: &Step) -> Vec<Vec<u64>> {
        let plan = &self.plans[rank as usize];
        let mut taken = Vec::new();
        for operand in plan.lists.get(step.srcs) {
            let Some(index) = operand.as_connection() else {
                continue;
            };
            let queue = self.queues.get_mut(&(plan.connections[index].link, rank));
            taken.extend(match operand.keep {
                true => queue.and_then(|queue| queue.get(cursor.slice as usize).cloned()),
                false => queue.and_then(VecDeque::pop_front),
            });
        }
        taken
    }

    fn sources(
        &self,
        rank: u32,
        at: (usize, &Cursor, u32),
        step: &Step,
        taken: &[Vec<u64>],
    ) -> u64 {
        let plan = &self.plans[rank as usize];
        let mut taken = taken.iter();
        let reduces = plan.shape.collective.reduces();
        let mut result = 0u64;
        for operand in plan.lists.get(step.srcs) {
            let value = match operand.as_connection() {
                Some(_) => {
                    let token = taken.next().and_then(|token| token.get(at.2 as usize));
                    token.copied().unwrap_or(0xdead_beef)
                }
                None => {
                    let place = self.operand(rank, at, step, operand);
                    let scaled =
                        reduces && operand.space == Space::Input && step.flags & PRE_SCALE != 0;
                    let value = self.memory.get(&place).copied().unwrap_or(0xdead_beef);
                    value.wrapping_mul(if scaled { PRE } else { 1 })
                }
            };
            result = result.wrapping_add(value);
        }
        let scaled = reduces && step.flags & POST_SCALE != 0 && step.op != StepOp::Token;
        result.wrapping_mul(if scaled { POST } else { 1 })
    }

    fn wanted(&self, rank: u32, channel: u16, chunk: u32, at: (u64, u64)) -> Option<u64> {
        let shape = &self.plans[0].shape;
        let of = |rank, chunk| input(rank, channel, chunk, at.0, at.1);
        let sum = |chunk| {
            let scaled = (0..shape.nranks).map(|r| of(r, chunk).wrapping_mul(PRE));
            scaled.fold(0, u64::wrapping_add).wrapping_mul(POST)
        };
        let prefix = |ranks: u32| {
            let scaled = (0..ranks).map(|r| of(r, chunk).wrapping_mul(PRE));
            scaled.fold(0, u64::wrapping_add)
        };
        let at_root = rank == shape.root;
        match shape.collective {
            Collective::AllReduce => Some(sum(chunk)),
            Collective::Reduce => at_root.then(|| sum(chunk)),
            Collective::ReduceScatter => Some(sum(rank)),
            Collective::Broadcast => Some(of(shape.root, chunk)),
            Collective::AllGather => Some(of(chunk, 0)),
            Collective::Gather => at_root.then(|| of(chunk, 0)),
            Collective::AllToAll => Some(of(chunk, rank)),
            Collective::Scatter => Some(of(shape.root, rank)),
            Collective::Scan => Some(prefix(rank + 1)),
            Collective::Exscan => (rank > 0).then(|| prefix(rank)),
            _ => None,
        }
    }

    fn compare(&self) -> Result<(), String> {
        for rank in 0..self.plans.len() as u32 {
            let mut wrong = None;
            self.each(rank, 1, |channel, chunk, at| {
                let Some(wanted) = self.wanted(rank, channel, chunk, at) else {
                    return;
                };
                let place = self.place(rank, 1, channel, chunk, at);
                if self.memory.get(&place) != Some(&wanted) {
                    wrong.get_or_insert((channel, chunk, at));
                }
            });
            if let Some(place) = wrong {
                return Err(format!("rank {rank} has a wrong number at {place:?}"));
            }
        }
        Ok(())
    }
}
