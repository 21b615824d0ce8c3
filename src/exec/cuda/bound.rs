//! A plan of pairs, bound to the connections of a device.

use super::shelf::Shelved;
use super::staged::StagedUse;
use super::{Image, fit};
use crate::base::Result;
use crate::plan::window::Binding;
use crate::plan::{Geometry, Link, Plan, Program, Protocol, Window};
use crate::wire::carrier::CarriedSlots;
use crate::wire::gpu::DeviceWire;

/// A plan, bound to all that its launches have in common.
pub(super) struct DeviceBound {
    /// Tells it from all others of its engine.
    pub number: u64,
    pub protocol: Protocol,
    program: Program,
    plan: Plan,
    steps: Vec<u64>,
    /// The addresses of its ends, on the device; none where it has no connections.
    pub table: Option<Shelved>,
    /// Its connections between nodes.
    staged: Vec<StagedUse>,
}

/// The sizes of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LaunchExtents {
    /// Elements of the data or of a block, as the kernel counts them.
    pub count: usize,
    pub element_bytes: usize,
    /// Blocks of the send and the receive buffer.
    pub blocks: (u32, u32),
}

impl DeviceBound {
    /// A plan whose connections are pairs, and whose table is on the device.
    ///
    /// # Errors
    /// A plan that kernels cannot run.
    pub fn new(
        plan: Plan,
        number: u64,
        protocol: Protocol,
        table: Option<Shelved>,
        staged: Vec<StagedUse>,
    ) -> Result<DeviceBound> {
        fit::check(&plan)?;
        let lanes = 0..plan.lanes.len();
        Ok(DeviceBound {
            number,
            protocol,
            program: Program::lower(&plan)?,
            steps: lanes.map(|lane| plan.lane_steps_per_round(lane)).collect(),
            plan,
            table,
            staged,
        })
    }

    /// Lanes of the plan.
    pub fn lanes(&self) -> usize {
        self.plan.lanes.len()
    }

    /// Chunks in its largest token.
    pub fn pieces(&self) -> u32 {
        self.plan.pieces
    }

    /// The window of each lane.
    pub fn windows(&self, geometry: &Geometry, extents: &LaunchExtents) -> Vec<Window> {
        let window = |lane: &crate::plan::Lane| {
            let binding = Binding {
                count: extents.count,
                element_bytes: extents.element_bytes,
                input_blocks: extents.blocks.0,
                output_blocks: extents.blocks.1,
                lane: u32::from(lane.channel),
                lanes: self.plan.channels(),
                pieces: self.plan.pieces,
            };
            Window::bind(self.plan.layout, self.plan.chunks, geometry, &binding)
        };
        self.plan.lanes.iter().map(window).collect()
    }

    /// Steps of a launch with these windows.
    pub fn steps(&self, windows: &[Window]) -> u64 {
        let of_lane = self.steps.iter().zip(windows);
        of_lane.map(|(steps, window)| steps * window.rounds()).sum()
    }

    /// The slots that pass between nodes in a launch with these windows.
    pub fn staged(&self, windows: &[Window]) -> Vec<CarriedSlots> {
        let used = self.staged.iter();
        used.map(|used| used.slots(&windows[used.lane])).collect()
    }

    /// Bytes of scratch memory that each lane needs with these windows.
    pub fn scratch_bytes(&self, windows: &[Window], element_bytes: usize) -> usize {
        let stride = windows.iter().map(Window::scratch_stride).max();
        stride.unwrap_or(0) * self.plan.scratch as usize * element_bytes
    }

    /// Writes the image that a kernel reads.
    pub fn image(&self, windows: &[Window]) -> Image {
        Image::new(&self.program, windows)
    }
}

/// Returns the connection of `link`: both of its ends name it alike.
pub(super) fn wire_of(link: Link, protocol: Protocol, slot_bytes: usize) -> DeviceWire {
    let (writer, reader, channel) = match link {
        Link::Pair {
            writer,
            reader,
            channel,
        } => (writer, reader, channel),
        // `plan::pairs` has left none of these.
        Link::Fan { writer } | Link::Cast { writer, .. } => (writer, writer, 0),
    };
    DeviceWire {
        writer,
        reader,
        channel,
        protocol: protocol as u8,
        slot_bytes: slot_bytes as u32,
    }
}
