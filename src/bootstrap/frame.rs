//! Messages on the wire: the hello of a rank that opens a connection, and the frames after it.
//!
//! The hello is that of [`crate::trust::proof`]. Its body is a record ([`Hello`]), and so are the
//! bodies of Go ([`Go`]), Refused and Abort ([`Reported`]).
//!
//! Frame header, 32 bytes: 0..4 magic, 4 kind, 8..16 sequence, 16..20 rank, 24..32 body length
//! (numbers big-endian). Behind the body stands its seal ([`crate::trust::seal`]); only a
//! refusal, which may come before the proof, has none.

use super::MAX_FRAME;
use super::leads::Leads;
use super::report::Reported;
use crate::base::record::{self, Record};
use crate::base::{Error, Rank, Result};
use crate::trust::proof::{self, ID_BYTES, KEY_BYTES, Preamble};
use crate::trust::secret::Secret;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Magic and version of a hello. The version is that of everything in this file.
pub const PROTOCOL: Preamble = Preamble {
    magic: *b"KOLOHI\r\n",
    version: 4,
};
/// Length of the number that a process draws.
pub const PROCESS_BYTES: usize = 16;
/// Length of a frame's header.
pub const HEADER_BYTES: usize = 32;
/// The longest body of a frame that carries contributions: those of the ranks of one process, with
/// their numbers.
pub const MAX_BUNDLE: usize = MAX_FRAME + (1 << 20);
/// The longest body of a frame that carries words or addresses, not data.
pub const MAX_CONTROL: usize = 64 << 10;

/// First bytes of a frame.
pub const FRAME_MAGIC: [u8; 4] = *b"KoFr";
const NO_RANK: u32 = u32::MAX;
/// Refusal of a root that knows no communicator of this id.
pub const UNKNOWN_ID: &str = "the secret in the unique id is not that of a communicator that waits \
                              here, or all ranks of that communicator are already there";

/// Purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// A rank checks in with the root.
    CheckIn = 1,
    /// A rank links to its next in the ring.
    Ring = 2,
}

/// Facts that a rank tells about itself when it connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub rank: u32,
    pub nranks: u32,
    /// The rank that it wants to reach (ring only).
    pub target: u32,
    /// Where the rank itself listens.
    #[serde(with = "endpoint")]
    pub address: SocketAddr,
    /// Of munge, if any.
    pub credential: Vec<u8>,
    /// Drawn by its process: ranks that show the same are threads of one.
    pub process: [u8; PROCESS_BYTES],
}

impl Record for Hello {
    const NAME: &'static str = "the hello of a rank";
    const MOST_BYTES: usize = proof::MAX_BODY;
}

impl Hello {
    /// The hello of the proof. `id` names the communicator, `offers` the kinds of secrets that this
    /// rank has.
    pub fn encode(
        &self,
        purpose: Purpose,
        id: [u8; ID_BYTES],
        offers: u8,
        nonce: [u8; ID_BYTES],
    ) -> proof::Hello {
        proof::Hello {
            purpose: purpose as u8,
            offers,
            id,
            nonce,
            body: record::encode(self),
        }
    }

    /// Decodes the body of a hello; `None` if it has another purpose, or is garbled.
    pub fn decode(hello: &proof::Hello, purpose: Purpose) -> Option<Hello> {
        let fits = hello.purpose == purpose as u8;
        fits.then(|| record::decode(&hello.body).ok())?
    }
}

/// The last word of the root, the body of a Go frame: all are there. `next` and `prev` are the
/// neighbours of the process of a rank.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Go {
    /// Where next listens.
    #[serde(with = "endpoint")]
    pub next: SocketAddr,
    #[serde(with = "endpoint")]
    pub prev: SocketAddr,
    /// All links of the ring are proven by it.
    pub secret: [u8; KEY_BYTES],
    /// The ranks of the receiver's process, ascending. The first one makes its links.
    pub mates: Vec<Rank>,
    /// For the first one: the lowest rank of each process, in the order of the ring.
    pub leads: Leads,
}

