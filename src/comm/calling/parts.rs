//! Parts of a call whose blocks have different sizes.

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

/// The parts of a call, shared by whoever runs it.
pub(in crate::comm) type Parts = Option<Arc<[Part]>>;
