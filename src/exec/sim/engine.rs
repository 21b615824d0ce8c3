//! The event loop.

use super::handover::HandOvers;
use super::job::{Cause, Job, Report};
use super::path::{self, Action, Actions, NO_ACTION};
use super::queue::{Event, Time, picoseconds};
use super::ranks::{AllRanks, FlatStep, KEEP, LOCAL, NONE, token_bytes, tokens};
use crate::base::{Error, Rank, Result};
use std::collections::VecDeque;

/// Where a lane stands.
#[derive(Clone, Copy)]
struct Cursor {
    round: u64,
    step: u32,
    slice: u32,
    repetition: u16,
    /// Operands of the current action known to be there.
    checked: u32,
    /// When the last of them was, and why.
    ready: Time,
    why: (Cause, u32),
    ended: bool,
}

/// A core serves one lane until that has to wait, then the one that has waited longest of those
/// that hand over to another node, or else of all.
#[derive(Clone)]
struct Core {
    /// The lane that has it, or is the next to have it.
    holder: u32,
    /// The end of its last action.
    free: Time,
    /// The rank that had it last, and its last action.
    rank: u32,
    action: u32,
    waiting: VecDeque<u32>,
}

/// A run of all plans, event after event.
pub(super) struct Simulation<'a> {
    job: &'a Job,
    hand_overs: HandOvers<'a>,
    cursors: Vec<Cursor>,
    cores: Vec<Core>,
    actions: Actions,
    /// The end of each rank's last lane.
    ends: Vec<Time>,
}