impl Record for Go {
    const NAME: &'static str = "the word that all ranks are there";
    const MOST_BYTES: usize = MAX_FRAME;
}

impl Go {
    /// By which all links of the ring are proven.
    pub fn secret(&self) -> Secret {
        Secret::from_bytes(self.secret)
    }
}

/// An address in a record, with its zone, which serde leaves out.
mod endpoint {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::net::{IpAddr, SocketAddr, SocketAddrV6};

    pub fn serialize<S: Serializer>(address: &SocketAddr, to: S) -> Result<S::Ok, S::Error> {
        let zone = match address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(v6) => v6.scope_id(),
        };
        (address.ip(), address.port(), zone).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
        let (ip, port, zone) = Deserialize::deserialize(from)?;
        Ok(match ip {
            IpAddr::V4(v4) => (v4, port).into(),
            IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, zone).into(),
        })
    }
}

/// For a rank whose id nobody here knows.
pub fn unknown_id() -> Error {
    Error::usage(
        UNKNOWN_ID,
        "give every rank the 128 bytes of the same koloGetUniqueId call (is an id of an earlier \
         job in use?), and use every id for one communicator only",
    )
}

/// For a rank that speaks another version.
pub fn other_version(version: u16) -> Error {
    let own = PROTOCOL.version;
    Error::usage(
        format!("bootstrap protocol {version} was offered, this side speaks {own}"),
        "use the same version of kolo on every rank",
    )
}

/// For a rank that asks for what this port does not give.
pub fn wrong_purpose() -> Error {
    Error::internal("a hello asks for something else than this port gives")
}

/// Kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// The hello was accepted.
    Welcome = 1,
    /// The hello was not accepted; body: an error.
    Refused = 2,
    /// A sentence for the person who waits.
    Notice = 3,
    /// All are there; body: where the neighbours are.
    Go = 4,
    /// A rank has its links and needs the root no more.
    Ready = 5,
    /// A contribution to an all-gather.
    Gather = 6,
    /// The data of a broadcast.
    Broadcast = 7,
    /// The bootstrap has failed; body: an error.
    Abort = 8,
    /// The sender leaves in good order.
    Leave = 9,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        const ALL: [FrameKind; 9] = [
            FrameKind::Welcome,
            FrameKind::Refused,
            FrameKind::Notice,
            FrameKind::Go,
            FrameKind::Ready,
            FrameKind::Gather,
            FrameKind::Broadcast,
            FrameKind::Abort,
            FrameKind::Leave,
        ];
        ALL.into_iter().find(|&kind| kind as u8 == byte)
    }

    /// The longest body that a frame of this kind may have.
    pub fn limit(self) -> usize {
        match self {
            FrameKind::Gather | FrameKind::Broadcast => MAX_BUNDLE,
            FrameKind::Go => MAX_FRAME,
            _ => MAX_CONTROL,
        }
    }
}

/// One message after the hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    /// Number of the operation (data frames).
    pub sequence: u64,
    /// Whose contribution it is (data frames).
    pub origin: u32,
    pub body: Vec<u8>,
}

impl Frame {
    /// A frame that is no data.
    pub fn control(kind: FrameKind, body: Vec<u8>) -> Frame {
        Frame {
            kind,
            sequence: 0,
            origin: NO_RANK,
            body,
        }
    }

    /// A frame with an error for the other side.
    pub fn error(kind: FrameKind, error: &Error) -> Frame {
        Frame::control(kind, record::encode(&Reported::of(error)))
    }

    /// Error in a Refused or Abort frame; `None` is garbage.
    pub fn reported(&self) -> Option<Error> {
        record::decode(&self.body).ok().and_then(Reported::error)
    }

