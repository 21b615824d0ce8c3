//! How the memory of a node is laid out for a communicator, by its settings.

use crate::config::Settings;
use crate::plan::Geometry;
use crate::proxy;
use crate::transport::segment::Segment;
use crate::wire::layout::Layout;

/// Bytes of an eager slot, and so the most that the one-shot path takes.
pub(in crate::comm) const EAGER_BYTES: usize = 32 << 10;

/// The layout for so many ranks, all of one node or not.
pub(in crate::comm) fn layout(settings: &Settings, nranks: u32, is_one_node: bool) -> Layout {
    let spare_bytes = match is_one_node {
        true => 0,
        false => proxy::net::SPARE_BYTES,
    };
    // What a network folds has connections of its own.
    let folds = match settings.collnet_enable() && !is_one_node {
        true => 2,
        false => 1,
    };
    Layout {
        ranks: nranks as usize,
        channels: settings.max_nchannels().max(1) as usize * folds,
        slot_bytes: slot_bytes(settings) + spare_bytes,
        eager_bytes: EAGER_BYTES,
    }
}

/// Where the layout begins in the memory of a node: behind the confirmation lines.
pub(in crate::comm) fn head_offset(layout: &Layout) -> usize {
    Segment::user_offset(layout.ranks)
}

/// Bytes of the head of the memory of a node, and of all of it.
pub(in crate::comm) fn lengths(layout: &Layout) -> (usize, usize) {
    let offset = head_offset(layout);
    (offset + layout.head(), offset + layout.total())
}

/// Bytes of a slot of a Simple connection.
pub(in crate::comm) fn slot_bytes(settings: &Settings) -> usize {
    let slots = Geometry::SLOTS as usize;
    (settings.buffsize() as usize / slots).next_multiple_of(4096)
}
