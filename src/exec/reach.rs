//! How this rank reaches the buffers of other ranks where they lie.

use crate::base::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Where the buffers of all ranks are for one call.
#[derive(Clone)]
pub struct PeerBuffers {
    /// The send and the receive buffer of each rank.
    pub bases: Vec<[Base; 2]>,
    /// The bytes of *every* receive buffer into which peers may write.
    pub pushed: Pushed,
    /// Bytes of this rank's own buffers that peers read in copies.
    pub copies: Vec<Copied>,
}

/// The bytes of *every* receive buffer into which peers may write: all ranks have the same. A page
/// that holds anything else is not among them, as its owner may have to replace what peers can
/// write ([`crate::wire::reading`]): other data of the program, or the owner's own block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Bytes of a block, which has one writer.
    pub block_bytes: usize,
    /// Those of each block, from the start of the buffer; empty for none.
    pub parts: Vec<Range<usize>>,
    /// They are all bytes of the receive buffers.
    pub is_all: bool,
}

impl Pushed {
    /// Nothing.
    pub fn nothing() -> Pushed {
        Pushed {
            block_bytes: 1,
            parts: Vec::new(),
            is_all: false,
        }
    }

    /// Those of the block that holds the byte at `offset`.
    pub fn around(&self, offset: usize) -> Range<usize> {
        let block = offset / self.block_bytes.max(1);
        self.parts.get(block).cloned().unwrap_or(0..0)
    }
}

/// Bytes of this process, by their addresses, of which peers read a copy that must be made before
/// they hear of them.
#[derive(Clone)]
pub struct Copied {
    pub bytes: Range<usize>,
    pub how: Arc<dyn ShowCopy>,
}

/// Copies bytes to where peers read them.
pub trait ShowCopy: Send + Sync {
    /// Copies what lies in `part`, a range of addresses.
    ///
    /// # Errors
    /// The system refuses.
    fn show(&self, part: &Range<usize>) -> Result<()>;
}

/// Where one buffer of a rank lies, as its card says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CardPlace {
    /// In its own process.
    pub address: u64,
    /// Number of the allocation; 0 if none.
    pub number: u64,
    /// Bytes from the start of the allocation.
    pub offset: u64,
    /// Not 0: its owner can take it back from peers that write there.
    pub may_be_written: u64,
    /// 0, or the bytes of a registration that peers map by its parts.
    pub window: u64,
}

impl CardPlace {
    /// Number of a buffer that a rank does not have, such as what only a root sends.
    pub const NO_BUFFER: u64 = u64::MAX;

    /// Whether other processes can map it, or need not.
    pub fn is_known(&self) -> bool {
        self.number != 0
    }
}

/// Buffers of the ranks of a node, as one of the ranks finds and reaches them.
pub trait NodeBuffers: Send {
    /// Bytes of a page.
    fn page_bytes(&self) -> usize;

    /// Whether a rank is a thread of this process.
    fn is_of_this_process(&self, rank: usize) -> bool;

    /// Whether a call of so many bytes reads private buffers of other processes. Pure in what all
    /// ranks know.
    fn reads_private(&self, bytes: usize) -> bool;

    /// How often this process has freed memory that peers may have mapped.
    fn freed(&mut self) -> u64;

    /// Finds where a buffer of this rank lies. Its allocation is published before anybody can know
    /// of it; `copies` gets those of its bytes that peers read in copies.
    ///
    /// # Errors
    /// When the service of this process is gone.
    fn find(
        &mut self,
        address: *const u8,
        bytes: usize,
        copies: &mut Vec<Copied>,
    ) -> Result<CardPlace>;

    /// Hears how often the process of a rank has freed memory: what was mapped of it before may be
    /// other memory by now.
    fn hear(&mut self, rank: usize, freed: u64);

    /// How this rank reads a buffer of so many bytes of a rank, which is mapped if need be.
    ///
    /// # Errors
    /// It cannot be mapped, or does not lie where its card says.
    fn base(&mut self, rank: usize, place: &CardPlace, bytes: usize) -> Result<Base>;
}

/// Buffers of ranks that reach nobody's.
pub struct Unreached;

impl NodeBuffers for Unreached {
    fn page_bytes(&self) -> usize {
        4096
    }

    fn is_of_this_process(&self, _: usize) -> bool {
        false
    }

    fn reads_private(&self, _: usize) -> bool {
        false
    }

    fn freed(&mut self) -> u64 {
        0
    }

    fn find(&mut self, _: *const u8, _: usize, _: &mut Vec<Copied>) -> Result<CardPlace> {
        Ok(CardPlace::default())
    }

    fn hear(&mut self, _: usize, _: u64) {}

    fn base(&mut self, rank: usize, _: &CardPlace, _: usize) -> Result<Base> {
        let what = format!("the buffers of rank {rank} cannot be reached");
        Err(Error::internal(what))
    }
}

/// Reads memory that this process cannot address.
pub trait Fetch: Send + Sync {
    /// Copies `bytes` bytes from the address `from` of its owner to `to`.
    ///
    /// # Errors
    /// When the owner has ended or its memory cannot be read.
    ///
    /// # Safety
    /// `to` takes `bytes` bytes that nobody else touches.
    unsafe fn fetch(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()>;
}

/// How a buffer is reached.
#[derive(Clone)]
enum Reach {
    /// It is addressable, by agreement, until the call ends.
    Here,
    /// It is addressable as long as this lives.
    Mapped {
        _keeper: Arc<dyn std::any::Any + Send + Sync>,
    },
    /// It must be fetched.
    Private(Arc<dyn Fetch>),
}

/// Where this rank reads a buffer of a peer.
#[derive(Clone)]
pub struct Base {
    start: *const u8,
    reach: Reach,
}

impl Base {
    /// A buffer of this process.
    pub fn here(start: *const u8) -> Base {
        let reach = Reach::Here;
        Base { start, reach }
    }

    /// A buffer that is readable from `start` as long as `keeper` lives.
    pub fn mapped(start: *const u8, keeper: Arc<dyn std::any::Any + Send + Sync>) -> Base {
        let reach = Reach::Mapped { _keeper: keeper };
        Base { start, reach }
    }

    /// A buffer that begins at the address `start` of another process.
    pub fn private(start: *const u8, owner: Arc<dyn Fetch>) -> Base {
        let reach = Reach::Private(owner);
        Base { start, reach }
    }

    /// The byte at `offset`.
    #[inline(always)]
    pub fn at(&self, offset: usize) -> *const u8 {
        self.start.wrapping_add(offset)
    }

    /// The byte at `offset`, to be written: of a buffer that can be addressed, and into which its
    /// owner has said peers may write.
    #[inline(always)]
    pub fn at_mut(&self, offset: usize) -> *mut u8 {
        debug_assert!(
            self.owner().is_none(),
            "memory of another process is not written"
        );
        self.start.wrapping_add(offset).cast_mut()
    }

    /// Returns who fetches it, if it cannot be addressed.
    #[inline(always)]
    pub fn owner(&self) -> Option<&Arc<dyn Fetch>> {
        match &self.reach {
            Reach::Private(owner) => Some(owner),
            Reach::Here | Reach::Mapped { .. } => None,
        }
    }

    /// Whether it was mapped for this.
    pub fn is_mapped(&self) -> bool {
        matches!(self.reach, Reach::Mapped { .. })
    }
}
