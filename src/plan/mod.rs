//! A plan: everything one rank does in a collective, without pointers, byte sizes or data types.
//!
//! **Problem.** The arithmetic of a collective (who sends which chunk when) is needed by whoever
//! moves bytes, counts messages, proves that nobody waits for ever, or estimates time. Written more
//! than once, it differs.
//!
//! **Idea.** A collective is a pure function that emits *steps*. A *lane* is one sequential list of
//! steps; a *plan* is all lanes of one rank. The checker reads it, and what runs is the same plan
//! in one flat piece of memory, its [`Program`]: so the arithmetic of an algorithm exists once.
//! Plans over connections with one writer are a Kahn process network (G. Kahn, "The semantics of a
//! simple language for parallel programming", IFIP 1974): what flows through them does not depend
//! on the interleaving. Memory does, and that is what [`check`] proves.
//!
//! **Terms.** *Chunk*: a rank's share of one round; *slice*: the part of a chunk that is published
//! at once; *round*: one pass of the plan; *token*: one published slice of a connection.

pub mod analysis;
pub mod cache;
pub mod cards;
pub mod check;
pub mod dump;
pub mod emit;
pub mod nodes;
pub mod operand;
pub mod orders;
pub mod pairs;
pub mod parts;
pub(crate) mod places;
pub mod placing;
pub mod program;
pub mod readers;
pub mod shape;
pub mod step;
pub mod validate;
pub mod window;

pub use cache::Cache;
pub use cards::Cards;
pub use emit::Emitter;
pub use emit::Runs;
pub use nodes::Nodes;
pub use operand::{ListId, Lists, Operand, Space};
pub use orders::{Chain, Orders};
pub use parts::NodeParts;
pub use placing::Placing;
pub use program::Program;
pub use readers::Readers;
pub use shape::{Algorithm, Collective, Layout, Shape};
pub use step::{PACKED, POST_SCALE, PRE_SCALE, Step, StepOp};
pub use window::{Geometry, Window};

use std::ops::Range;

/// Which way this rank uses a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Direction {
    /// This rank writes.
    Send = 0,
    /// This rank reads.
    Recv = 1,
}

/// How pair connections say that a token is there: bound when a call is launched, equal on all
/// ranks, and no part of the plan. Fans and casts have no choice: theirs is always the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// Slots, and a line for each that says so.
    #[default]
    Simple,
    /// A flag in every 8 bytes, half of them payload.
    Ll,
    /// A flag in every 128 bytes, 120 of them payload.
    Ll128,
}

impl Protocol {
    /// Most payload of one slot in bytes; the executor holds it against the memory that there is.
    pub const fn slot_bytes(self) -> usize {
        match self {
            Protocol::Simple => usize::MAX,
            Protocol::Ll => 8128,
            Protocol::Ll128 => 15_296,
        }
    }

    /// The name in settings and messages.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Simple => "simple",
            Protocol::Ll => "ll",
            Protocol::Ll128 => "ll128",
        }
    }
}

/// The kind of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Link {
    /// One writer, one reader, on this channel.
    Pair {
        /// Writing rank.
        writer: u32,
        /// Reading rank.
        reader: u32,
        /// Independent copies of the same pair.
        channel: u16,
    },
    /// One writer; every other rank reads; the credit is that of the slowest reader. One token a
    /// call: for small calls.
    Fan {
        /// Writing rank.
        writer: u32,
    },
    /// A fan for calls of any size, and perhaps for a group of ranks only: slots, slices and
    /// rounds, on this channel.
    Cast {
        /// Writing rank.
        writer: u32,
        /// Independent copies of the same cast.
        channel: u16,
        /// Who reads.
        readers: Readers,
    },
}

impl Link {
    /// Channels of pairs from this number on lead to a network that folds: what the writer puts in
    /// is folded with that of all others who write on this channel, and the reader, who is another
    /// rank's, gets the result. The rest is the number of the channel that the lane runs on.
    pub const FOLDS: u16 = 1 << 15;

    /// The rank that writes.
    pub fn writer(self) -> u32 {
        match self {
            Link::Pair { writer, .. } | Link::Fan { writer } | Link::Cast { writer, .. } => writer,
        }
    }

