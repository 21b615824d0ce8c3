//! Entries in the image of a program: of fixed sizes, and the same on every executor.

use crate::plan::{ConnectionUse, Direction, Layout, Link, Operand, Plan, Readers, Shape, Step};
use std::mem::offset_of;

/// The first word of an image: "kolo" in the order of a little-endian machine.
pub const MAGIC: u32 = u32::from_le_bytes(*b"kolo");
/// The version of the layout: raised with every change of what stands here.
pub const VERSION: u32 = 1;
/// The reader of a connection that all ranks but the writer read.
pub const ALL_OTHERS: u32 = u32::MAX;
/// The lane of a connection that no step uses.
pub const NO_LANE: u32 = u32::MAX;

/// Where a part of the image lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Extent {
    /// Bytes from the beginning of the image.
    pub at: u32,
    /// Entries.
    pub count: u32,
}

/// The beginning of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ProgramHeader {
    /// [`MAGIC`].
    pub magic: u32,
    /// [`VERSION`].
    pub version: u32,
    /// FNV-1a of everything behind this field: equal programs have equal hashes on every machine.
    pub hash: u64,
    /// Bytes of the image.
    pub bytes: u32,
    /// Whose program it is.
    pub rank: u32,
    /// Ranks of the communicator.
    pub nranks: u32,
    /// Root, or peer of a point-to-point bundle; 0 otherwise.
    pub root: u32,
    /// Modulus of chunk numbers.
    pub chunks: u32,
    /// Chunks in the largest token of any rank's program.
    pub pieces: u32,
    /// Chunks of scratch memory that each lane has.
    pub scratch: u32,
    /// Channels that share the data, at least 1.
    pub channels: u32,
    /// [`super::Collective`] by its number.
    pub collective: u8,
    /// [`super::Algorithm`] by its number.
    pub algorithm: u8,
    /// How bytes are cut into chunks.
    pub layout: Layout,
    /// 0.
    pub reserved: [u8; 5],
    /// [`Step`]s of all lanes.
    pub steps: Extent,
    /// [`ConnectionEntry`]s: operands name them by index.
    pub connections: Extent,
    /// [`LaneEntry`]s.
    pub lanes: Extent,
    /// [`ListEntry`]s: steps name them by index.
    pub lists: Extent,
    /// [`Operand`]s of all lists.
    pub operands: Extent,
}

/// Which kind of connection a [`ConnectionEntry`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionKind {
    /// [`Link::Pair`].
    Pair = 0,
    /// [`Link::Fan`].
    Fan = 1,
    /// [`Link::Cast`].
    Cast = 2,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ConnectionEntry {
    /// Kind of connection.
    pub kind: ConnectionKind,
    /// Which end of it.
    pub direction: Direction,
    /// The channel; 0 for a fan.
    pub channel: u16,
    /// Writing rank.
    pub writer: u32,
    /// Reading rank, [`ALL_OTHERS`], or the readers of a cast ([`Readers::pack`]).
    pub reader: u32,
    /// The lane whose steps use it, or [`NO_LANE`].
    pub lane: u32,
}

/// One lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct LaneEntry {
    /// Its first step.
    pub first: u32,
    /// Its steps.
    pub count: u32,
    /// The channel that runs it.
    pub channel: u32,
    /// 0.
    pub reserved: u32,
}

/// One operand list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ListEntry {
    /// Its first operand.
    pub first: u32,
    /// Its operands.
    pub count: u32,
}

// A device reads the same bytes by declarations of its own: sizes and places are fixed.
const _: () = {
    assert!(size_of::<ProgramHeader>() == 96 && align_of::<ProgramHeader>() <= 16);
    assert!(offset_of!(ProgramHeader, hash) == 8 && offset_of!(ProgramHeader, bytes) == 16);
    assert!(offset_of!(ProgramHeader, channels) == 44 && offset_of!(ProgramHeader, layout) == 50);
    assert!(offset_of!(ProgramHeader, steps) == 56 && offset_of!(ProgramHeader, operands) == 88);
    assert!(
        size_of::<ConnectionEntry>() == 16
            && offset_of!(ConnectionEntry, writer) == 4
            && offset_of!(ConnectionEntry, lane) == 12
    );
    assert!(size_of::<LaneEntry>() == 16 && offset_of!(LaneEntry, channel) == 8);
    assert!(size_of::<ListEntry>() == 8 && offset_of!(ListEntry, count) == 4);
    assert!(size_of::<Step>() == 16 && offset_of!(Step, chunk) == 8);
    assert!(size_of::<Operand>() == 8 && offset_of!(Operand, offset) == 4);
};

impl From<&ConnectionUse> for ConnectionEntry {
    fn from(of: &ConnectionUse) -> ConnectionEntry {
        let (kind, writer, reader, channel) = match of.link {
            Link::Pair {
                writer,
                reader,
                channel,
            } => (ConnectionKind::Pair, writer, reader, channel),
            Link::Fan { writer } => (ConnectionKind::Fan, writer, ALL_OTHERS, 0),
            Link::Cast {
                writer,
                channel,
                readers,
            } => (ConnectionKind::Cast, writer, readers.pack(), channel),
        };
        ConnectionEntry {
            kind,
            direction: of.direction,
            channel,
            writer,
            reader,
            lane: NO_LANE,
        }
    }
}

impl ConnectionEntry {
    /// The connection, and which end of it.
    pub fn connection_use(&self) -> ConnectionUse {
        ConnectionUse {
            link: self.link(),
            direction: self.direction,
        }
    }

    /// The connection.
    pub fn link(&self) -> Link {
        let ConnectionEntry {
            writer,
            reader,
            channel,
            ..
        } = *self;
        match self.kind {
            ConnectionKind::Pair => Link::Pair {
                writer,
                reader,
                channel,
            },
            ConnectionKind::Fan => Link::Fan { writer },
            ConnectionKind::Cast => Link::Cast {
                writer,
                channel,
                readers: Readers::unpack(reader),
            },
        }
    }
}

impl ProgramHeader {
    /// The header of a plan, but for the parts and what depends on them.
    pub(super) fn of(plan: &Plan) -> ProgramHeader {
        let Shape {
            collective,
            algorithm,
            rank,
            nranks,
            root,
            ..
        } = plan.shape;
        let nothing = Extent::default();
        ProgramHeader {
            magic: MAGIC,
            version: VERSION,
            hash: 0,
            bytes: 0,
            rank,
            nranks,
            root,
            chunks: plan.chunks,
            pieces: plan.pieces,
            scratch: plan.scratch,
            channels: plan.channels(),
            collective: collective as u8,
            algorithm: algorithm as u8,
            layout: plan.layout,
            reserved: [0; 5],
            steps: nothing,
            connections: nothing,
            lanes: nothing,
            lists: nothing,
            operands: nothing,
        }
    }
}
