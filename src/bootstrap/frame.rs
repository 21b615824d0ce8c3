//! What travels on the wire: the hello that opens a connection, and frames after it.
//!
//! Both have a fixed size at their start and begin with magic bytes, so that whatever a stray
//! program sends is recognised within a few bytes. Numbers are big-endian.
//!
//! Hello, 128 bytes: 0..8 magic, 8..10 protocol version, 10 purpose, 12..16 rank, 16..48 secret,
//! 48..52 nranks, 52..56 rank it wants to reach, 56..80 address, rest zero. The first ten bytes
//! keep their place in every version, so that versions can tell each other apart.
//!
//! Frame header, 32 bytes: 0..4 magic, 4 kind, 8..16 sequence, 16..20 rank, 24..32 body length.

use super::MAX_FRAME;
use super::unique_id::{SECRET_BYTES, Secret};
use crate::base::{Code, Error, Rank, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Version of everything in this file.
pub const PROTOCOL: u16 = 1;
/// Length of a hello.
pub const HELLO_BYTES: usize = 128;
/// Length of a frame's header.
pub const HEADER_BYTES: usize = 32;
/// The longest body of a frame that carries words or addresses, not data.
pub const MAX_CONTROL: usize = 64 << 10;

/// First bytes of a hello.
pub const HELLO_MAGIC: [u8; 8] = *b"KOLOHI\r\n";
const FRAME_MAGIC: [u8; 4] = *b"KoFr";
const ADDRESS_BYTES: usize = 24;
/// The longest sentence that is taken over from another rank.
const MAX_SENTENCE: usize = 4096;
const NO_RANK: u32 = u32::MAX;
/// What a root of another communicator says.
pub const WRONG_SECRET: &str = "the secret in the unique id is not the one of this communicator";

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// A rank checks in with the root.
    CheckIn = 1,
    /// A rank links to its next in the ring.
    Ring = 2,
}

/// The first thing that the connecting side says.
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

/// What is wrong with a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadHello {
    /// Not kolo at all: no answer.
    Stray,
    /// kolo, with a sentence for the other side.
    Refused(Error),
}

impl Hello {
    /// The bytes, with the secret that opens the door.
    pub fn encode(&self, secret: &Secret) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&HELLO_MAGIC);
        bytes[8..10].copy_from_slice(&PROTOCOL.to_be_bytes());
        bytes[10] = self.purpose as u8;
        bytes[12..16].copy_from_slice(&self.rank.to_be_bytes());
        bytes[16..48].copy_from_slice(secret.bytes());
        bytes[48..52].copy_from_slice(&self.nranks.to_be_bytes());
        bytes[52..56].copy_from_slice(&self.target.to_be_bytes());
        bytes[56..80].copy_from_slice(&encode_address(self.address));
        bytes
    }

    /// Checks version, secret and purpose before anything else is believed.
    pub fn decode(
        bytes: &[u8; HELLO_BYTES],
        secret: &Secret,
        purpose: Purpose,
    ) -> std::result::Result<Hello, BadHello> {
        if bytes[..8] != HELLO_MAGIC {
            return Err(BadHello::Stray);
        }
        let version = u16::from_be_bytes([bytes[8], bytes[9]]);
        if version != PROTOCOL {
            return Err(BadHello::Refused(Error::usage(
                format!("bootstrap protocol {version} was offered, this side speaks {PROTOCOL}"),
                "use the same version of kolo on every rank",
            )));
        }
        let mut shown = [0; SECRET_BYTES];
        shown.copy_from_slice(&bytes[16..48]);
        if !secret.is(&shown) {
            return Err(BadHello::Refused(Error::usage(
                WRONG_SECRET,
                "give every rank the 128 bytes of the same koloGetUniqueId call (is an id of an \
                 earlier job in use?)",
            )));
        }
        let address = decode_address(&bytes[56..80]);
        let (Some(address), true) = (address, bytes[10] == purpose as u8) else {
            return Err(BadHello::Refused(Error::internal(
                "a hello knows the secret but asks for something else than this port gives",
            )));
        };
        Ok(Hello {
            purpose,
            rank: u32_at(bytes, 12),
            nranks: u32_at(bytes, 48),
            target: u32_at(bytes, 52),
            address,
        })
    }
}

/// Kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
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

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        const ALL: [Kind; 9] = [
            Kind::Welcome,
            Kind::Refused,
            Kind::Notice,
            Kind::Go,
            Kind::Ready,
            Kind::Gather,
            Kind::Broadcast,
            Kind::Abort,
            Kind::Leave,
        ];
        ALL.into_iter().find(|&kind| kind as u8 == byte)
    }

    /// The longest body that a frame of this kind may have.
    pub fn limit(self) -> usize {
        match self {
            Kind::Gather | Kind::Broadcast => MAX_FRAME,
            _ => MAX_CONTROL,
        }
    }
}

/// One message after the hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    /// Number of the operation (data frames).
    pub sequence: u64,
    /// Whose contribution it is (data frames).
    pub origin: u32,
    pub body: Vec<u8>,
}

impl Frame {
    /// A frame that is no data.
    pub fn control(kind: Kind, body: Vec<u8>) -> Frame {
        Frame {
            kind,
            sequence: 0,
            origin: NO_RANK,
            body,
        }
    }

    /// A frame with an error for the other side.
    pub fn error(kind: Kind, error: &Error) -> Frame {
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
        let kind = Kind::from_byte(bytes[4])?;
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

/// The two addresses of a Go frame: next, prev.
pub fn encode_go(next: SocketAddr, prev: SocketAddr) -> Vec<u8> {
    [encode_address(next), encode_address(prev)].concat()
}

/// The two addresses of a Go frame.
pub fn decode_go(body: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    if body.len() != 2 * ADDRESS_BYTES {
        return None;
    }
    let next = decode_address(&body[..ADDRESS_BYTES])?;
    Some((next, decode_address(&body[ADDRESS_BYTES..])?))
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
    use crate::bootstrap::UniqueId;
    use crate::bootstrap::settings::NetSettings;

    fn secret(port: u16) -> Secret {
        let settings = NetSettings {
            comm_id: Some(format!("127.0.0.1:{port}")),
            ..NetSettings::default()
        };
        UniqueId::create(&settings).unwrap().secret()
    }

    fn hello() -> Hello {
        Hello {
            purpose: Purpose::CheckIn,
            rank: 3,
            nranks: 70_000,
            target: 4,
            address: "[fe80::1%2]:77".parse().unwrap(),
        }
    }

    #[test]
    fn hello_round_trips_only_with_the_secret() {
        let (right, wrong) = (secret(1), secret(2));
        let bytes = hello().encode(&right);
        let back = Hello::decode(&bytes, &right, Purpose::CheckIn);
        assert_eq!(back, Ok(hello()));
        let words = |result: std::result::Result<Hello, BadHello>| match result {
            Err(BadHello::Refused(error)) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(words(Hello::decode(&bytes, &wrong, Purpose::CheckIn)).contains("secret"));
        assert!(words(Hello::decode(&bytes, &right, Purpose::Ring)).contains("port"));
        let mut newer = bytes;
        newer[9] = 9;
        assert!(words(Hello::decode(&newer, &right, Purpose::CheckIn)).contains("protocol 9"));
        let mut stray = bytes;
        stray[0] = b'G';
        let result = Hello::decode(&stray, &right, Purpose::CheckIn);
        assert_eq!(result, Err(BadHello::Stray));
    }

    #[test]
    fn frames_and_errors_round_trip() {
        let error = Error::remote(Rank(7), "it ended\u{1b}[31m", "restart");
        let frame = Frame::error(Kind::Abort, &error);
        let bytes = frame.encode();
        let header = bytes[..HEADER_BYTES].try_into().unwrap();
        let (back, length) = Frame::decode_header(header).unwrap();
        assert_eq!((back.kind, length), (Kind::Abort, frame.body.len()));
        let decoded = decode_error(&frame.body).unwrap();
        assert_eq!(decoded.peer, Some(Rank(7)));
        assert_eq!(decoded.what, "it ended?[31m");
    }

    #[test]
    fn a_length_beyond_the_limit_is_garbage() {
        for (kind, limit) in [(Kind::Gather, MAX_FRAME), (Kind::Notice, MAX_CONTROL)] {
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
