//! Where the parts of each connection lie: pure arithmetic, the same in all processes.

use super::piece::MARK_BYTES;
use crate::base::{Error, Result, hash};
use crate::transport::segment::{Key, Nonce};
use crate::wire::gpu::{COUNT_BYTES, DeviceWire, SLOTS};

/// Of an entry of counts: tail, sizes, head, a line of 128 bytes each.
const ENTRY_BYTES: u64 = 3 * COUNT_BYTES as u64;
/// Where the head lies in an entry.
pub(super) const HEAD_AT: u64 = 2 * COUNT_BYTES as u64;
/// Slots of so many channels lie in one piece: what a device gives memory in.
const PIECE_BYTES: usize = 2 << 20;
/// Kinds of connections that count their channels by themselves: those of plans, and what plans
/// call fans, casts and messages.
const KINDS: u64 = 4;
const PROTOCOLS: u64 = 3;

/// A piece of memory, by what all ranks call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PieceName {
    /// The counts that a rank waits for, on its device.
    Counts {
        /// The rank.
        rank: u32,
    },
    /// The counts of one direction between devices that do not reach each other, on the host.
    PairCounts {
        /// The writing rank.
        writer: u32,
        /// The reading rank.
        reader: u32,
    },
    /// Slots of some channels.
    Slots {
        /// The writing rank.
        writer: u32,
        /// The reading rank, whose process owns them.
        reader: u32,
        /// The number of the protocol.
        protocol: u8,
        /// Which channels.
        group: u32,
        /// In memory of the host.
        is_on_host: bool,
    },
}

impl PieceName {
    /// The rank whose process makes it.
    pub fn owner(self) -> u32 {
        match self {
            PieceName::Counts { rank } => rank,
            PieceName::PairCounts { reader, .. } | PieceName::Slots { reader, .. } => reader,
        }
    }

    /// Whether it lies in memory of the host.
    pub fn is_on_host(self) -> bool {
        match self {
            PieceName::Counts { .. } => false,
            PieceName::PairCounts { .. } => true,
            PieceName::Slots { is_on_host, .. } => is_on_host,
        }
    }

    /// Key by which other processes ask for it.
    pub fn key(self, nonce: Nonce) -> Key {
        let words: [u32; 5] = match self {
            PieceName::Counts { rank } => [1, rank, 0, 0, 0],
            PieceName::PairCounts { writer, reader } => [2, writer, reader, 0, 0],
            PieceName::Slots {
                writer,
                reader,
                protocol,
                group,
                is_on_host,
            } => [
                3 + u32::from(is_on_host),
                writer,
                reader,
                protocol.into(),
                group,
            ],
        };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let low = u128::from(hash::fnv1a(&bytes));
        let high = u128::from(hash::fnv1a(&[&bytes[..], b"gpu"].concat()));
        Key(nonce.0 ^ (high << 64 | low))
    }
}

/// Sizes from which places follow, equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevicePlaces {
    /// Ranks of the communicator.
    pub nranks: u32,
    /// Channels of plans, at most.
    pub channels: u16,
    /// Bytes of a slot, by protocol.
    pub slot_bytes: [usize; 3],
}

/// Where the parts of a connection lie in their pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DevicePlace {
    /// In the reader's counts.
    pub tail: u64,
    /// In the writer's counts.
    pub head: u64,
    /// The entry, in the counts of the pair.
    pub pair: u64,
    /// In the piece of the slots.
    pub area: u64,
    group: u32,
}

impl DevicePlace {
    /// The piece that has the slots.
    pub fn slots(&self, wire: &DeviceWire, is_on_host: bool) -> PieceName {
        PieceName::Slots {
            writer: wire.writer,
            reader: wire.reader,
            protocol: wire.protocol,
            group: self.group,
            is_on_host,
        }
    }
}

impl DevicePlaces {
    /// Channels of a direction between two ranks, of all kinds.
    pub(super) fn all_channels(&self) -> u64 {
        KINDS * u64::from(self.channels)
    }

    /// Connections of one direction and protocol are numbered by kind and channel.
    pub(super) fn number(&self, channel: u16) -> Result<u64> {
        let (kind, within) = (channel >> 12, channel & 0xfff);
        let kind = match kind {
            0 => 0,
            // `plan::pairs`: fans, casts; `exec::cuda::messages`: messages.
            4 => 1,
            2 => 2,
            1 => 3,
            _ => {
                return Err(Error::internal(format!(
                    "channel {channel:#x} has no place"
                )));
            }
        };
        match within < self.channels {
            true => Ok(kind * u64::from(self.channels) + u64::from(within)),
            false => Err(Error::internal(format!(
                "channel {within} of a connection, and there are {}",
                self.channels
            ))),
        }
    }

    /// Channels whose slots lie together.
    fn channels_together(&self, protocol: u8) -> u64 {
        let slots = SLOTS as usize * self.slot_bytes[usize::from(protocol)];
        (PIECE_BYTES / slots.max(1)).max(1) as u64
    }

