//! What travels on the wire: what a rank says in the hello that opens a connection, and the frames
//! after it.
//!
//! The hello is that of [`crate::base::proof`]. Its body (numbers big-endian): 0..4 rank, 4..8
//! nranks, 8..12 rank it wants to reach, 12..36 address, 36.. credential of munge, if any.
//!
//! Frame header, 32 bytes: 0..4 magic, 4 kind, 8..16 sequence, 16..20 rank, 24..32 body length.
//! Behind the body stands its seal ([`super::seal`]); only a refusal, which may come before the
//! proof, has none.

use super::MAX_FRAME;
use crate::base::proof::{self, ID_BYTES, KEY_BYTES, Preamble};
use crate::base::{Code, Error, Rank, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Magic and version of a hello. The version is that of everything in this file.
pub const PROTOCOL: Preamble = Preamble {
    magic: *b"KOLOHI\r\n",
    version: 2,
};
/// Length of a frame's header.
pub const HEADER_BYTES: usize = 32;
/// The longest body of a frame that carries words or addresses, not data.
pub const MAX_CONTROL: usize = 64 << 10;

/// First bytes of a frame.
pub const FRAME_MAGIC: [u8; 4] = *b"KoFr";
const ADDRESS_BYTES: usize = 24;
const BODY_BYTES: usize = 12 + ADDRESS_BYTES;
/// The longest sentence that is taken over from another rank.
const MAX_SENTENCE: usize = 4096;
const NO_RANK: u32 = u32::MAX;
/// What a root says that knows no communicator of this id.
pub const UNKNOWN_ID: &str = "the secret in the unique id is not that of a communicator that waits \
                              here, or all ranks of that communicator are already there";

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// A rank checks in with the root.
    CheckIn = 1,
    /// A rank links to its next in the ring.
    Ring = 2,
}

/// What a rank says about itself when it connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub purpose: Purpose,
    pub rank: u32,
    pub nranks: u32,
    /// The rank that it wants to reach (ring only).
    pub target: u32,
    /// Where the rank itself listens.
    pub address: SocketAddr,
}

impl Hello {
    /// The hello of the proof. `id` names the communicator, `offers` the kinds of secrets that this
    /// rank has.
    pub fn encode(
        &self,
        id: [u8; ID_BYTES],
        offers: u8,
        nonce: [u8; ID_BYTES],
        credential: &[u8],
    ) -> proof::Hello {
        let mut body = Vec::with_capacity(BODY_BYTES + credential.len());
        for number in [self.rank, self.nranks, self.target] {
            body.extend(number.to_be_bytes());
        }
        body.extend(encode_address(self.address));
        body.extend(credential);
        proof::Hello {
            purpose: self.purpose as u8,
            offers,
            id,
            nonce,
            body,
        }
    }

    /// What a rank says, and its credential; `None` when it wants something else, or is garbled.
    pub fn decode(hello: &proof::Hello, purpose: Purpose) -> Option<(Hello, &[u8])> {
        let (body, credential) = hello.body.split_at_checked(BODY_BYTES)?;
        if hello.purpose != purpose as u8 {
            return None;
        }
        let said = Hello {
            purpose,
            rank: u32_at(body, 0),
            nranks: u32_at(body, 4),
            target: u32_at(body, 8),
            address: decode_address(&body[12..])?,
        };
        Some((said, credential))
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
    /// All are there; body: address of next, address of prev.
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
            FrameKind::Gather | FrameKind::Broadcast => MAX_FRAME,
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
        Frame::control(kind, encode_error(error))
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
        let frame = Frame {
            kind,
            sequence: u64::from_be_bytes(sequence),
            origin: u32_at(bytes, 16),
            body: Vec::new(),
        };
        Some((frame, length))
    }
}

/// The body of a Go frame: the addresses of next and prev, and the secret of the ring.
pub fn encode_go(next: SocketAddr, prev: SocketAddr, secret: &[u8; KEY_BYTES]) -> Vec<u8> {
    [&encode_address(next)[..], &encode_address(prev), secret].concat()
}

/// What a Go frame says: addresses of next and prev, and the secret of the ring.
pub fn decode_go(body: &[u8]) -> Option<(SocketAddr, SocketAddr, [u8; KEY_BYTES])> {
    let (addresses, secret) = body.split_at_checked(2 * ADDRESS_BYTES)?;
    let next = decode_address(&addresses[..ADDRESS_BYTES])?;
    let prev = decode_address(&addresses[ADDRESS_BYTES..])?;
    Some((next, prev, secret.try_into().ok()?))
}

