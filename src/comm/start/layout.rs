//! How the memory of a node is laid out for a communicator, by its settings.

use crate::base::Rank;
use crate::config::Settings;
use crate::plan::Geometry;
use crate::proxy;
use crate::topo::{self, RankPlace};
use crate::transport::homes::Homes;
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

/// The NUMA nodes of the ranks of `me`'s node, by rank; those of other nodes have none here.
pub(in crate::comm) fn homes(me: Rank, places: &[RankPlace]) -> Homes {
    let mut numa = vec![None; places.len()];
    for place in topo::local_places(me, places) {
        numa[place.rank.index()] = place.sharing.numa;
    }
    Homes::of(numa)
}

/// Bytes of a slot of a Simple connection.
pub(in crate::comm) fn slot_bytes(settings: &Settings) -> usize {
    let slots = Geometry::SLOTS as usize;
    (settings.buffsize() as usize / slots).next_multiple_of(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls of so many bytes, cut into a block for each rank.
    const CALL: usize = 64 << 10;

    /// A rank's part of the memory of a node: the head, what its pairs with all others keep, and
    /// what they give back.
    fn parts(settings: &Settings, ranks: usize) -> [usize; 3] {
        let layout = layout(settings, ranks as u32, true);
        let (kept, given_back) = layout.written(ranks - 1, CALL / ranks);
        [lengths(&layout).0 / ranks, kept, given_back]
    }

    /// The most that a rank takes for so many communicators that have all been used so.
    fn most(
        settings: &Settings,
        [head, kept, given_back]: [usize; 3],
        communicators: usize,
    ) -> usize {
        let bound = settings.slot_memory() as usize + given_back;
        communicators * (head + kept) + (communicators * given_back).min(bound)
    }

    #[test]
    fn the_budget_is_the_one_of_the_page() {
        let page = include_str!("../../../docs/memory.md");
        let settings = Settings::defaults();
        for ranks in [2, 16, 64, 128, 192] {
            let parts = parts(&settings, ranks);
            let in_kib = parts.map(|bytes| format!("{} KiB", bytes.div_ceil(1 << 10)));
            let all = [1, 10, 100].map(|communicators| {
                let bytes = most(&settings, parts, communicators);
                format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
            });
            let row = format!("| {ranks} | {} | {} |", in_kib.join(" | "), all.join(" | "));
            assert!(page.contains(&row), "docs/memory.md has no row {row}");
        }
        let [_, kept, given_back] = parts(&settings, 16);
        assert!(kept + given_back <= 1 << 20, "{kept} and {given_back}");
    }
}
