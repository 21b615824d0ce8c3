//! A launch: a plan bound to buffers, sizes, a kernel and connections.

use super::wires::{End, Wires};
use crate::base::Result;
use crate::dtype::{FoldFn, FoldParams};
use crate::plan::window::{Binding, Geometry};
use crate::plan::{Algorithm, Plan, Window};
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

/// One call on its way.
pub struct Launch {
    /// What is done.
    pub plan: Arc<Plan>,
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
    /// The ends of the plan's connections, in its order.
    pub ends: Vec<End>,
}

// SAFETY: the buffers belong to the call until it completes (contract of the entry points), and
// one driver at a time runs a launch.
unsafe impl Send for Launch {}

impl Launch {
    /// Resolves the plan's connections.
    ///
    /// # Errors
    /// When a connection cannot be made.
    pub fn new(
        plan: Arc<Plan>,
        (send, recv): (*const u8, *mut u8),
        kernel: Kernel,
        signature: u64,
        geometry: Geometry,
        wires: &mut Wires,
    ) -> Result<Launch> {
        let ends = plan
            .connections
            .iter()
            .map(|used| wires.resolve(used))
            .collect::<Result<_>>()?;
        Ok(Launch {
            plan,
            send,
            recv,
            kernel,
            signature,
            geometry,
            ends,
        })
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