    /// Where a connection lies.
    pub(super) fn of(&self, wire: &DeviceWire) -> Result<DevicePlace> {
        let number = self.number(wire.channel)?;
        let pair = u64::from(wire.protocol) * self.all_channels() + number;
        let of_peer = |peer: u32| {
            let before = u64::from(peer) * PROTOCOLS * self.all_channels();
            (before + pair) * ENTRY_BYTES
        };
        let together = self.channels_together(wire.protocol);
        let slots = u64::from(SLOTS) * self.slot_bytes[usize::from(wire.protocol)] as u64;
        Ok(DevicePlace {
            tail: of_peer(wire.writer),
            head: of_peer(wire.reader) + HEAD_AT,
            pair: pair * ENTRY_BYTES,
            area: number % together * slots,
            group: (number / together) as u32,
        })
    }

    /// Bytes of a piece.
    pub(super) fn bytes(&self, name: PieceName) -> usize {
        let of_pair = PROTOCOLS * self.all_channels() * ENTRY_BYTES;
        match name {
            PieceName::Counts { .. } => (u64::from(self.nranks) * of_pair) as usize + MARK_BYTES,
            PieceName::PairCounts { .. } => of_pair as usize,
            PieceName::Slots { protocol, .. } => {
                let slots = SLOTS as usize * self.slot_bytes[usize::from(protocol)];
                slots * self.channels_together(protocol) as usize
            }
        }
    }

    /// The pieces of a rank that others may ask for.
    pub(super) fn names(&self, rank: u32) -> Vec<PieceName> {
        let mut names = vec![PieceName::Counts { rank }];
        for writer in (0..self.nranks).filter(|&writer| writer != rank) {
            let reader = rank;
            names.push(PieceName::PairCounts { writer, reader });
            for protocol in 0..PROTOCOLS as u8 {
                let groups = self
                    .all_channels()
                    .div_ceil(self.channels_together(protocol));
                for group in 0..groups as u32 {
                    names.extend([false, true].map(|is_on_host| PieceName::Slots {
                        writer,
                        reader,
                        protocol,
                        group,
                        is_on_host,
                    }));
                }
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    fn places() -> DevicePlaces {
        DevicePlaces {
            nranks: 5,
            channels: 3,
            slot_bytes: [65_536, 16_384, 32_768],
        }
    }

    fn wires() -> Vec<DeviceWire> {
        let places = places();
        let mut wires = Vec::new();
        for (writer, reader) in (0..5).flat_map(|w| (0..5).map(move |r| (w, r))) {
            for protocol in 0..3u8 {
                for kind in [0, 1, 2, 4u16] {
                    for channel in 0..places.channels {
                        wires.push(DeviceWire {
                            writer,
                            reader,
                            channel: kind << 12 | channel,
                            protocol,
                            slot_bytes: places.slot_bytes[usize::from(protocol)] as u32,
                        });
                    }
                }
            }
        }
        wires.retain(|wire| wire.writer != wire.reader);
        wires
    }

    /// No two parts of connections share a byte, and each lies inside of its piece.
    #[test]
    fn parts_of_connections_are_apart_and_inside() {
        let places = places();
        let mut used: HashMap<PieceName, Vec<(u64, u64)>> = HashMap::new();
        let mut use_part = |name: PieceName, at: u64, bytes: u64| {
            assert!(at + bytes <= places.bytes(name) as u64, "{name:?} at {at}");
            used.entry(name).or_default().push((at, at + bytes));
        };
        for wire in wires() {
            let at = places.of(&wire).expect("a place");
            let (reader, writer) = (wire.reader, wire.writer);
            use_part(PieceName::Counts { rank: reader }, at.tail, 256);
            use_part(PieceName::Counts { rank: writer }, at.head, 128);
            use_part(PieceName::PairCounts { writer, reader }, at.pair, 384);
            let slots = 8 * u64::from(wire.slot_bytes);
            use_part(at.slots(&wire, true), at.area, slots);
        }
        for (name, mut parts) in used {
            parts.sort_unstable();
            let apart = parts.windows(2).all(|two| two[0].1 <= two[1].0);
            assert!(apart, "{name:?}");
        }
    }

    #[test]
    fn every_piece_of_a_rank_is_promised_and_keys_differ() {
        let places = places();
        let names: HashSet<PieceName> = (0..5).flat_map(|rank| places.names(rank)).collect();
        for wire in wires() {
            let at = places.of(&wire).expect("a place");
            let slots = [false, true].map(|is_on_host| at.slots(&wire, is_on_host));
            assert!(slots.iter().all(|name| names.contains(name)), "{wire:?}");
        }
        let keys: HashSet<u128> = names.iter().map(|name| name.key(Nonce(7)).0).collect();
        assert_eq!(keys.len(), names.len());
    }

    #[test]
    fn a_channel_without_a_place_is_refused() {
        let mut wire = wires()[0];
        for channel in [3, 0x2003, 0x8000, 0x3000] {
            wire.channel = channel;
            assert!(places().of(&wire).is_err(), "{channel:#x}");
        }
    }
}