impl<'a> Simulation<'a> {
    pub fn new(job: &'a Job, ranks: AllRanks) -> Simulation<'a> {
        let begin = picoseconds(job.costs.call_ns);
        let cursor = Cursor {
            round: 0,
            step: 0,
            slice: 0,
            repetition: 0,
            checked: 0,
            ready: begin,
            why: (Cause::Call, NO_ACTION),
            ended: false,
        };
        let machine = &job.machine;
        let cores = machine
            .core_of(machine.nranks() - 1)
            .max(machine.nranks() - 1) as usize
            + 1;
        let core = Core {
            holder: NONE,
            free: 0,
            rank: NONE,
            action: NO_ACTION,
            waiting: VecDeque::new(),
        };
        Simulation {
            job,
            cursors: vec![cursor; ranks.lanes.len()],
            cores: vec![core; cores],
            actions: Actions::new(ranks.actions),
            ends: vec![0; machine.nranks() as usize],
            hand_overs: HandOvers::new(job, ranks),
        }
    }

    pub fn run(mut self) -> Result<Report> {
        let begin = picoseconds(self.job.costs.call_ns);
        for lane in 0..self.hand_overs.ranks.lanes.len() {
            self.hand_overs.queue.push(begin, Event::Lane(lane as u32));
        }
        while let Some((now, event)) = self.hand_overs.queue.pop() {
            match event {
                Event::Lane(lane) => self.advance(lane, now),
                Event::Token(flight) => self.hand_overs.pass_link(flight, now),
            }
        }
        if let Some(lane) = self.cursors.iter().position(|cursor| !cursor.ended) {
            return Err(self.stuck(lane));
        }
        Ok(self.report())
    }

    /// Runs a lane as far as it can at `now`, and on where nothing else happens meanwhile.
    fn advance(&mut self, lane: u32, mut now: Time) {
        let range = {
            let lane = &self.hand_overs.ranks.lanes[lane as usize];
            (lane.first, lane.end)
        };
        if range.0 == range.1 {
            self.cursors[lane as usize].ended = true;
            return;
        }
        let core = self
            .job
            .machine
            .core_of(self.hand_overs.ranks.lanes[lane as usize].rank) as usize;
        loop {
            let index = range.0 + self.cursors[lane as usize].step;
            let step = self.hand_overs.ranks.steps[index as usize];
            if !self.ready(lane, &step) {
                self.leave(core, lane, now);
                return;
            }
            let ready = self.cursors[lane as usize].ready;
            if ready > now {
                self.leave(core, lane, now);
                if !self.hand_overs.queue.is_free_until(ready) {
                    self.hand_overs.queue.push(ready, Event::Lane(lane));
                    return;
                }
                now = ready;
            }
            if !self.takes(core, lane, now) {
                return;
            }
            let (end, action) = self.execute(lane, &step, now);
            let steps = range.1 - range.0;
            if !self.next(lane, &step, steps) {
                let rank = self.hand_overs.ranks.lanes[lane as usize].rank as usize;
                self.ends[rank] = self.ends[rank].max(end);
                self.leave(core, lane, end);
                return;
            }
            let cursor = &mut self.cursors[lane as usize];
            cursor.checked = 0;
            cursor.ready = end;
            cursor.why = (Cause::Core, action);
            if !self.hand_overs.queue.is_free_until(end) {
                self.hand_overs.queue.push(end, Event::Lane(lane));
                return;
            }
            now = end;
        }
    }

    /// Whether the lane has the core now; if not, it will be woken when it has.
    fn takes(&mut self, core: usize, lane: u32, now: Time) -> bool {
        let core = &mut self.cores[core];
        if core.holder != NONE && core.holder != lane {
            core.waiting.push_back(lane);
            return false;
        }
        core.holder = lane;
        if core.free > now {
            self.hand_overs.queue.push(core.free, Event::Lane(lane));
            return false;
        }
        true
    }

    /// Whether the step that comes next hands over to another node, or from one.
    fn crosses(&self, lane: u32) -> bool {
        let first = self.hand_overs.ranks.lanes[lane as usize].first;
        let step = first + self.cursors[lane as usize].step;
        self.hand_overs.ranks.steps[step as usize].is_far
    }

    /// The lane has to wait, or has ended: its core goes to the one that has waited longest.
    fn leave(&mut self, core: usize, lane: u32, now: Time) {
        if self.cores[core].holder != lane {
            return;
        }
        // As the executor does: what travels is handed over first.
        let waiting = &self.cores[core].waiting;
        let next = waiting.iter().position(|&it| self.crosses(it)).unwrap_or(0);
        let core = &mut self.cores[core];
        core.holder = NONE;
        if let Some(next) = core.waiting.remove(next) {
            core.holder = next;
            self.hand_overs.queue.push(now, Event::Lane(next));
        }
    }

    /// Whether all tokens and credits of the step are known; if not, the lane is woken later.
    fn ready(&mut self, lane: u32, step: &FlatStep) -> bool {
        let total = u32::from(step.srcs) + u32::from(step.dsts);
        while self.cursors[lane as usize].checked < total {
            let number = self.cursors[lane as usize].checked;
            let operand = self.hand_overs.ranks.operands[(step.operands + number) as usize];
            let found = match operand {
                LOCAL => true,
                _ if number < u32::from(step.srcs) => self.await_token(lane, operand & !KEEP),
                _ => self.await_credits(lane, operand),
            };
            if !found {
                return false;
            }
            self.cursors[lane as usize].checked += 1;
        }
        true
    }

    fn await_token(&mut self, lane: u32, wire: u32) -> bool {
        let state = &mut self.hand_overs.ranks.wires[wire as usize];
        if state.arrived <= state.freed {
            state.reader_waits = true;
            return false;
        }
        let entry =
            wire as usize * self.hand_overs.depth + state.freed as usize % self.hand_overs.depth;
        self.later(lane, entry, Cause::Token);
        true
    }

    fn await_credits(&mut self, lane: u32, target: u32) -> bool {
        for wire in self.hand_overs.ranks.targets(target) {
            let state = &mut self.hand_overs.ranks.wires[wire];
            let depth = self.hand_overs.depth as u32;
            if state.sent >= state.freed + depth {
                state.writer_waits = true;
                return false;
            }
            if state.sent >= depth {
                let entry =
                    wire * self.hand_overs.depth + state.sent as usize % self.hand_overs.depth;
                self.later(lane, entry, Cause::Credit);
            }
        }
        true
    }

    /// The lane is ready no earlier than this entry.
    fn later(&mut self, lane: u32, entry: usize, cause: Cause) {
        let cursor = &mut self.cursors[lane as usize];
        if self.hand_overs.times[entry] > cursor.ready {
            cursor.ready = self.hand_overs.times[entry];
            cursor.why = (cause, self.hand_overs.by[entry]);
        }
    }

    /// Takes the core, publishes and releases. Returns the end and the number of the action.
    fn execute(&mut self, lane: u32, flat: &FlatStep, now: Time) -> (Time, u32) {
        let costs = &self.job.costs;
        let cursor = self.cursors[lane as usize];
        let (rank, bytes) = {
            let lane = &self.hand_overs.ranks.lanes[lane as usize];
            let window = &self.hand_overs.ranks.windows[lane.window as usize];
            let place = (lane.chunks, cursor.round, cursor.slice, cursor.repetition);
            let bytes = token_bytes(&flat.step, window, place, self.job.element_bytes);
            (lane.rank, bytes)
        };
        let core = self.job.machine.core_of(rank) as usize;
        let mut why = cursor.why;
        if now > cursor.ready {
            why = (Cause::Core, self.cores[core].action);
        }
        let mut work_ns = costs.step_ns;
        if self.cores[core].rank != rank && self.job.machine.crowded() {
            work_ns += costs.switch_ns;
        }
        let (move_ns, fetched) = self.hand_overs.moves(flat, rank, bytes, now);
        let end = (now + picoseconds(work_ns + move_ns)).max(fetched);
        let action = self.actions.push(Action::new(lane, end, why));
        let core = &mut self.cores[core];
        (core.free, core.rank, core.action) = (end, rank, action);
        self.hand_overs.hand_over(flat, bytes, end, action);
        (end, action)
    }

    /// Moves the cursor on; `false` at the end of the lane.
    fn next(&mut self, lane: u32, flat: &FlatStep, steps: u32) -> bool {
        let window = self.hand_overs.ranks.lanes[lane as usize].window;
        let window = &self.hand_overs.ranks.windows[window as usize];
        let cursor = &mut self.cursors[lane as usize];
        cursor.slice += 1;
        if cursor.slice < window.slices() {
            return true;
        }
        cursor.slice = 0;
        cursor.repetition += 1;
        if u64::from(cursor.repetition) < tokens(&flat.step) {
            return true;
        }
        cursor.repetition = 0;
        cursor.step += 1;
        if cursor.step < steps {
            return true;
        }
        cursor.step = 0;
        cursor.round += 1;
        cursor.ended = cursor.round >= window.rounds();
        !cursor.ended
    }

    fn stuck(&self, lane: usize) -> Error {
        let (cursor, lane) = (&self.cursors[lane], &self.hand_overs.ranks.lanes[lane]);
        let waiting = self.cursors.iter().filter(|cursor| !cursor.ended).count();
        Error::usage(
            format!(
                "the plans never end: lane {} of rank {} waits at step {} of round {}, and {} of \
                 {} lanes with it",
                lane.number,
                lane.rank,
                cursor.step,
                cursor.round,
                waiting - 1,
                self.cursors.len()
            ),
            "run the checker on this algorithm and number of ranks (tests/plans.rs)",
        )
        .at(Rank(lane.rank))
    }

    fn report(self) -> Report {
        let conserved =
            |wire: &super::ranks::Wire| wire.sent == wire.arrived && wire.arrived == wire.freed;
        debug_assert!(
            self.hand_overs.ranks.wires.iter().all(conserved),
            "every token that is published arrives and is given back"
        );
        let last = self.ends.iter().copied().max().unwrap_or(0);
        let first = self.ends.iter().copied().min().unwrap_or(0);
        let tokens = self
            .hand_overs
            .links
            .levels
            .iter()
            .map(|level| level.tokens)
            .sum();
        let memory_bytes = self.hand_overs.memory_bytes()
            + self.cursors.len() * size_of::<Cursor>()
            + self.cores.len() * size_of::<Core>()
            + size_of_val(self.actions.kept());
        Report {
            time_ns: last as f64 / 1e3,
            first_end_ns: first as f64 / 1e3,
            actions: self.actions.count(),
            tokens,
            levels: self.hand_overs.links.levels,
            links: self.hand_overs.links.loads(),
            path: path::critical(self.actions.kept(), &self.hand_overs.ranks),
            memory_bytes,
        }
    }
}
