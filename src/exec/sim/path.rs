//! The critical path, read backwards from the step that ended last.
//!
//! Every executed slice of a step (an *action*) remembers one other action: the one without which
//! it could have begun earlier. Following these from the end gives the path; one pass over all
//! actions then tells which step, round and slice each was.

use super::job::{Cause, PathStep};
use super::queue::Time;
use super::ranks::{AllRanks, tokens};

/// No action.
pub(super) const NO_ACTION: u32 = u32::MAX;
/// Most actions that are kept, which is what the path is read from.
const MOST_KEPT: u64 = 100_000_000;
const CAUSE_SHIFT: u32 = 30;

/// An action as it is remembered, in 16 bytes.
#[derive(Clone, Copy)]
pub(super) struct Action {
    end: Time,
    before: u32,
    /// Lane, and the cause in the two highest bits.
    lane: u32,
}

const _: () = assert!(size_of::<Action>() == 16);

impl Action {
    pub fn new(lane: u32, end: Time, (cause, before): (Cause, u32)) -> Action {
        debug_assert!(lane < 1 << CAUSE_SHIFT, "lanes are numbered below 2^30");
        Action {
            end,
            before,
            lane: lane | ((cause as u32) << CAUSE_SHIFT),
        }
    }

    fn lane(&self) -> usize {
        (self.lane & ((1 << CAUSE_SHIFT) - 1)) as usize
    }

    fn cause(&self) -> Cause {
        match self.lane >> CAUSE_SHIFT {
            0 => Cause::Call,
            1 => Cause::Core,
            2 => Cause::Token,
            _ => Cause::Credit,
        }
    }
}

/// The actions of a simulation, in the order in which they were executed.
pub(super) struct Actions {
    count: u32,
    kept: Option<Vec<Action>>,
}

impl Actions {
    /// For so many actions at most, which are kept if the memory for them is small.
    pub fn new(expected: u64) -> Actions {
        let keeps = expected <= MOST_KEPT;
        Actions {
            count: 0,
            kept: keeps.then(|| Vec::with_capacity(expected as usize)),
        }
    }

    /// Adds one, whose number is returned.
    pub fn push(&mut self, action: Action) -> u32 {
        if let Some(kept) = &mut self.kept {
            kept.push(action);
        }
        self.count += 1;
        self.count - 1
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        u64::from(self.count)
    }

    /// Those that were kept: all, or none.
    pub fn kept(&self) -> &[Action] {
        self.kept.as_deref().unwrap_or_default()
    }
}

/// The path that ends with the last action to end.
pub(super) fn critical(actions: &[Action], ranks: &AllRanks) -> Vec<PathStep> {
    let last = (0..actions.len()).max_by_key(|&index| (actions[index].end, index));
    let mut on_path = Vec::new();
    let mut next = last.map_or(NO_ACTION, |index| index as u32);
    while next != NO_ACTION {
        on_path.push(next);
        next = actions[next as usize].before;
    }
    on_path.sort_unstable();
    let mut wanted = on_path.iter().copied().peekable();
    let mut done = vec![0u32; ranks.lanes.len()];
    let mut path: Vec<PathStep> = Vec::with_capacity(on_path.len());
    for (index, action) in actions.iter().enumerate() {
        let ordinal = &mut done[action.lane()];
        if wanted.next_if_eq(&(index as u32)).is_some() {
            path.push(describe(action, *ordinal, ranks));
        }
        *ordinal += 1;
    }
    path
}

/// Step, round and slice of the `ordinal`-th action of a lane.
fn describe(action: &Action, ordinal: u32, ranks: &AllRanks) -> PathStep {
    let lane = &ranks.lanes[action.lane()];
    let slices = u64::from(ranks.windows[lane.window as usize].slices());
    let steps = &ranks.steps[lane.first as usize..lane.end as usize];
    let per_round = steps.iter().map(|flat| tokens(&flat.step)).sum::<u64>() * slices;
    let (round, mut rest) = (
        u64::from(ordinal) / per_round,
        u64::from(ordinal) % per_round,
    );
    let mut step = 0;
    while rest >= tokens(&steps[step].step) * slices {
        rest -= tokens(&steps[step].step) * slices;
        step += 1;
    }
    PathStep {
        rank: lane.rank,
        lane: lane.number,
        step: step as u32,
        repetition: (rest / slices) as u16,
        round,
        slice: (rest % slices) as u32,
        cause: action.cause(),
        end_ns: action.end as f64 / 1e3,
    }
}
