//! The job of a simulation, and its report.

use super::links::{LevelLoad, LinkLoad};
use crate::plan::window::Binding;
use crate::plan::{Geometry, Program, Window};
use crate::price::{Cached, Cluster, Costs};

/// Most executed step slices of one simulation.
pub const MOST_ACTIONS: u64 = 500_000_000;

/// One call to simulate.
#[derive(Clone, Debug)]
pub struct Job {
    /// Where the ranks are; it also says how many there are.
    pub machine: Cluster,
    /// Costs of all that ranks do.
    pub costs: Costs,
    /// Elements of the call, as its caller counts them.
    pub count: usize,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// Slots and slices.
    pub geometry: Geometry,
    /// Blocks of the input and the output.
    pub blocks: (u32, u32),
    /// Buffers are mapped or registered: what only moves is read where it lies, by mates and by the
    /// network, and received where it is wanted.
    pub mapped: bool,
}

impl Job {
    /// Parts of it that stay in caches.
    pub(super) fn cached(&self) -> Cached {
        let blocks = f64::from(self.blocks.0) + f64::from(self.blocks.1);
        let buffer_bytes = (self.count * self.element_bytes) as f64 * blocks;
        let connection = f64::from(self.geometry.slots) * self.geometry.slot_bytes as f64;
        let [of_cache, ..] = self.machine.company();
        Cached::of(&self.costs, of_cache, buffer_bytes, connection)
    }

    /// The window of the lanes of one channel; channels share the data.
    pub fn window(&self, plan: &Program, channel: u32) -> Window {
        let binding = Binding {
            count: self.count,
            element_bytes: self.element_bytes,
            input_blocks: self.blocks.0,
            output_blocks: self.blocks.1,
            lane: channel,
            lanes: plan.header().channels,
            pieces: plan.pieces(),
        };
        Window::bind(
            plan.header().layout,
            plan.chunks(),
            &self.geometry,
            &binding,
        )
    }
}

/// Results of a simulation.
#[derive(Clone, Debug)]
pub struct Report {
    /// From the call to the end of the last rank, in nanoseconds.
    pub time_ns: f64,
    /// The end of the first rank, in nanoseconds.
    pub first_end_ns: f64,
    /// Slices of steps executed by all ranks.
    pub actions: u64,
    /// Tokens that were handed over, counted per reader.
    pub tokens: u64,
    /// Tokens and bytes by level.
    pub levels: [LevelLoad; 4],
    /// Every link that carried something, busiest first.
    pub links: Vec<LinkLoad>,
    /// From the call to the end; empty where there were too many steps to keep them.
    pub path: Vec<PathStep>,
    /// Bytes of memory that the simulation took at its largest, about.
    pub memory_bytes: usize,
}

/// Why an action began no earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The call itself.
    Call,
    /// The core was busy: with the step before, or with another lane or rank.
    Core,
    /// It waited for a token.
    Token,
    /// It waited for a credit.
    Credit,
}

/// One action of the critical path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathStep {
    /// Whose action it is.
    pub rank: u32,
    /// The lane of its plan.
    pub lane: u16,
    /// The step of the lane.
    pub step: u32,
    /// Which of the step's repetitions.
    pub repetition: u16,
    /// Which pass of the plan.
    pub round: u64,
    /// Which slice of the chunk.
    pub slice: u32,
    /// Reason of its last wait.
    pub cause: Cause,
    /// End of its work, in nanoseconds since the call.
    pub end_ns: f64,
}
