//! A launch: a plan bound to buffers, sizes, a kernel and connections.

use super::wires::{End, Wires};
use crate::base::Result;
use crate::dtype::{FoldFn, FoldParams};
use crate::plan::window::{Binding, Geometry};
use crate::plan::{Algorithm, Operand, Plan, Window};
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
    /// The order of contributions does not matter.
    pub commutes: bool,
    /// Keeps a function of the program alive.
    pub owner: Option<Arc<dyn std::any::Any + Send + Sync>>,
}

/// A plan with the ends of its connections, looked up once per communicator.
pub struct Bound {
    plan: Plan,
    /// The ends of the plan's connections, in its order.
    pub ends: Vec<End>,
    /// The ends that each lane uses, once each.
    pub lane_ends: Vec<Vec<End>>,
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
    pub fn new(
        plan: Arc<Bound>,
        (send, recv): (*const u8, *mut u8),
        kernel: Kernel,
        signature: u64,
        geometry: Geometry,
    ) -> Launch {
        Launch {
            plan,
            send,
            recv,
            kernel,
            signature,
            geometry,
        }
    }

    /// The window of one lane for `count` elements (of the data, or of a block).
    pub fn window(&self, lane: usize, count: usize, (input, output): (u32, u32)) -> Window {
        let shared = self.plan.shape.algorithm == Algorithm::Ring;
        let (lane, lanes) = if shared {
            (lane, self.plan.lanes.len())
        } else {
            (0, 1)
        };
        let binding = Binding {
            count,
            element_bytes: self.kernel.element_bytes,
            input_blocks: input,
            output_blocks: output,
            lane: lane as u32,
            lanes: lanes as u32,
        };
        Window::bind(self.plan.layout, self.plan.chunks, &self.geometry, &binding)
    }
}
