//! The simulator: the same plans, on a model of a machine instead of a machine.
//!
//! **Problem.** Nobody has a thousand nodes at hand to see what a plan does there.
//!
//! **Idea.** Plans are data, so a discrete-event loop can run them all: a step waits for its tokens
//! and credits as on the host, takes its core for as long as the costs say, and publishes. What
//! comes out is the time, the load of every link, and the *critical path*: the chain of steps of
//! which none could have been later without delaying the end.
//!
//! **The model.** LogGP per level (see [`crate::price`]). A step of a lane occupies the
//! core of its rank; a core serves one lane until that has to wait, then the lane of its ranks that
//! has waited longest. Where the reader carries the bytes, they occupy its core, the memory of its
//! socket, and the link between sockets; where wires carry them, they pass the links one after the
//! other. **Contention: a link serves tokens one at a time, in the order in which they reach it**
//! (first come, first served; several tokens never share a link); a token's head goes on to the
//! next link while its tail is still on this one (cut-through), and links hold back nobody
//! upstream. Slots are credits: a writer waits until the reader's release has travelled back.
//! Everything is integers (picoseconds) in one thread, so equal inputs give equal results.
//!
//! **Memory.** A plan is made, flattened into shared arrays and dropped before the next one is
//! made; 16 bytes remain of every executed step, from which the critical path is read backwards.

mod engine;
mod handover;
mod links;
mod path;
mod program;
mod queue;

pub use links::{LevelLoad, LinkLoad};
pub use path::{Cause, PathStep};

use crate::base::{Error, Result};
use crate::plan::window::Binding;
use crate::plan::{Geometry, Plan, Window};
use crate::price::{Costs, Machine};

/// Most executed step slices of one simulation: they take 16 bytes each.
pub const MOST_ACTIONS: u64 = 200_000_000;

/// One call to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Where the ranks are; it also says how many there are.
    pub machine: Machine,
    /// What everything costs.
    pub costs: Costs,
    /// Elements of the call, as its caller counts them.
    pub count: usize,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// Slots and slices.
    pub geometry: Geometry,
    /// Blocks of the input and the output.
    pub blocks: (u32, u32),
}

impl Job {
    /// The window of the lanes of one channel; channels share the data.
    pub fn window(&self, plan: &Plan, channel: u32) -> Window {
        let binding = Binding {
            count: self.count,
            element_bytes: self.element_bytes,
            input_blocks: self.blocks.0,
            output_blocks: self.blocks.1,
            lane: channel,
            lanes: plan.channels(),
            pieces: plan.pieces,
        };
        Window::bind(plan.layout, plan.chunks, &self.geometry, &binding)
    }
}

/// What a simulation found.
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
    /// From the call to the end.
    pub path: Vec<PathStep>,
    /// Bytes of memory that the simulation took at its largest, about.
    pub memory_bytes: usize,
}

/// Runs the plans of all ranks; `plan` is called once per rank, in rank order.
///
/// # Errors
/// Those of `plan`; `InvalidUsage` where the plans take more than [`MOST_ACTIONS`] steps, or never
/// end, with the rank and the step that waits.
pub fn simulate(job: &Job, plan: &dyn Fn(u32) -> Result<Plan>) -> Result<Report> {
    let program = program::Program::compile(job, plan)?;
    if program.actions > MOST_ACTIONS {
        return Err(Error::usage(
            format!(
                "simulating this takes {:.1e} steps, more than {MOST_ACTIONS:.0e}",
                program.actions as f64
            ),
            "choose fewer ranks, fewer bytes, or an algorithm of fewer steps, such as one whose \
             steps grow with the logarithm of the ranks",
        ));
    }
    engine::Engine::new(job, program).run()
}
