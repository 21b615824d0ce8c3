//! Sources that must be fetched from other processes before they can be folded.
//!
//! What is only copied is fetched straight to where it goes. A fold takes its sources in pieces
//! from scratch memory: small enough to be in the cache still when they are folded, large enough
//! that fetching them costs little beside the bytes.

use super::kernel::Kernel;
use super::lists::Lists;
use super::scratch::Block;
use crate::base::Result;
use crate::dtype::FoldParams;
use crate::exec::reach::Base;

/// Scratch memory of a lane, for the pieces of all sources together.
const SCRATCH_BYTES: usize = 256 << 10;
/// A piece has at least so much room, however many sources there are.
const LEAST_BYTES: usize = 4096;
/// Room for a piece is a multiple of this.
const ALIGNMENT: usize = 64;

/// Bytes of scratch that a fold among so many ranks needs.
pub fn scratch_bytes(ranks: usize) -> usize {
    SCRATCH_BYTES.max(ranks * LEAST_BYTES)
}

/// Fetches `bytes` bytes of the only source to the first destination, and copies them to the
/// others.
///
/// # Errors
/// When the source cannot be read.
///
/// # Safety
/// The destinations hold so many bytes, apart from each other.
pub unsafe fn copy_private(
    lists: &Lists,
    kernel: &Kernel,
    bases: &[[Base; 2]],
    bytes: usize,
    params: &FoldParams,
) -> Result<()> {
    let (_, rank, buffer) = lists.private.sources[0];
    let Some((&first, others)) = lists.dsts.split_first() else {
        return Ok(());
    };
    // SAFETY: our caller's promise.
    unsafe { fetch(&bases[rank][buffer], lists.srcs[0], first, bytes)? };
    if !others.is_empty() {
        // SAFETY: as above; the first destination is complete.
        unsafe { (kernel.copy)(&[first.cast_const()], others, bytes, params) };
    }
    Ok(())
}

/// Folds `count` elements of the listed sources piece by piece, in a block of [`scratch_bytes`].
///
/// # Errors
/// When a source cannot be read.
///
/// # Safety
/// Sources that need not be fetched and destinations hold `count` elements; the block is free.
pub unsafe fn fold_private(
    lists: &mut Lists,
    kernel: &Kernel,
    bases: &[[Base; 2]],
    block: &Block,
    count: usize,
    params: &FoldParams,
) -> Result<()> {
    let Lists {
        srcs,
        dsts,
        private,
        ..
    } = lists;
    let element_bytes = kernel.element_bytes;
    let stride = scratch_bytes(bases.len()) / private.sources.len() / ALIGNMENT * ALIGNMENT;
    let most = stride / element_bytes;
    assert!(most > 0, "a piece has room for an element");
    for first in (0..count).step_by(most) {
        let now = most.min(count - first);
        let offset = first * element_bytes;
        private.srcs.clear();
        let srcs = srcs.iter().map(|src| src.wrapping_add(offset));
        private.srcs.extend(srcs);
        private.dsts.clear();
        let dsts = dsts.iter().map(|dst| dst.wrapping_add(offset));
        private.dsts.extend(dsts);
        for (number, &(place, rank, buffer)) in private.sources.iter().enumerate() {
            let to = block.as_ptr().wrapping_add(number * stride);
            let base = &bases[rank][buffer];
            // SAFETY: the block has `stride` bytes for each source, and is this lane's own.
            unsafe { fetch(base, private.srcs[place], to, now * element_bytes)? };
            private.srcs[place] = to.cast_const();
        }
        // SAFETY: all sources are addressable by now and hold `now` elements, as do the
        // destinations, which are apart from the block.
        unsafe { (kernel.fold)(&private.srcs, &private.dsts, now, params) };
    }
    Ok(())
}

/// # Safety
/// `to` takes `bytes` bytes that nobody else touches.
unsafe fn fetch(base: &Base, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
    match base.owner() {
        // SAFETY: our caller's promise.
        Some(owner) => unsafe { owner.fetch(from, to, bytes) },
        None => Ok(()),
    }
}
