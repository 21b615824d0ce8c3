//! Parts of a call whose blocks have different sizes.

use crate::tune::OwnBlocks;
use std::sync::Arc;

/// Action taken with the data of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::comm) enum Deed {
    Copy,
    Send,
    Recv,
    Fold,
}

/// One part of a call, with addresses.
#[derive(Clone, Copy, Debug)]
pub(in crate::comm) struct Part {
    pub deed: Deed,
    pub send: *const u8,
    pub recv: *mut u8,
    pub count: usize,
    pub peer: u32,
    pub signature: u64,
}

// SAFETY: a description; whoever dereferences its pointers answers for it.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

/// The blocks of a rank, by its parts with elements of so many bytes: what decides how they move.
#[inline]
pub(in crate::comm) fn own_blocks(parts: &[Part], element_bytes: usize) -> OwnBlocks {
    if parts.iter().any(|part| part.deed == Deed::Fold) {
        return OwnBlocks::Large;
    }
    let is_message = |part: &&Part| matches!(part.deed, Deed::Send | Deed::Recv);
    let messages = parts.iter().filter(is_message);
    let kept = parts.iter().filter(|part| !is_message(part));
    OwnBlocks::of(
        messages.map(|part| (part.deed == Deed::Send, part.count * element_bytes)),
        kept.map(|part| part.count * element_bytes),
    )
}

/// The parts of a call, shared by whoever runs it.
pub(in crate::comm) type Parts = Option<Arc<[Part]>>;
