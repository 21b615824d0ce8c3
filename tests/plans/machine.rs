//! A naive machine that runs plans with numbers, lane by lane in random order. It shares nothing
//! with the checker: what the checker accepts must give the right numbers here.

use kolo::plan::{
    Collective, Layout, Link, Operand, POST_SCALE, PRE_SCALE, Plan, Space, Step, StepOp,
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
    queues: HashMap<(Link, u32), VecDeque<u64>>,
    /// Tokens at the front of a queue that were read and kept.
    kept: HashMap<(Link, u32), usize>,
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
        kept: HashMap::new(),
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
        let readers = |link: Link| match link {
            Link::Pair { reader, .. } => vec![reader],
            Link::Fan { writer } => (0..plan.shape.nranks).filter(|&r| r != writer).collect(),
        };
        let length = |machine: &Self, link, reader| {
            machine.queues.get(&(link, reader)).map_or(0, VecDeque::len)
        };
        let has_tokens = srcs.iter().all(|operand| {
            let Some(index) = operand.as_connection() else {
                return true;
            };
            let key = (plan.connections[index].link, rank as u32);
            let ahead = self.kept.get(&key).filter(|_| operand.keep);
            length(self, key.0, key.1) > ahead.copied().unwrap_or(0)
        });
        let has_credit = links(dsts).iter().all(|&link| {
            let mut readers = readers(link).into_iter();
            readers.all(|reader| length(self, link, reader) < self.setting.capacity)
        });
        if !has_tokens || !has_credit {
            return false;
        }
        let value = self.sources(rank as u32, lane, cursor, &step);
        for operand in dsts {
            match operand.as_connection() {
                None => {
                    let place = self.operand(rank as u32, lane, cursor, &step, operand);
                    self.memory.insert(place, value);
                }
                Some(index) => {
                    let link = plan.connections[index].link;
                    for reader in readers(link) {
                        self.queues
                            .entry((link, reader))
                            .or_default()
                            .push_back(value);
                    }
                }
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
        if cursor.repetition == steps[cursor.step].repeat {
            (cursor.repetition, cursor.step) = (0, cursor.step + 1);
        }
        if cursor.step == steps.len() {
            (cursor.step, cursor.round) = (0, cursor.round + 1);
        }
    }

    fn operand(
        &self,
        rank: u32,
        lane: usize,
        cursor: &Cursor,
        step: &Step,
        operand: &Operand,
    ) -> Place {
        let plan = &self.plans[rank as usize];
        let space = match operand.space {
            Space::Input => 0,
            Space::Output => 1,
            _ => 2,
        };
        let chunk = i64::from(step.chunk)
            + i64::from(cursor.repetition) * i64::from(step.stride)
            + i64::from(operand.offset);
        let chunk = chunk.rem_euclid(i64::from(plan.chunks)) as u32 % self.blocks(plan, space);
        let channel = plan.lanes[lane].channel;
        self.place(rank, space, channel, chunk, (cursor.round, cursor.slice))
    }

    fn sources(&mut self, rank: u32, lane: usize, cursor: &Cursor, step: &Step) -> u64 {
        let plan = &self.plans[rank as usize];
        let reduces = plan.shape.collective.reduces();
        let mut result = 0u64;
        for operand in plan.lists.get(step.srcs) {
            let value = match operand.as_connection() {
                Some(index) => {
                    let link = plan.connections[index].link;
                    self.receive((link, rank), operand.keep)
                }
                None => {
                    let place = self.operand(rank, lane, cursor, step, operand);
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

    fn receive(&mut self, key: (Link, u32), keep: bool) -> u64 {
        let kept = self.kept.entry(key).or_default();
        let queue = self.queues.entry(key).or_default();
        let value = match keep {
            true => {
                *kept += 1;
                queue.get(*kept - 1).copied()
            }
            false => {
                *kept = kept.saturating_sub(1);
                queue.pop_front()
            }
        };
        value.unwrap_or(0xdead_beef)
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
