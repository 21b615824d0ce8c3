//! Orders that an engine gets: one launch of a plan, or one call that needs none.

use super::combine::Combine;
use super::reach::PeerBuffers;
use crate::base::Result;
use crate::dtype::{DataType, ReduceOp};
use crate::plan::{Collective, Direction, Geometry, Placing, Plan, Protocol, Shape};

/// One launch of a plan, bound to buffers and sizes. What stands here is the same for every engine.
pub struct LaunchOrder {
    /// Shape for which the plan is made.
    pub shape: Shape,
    /// On which channels its connections to other nodes are.
    pub placing: Placing,
    /// How its pair connections hand tokens over, where the elements are small enough.
    pub protocol: Protocol,
    /// Slots and slices.
    pub geometry: Geometry,
    /// The caller's send buffer.
    pub send: *const u8,
    /// The caller's receive buffer.
    pub recv: *mut u8,
    /// Send and receive buffers coincide as the collective allows.
    pub in_place: bool,
    /// Elements of the data, or of a block.
    pub count: usize,
    /// Blocks of the send and the receive buffer.
    pub blocks: (u32, u32),
    /// How elements combine.
    pub combine: Combine,
    /// Travels with every token.
    pub signature: u64,
    /// Type and operation by their numbers at the network that folds, if it does.
    pub folding: Option<(i32, i32)>,
    /// Where the buffers of all ranks are read and written; `None` over slots.
    pub reach: Option<PeerBuffers>,
    /// It comes after the launches of the same flight that use the same connection: messages.
    pub follows: bool,
    /// It is a message of the program: with `KOLO_CHECK` that is sent when it was received, unlike
    /// the messages of which a collective consists.
    pub meets: bool,
}

// SAFETY: a description; whoever dereferences its pointers answers for it.
unsafe impl Send for LaunchOrder {}

impl LaunchOrder {
    /// A launch that moves blocks of `count` bytes as they are, each in a slot, on the connections
    /// that the plan names.
    pub fn of_bytes(shape: Shape, send: *const u8, recv: *mut u8, count: usize) -> LaunchOrder {
        let (collective, nranks) = (shape.collective, shape.nranks);
        LaunchOrder {
            shape,
            placing: Placing::Planned,
            protocol: Protocol::Simple,
            geometry: Geometry::bundle(count * Geometry::SLOTS as usize),
            send,
            recv,
            in_place: false,
            count,
            blocks: (
                collective.input_blocks(nranks),
                collective.output_blocks(nranks),
            ),
            combine: Combine::copy(DataType::Uint8),
            signature: 0,
            folding: None,
            reach: None,
            follows: false,
            meets: false,
        }
    }

    /// Bytes of the data, or of a block.
    pub fn bytes(&self) -> usize {
        self.count * self.combine.element_bytes()
    }

    /// Bytes of the send and the receive buffer of a rank; 0 for an unused one.
    pub fn buffer_bytes(&self, rank: u32) -> (usize, usize) {
        let Shape {
            collective,
            root,
            nranks,
            ..
        } = self.shape;
        let blocks = collective.blocks((rank, root, nranks));
        // Both products were checked with the arguments.
        (
            self.bytes() * blocks.0 as usize,
            self.bytes() * blocks.1 as usize,
        )
    }
}

/// A call that reads the buffers of all ranks where they lie, if these can be read there.
pub struct DirectOrder {
    /// Over slots: what runs where a card says no.
    pub otherwise: LaunchOrder,
    /// Shape of the plan that reads buffers.
    pub shape: Shape,
    /// Its slices: bytes that a token stands for.
    pub geometry: Geometry,
    /// Cards are shown. Else that is decided when the call begins: by then all earlier calls have
    /// ended, on every rank.
    pub is_decided: bool,
}

impl DirectOrder {
    /// The launch that follows when all cards are there: over the buffers that are reached, if any.
    pub fn launch(self, reached: Option<PeerBuffers>) -> LaunchOrder {
        if reached.is_none() {
            return self.otherwise;
        }
        LaunchOrder {
            shape: self.shape,
            placing: Placing::Planned,
            protocol: Protocol::Simple,
            geometry: self.geometry,
            folding: None,
            reach: reached,
            ..self.otherwise
        }
    }
}

/// A call that needs no plan: small enough to be one token of each rank, or of one rank alone.
#[derive(Clone, Copy)]
pub struct SmallOrder {
    /// Which collective: each that [`super::host::oneshot`] has a row for, and those that are
    /// messages.
    pub collective: Collective,
    /// The caller's send buffer.
    pub send: *const u8,
    /// The caller's receive buffer.
    pub recv: *mut u8,
    /// Elements of the data, or of a block.
    pub count: usize,
    /// Their type.
    pub dtype: DataType,
    /// Operation that combines them.
    pub op: Option<ReduceOp>,
    /// Travels with every token.
    pub signature: u64,
    /// Root, where there is one, or peer of a message.
    pub root: usize,
}

impl SmallOrder {
    /// A message of one of its blocks, of one token.
    #[inline(always)]
    pub fn message(&self, peer: usize, direction: Direction, place: *mut u8) -> MessageOrder {
        MessageOrder {
            peer,
            to_all: false,
            direction,
            place,
            bytes: self.count * self.dtype.size_bytes(),
            slice_bytes: usize::MAX,
            signature: self.signature,
        }
    }
}

/// A message to or from another rank, or from one rank to all others.
#[derive(Clone, Copy)]
pub struct MessageOrder {
    /// The other rank; the one that sends it, if it goes to all others.
    pub peer: usize,
    /// Whether it goes to all others.
    pub to_all: bool,
    /// Which way it goes.
    pub direction: Direction,
    /// Its memory: read where it is sent, written where it is received.
    pub place: *mut u8,
    /// Its size.
    pub bytes: usize,
    /// Bytes of each of its tokens but the last one, which has the rest.
    pub slice_bytes: usize,
    /// Travels with it.
    pub signature: u64,
}

impl MessageOrder {
    /// Tokens that it consists of.
    #[inline(always)]
    pub fn tokens(&self) -> u64 {
        match self.bytes {
            0 => 0,
            few if few <= self.slice_bytes => 1,
            many => many.div_ceil(self.slice_bytes) as u64,
        }
    }
}

/// Makes the plan of a shape, where an engine has none yet.
pub type Planner<'a> = &'a dyn Fn(&Shape) -> Result<Plan>;
/// A planner that an engine keeps.
pub type OwnPlanner = Box<dyn Fn(&Shape) -> Result<Plan> + Send>;