    /// Whether `rank` reads: the reader of a pair, every rank but the writer of a fan, those of a
    /// cast.
    pub fn is_read_by(self, rank: u32) -> bool {
        match self {
            Link::Pair { reader, .. } => reader == rank,
            Link::Fan { writer } => writer != rank,
            Link::Cast {
                writer, readers, ..
            } => writer != rank && readers.contains(rank),
        }
    }

    /// How many of `nranks` ranks read.
    pub fn readers(self, nranks: u32) -> u32 {
        match self {
            Link::Pair { .. } => 1,
            Link::Fan { .. } => nranks - 1,
            Link::Cast {
                writer, readers, ..
            } => readers.beside(writer, nranks),
        }
    }

    /// The ranks among `nranks` that read, ascending.
    pub fn read_by(self, nranks: u32) -> impl Iterator<Item = u32> {
        let all = match self {
            Link::Pair { reader, .. } => reader..reader + 1,
            Link::Fan { .. } | Link::Cast { .. } => 0..nranks,
        };
        all.filter(move |&rank| self.is_read_by(rank))
    }

    /// The number of a reader among those that read.
    pub fn number_of(self, reader: u32) -> u32 {
        match self {
            Link::Pair { .. } => 0,
            Link::Fan { writer } => Readers::ALL.number(reader, writer),
            Link::Cast {
                writer, readers, ..
            } => readers.number(reader, writer),
        }
    }
}

/// One end of a connection that a plan uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionUse {
    /// Which connection.
    pub link: Link,
    /// Which end of it.
    pub direction: Direction,
}

/// One sequential list of steps, with connections of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The channel that runs it.
    pub channel: u16,
    /// Its part of [`Plan::steps`].
    pub steps: Range<usize>,
}

/// All lanes of one rank for one (collective, algorithm, shape, root, channels).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Shape for which it was made.
    pub shape: Shape,
    /// Steps of all lanes.
    pub steps: Vec<Step>,
    /// Operand lists of all steps.
    pub lists: Lists,
    /// Lanes, in order of channels.
    pub lanes: Vec<Lane>,
    /// Connections; operands name them by index. Each belongs to one lane.
    pub connections: Vec<ConnectionUse>,
    /// Modulus of chunk numbers.
    pub chunks: u32,
    /// How bytes are cut into chunks.
    pub layout: Layout,
    /// Chunks in the largest token of any rank's plan: all ranks have the same number, because
    /// chunks shrink until that many fit a slot. 1 where nothing is packed.
    pub pieces: u32,
    /// Chunks of scratch memory that each lane has. Each takes the room of the largest chunk.
    pub scratch: u32,
}

impl Plan {
    /// The steps of a lane.
    pub fn lane_steps(&self, lane: usize) -> &[Step] {
        &self.steps[self.lanes[lane].steps.clone()]
    }

    /// Steps executed by one round of a lane, repetitions counted (a packed step counts once).
    pub fn lane_steps_per_round(&self, lane: usize) -> u64 {
        let steps = self.lane_steps(lane).iter();
        steps.map(|step| u64::from(step.tokens())).sum()
    }

    /// Steps executed by one round of the whole plan, repetitions counted.
    pub fn steps_per_round(&self) -> u64 {
        let steps = self.steps.iter();
        steps.map(|step| u64::from(step.tokens())).sum()
    }

    /// Channels that share the data: one more than the highest of any lane, at least 1.
    pub fn channels(&self) -> u32 {
        let channels = self.lanes.iter().map(|lane| u32::from(lane.channel) + 1);
        channels.max().unwrap_or(1)
    }

    /// Tokens that pass through connection `index` in one round, for each slice: with the rounds
    /// of the window and the slices of a chunk this is their number, so nobody needs a second
    /// formula. A packed token is one token.
    pub fn touches(&self, index: usize) -> u64 {
        let touches = |list: ListId| {
            self.lists
                .get(list)
                .iter()
                .filter(|o| o.as_connection() == Some(index))
                .count() as u64
        };
        let kept = |list: ListId| {
            let is_kept = |o: &&Operand| o.as_connection() == Some(index) && o.keep;
            self.lists.get(list).iter().filter(is_kept).count() as u64
        };
        self.steps
            .iter()
            .map(|s| (touches(s.srcs) - kept(s.srcs) + touches(s.dsts)) * u64::from(s.tokens()))
            .sum()
    }
}
