//! Sources that must be fetched from other processes before they can be folded.
//!
//! What is only copied is fetched straight to where it goes. A fold takes its sources in pieces
//! from scratch memory: small enough to be in the cache still when they are folded, large enough
//! that fetching them costs little beside the bytes.

use super::lane::LaneRun;
use super::launch::Launch;
use super::lists::Lists;
use super::wires::Wires;
use crate::base::Result;
use crate::dtype::FoldParams;
use crate::exec::reach::Base;

/// Scratch memory of a lane, for the pieces of all sources together.
const SCRATCH_BYTES: usize = 256 << 10;
/// A piece has at least so much room, however many sources there are.
const LEAST_BYTES: usize = 4096;
/// Room for a piece is a multiple of this.
const ALIGNMENT: usize = 64;

impl LaneRun {
    /// Fetches `bytes` bytes of the only source to the first destination, and copies them to the
    /// others.
    ///
    /// # Errors
    /// When the source cannot be read.
    ///
    /// # Safety
    /// The destinations hold so many bytes, apart from each other.
    pub(super) unsafe fn copy_private(
        &mut self,
        launch: &Launch,
        bases: &[[Base; 2]],
        bytes: usize,
        params: &FoldParams,
    ) -> Result<()> {
        let lists = &self.lists;
        let (_, rank, buffer) = lists.private.sources[0];
        let Some((&first, others)) = lists.dsts.split_first() else {
            return Ok(());
        };
        // SAFETY: our caller's promise.
        unsafe { fetch(&bases[rank][buffer], lists.srcs[0], first, bytes)? };
        if !others.is_empty() {
            // SAFETY: as above; the first destination is complete.
            unsafe { (launch.kernel.copy)(&[first.cast_const()], others, bytes, params) };
        }
        Ok(())
    }

    /// Folds `count` elements of the listed sources piece by piece.
    ///
    /// # Errors
    /// When a source cannot be read.
    ///
    /// # Safety
    /// Sources that need not be fetched and destinations hold `count` elements.
    pub(super) unsafe fn fold_private(
        &mut self,
        launch: &Launch,
        wires: &mut Wires,
        (bases, count): (&[[Base; 2]], usize),
        params: &FoldParams,
    ) -> Result<()> {
        let room = SCRATCH_BYTES.max(bases.len() * LEAST_BYTES);
        let taken = || wires.scratch.take(room);
        let block = self.scratch.get_or_insert_with(taken);
        let Lists {
            srcs,
            dsts,
            private,
            ..
        } = &mut self.lists;
        let element_bytes = launch.kernel.element_bytes;
        let stride = room / private.sources.len() / ALIGNMENT * ALIGNMENT;
        let most = stride / element_bytes;
        assert!(most > 0, "a piece has room for an element");
        for first in (0..count).step_by(most) {
            let now = most.min(count - first);
            let offset = first * element_bytes;
            private.srcs.clear();
            private
                .srcs
                .extend(srcs.iter().map(|src| src.wrapping_add(offset)));
            private.dsts.clear();
            private
                .dsts
                .extend(dsts.iter().map(|dst| dst.wrapping_add(offset)));
            for (number, &(place, rank, buffer)) in private.sources.iter().enumerate() {
                let to = block.as_ptr().wrapping_add(number * stride);
                let base = &bases[rank][buffer];
                // SAFETY: the block has `stride` bytes for each source, and is this lane's own.
                unsafe { fetch(base, private.srcs[place], to, now * element_bytes)? };
                private.srcs[place] = to.cast_const();
            }
            // SAFETY: all sources are addressable by now and hold `now` elements, as do the
            // destinations, which are apart from the block.
            unsafe { (launch.kernel.fold)(&private.srcs, &private.dsts, now, params) };
        }
        Ok(())
    }
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
