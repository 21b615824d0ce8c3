//! The simulator: the same plans, on a model of a machine instead of a machine.
//!
//! **Problem.** Nobody has a thousand nodes at hand to see what a plan does there.
//!
//! **Idea.** Plans are data, so a discrete-event loop can run them all: a step waits for its tokens
//! and credits as on the host, takes its core for as long as the costs say, and publishes. What
//! comes out is the time, the load of every link, and the *critical path*: the chain of steps of
//! which none could have been later without delaying the end.
//!
//! **The model.** LogGP per level (see [`crate::price`]). A step of a lane occupies the core of its
//! rank; a core serves one lane until that has to wait, then the lane of its ranks that has waited
//! longest. Where the reader carries the bytes, they occupy its core, and beside it the memory of
//! its socket and the links out of caches and sockets that they pass; what stays in a cache
//! ([`crate::price::Cached`]) occupies no memory, and own buffers do if they are too large for it.
//! The readers of one line see it one after the other. Where wires carry the bytes, they pass the
//! links one after the other. **Contention: a link serves tokens one at a time, in the order in
//! which they reach it** (first come, first served; several tokens never share a link); a token's
//! head goes on to the next link while its tail is still on this one (cut-through), and links hold
//! back nobody upstream. Slots are credits: a writer waits until the reader's release has travelled
//! back. Everything is integers (picoseconds) in one thread, so equal inputs give equal results.
//!
//! **Memory.** A plan is made, flattened into shared arrays and dropped before the next one is
//! made; 16 bytes remain of every executed step, from which the critical path is read backwards.

mod engine;
mod handover;
mod job;
mod links;
mod path;
mod queue;
mod ranks;

pub use job::{Cause, Job, MOST_ACTIONS, PathStep, Report};
pub use links::{LevelLoad, LinkLoad};

use crate::base::{Error, Result};
use crate::plan::Plan;

/// Runs the plans of all ranks; `plan` is called once per rank, in rank order.
///
/// # Errors
/// Those of `plan`; `InvalidUsage` where the plans take more than [`MOST_ACTIONS`] steps, or never
/// end, with the rank and the step that waits.
pub fn simulate(job: &Job, plan: &dyn Fn(u32) -> Result<Plan>) -> Result<Report> {
    let all = ranks::AllRanks::compile(job, plan)?;
    if all.actions > MOST_ACTIONS {
        return Err(Error::usage(
            format!(
                "simulating this takes {:.1e} steps, more than {MOST_ACTIONS:.0e}",
                all.actions as f64
            ),
            "choose fewer ranks, fewer bytes, or an algorithm of fewer steps, such as one whose \
             steps grow with the logarithm of the ranks",
        ));
    }
    engine::Simulation::new(job, all).run()
}