    /// Header and body.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.body.len());
        bytes.extend_from_slice(&FRAME_MAGIC);
        bytes.extend_from_slice(&[self.kind as u8, 0, 0, 0]);
        bytes.extend_from_slice(&self.sequence.to_be_bytes());
        bytes.extend_from_slice(&self.origin.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(self.body.len() as u64).to_be_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// An empty frame by its header, and the length of the body to come; `None` is garbage.
    pub fn decode_header(bytes: &[u8; HEADER_BYTES]) -> Option<(Frame, usize)> {
        let kind = FrameKind::from_byte(bytes[4])?;
        let mut length = [0; 8];
        length.copy_from_slice(&bytes[24..32]);
        let length = usize::try_from(u64::from_be_bytes(length)).ok()?;
        if bytes[..4] != FRAME_MAGIC || length > kind.limit() {
            return None;
        }
        let mut sequence = [0; 8];
        sequence.copy_from_slice(&bytes[8..16]);
        let mut origin = [0; 4];
        origin.copy_from_slice(&bytes[16..20]);
        let frame = Frame {
            kind,
            sequence: u64::from_be_bytes(sequence),
            origin: u32::from_be_bytes(origin),
            body: Vec::new(),
        };
        Some((frame, length))
    }
}

/// An error when data of this length cannot travel.
pub fn check_length(bytes: usize) -> Result<()> {
    if bytes <= MAX_FRAME {
        return Ok(());
    }
    Err(Error::argument(
        format!("{bytes} bytes are too many for the bootstrap network (at most {MAX_FRAME})"),
        "send large data with a collective",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_round_trip_for_their_purpose() {
        for credential in [&b""[..], b"MUNGE:abc:"] {
            let hello = Hello {
                rank: 3,
                nranks: 70_000,
                target: 4,
                address: "[fe80::1%2]:77".parse().unwrap(),
                credential: credential.to_vec(),
                process: [9; PROCESS_BYTES],
            };
            let mut said = hello.encode(Purpose::CheckIn, [1; 16], 6, [2; 16]);
            assert_eq!((said.id, said.nonce, said.offers), ([1; 16], [2; 16], 6));
            assert_eq!(Hello::decode(&said, Purpose::CheckIn), Some(hello));
            assert_eq!(Hello::decode(&said, Purpose::Ring), None);
            said.body.pop();
            assert_eq!(Hello::decode(&said, Purpose::CheckIn), None);
        }
    }

    #[test]
    fn the_last_word_of_the_root_round_trips() {
        let go = Go {
            next: "10.0.0.1:5".parse().unwrap(),
            prev: "[::1]:6".parse().unwrap(),
            secret: [7; 32],
            mates: vec![Rank(4), Rank(5)],
            leads: Leads::of(&[Rank(0), Rank(4)]),
        };
        let body = record::encode(&go);
        assert!(record::decode(&body) == Ok(go));
        assert!(record::decode::<Go>(&body[..body.len() - 1]).is_err());
    }

    #[test]
    fn frames_round_trip() {
        let error = Error::usage("x", "y");
        let frame = Frame::error(FrameKind::Abort, &error);
        let bytes = frame.encode();
        let header = bytes[..HEADER_BYTES].try_into().unwrap();
        let (back, length) = Frame::decode_header(header).unwrap();
        assert_eq!((back.kind, length), (FrameKind::Abort, frame.body.len()));
        assert_eq!(frame.reported(), Some(error));
    }

    #[test]
    fn a_length_beyond_the_limit_is_garbage() {
        for (kind, limit) in [
            (FrameKind::Gather, MAX_BUNDLE),
            (FrameKind::Notice, MAX_CONTROL),
        ] {
            let frame = Frame::control(kind, Vec::new());
            let mut header: [u8; HEADER_BYTES] = frame.encode().try_into().unwrap();
            header[24..].copy_from_slice(&(limit as u64).to_be_bytes());
            assert!(Frame::decode_header(&header).is_some());
            header[24..].copy_from_slice(&(limit as u64 + 1).to_be_bytes());
            assert!(Frame::decode_header(&header).is_none());
        }
        assert!(check_length(MAX_FRAME).is_ok() && check_length(MAX_FRAME + 1).is_err());
    }
}
