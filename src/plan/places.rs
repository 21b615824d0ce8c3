//! Places: the chunks of user memory and scratch that a plan touches, numbered.
//!
//! Each plan instance has input, output and scratch of its own, whatever else is in flight. Lanes
//! of different channels work on disjoint parts of the data, so each channel has its own copy of
//! all chunks; scratch belongs to a single lane. In place, an input chunk and an output chunk are
//! one place.

use super::{Collective, Layout, Operand, Plan, Shape, Space};
use crate::base::InPlace;

/// The places of one plan instance.
pub(crate) struct Places {
    base: u32,
    channels: u32,
    lanes: u32,
    chunks: u32,
    scratch: u32,
    rank: u32,
    pub inputs: u32,
    pub outputs: u32,
    alias: InPlace,
}

impl Places {
    /// Numbers the places of `plan` from `base`.
    pub fn new(plan: &Plan, base: u32) -> Places {
        let Shape {
            collective,
            nranks,
            rank,
            ..
        } = plan.shape;
        let chunks = plan.chunks.max(1);
        let (inputs, outputs) = match plan.layout {
            Layout::Split => (chunks, chunks),
            Layout::Blocks => (
                collective.input_blocks(nranks),
                collective.output_blocks(nranks),
            ),
        };
        let alias = match collective {
            // No caller may do so; the checker shows why.
            Collective::AllToAll => InPlace::Same,
            _ => collective.in_place(),
        };
        let channels = plan.lanes.iter().map(|lane| u32::from(lane.channel) + 1);
        Places {
            base,
            channels: channels.max().unwrap_or(1),
            lanes: plan.lanes.len() as u32,
            chunks,
            scratch: plan.scratch,
            rank,
            inputs,
            outputs,
            alias,
        }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.channels * self.per_channel() + self.lanes * self.scratch
    }

    /// Channels that have places of their own.
    pub fn channels(&self) -> u32 {
        self.channels
    }

    fn per_channel(&self) -> u32 {
        self.inputs + self.outputs
    }

    /// The chunk number of an operand in its space, for an event with chunk number `chunk`.
    #[inline]
    pub fn chunk(&self, operand: &Operand, chunk: u32) -> u32 {
        if operand.space == Space::Scratch {
            return operand.chunk(chunk, self.scratch);
        }
        let shifted = operand.chunk(chunk, self.chunks);
        let blocks = match operand.space {
            Space::Input => self.inputs,
            _ => self.outputs,
        };
        shifted % blocks
    }

    /// The place of an operand of lane number `lane` of a channel, for its chunk number `chunk`.
    #[inline]
    pub fn of(&self, (lane, channel): (u32, u16), space: Space, chunk: u32, in_place: bool) -> u32 {
        if space == Space::Scratch {
            let first = self.base + self.channels * self.per_channel();
            return first + lane * self.scratch + chunk;
        }
        self.at(u32::from(channel), space, chunk, in_place)
    }

    /// The place of a chunk of the input or output.
    #[inline]
    pub fn at(&self, channel: u32, space: Space, chunk: u32, in_place: bool) -> u32 {
        let (space, chunk) = match (in_place, space, self.alias) {
            (true, Space::Input, InPlace::Same) => (Space::Output, chunk % self.outputs),
            (true, Space::Input, InPlace::SendInRecv) => (Space::Output, self.rank % self.outputs),
            (true, Space::Output, InPlace::RecvInSend) => (Space::Input, self.rank % self.inputs),
            _ => (space, chunk),
        };
        let offset = match space {
            Space::Input => 0,
            _ => self.inputs,
        };
        self.base + channel * self.per_channel() + offset + chunk
    }
}

/// Whether `rank` may read its input.
pub(crate) fn has_input(shape: &Shape, rank: u32) -> bool {
    let at = (rank, shape.root, shape.nranks);
    shape.collective.sends().blocks(at) > 0
}

/// Whether `rank` may write its output.
pub(crate) fn has_output(shape: &Shape, rank: u32) -> bool {
    let at = (rank, shape.root, shape.nranks);
    shape.collective.receives().blocks(at) > 0
}

/// A chunk of a space in words.
pub(crate) fn text(space: Space, chunk: u32) -> String {
    let name = match space {
        Space::Input => "input",
        Space::Output => "output",
        Space::Scratch => "scratch",
        Space::Connection => "connection",
    };
    format!("{name}[{chunk}]")
}
