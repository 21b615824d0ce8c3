//! Messages between devices: what a group sends and receives, in as few launches as can be.
//!
//! **Problem.** The messages of a group must move together: a kernel that only sent would wait for
//! a receiver that is behind it on the same stream. But messages between the same two ranks follow
//! each other on one connection.
//!
//! **Idea.** A *wave* has at most one message each way for each peer, and is one launch: a plan
//! with lanes for each message. The second message to a peer is in the second wave, and so on. Both
//! sides count alike, so the waves of all ranks fit together: by induction over waves nobody waits
//! for a launch behind its own.
//!
//! Each message has an address of its own, where a launch has one for the input and one for the
//! output: these are 0 here, elements are bytes, and windows begin at the address itself.

use crate::plan::{
    Algorithm, Collective, Direction, Emitter, Geometry, Layout, Link, Plan, Shape, Window, window,
};

/// A message to or from another rank, or to and from this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMessage {
    /// The other rank.
    pub peer: u32,
    /// Which way it goes.
    pub direction: Direction,
    /// Where it is read or written.
    pub address: u64,
    /// Its size.
    pub bytes: usize,
}

/// From this size on a message takes another channel for each so many bytes.
const CHANNEL_BYTES: usize = 512 << 10;

/// Added to the channels of messages, which have connections of their own: they follow the order of
/// their pair, not that of collectives.
const OF_MESSAGES: u16 = 1 << 12;

/// The messages of one launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wave {
    pub messages: Vec<DeviceMessage>,
}

/// Key of a wave's plan: the peer, the way and the channels of each message.
pub(super) type WaveKey = Vec<(u32, Direction, u16)>;

/// A connection of messages: the other rank, which way it goes, and its channel.
pub(super) type MessageEnd = (u32, Direction, u16);

/// Messages of this rank to itself, as pairs of what is read and what is written.
pub(super) type Own = Vec<(DeviceMessage, DeviceMessage)>;

/// Takes messages apart into waves, and those of this rank to itself.
pub(super) fn waves(me: u32, messages: &[DeviceMessage]) -> (Vec<Wave>, Own) {
    let mut waves: Vec<Wave> = Vec::new();
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for &message in messages {
        if message.peer == me {
            match message.direction {
                Direction::Send => sent.push(message),
                Direction::Recv => received.push(message),
            }
            continue;
        }
        let is_like = |other: &DeviceMessage| {
            (other.peer, other.direction) == (message.peer, message.direction)
        };
        let free = |wave: &Wave| !wave.messages.iter().any(is_like);
        match waves.iter().position(free) {
            Some(at) => waves[at].messages.push(message),
            None => waves.push(Wave {
                messages: vec![message],
            }),
        }
    }
    (waves, sent.into_iter().zip(received).collect())
}

impl Wave {
    /// Returns the key of its plan, where a message may take `most_channels`.
    pub fn key(&self, most_channels: u16) -> WaveKey {
        let channels = |bytes: usize| {
            let wanted = bytes.div_ceil(CHANNEL_BYTES).max(1);
            wanted.min(usize::from(most_channels.max(1))) as u16
        };
        let key = |it: &DeviceMessage| (it.peer, it.direction, channels(it.bytes));
        self.messages.iter().map(key).collect()
    }

    /// The windows of its plan's lanes, in order.
    pub fn windows(&self, key: &WaveKey, geometry: &Geometry) -> Vec<Window> {
        let of_message =
            |(message, &(_, _, channels)): (&DeviceMessage, &(u32, Direction, u16))| {
                let (message, lanes) = (*message, u32::from(channels));
                let bind = move |lane| {
                    let binding = window::Binding {
                        count: message.bytes,
                        element_bytes: 1,
                        input_blocks: 1,
                        output_blocks: 1,
                        lane,
                        lanes,
                        pieces: 1,
                    };
                    let window = Window::bind(Layout::Blocks, 1, geometry, &binding);
                    window.shifted(message.address as usize)
                };
                (0..lanes).map(bind)
            };
        self.messages.iter().zip(key).flat_map(of_message).collect()
    }
}

/// The connection of messages with a rank.
pub(super) fn link(me: u32, (peer, direction, channel): MessageEnd) -> Link {
    let (writer, reader) = match direction {
        Direction::Send => (me, peer),
        Direction::Recv => (peer, me),
    };
    Link::Pair {
        writer,
        reader,
        channel: OF_MESSAGES | channel,
    }
}

/// The plan of a wave: a lane for each channel of each message.
pub(super) fn plan(me: u32, nranks: u32, key: &WaveKey) -> Plan {
    let shape = Shape {
        collective: Collective::Send,
        algorithm: Algorithm::Bundle,
        rank: me,
        nranks,
        root: 0,
        channels: 1,
    };
    let mut emitter = Emitter::new(shape, 1, Layout::Blocks);
    for &(peer, direction, channels) in key {
        for channel in 0..channels {
            let lane = emitter.lane(OF_MESSAGES | channel);
            match direction {
                Direction::Send => {
                    let to = lane.to(peer);
                    emitter.send(to, 0);
                }
                Direction::Recv => {
                    let from = lane.from(peer);
                    emitter.recv(from, 0);
                }
            }
        }
    }
    emitter.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(peer: u32, direction: Direction, number: u64) -> DeviceMessage {
        DeviceMessage {
            peer,
            direction,
            address: number << 32,
            bytes: 1000 + number as usize,
        }
    }

    #[test]
    fn the_nth_message_between_two_ranks_is_in_the_nth_wave_on_both_sides() {
        use Direction::{Recv, Send};
        let given = [
            message(1, Send, 0),
            message(2, Send, 1),
            message(1, Send, 2),
            message(1, Recv, 3),
            message(0, Recv, 4),
            message(0, Send, 5),
            message(1, Send, 6),
        ];
        let (waves, own) = waves(0, &given);
        let numbers =
            |wave: &Wave| -> Vec<u64> { wave.messages.iter().map(|it| it.address >> 32).collect() };
        let found: Vec<Vec<u64>> = waves.iter().map(numbers).collect();
        assert_eq!(found, [vec![0, 1, 3], vec![2], vec![6]]);
        assert_eq!(own, [(given[5], given[4])]);
    }

    #[test]
    fn lanes_and_windows_cover_each_message_once() {
        let mut wave = Wave {
            messages: vec![
                message(1, Direction::Send, 1),
                message(2, Direction::Recv, 2),
            ],
        };
        wave.messages[1].bytes = 3 * CHANNEL_BYTES + 5;
        let key = wave.key(3);
        assert_eq!(key, [(1, Direction::Send, 1), (2, Direction::Recv, 3)]);
        let plan = plan(0, 3, &key);
        let geometry = Geometry::bundle(8 * 4096);
        let windows = wave.windows(&key, &geometry);
        assert_eq!((plan.lanes.len(), windows.len()), (4, 4));
        let mut at = wave.messages[1].address as usize;
        for window in &windows[1..] {
            for round in 0..window.rounds() {
                let part = window.region(crate::plan::Space::Output, 0, round, 0);
                assert_eq!(part.offset, at);
                at += part.count;
            }
        }
        assert_eq!(
            at,
            wave.messages[1].address as usize + wave.messages[1].bytes
        );
    }
}
