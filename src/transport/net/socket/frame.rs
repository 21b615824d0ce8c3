//! Messages on the sockets: the handle, the hello, the welcome, and the header of a frame.
//!
//! The body of a hello is a record ([`Hello`]); all other numbers are big-endian. Welcome and
//! header end with a CRC32C of all before it, so that a stream that lost its place is noticed
//! before any number in it is believed. It is no protection against an enemy: both ends prove that
//! they know the secret in the handle ([`crate::trust::proof`]), and nobody says it.

use super::super::Handle;
use crate::base::interfaces::class::FaceClass;
use crate::base::interfaces::face::FaceAddress;
use crate::base::record::{self, Record};
use crate::base::{Error, Result};
use crate::trust::proof::{self, Key, Preamble};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv6Addr};

/// Version of everything in this file; both ends must have the same.
pub const VERSION: u16 = 4;
/// Length of a welcome in bytes.
pub const WELCOME_BYTES: usize = 24;
/// Length of the header of a frame in bytes.
pub const HEADER_BYTES: usize = 48;

/// The first bytes of a hello and of the answer to it: no text protocol begins so.
pub const PROTOCOL: Preamble = Preamble {
    magic: *b"KOLOnet\xf1",
    version: VERSION,
};
/// Purpose of a hello, and below it the kind of its secret: there is one of each.
const PURPOSE: u8 = 1;
/// The kind of secret: that of the handle.
pub const HANDLE: u8 = 1;
const WELCOME_MAGIC: [u8; 8] = *b"KOLOnet\xf2";
const HANDLE_MAGIC: [u8; 8] = *b"KOLOnet\xf3";
/// Bytes of a handle before and behind its addresses.
const HANDLE_REST: usize = 36;
/// Bytes of an address in a handle.
const SPOT: usize = 20;
/// The most addresses of a handle.
pub const MOST_SPOTS: usize = 4;
const _: () = assert!(HANDLE_REST + MOST_SPOTS * SPOT <= super::super::HANDLE_BYTES);

/// Secret that both ends of a connection must know; the handle gives it to the sender.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

impl Secret {
    /// A new one.
    pub fn random() -> Result<Secret> {
        proof::random().map(Secret)
    }

    /// The key of the proof.
    pub fn key(&self) -> Key {
        Key::derive(&self.0, &[b"kolo net socket"])
    }
}

/// Copies `bytes` to `at`; both lengths are constants of this file.
fn put(frame: &mut [u8], at: usize, bytes: &[u8]) {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
}

fn take<const N: usize>(frame: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&frame[at..at + N]);
    bytes
}

/// Writes the checksum of all but the last four bytes into these.
pub(super) fn seal(frame: &mut [u8]) {
    let end = frame.len() - 4;
    let sum = crc32c::crc32c(&frame[..end]);
    put(frame, end, &sum.to_be_bytes());
}

fn is_sealed(frame: &[u8]) -> bool {
    let end = frame.len() - 4;
    crc32c::crc32c(&frame[..end]).to_be_bytes() == frame[end..]
}

/// Where a listener is, and what decides whether it can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spots {
    /// Stands for this start of the machine.
    pub machine: u64,
    /// The user has named the interfaces.
    pub is_named: bool,
    /// At most [`MOST_SPOTS`] addresses, with the classes of their interfaces.
    pub all: Vec<(FaceClass, FaceAddress)>,
}

/// The handle of a listener.
pub fn encode_handle(spots: &Spots, secret: &Secret) -> Result<Handle> {
    let all = &spots.all[..spots.all.len().min(MOST_SPOTS)];
    let mut bytes = vec![0; HANDLE_REST + all.len() * SPOT];
    put(&mut bytes, 0, &HANDLE_MAGIC);
    // Half of it tells machines apart.
    put(&mut bytes, 8, &(spots.machine as u32).to_be_bytes());
    bytes[12] = all.len() as u8;
    bytes[13] = u8::from(spots.is_named);
    put(&mut bytes, 16, &secret.0);
    for (at, (class, place)) in (32..).step_by(SPOT).zip(all) {
        let (ip, is_six) = match place.ip {
            IpAddr::V4(v4) => (v4.to_ipv6_mapped(), 0),
            IpAddr::V6(v6) => (v6, SIX),
        };
        put(&mut bytes, at, &ip.octets());
        put(&mut bytes, at + 16, &place.port.to_be_bytes());
        bytes[at + 18] = place.prefix;
        bytes[at + 19] = *class as u8 | is_six;
    }
    seal(&mut bytes);
    Handle::new(&bytes)
}

/// Marks an address of IPv6.
const SIX: u8 = 0x80;

