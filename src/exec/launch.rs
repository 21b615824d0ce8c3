//! A launch: a plan bound to buffers, sizes, a kernel and connections.

use super::wires::{End, Wires};
use crate::base::{Error, Result};
use crate::dtype::{FoldFn, FoldParams};
use crate::plan::window::{Binding, Geometry};
use crate::plan::{Plan, Protocol, Window};
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
    /// How pair connections hand tokens over.
    pub protocol: Protocol,
    /// The ends of the plan's connections, in its order.
    pub ends: Vec<End>,
    /// Channels that share the data.
    channels: u32,
}

// SAFETY: the buffers belong to the call until it completes (contract of the entry points), and
// one driver at a time runs a launch.
unsafe impl Send for Launch {}

impl Launch {
    /// As [`Launch::with_protocol`], with slots.
    ///
    /// # Errors
    /// As [`Launch::with_protocol`].
    pub fn new(
        plan: Arc<Plan>,
        buffers: (*const u8, *mut u8),
        kernel: Kernel,
        signature: u64,
        geometry: Geometry,
        wires: &mut Wires,
    ) -> Result<Launch> {
        let how = (geometry, Protocol::Simple);
        Launch::with_protocol(plan, buffers, kernel, signature, how, wires)
    }

    /// Resolves the plan's connections. Flagged lines hold less than slots, so with LL and LL128
    /// chunks shrink to fit; where not even one element of each piece of a packed token does, slots
    /// are used. That depends only on plan and type: all ranks come to the same.
    ///
    /// # Errors
    /// When a connection cannot be made, or a packed token cannot hold its chunks.
    pub fn with_protocol(
        plan: Arc<Plan>,
        (send, recv): (*const u8, *mut u8),
        kernel: Kernel,
        signature: u64,
        (mut geometry, mut protocol): (Geometry, Protocol),
        wires: &mut Wires,
    ) -> Result<Launch> {
        let least_bytes = plan.pieces as usize * kernel.element_bytes;
        let slot_bytes = geometry.slot_bytes.min(Wires::capacity(protocol));
        if least_bytes > slot_bytes * geometry.slice_steps as usize {
            protocol = Protocol::Simple;
        } else {
            geometry.slot_bytes = slot_bytes;
        }
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
        let channels = plan.channels();
        let ends = plan
            .connections
            .iter()
            .map(|used| wires.resolve(used, protocol))
            .collect::<Result<_>>()?;
        Ok(Launch {
            plan,
            send,
            recv,
            kernel,
            signature,
            geometry,
            protocol,
            ends,
            channels,
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
            lanes: self.channels,
            pieces: self.plan.pieces,
        };
        Window::bind(self.plan.layout, self.plan.chunks, &self.geometry, &binding)
    }
}
