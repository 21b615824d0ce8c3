//! Scratch memory of the communicator, for launches that are on their way.
//!
//! A plan says how many chunks of scratch each of its lanes has; the window says how large a chunk
//! is. So a lane takes a block when it begins and hands it back when it has ended; the pool keeps a
//! few of the blocks for the next call, because fresh memory costs a page fault every 4 KiB.
//! Blocks of different lanes never overlap, whichever calls they belong to.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// The places of one fold of a small call, kept by the engine so that no call allocates.
#[derive(Default)]
pub struct Sources(pub(super) Vec<*const u8>);

// SAFETY: what is listed is used within one call only, which writes the list anew.
unsafe impl Send for Sources {}

impl Sources {
    /// With room for a place of each rank.
    pub fn for_ranks(ranks: usize) -> Sources {
        Sources(Vec::with_capacity(ranks))
    }

    /// A list of a place of each rank, in `few` if they fit: what is allocated may share a cache
    /// line with what another thread, which is another rank, writes.
    #[inline(always)]
    pub(super) fn listed<'a>(
        &'a mut self,
        few: &'a mut [*const u8; FEW_SOURCES],
        ranks: usize,
    ) -> &'a mut [*const u8] {
        match few.get_mut(..ranks) {
            Some(few) => few,
            None => {
                self.0.resize(ranks, std::ptr::null());
                &mut self.0[..ranks]
            }
        }
    }
}

/// As many sources are listed on the stack.
pub(super) const FEW_SOURCES: usize = 8;

/// Every block begins at a multiple of this.
pub const ALIGNMENT: usize = 64;
/// The smallest block; sizes are powers of two from here on.
const LEAST_BYTES: usize = 4096;
/// Most blocks kept for later.
const MOST_KEPT: usize = 16;
/// Most bytes kept for later.
const MOST_KEPT_BYTES: usize = 64 << 20;

/// A block of memory, freed when it is dropped.
pub struct Block {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a block owns its memory.
unsafe impl Send for Block {}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, ALIGNMENT).expect("a size that was allocated, or is refused")
}

impl Block {
    fn new(bytes: usize) -> Block {
        let layout = layout(bytes);
        // SAFETY: the size is not 0.
        let start = unsafe { alloc(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Block { start, bytes }
    }

    /// Where it begins: a multiple of [`ALIGNMENT`]. The content is arbitrary.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// How much it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed only here.
        unsafe { dealloc(self.start.as_ptr(), layout(self.bytes)) };
    }
}

/// The blocks of a communicator that nobody uses now.
#[derive(Default)]
pub struct Pool {
    /// Sorted by size.
    kept: Vec<Block>,
    kept_bytes: usize,
}

impl Pool {
    /// A block of at least `bytes`: one that is kept, unless it is more than four times too large.
    pub fn take(&mut self, bytes: usize) -> Block {
        let bytes = bytes.max(LEAST_BYTES).next_power_of_two();
        let at = self.kept.partition_point(|block| block.bytes < bytes);
        let fits = self.kept.get(at).is_some_and(|b| b.bytes <= 4 * bytes);
        let block = match fits {
            true => self.kept.remove(at),
            false => return Self::poisoned(Block::new(bytes)),
        };
        self.kept_bytes -= block.bytes;
        Self::poisoned(block)
    }

    /// In builds with assertions, what nobody has written looks like it.
    fn poisoned(block: Block) -> Block {
        if cfg!(debug_assertions) {
            // SAFETY: the block has `bytes` bytes, and nobody else knows it.
            unsafe { block.as_ptr().write_bytes(0x5a, block.bytes) };
        }
        block
    }

    /// Takes a block back, to keep it or to free it.
    pub fn give_back(&mut self, block: Block) {
        if self.kept_bytes + block.bytes > MOST_KEPT_BYTES {
            return;
        }
        self.kept_bytes += block.bytes;
        let at = self.kept.partition_point(|kept| kept.bytes < block.bytes);
        self.kept.insert(at, block);
        if self.kept.len() > MOST_KEPT {
            self.kept_bytes -= self.kept.remove(0).bytes;
        }
    }

    /// Frees all that is kept.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.kept_bytes = 0;
    }

    /// Bytes kept for later.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_apart_and_used_again() {
        let mut pool = Pool::default();
        let (a, b) = (pool.take(1), pool.take(5000));
        assert!(a.bytes() >= 1 && b.bytes() >= 5000);
        for block in [&a, &b] {
            assert_eq!(block.as_ptr().addr() % ALIGNMENT, 0);
        }
        let (low, high) = (a.as_ptr().addr(), b.as_ptr().addr());
        assert!(low + a.bytes() <= high || high + b.bytes() <= low);
        pool.give_back(a);
        pool.give_back(b);
        let again = pool.take(4097);
        assert_eq!(again.as_ptr().addr(), high);
        assert_eq!(pool.kept_bytes(), LEAST_BYTES);
        assert_eq!(pool.take(100).as_ptr().addr(), low);
        assert_eq!(pool.kept_bytes(), 0);
    }

    #[test]
    fn a_large_block_is_not_wasted_on_a_small_call() {
        let mut pool = Pool::default();
        let large = pool.take(1 << 20);
        pool.give_back(large);
        assert_eq!(pool.take(100).bytes(), LEAST_BYTES);
        assert_eq!(pool.kept_bytes(), 1 << 20);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut pool = Pool::default();
        let blocks: Vec<Block> = (0..3 * MOST_KEPT).map(|_| pool.take(10_000)).collect();
        blocks.into_iter().for_each(|block| pool.give_back(block));
        assert_eq!(pool.kept_bytes(), MOST_KEPT * 16_384);
        let huge = Block::new(MOST_KEPT_BYTES);
        pool.give_back(huge);
        assert_eq!(pool.kept_bytes(), MOST_KEPT * 16_384);
        pool.clear();
        assert_eq!(pool.kept_bytes(), 0);
    }
}