/// Addresses and secret of a handle. Zones of links are left out: those of the listener have no
/// meaning on another node.
pub fn decode_handle(handle: &Handle) -> Result<(Spots, Secret)> {
    let read = || {
        let bytes = handle.bytes();
        let count = usize::from(*bytes.get(12)?);
        let good = (1..=MOST_SPOTS).contains(&count)
            && bytes.len() == HANDLE_REST + count * SPOT
            && bytes[..8] == HANDLE_MAGIC
            && is_sealed(bytes);
        if !good {
            return None;
        }
        let spot = |at: usize| {
            let ip = Ipv6Addr::from(take::<16>(bytes, at));
            let is_six = bytes[at + 19] & SIX != 0;
            let place = FaceAddress {
                ip: match is_six {
                    true => ip.into(),
                    false => ip.to_ipv4_mapped()?.into(),
                },
                prefix: bytes[at + 18],
                scope: 0,
                port: u16::from_be_bytes(take(bytes, at + 16)),
            };
            let class = FaceClass::ALL.get(usize::from(bytes[at + 19] & !SIX))?;
            Some((*class, place))
        };
        let spots = (0..count).map(|number| spot(32 + number * SPOT));
        let spots = Spots {
            machine: u32::from_be_bytes(take(bytes, 8)).into(),
            is_named: bytes[13] != 0,
            all: spots.collect::<Option<_>>()?,
        };
        Some((spots, Secret(take(bytes, 16))))
    };
    read().ok_or_else(|| {
        Error::argument(
            "this is not the handle of a socket connection, or it was changed on its way",
            "hand over all bytes of the handle unchanged, and use the same network on both nodes",
        )
    })
}

/// Greeting of the sender on every socket of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Which socket of the connection this is, from 0.
    pub socket: u16,
    /// How many sockets the connection has.
    pub sockets: u16,
    /// A random number that the sender chose for the connection.
    pub connection: u64,
}

impl Record for Hello {
    const NAME: &'static str = "the hello of a sender";
    const MOST_BYTES: usize = 32;
}

impl Hello {
    /// The hello of the proof.
    pub fn encode(&self) -> Result<proof::Hello> {
        Ok(proof::Hello {
            purpose: PURPOSE,
            offers: HANDLE,
            id: [0; proof::ID_BYTES],
            nonce: proof::random()?,
            body: record::encode(self),
        })
    }

    /// `None` for what no sender says.
    pub fn decode(hello: &proof::Hello) -> Option<Hello> {
        let fits = hello.purpose == PURPOSE && hello.offers & HANDLE != 0;
        fits.then(|| record::decode(&hello.body).ok())?
    }
}

/// Encodes the answer of the receiver, on every socket when all have proven themselves, and to a
/// sender of another version.
pub fn encode_welcome(version: u16, connection: u64) -> [u8; WELCOME_BYTES] {
    let mut bytes = [0; WELCOME_BYTES];
    put(&mut bytes, 0, &WELCOME_MAGIC);
    put(&mut bytes, 8, &version.to_be_bytes());
    put(&mut bytes, 12, &connection.to_be_bytes());
    seal(&mut bytes);
    bytes
}

/// Version and connection of a welcome; `None` for anything else.
pub fn decode_welcome(bytes: &[u8; WELCOME_BYTES]) -> Option<(u16, u64)> {
    let version = u16::from_be_bytes(take(bytes, 8));
    let connection = u64::from_be_bytes(take(bytes, 12));
    (bytes[..8] == WELCOME_MAGIC && is_sealed(bytes)).then_some((version, connection))
}

/// The version in the first ten bytes of a welcome.
pub fn version_of(bytes: &[u8]) -> Option<u16> {
    let (magic, version) = bytes.split_at_checked(8)?;
    (magic == WELCOME_MAGIC && version.len() >= 2).then(|| u16::from_be_bytes(take(version, 0)))
}

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderKind {
    /// From the receiver: a buffer of `total` bytes has been posted.
    Credit,
    /// From the sender: `length` bytes follow; they belong at `offset` of a message of `total`.
    Data,
    /// As `Data`, and `payload_sum` is the checksum of the bytes that follow.
    Checked,
    /// From the sender: a message of `total` bytes does not fit the buffer; it will not come.
    Refusal,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its kind.
    pub kind: HeaderKind,
    /// The low half of the connection's number: a frame of another one is noticed.
    pub connection: u32,
    /// Which buffer, counted by the receiver from 0 in the order of posting.
    pub number: u64,
    /// Bytes of the whole message or buffer.
    pub total: u64,
    /// Where in the message the payload belongs.
    pub offset: u64,
    /// Bytes of payload behind this header.
    pub length: u32,
    /// The tag of the buffer.
    pub tag: u32,
    /// CRC32C of the payload, or 0.
    pub payload_sum: u32,
}

