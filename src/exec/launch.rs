//! A launch: a plan bound to buffers, sizes, a kernel and connections.

use super::wires::{End, Wires};
use crate::base::{Error, Result};
use crate::dtype::{FoldFn, FoldParams};
use crate::plan::window::{Binding, Geometry};
use crate::plan::{Operand, Plan, Window};
use std::sync::Arc;

/// How data is folded and copied.
#[derive(Clone)]
pub struct Kernel {
    /// Folds sources of the call's type with the call's operation.
    pub fold: FoldFn,
    /// Copies one source of bytes.
    pub copy: FoldFn,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// Scalar and divisor.
    pub params: FoldParams,
    /// Inputs are multiplied as they are read.
    pub pre_scaled: bool,
    /// Final results are divided by this.
    pub divisor: Option<std::num::NonZeroU32>,
}

/// A plan with the ends of its connections, looked up once per communicator.
pub struct Bound {
    plan: Plan,
    /// The ends of the plan's connections, in its order.
    pub ends: Vec<End>,
    /// The ends that each lane uses, once each.
    pub lane_ends: Vec<Vec<End>>,
    /// Channels that share the data.
    channels: u32,
}

impl std::ops::Deref for Bound {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl Bound {
    /// Resolves the plan's connections.
    ///
    /// # Errors
    /// When a connection cannot be made.
    pub fn new(plan: Plan, wires: &mut Wires) -> Result<Bound> {
        let ends: Vec<End> = plan
            .connections
            .iter()
            .map(|used| wires.resolve(used))
            .collect::<Result<_>>()?;
        let of_lane = |lane: usize| {
            let mut seen = Vec::new();
            for step in plan.lane_steps(lane) {
                let (srcs, dsts) = (plan.lists.get(step.srcs), plan.lists.get(step.dsts));
                for index in srcs.iter().chain(dsts).filter_map(Operand::as_connection) {
                    if !seen.contains(&ends[index]) {
                        seen.push(ends[index]);
                    }
                }
            }
            seen
        };
        let lane_ends = (0..plan.lanes.len()).map(of_lane).collect();
        Ok(Bound {
            channels: plan.channels(),
            plan,
            ends,
            lane_ends,
        })
    }
}

/// One call on its way.
pub struct Launch {
    /// What is done, over which ends.
    pub plan: Arc<Bound>,
    /// The caller's send buffer.
    pub send: *const u8,
    /// The caller's receive buffer.
    pub recv: *mut u8,
    /// How data is folded.
    pub kernel: Kernel,
    /// Travels with every token.
    pub signature: u64,
    /// Slots and slices.
    pub geometry: Geometry,
}

// SAFETY: the buffers belong to the call until it completes (contract of the entry points), and
// one driver at a time runs a launch.
unsafe impl Send for Launch {}

impl Launch {
    /// One call over a bound plan.
    ///
    /// # Errors
    /// When a packed token cannot hold its chunks.
    pub fn new(
        plan: Arc<Bound>,
        (send, recv): (*const u8, *mut u8),
        kernel: Kernel,
        signature: u64,
        geometry: Geometry,
    ) -> Result<Launch> {
        let least_bytes = plan.pieces as usize * kernel.element_bytes;
        if least_bytes > geometry.slice_bytes() {
            return Err(Error::usage(
                format!(
                    "tokens of {} chunks need {least_bytes} bytes, and those of this communicator \
                     hold {}",
                    plan.pieces,
                    geometry.slice_bytes()
                ),
                "raise KOLO_BUFFSIZE, or choose another algorithm with KOLO_ALGO",
            ));
        }
        Ok(Launch {
            plan,
            send,
            recv,
            kernel,
            signature,
            geometry,
        })
    }

    /// The window of one lane for `count` elements (of the data, or of a block): lanes of one
    /// channel share a window, and channels share the data.
    pub fn window(&self, lane: usize, count: usize, (input, output): (u32, u32)) -> Window {
        let binding = Binding {
            count,
            element_bytes: self.kernel.element_bytes,
            input_blocks: input,
            output_blocks: output,
            lane: u32::from(self.plan.lanes[lane].channel),
            lanes: self.plan.channels,
            pieces: self.plan.pieces,
        };
        Window::bind(self.plan.layout, self.plan.chunks, &self.geometry, &binding)
    }
}