fn encode_address(address: SocketAddr) -> [u8; ADDRESS_BYTES] {
    let mut bytes = [0; ADDRESS_BYTES];
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes[0] = 4;
            bytes[8..12].copy_from_slice(&v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            bytes[0] = 6;
            bytes[4..8].copy_from_slice(&v6.scope_id().to_be_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
        }
    }
    bytes
}

fn decode_address(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[8..24]);
    match bytes[0] {
        4 => {
            let v4 = Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]);
            Some(SocketAddr::new(IpAddr::V4(v4), port))
        }
        6 => {
            let scope = u32_at(bytes, 4);
            Some(SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, scope).into())
        }
        _ => None,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn encode_error(error: &Error) -> Vec<u8> {
    let mut bytes = (error.code as i32).to_be_bytes().to_vec();
    let peer = error.peer.map_or(NO_RANK, |rank| rank.0);
    bytes.extend_from_slice(&peer.to_be_bytes());
    for text in [error.what.as_str(), &error.remedy] {
        let text = &text.as_bytes()[..text.len().min(MAX_SENTENCE)];
        bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
        bytes.extend_from_slice(text);
    }
    bytes
}

/// The error in a Refused or Abort frame; `None` is garbage.
pub fn decode_error(body: &[u8]) -> Option<Error> {
    if body.len() < 8 {
        return None;
    }
    let code = Code::from_number(u32_at(body, 0) as i32)?;
    let peer = u32_at(body, 4);
    let (what, rest) = sentence(&body[8..])?;
    let (remedy, _) = sentence(rest)?;
    let mut error = Error::new(code, what, remedy);
    error.peer = (peer != NO_RANK).then_some(Rank(peer));
    Some(error)
}

fn sentence(bytes: &[u8]) -> Option<(String, &[u8])> {
    if bytes.len() < 4 {
        return None;
    }
    let length = u32_at(bytes, 0) as usize;
    let text = bytes.get(4..4 + length.min(MAX_SENTENCE))?;
    let rest = bytes.get(4 + length..)?;
    Some((printable(text), rest))
}

/// Text from another process, fit for a terminal.
pub fn printable(text: &[u8]) -> String {
    let text = &text[..text.len().min(MAX_SENTENCE)];
    let shown = |c: char| if c.is_control() { '?' } else { c };
    String::from_utf8_lossy(text).chars().map(shown).collect()
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
        let hello = Hello {
            purpose: Purpose::CheckIn,
            rank: 3,
            nranks: 70_000,
            target: 4,
            address: "[fe80::1%2]:77".parse().unwrap(),
        };
        for credential in [&b""[..], b"MUNGE:abc:"] {
            let mut said = hello.encode([1; 16], 6, [2; 16], credential);
            assert_eq!((said.id, said.nonce, said.offers), ([1; 16], [2; 16], 6));
            let back = Hello::decode(&said, Purpose::CheckIn);
            assert_eq!(back, Some((hello.clone(), credential)));
            assert_eq!(Hello::decode(&said, Purpose::Ring), None);
            said.body.truncate(BODY_BYTES - 1);
            assert_eq!(Hello::decode(&said, Purpose::CheckIn), None);
        }
    }

    #[test]
    fn the_last_word_of_the_root_round_trips() {
        let (next, prev) = ("10.0.0.1:5".parse().unwrap(), "[::1]:6".parse().unwrap());
        let body = encode_go(next, prev, &[7; 32]);
        assert_eq!(decode_go(&body), Some((next, prev, [7; 32])));
        assert_eq!(decode_go(&body[..body.len() - 1]), None);
    }

    #[test]
    fn frames_and_errors_round_trip() {
        let error = Error::remote(Rank(7), "it ended\u{1b}[31m", "restart");
        let frame = Frame::error(FrameKind::Abort, &error);
        let bytes = frame.encode();
        let header = bytes[..HEADER_BYTES].try_into().unwrap();
        let (back, length) = Frame::decode_header(header).unwrap();
        assert_eq!((back.kind, length), (FrameKind::Abort, frame.body.len()));
        let decoded = decode_error(&frame.body).unwrap();
        assert_eq!(decoded.peer, Some(Rank(7)));
        assert_eq!(decoded.what, "it ended?[31m");
    }

    #[test]
    fn a_length_beyond_the_limit_is_garbage() {
        for (kind, limit) in [
            (FrameKind::Gather, MAX_FRAME),
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

    #[test]
    fn random_bytes_never_panic() {
        let seed = 0x6b6f_6c6f;
        println!("seed {seed:#x}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let mut bytes = vec![0; random.usize(..200)];
            random.fill(&mut bytes);
            decode_error(&bytes);
            decode_go(&bytes);
            printable(&bytes);
            if let Some(header) = bytes.first_chunk() {
                Frame::decode_header(header);
            }
        }
    }
}
