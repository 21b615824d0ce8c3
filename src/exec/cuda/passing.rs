//! Messages under way, counted in slots: whether those of a rank that has ended can still move.
//!
//! **Problem.** A kernel waits for a count of the other rank, and nobody on the host sees how far
//! it is. Where that rank has ended, what it left may still be taken: so its end alone is no reason
//! to stop a kernel.
//!
//! **Idea.** The host adds up the slots that its launches pass over each connection of messages.
//! The other rank's count lies in memory that this rank's device reads
//! ([`crate::wire::gpu`]). A rank that has ended counts no further; so a launch that wants more
//! than its count allows waits for ever. Who replays a graph does not tell the host: a connection
//! that a graph passes is left out.

use super::messages::{MessageEnd, WaveKey};
use crate::plan::{Direction, Window};
use crate::wire::gpu::SLOTS;
use std::collections::BTreeMap;

/// Slots that were passed over the connections of messages.
#[derive(Default)]
pub(super) struct Passing {
    /// Slots of all launches so far; none where a graph has captured one.
    slots: BTreeMap<MessageEnd, Option<u64>>,
}

impl Passing {
    /// A launch of a wave begins, with slices of so many slots.
    pub fn begin(&mut self, key: &WaveKey, windows: &[Window], slice: u32, is_captured: bool) {
        let lanes = key.iter().flat_map(|&(peer, direction, channels)| {
            (0..channels).map(move |channel| (peer, direction, channel))
        });
        for (end, window) in lanes.zip(windows) {
            let slots = window.rounds() * u64::from(window.slices()) * u64::from(slice);
            let known = self.slots.entry(end).or_insert(Some(0));
            *known = known.filter(|_| !is_captured).map(|known| known + slots);
        }
    }

    /// The connections with a rank, each with the least count of the other side that lets all
    /// launches end.
    pub fn wanted(&self, peer: u32) -> impl Iterator<Item = (MessageEnd, u64)> {
        let with = self.slots.iter().filter(move |(end, _)| end.0 == peer);
        with.filter_map(|(&end, &slots)| {
            let free = match end.1 {
                Direction::Send => u64::from(SLOTS),
                Direction::Recv => 0,
            };
            Some((end, slots?.saturating_sub(free)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::{DeviceMessage, Wave};
    use super::*;
    use crate::plan::Geometry;

    #[test]
    fn a_sender_needs_fewer_slots_of_the_other_side_and_graphs_tell_nothing() {
        let mut passing = Passing::default();
        let geometry = Geometry::bundle(8 * 4096);
        let mut pass = |peer, direction, bytes: usize, is_captured| {
            let message = DeviceMessage {
                peer,
                direction,
                address: 0,
                bytes,
            };
            let wave = Wave {
                messages: vec![message],
            };
            let key = wave.key(1);
            let windows = wave.windows(&key, &geometry);
            passing.begin(&key, &windows, 1, is_captured);
            windows[0].rounds() * u64::from(windows[0].slices())
        };
        let sent = pass(1, Direction::Send, 1 << 20, false);
        let received = pass(1, Direction::Recv, 100, false) + pass(1, Direction::Recv, 1, false);
        pass(2, Direction::Recv, 100, false);
        pass(2, Direction::Recv, 100, true);
        pass(2, Direction::Recv, 100, false);
        assert!(sent > u64::from(SLOTS) && received >= 2);
        let wanted: Vec<_> = passing.wanted(1).collect();
        let free = sent - u64::from(SLOTS);
        assert_eq!(wanted.len(), 2);
        assert!(wanted.contains(&((1, Direction::Send, 0), free)));
        assert!(wanted.contains(&((1, Direction::Recv, 0), received)));
        assert_eq!(passing.wanted(2).count(), 0);
    }
}