impl Header {
    /// The bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = match self.kind {
            HeaderKind::Credit => 1,
            HeaderKind::Data => 2,
            HeaderKind::Checked => 3,
            HeaderKind::Refusal => 4,
        };
        put(&mut bytes, 4, &self.connection.to_be_bytes());
        put(&mut bytes, 8, &self.number.to_be_bytes());
        put(&mut bytes, 16, &self.total.to_be_bytes());
        put(&mut bytes, 24, &self.offset.to_be_bytes());
        put(&mut bytes, 32, &self.length.to_be_bytes());
        put(&mut bytes, 36, &self.tag.to_be_bytes());
        put(&mut bytes, 40, &self.payload_sum.to_be_bytes());
        seal(&mut bytes);
        bytes
    }

    /// The header, or `None` when these bytes are none.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        if !is_sealed(bytes) {
            return None;
        }
        let kind = match bytes[0] {
            1 => HeaderKind::Credit,
            2 => HeaderKind::Data,
            3 => HeaderKind::Checked,
            4 => HeaderKind::Refusal,
            _ => return None,
        };
        Some(Header {
            kind,
            connection: u32::from_be_bytes(take(bytes, 4)),
            number: u64::from_be_bytes(take(bytes, 8)),
            total: u64::from_be_bytes(take(bytes, 16)),
            offset: u64::from_be_bytes(take(bytes, 24)),
            length: u32::from_be_bytes(take(bytes, 32)),
            tag: u32::from_be_bytes(take(bytes, 36)),
            payload_sum: u32::from_be_bytes(take(bytes, 40)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_round_trip_and_changes_show() {
        let secret = Secret::random().unwrap();
        let all = ["10.1.2.3", "2001:db8::7", "fe80::1", "::ffff:1.2.3.4"].map(|ip| {
            let place = FaceAddress {
                ip: ip.parse().unwrap(),
                prefix: 24,
                scope: 0,
                port: 65535,
            };
            (FaceClass::Dark, place)
        });
        for count in 1..=all.len() {
            let spots = Spots {
                machine: 0xdead_beef,
                is_named: count == 2,
                all: all[..count].to_vec(),
            };
            let handle = encode_handle(&spots, &secret).unwrap();
            let (decoded, same) = decode_handle(&handle).unwrap();
            assert!(decoded == spots && same == secret, "{decoded:?}");
            for at in 0..handle.bytes().len() {
                let mut bytes = handle.bytes().to_vec();
                bytes[at] ^= 1;
                let changed = Handle::new(&bytes).unwrap();
                assert!(decode_handle(&changed).is_err(), "byte {at}");
            }
        }
        assert!(decode_handle(&Handle::new(&[]).unwrap()).is_err());
    }

    #[test]
    fn hellos_and_welcomes_round_trip() {
        let hello = Hello {
            socket: 2,
            sockets: 4,
            connection: 0x0102_0304_0506_0708,
        };
        let mut said = hello.encode().unwrap();
        assert_eq!(Hello::decode(&said), Some(hello));
        said.body.push(0);
        assert_eq!(Hello::decode(&said), None);
        let welcome = encode_welcome(VERSION, 9);
        assert_eq!(decode_welcome(&welcome), Some((VERSION, 9)));
        assert_eq!(version_of(&encode_welcome(77, 0)[..10]), Some(77));
        assert_eq!(version_of(b"HTTP/1.1 4"), None);
        assert_ne!(Secret([5; 16]).key().bytes(), Secret([6; 16]).key().bytes());
    }

    #[test]
    fn headers_round_trip_and_changes_show() {
        for kind in [
            HeaderKind::Credit,
            HeaderKind::Data,
            HeaderKind::Checked,
            HeaderKind::Refusal,
        ] {
            let header = Header {
                kind,
                connection: 0xdead_beef,
                number: u64::MAX - 1,
                total: 1 << 40,
                offset: 77,
                length: 12,
                tag: u32::MAX,
                payload_sum: 3,
            };
            let bytes = header.encode();
            assert_eq!(Header::decode(&bytes), Some(header));
            for at in 0..HEADER_BYTES {
                let mut changed = bytes;
                changed[at] ^= 4;
                assert_eq!(Header::decode(&changed), None, "byte {at}");
            }
        }
        assert_eq!(Header::decode(&[0; HEADER_BYTES]), None);
    }
}
