//! On which channels of a communicator the connections of a plan are, where they lead to other
//! nodes.
//!
//! **Problem.** A plan counts its channels from 0. Small calls have one channel, so all of them
//! would use the devices of channel 0, and so would all messages between pairs of ranks.
//!
//! **Idea.** The channels of a plan stay what they are: orders of ranks, and so the bits of sums,
//! follow from them. Only the connections move to other channels, the same way at both ends: those
//! of a collective by its number among the collectives of the communicator, those of a message by
//! the two ranks. Inside a node a channel is memory and nothing else, and connections stay where it
//! is warm.

use super::{Link, Plan};

/// Which channels connections to other nodes have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placing {
    /// Those of the plan.
    #[default]
    Planned,
    /// So many further on, around.
    Turned(u16),
    /// One for each pair of ranks.
    ByPair,
}

impl Placing {
    /// The channel, of `channels`, of a connection between these ranks that the plan has on
    /// `planned`.
    #[inline]
    pub fn channel(self, planned: u16, (writer, reader): (u32, u32), channels: u16) -> u16 {
        let channels = u32::from(channels.max(1));
        let channel = match self {
            Placing::Planned => return planned,
            Placing::Turned(by) => u32::from(planned) + u32::from(by),
            // What a rank sends to one after the other goes in turn, and what it receives, too.
            Placing::ByPair => reader % channels + writer / channels % channels,
        };
        (channel % channels) as u16
    }

    /// Moves the connections of a plan with ranks on other nodes to their channels, of `channels`.
    pub fn place(self, plan: &mut Plan, channels: u16, is_remote: impl Fn(u32) -> bool) {
        if self == Placing::Planned {
            return;
        }
        let me = plan.shape.rank;
        for used in &mut plan.connections {
            if let Link::Pair {
                writer,
                reader,
                channel,
            } = &mut used.link
            {
                let pair = (*writer, *reader);
                let peer = if pair.0 == me { pair.1 } else { pair.0 };
                // Channels beyond lead to a network that folds.
                if is_remote(peer) && *channel < channels {
                    *channel = self.channel(*channel, pair, channels);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Algorithm, Collective, Emitter, Layout, Shape};

    #[test]
    fn messages_of_a_rank_take_all_channels_in_turn() {
        let of = |writer, reader| Placing::ByPair.channel(0, (writer, reader), 2);
        assert_eq!([of(0, 1), of(0, 2), of(0, 3)], [1, 0, 1], "from one rank");
        assert_eq!(
            [of(1, 0), of(2, 0), of(3, 0), of(4, 0)],
            [0, 1, 1, 0],
            "to one rank"
        );
        assert_eq!(
            [of(0, 2), of(1, 3)],
            [0, 1],
            "to the same place of the next node"
        );
        for channels in 1..7 {
            let mut used = vec![0; usize::from(channels)];
            for pair in (0..20).flat_map(|w| (0..20).map(move |r| (w, r))) {
                used[usize::from(Placing::ByPair.channel(5, pair, channels))] += 1;
            }
            let (least, most) = (used.iter().min(), used.iter().max());
            assert!(most.unwrap() - least.unwrap() <= 40, "{channels}: {used:?}");
        }
    }

    #[test]
    fn only_connections_with_other_nodes_move() {
        let shape = Shape {
            collective: Collective::AllToAll,
            algorithm: Algorithm::Bundle,
            rank: 1,
            nranks: 4,
            root: 0,
            channels: 1,
        };
        let mut e = Emitter::new(shape, 4, Layout::Blocks);
        for peer in [0, 2, 3] {
            let to = e.lane(0).to(peer);
            e.send(to, i64::from(peer));
            let from = e.lane(0).from(peer);
            e.recv(from, i64::from(peer));
        }
        let plan = e.finish();
        let channels = |placing: Placing| {
            let mut plan = plan.clone();
            placing.place(&mut plan, 3, |rank| rank >= 2);
            let channel = |link| match link {
                Link::Pair { channel, .. } => channel,
                _ => panic!("a pair"),
            };
            let links = plan.connections.iter().map(|used| channel(used.link));
            links.collect::<Vec<u16>>()
        };
        assert_eq!(channels(Placing::Planned), [0; 6]);
        assert_eq!(channels(Placing::Turned(2)), [0, 0, 2, 2, 2, 2]);
        // 1 to 2, 2 to 1, 1 to 3, 3 to 1.
        assert_eq!(channels(Placing::ByPair), [0, 0, 2, 1, 0, 2]);
    }
}
