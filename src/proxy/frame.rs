//! The messages between services: one fixed size, one packet each.
//!
//! A socket of type SEQPACKET keeps packets apart, so a reader never holds half a message and needs
//! no buffer that a stranger could fill. A packet of another size, or that does not start with the
//! right words, is not one of kolo's.

/// Bytes of every message.
pub(super) const FRAME_BYTES: usize = 64;

const MAGIC: u32 = u32::from_le_bytes(*b"kolo");
/// Changes with the meaning of any field: services of different versions refuse each other.
const VERSION: u16 = 2;

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum ServiceKind {
    /// "My rank `rank` in process `pid` takes part in the communicator with nonce `secret`."
    Hello = 1,
    /// Answer to `Hello`: "so do ranks of mine".
    Welcome = 2,
    /// Answer to `Hello` on a link in good standing: "I do not know that communicator".
    Refused = 3,
    /// "Give me the memory named `secret`."
    GetFd = 4,
    /// Answer to `GetFd`; the descriptor travels with it.
    TakeFd = 5,
    /// "My rank `rank` has left the communicator with nonce `secret` in good order."
    Bye = 6,
    /// "My process is exiting with status `operation`, without having left its communicators."
    Leaving = 7,
    /// "Look at the communicator with nonce `secret`": number `operation` says why.
    Alarm = 8,
    /// "Launch number `operation` of my rank `rank` sends `slots` slots to rank `peer` on
    /// `channel`, through your rank `to`."
    Start = 9,
    /// "My rank `rank` sends nothing more through your rank `to`. Say when all has arrived."
    Close = 10,
    /// Answer to `Close`.
    Closed = 11,
    /// "You cannot come in: my process has no file descriptor left", of `slots` that it may have.
    NoRoom = 12,
    /// "Tell me": number `operation` says what, of the communicator with nonce `secret`.
    Inquire = 13,
}

/// One message; fields without meaning for its kind are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub kind: ServiceKind,
    /// Number that an answer repeats.
    pub operation: u64,
    /// A communicator's nonce or a segment's key.
    pub secret: u128,
    pub rank: u32,
    pub pid: u32,
    /// The rank of the other process that is meant.
    pub to: u32,
    pub peer: u32,
    pub channel: u32,
    pub slots: u64,
}

impl Frame {
    pub fn new(kind: ServiceKind, operation: u64, secret: u128) -> Frame {
        Frame {
            kind,
            operation,
            secret,
            rank: 0,
            pid: 0,
            to: 0,
            peer: 0,
            channel: 0,
            slots: 0,
        }
    }

    pub fn encode(&self) -> [u8; FRAME_BYTES] {
        let mut bytes = [0; FRAME_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&(self.kind as u16).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.operation.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.secret.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.rank.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.pid.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.to.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.peer.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.channel.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.slots.to_le_bytes());
        bytes
    }

    /// The message in `packet`, or `None` if it is not one of this version of kolo.
    pub fn decode(packet: &[u8]) -> Option<Frame> {
        let packet: &[u8; FRAME_BYTES] = packet.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| packet[at + i]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let half = |at: usize| u16::from_le_bytes([packet[at], packet[at + 1]]);
        if word(0) != MAGIC || half(4) != VERSION || word(52) != 0 {
            return None;
        }
        let kind = match half(6) {
            1 => ServiceKind::Hello,
            2 => ServiceKind::Welcome,
            3 => ServiceKind::Refused,
            4 => ServiceKind::GetFd,
            5 => ServiceKind::TakeFd,
            6 => ServiceKind::Bye,
            7 => ServiceKind::Leaving,
            8 => ServiceKind::Alarm,
            9 => ServiceKind::Start,
            10 => ServiceKind::Close,
            11 => ServiceKind::Closed,
            12 => ServiceKind::NoRoom,
            13 => ServiceKind::Inquire,
            _ => return None,
        };
        Some(Frame {
            kind,
            operation: long(8),
            secret: (0..4).fold(0, |sum, i| {
                sum | u128::from(word(16 + 4 * i)) << (32 * i as u32)
            }),
            rank: word(32),
            pid: word(36),
            to: word(40),
            peer: word(44),
            channel: word(48),
            slots: long(56),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ServiceKind; 12] = [
        ServiceKind::Hello,
        ServiceKind::Welcome,
        ServiceKind::Refused,
        ServiceKind::GetFd,
        ServiceKind::TakeFd,
        ServiceKind::Bye,
        ServiceKind::Leaving,
        ServiceKind::Alarm,
        ServiceKind::Start,
        ServiceKind::Close,
        ServiceKind::Closed,
        ServiceKind::NoRoom,
    ];

    #[test]
    fn frames_round_trip() {
        for kind in KINDS {
            let frame = Frame {
                kind,
                operation: 0x0123_4567_89ab_cdef,
                secret: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
                rank: 77,
                pid: u32::MAX,
                to: 1,
                peer: 0x0203_0405,
                channel: 6,
                slots: 1 << 40,
            };
            assert_eq!(Frame::decode(&frame.encode()), Some(frame));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let good = Frame::new(ServiceKind::Bye, 1, 2).encode();
        assert_eq!(Frame::decode(&good[..63]), None);
        assert_eq!(Frame::decode(&[]), None);
        for (at, byte) in [(0, 0), (4, 1), (6, 0), (6, 14), (7, 1), (52, 1), (55, 255)] {
            let mut bad = good;
            bad[at] = byte;
            assert_eq!(Frame::decode(&bad), None, "byte {at} = {byte}");
        }
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..10_000 {
            let bytes: Vec<u8> = (0..random.usize(0..130)).map(|_| random.u8(..)).collect();
            assert_eq!(Frame::decode(&bytes), None);
        }
    }
}
