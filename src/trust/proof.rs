//! Two ends of a new connection prove to each other that they know one secret; neither says it.
//!
//! **Problem.** A port is open to every user of a cluster. Whoever connects must show that it
//! belongs to the job, and whoever listens must show that it is the one that was meant: a secret
//! that is sent in clear is given away to the first that listens at the wrong port.
//!
//! **Idea.** Challenge and response by HMAC-SHA-256 (RFC 2104, FIPS 198-1), both ways:
//!
//! ```text
//! caller -> host    hello:   who asks, for what, and a number that is used once
//! host -> caller    answer:  another such number, and a tag over "host", hello and number
//! caller -> host    confirm: a tag over "caller", hello and number
//! ```
//!
//! A tag can only be made with the key, is of no use for another hello (it covers all of it: role,
//! purpose, ranks and both numbers), and that of one role never serves the other, so neither a
//! replay nor a reflection opens anything. Keys are derived from the secret for one communicator
//! and one purpose ([`Key::derive`]). What follows on the connection may be sealed by the keys of
//! its [`Session`].
//!
//! Everything here is pure: bytes in, bytes out; who calls reads and writes them.
//!
//! Hello (numbers big-endian): 0..8 magic, 8..10 version, 10 purpose, 11 offers (which secrets the
//! caller could use, as bits), 12..14 length of the body, 14..16 zero, 16..32 public id, 32..48
//! nonce, 48.. body. Answer: 0..8 magic, 8..10 version, 10 zero, 11 choice (the bit of the secret
//! that is used), 12..16 zero, 16..32 nonce, 32..64 tag. Confirm: 32 bytes of tag. The first ten
//! bytes keep their place in every version, so that versions can tell each other apart.

pub use crate::base::random;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

/// Length of a tag and of a key.
pub const KEY_BYTES: usize = 32;
/// Length of a public id and of a number that is used once.
pub const ID_BYTES: usize = 16;
/// Length of a hello without its body.
pub const HEAD_BYTES: usize = 48;
/// Length of an answer.
pub const ANSWER_BYTES: usize = 64;
/// Length of a confirmation.
pub const CONFIRM_BYTES: usize = KEY_BYTES;
/// The longest body of a hello.
pub const MAX_BODY: usize = 4096;

const MAGIC_BYTES: usize = 8;
/// Magic and version, which have this place in every version.
const FIRST_BYTES: usize = 10;

/// SHA-256 of parts, each with its length, so that no two lists of parts are alike.
pub fn digest(parts: &[&[u8]]) -> [u8; KEY_BYTES] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// A key. Never printed, never sent.
#[derive(Clone)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// The key that follows from a secret for this use.
    pub fn derive(secret: &[u8], uses: &[&[u8]]) -> Key {
        Key(Key::mac(secret, uses).finalize().into_bytes().into())
    }

    /// The bytes, for a cipher.
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    fn mac(secret: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(secret).expect("any length will do");
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }

    /// The tag that only holders of the key can make.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; KEY_BYTES] {
        Key::mac(&self.0, parts).finalize().into_bytes().into()
    }

    /// Whether this is that tag, in time that does not depend on where the two differ.
    pub fn is_tag(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        Key::mac(&self.0, parts).verify_slice(tag).is_ok()
    }
}

/// The keys of one connection, known to its two ends alone.
pub struct Session {
    /// For what the caller sends.
    pub to_host: Key,
    /// For what the host sends.
    pub to_caller: Key,
}

/// Whose hello and answer: the first ten bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// No text protocol begins so.
    pub magic: [u8; MAGIC_BYTES],
    /// Both ends must speak the same.
    pub version: u16,
}

/// The first thing that a caller says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Purpose of the connection.
    pub purpose: u8,
    /// Which secrets the caller could use, one bit for each kind.
    pub offers: u8,
    /// Names the communicator or the listener; no secret.
    pub id: [u8; ID_BYTES],
    /// Random, never used again.
    pub nonce: [u8; ID_BYTES],
    /// Further bytes that the purpose wants, at most [`MAX_BODY`].
    pub body: Vec<u8>,
}

impl Hello {
    /// The bytes.
    pub fn encode(&self, protocol: Preamble) -> Vec<u8> {
        assert!(self.body.len() <= MAX_BODY, "the body of a hello is short");
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.body.len());
        bytes.extend(protocol.magic);
        bytes.extend(protocol.version.to_be_bytes());
        bytes.extend([self.purpose, self.offers]);
        bytes.extend((self.body.len() as u16).to_be_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.id);
        bytes.extend(self.nonce);
        bytes.extend(&self.body);
        bytes
    }

    fn decode(bytes: &[u8]) -> Hello {
        Hello {
            purpose: bytes[10],
            offers: bytes[11],
            id: array(&bytes[16..32]),
            nonce: array(&bytes[32..48]),
            body: bytes[HEAD_BYTES..].to_vec(),
        }
    }
}

/// Event to which the bytes from the other end lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// More of them are wanted.
    Nothing,
    /// Not the protocol at all.
    Foreign,
    /// The protocol in another version.
    Version(u16),
    /// At the host: a whole hello, to be answered.
    Hello(Hello),
    /// At the caller: an answer with this choice, to be judged.
    Answer(u8),
    /// At the host: the caller has proven itself, or has not.
    Confirmed(bool),
}

/// Reads the first bytes of the other end, alike on both ends.
fn opening(bytes: &[u8], protocol: Preamble) -> Option<Event> {
    let known = bytes.len().min(MAGIC_BYTES);
    if bytes[..known] != protocol.magic[..known] {
        return Some(Event::Foreign);
    }
    let version = u16::from_be_bytes(array(bytes.get(MAGIC_BYTES..FIRST_BYTES)?));
    (version != protocol.version).then_some(Event::Version(version))
}

const HOST: &[u8] = b"kolo host";
const CALLER: &[u8] = b"kolo caller";

fn session(key: &Key, hello: &[u8], answer: &[u8]) -> Session {
    let of = |whose: &[u8]| Key(key.tag(&[b"kolo session", whose, hello, answer]));
    Session {
        to_host: of(b"to host"),
        to_caller: of(b"to caller"),
    }
}

/// The end that listens.
pub struct Host {
    protocol: Preamble,
    hello: Vec<u8>,
    /// Answer that was given, without its tag, and the key that it was made by.
    answer: Option<(Vec<u8>, Key)>,
    confirm: Vec<u8>,
}

impl Host {
    /// Nothing heard yet.
    pub fn new(protocol: Preamble) -> Host {
        Host {
            protocol,
            hello: Vec::new(),
            answer: None,
            confirm: Vec::new(),
        }
    }

    /// How many bytes to read at most: what follows the proof is not for this end.
    pub fn wants(&self) -> usize {
        if self.answer.is_some() {
            return CONFIRM_BYTES - self.confirm.len();
        }
        match self.hello.len() {
            have @ 0..HEAD_BYTES => HEAD_BYTES - have,
            have => HEAD_BYTES + body_length(&self.hello) - have,
        }
    }

    /// Whether a hello was answered.
    pub fn has_answered(&self) -> bool {
        self.answer.is_some()
    }

    /// Takes at most [`Host::wants`] bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Event {
        if let Some((answer, key)) = &self.answer {
            self.confirm.extend(bytes);
            return match self.confirm.len() {
                CONFIRM_BYTES => {
                    let parts = [CALLER, &self.hello, answer];
                    Event::Confirmed(key.is_tag(&parts, &self.confirm))
                }
                _ => Event::Nothing,
            };
        }
        self.hello.extend(bytes);
        if let Some(event) = opening(&self.hello, self.protocol) {
            return event;
        }
        if self.hello.len() < HEAD_BYTES {
            return Event::Nothing;
        }
        match body_length(&self.hello) {
            length if length > MAX_BODY => Event::Foreign,
            length if self.hello.len() < HEAD_BYTES + length => Event::Nothing,
            _ => Event::Hello(Hello::decode(&self.hello)),
        }
    }

    /// The bytes that answer the hello with the secret of kind `choice`; `nonce` is random.
    pub fn answer(&mut self, choice: u8, key: &Key, nonce: [u8; ID_BYTES]) -> [u8; ANSWER_BYTES] {
        let mut answer = [0; ANSWER_BYTES];
        answer[..8].copy_from_slice(&self.protocol.magic);
        answer[8..10].copy_from_slice(&self.protocol.version.to_be_bytes());
        answer[11] = choice;
        answer[16..32].copy_from_slice(&nonce);
        let tag = key.tag(&[HOST, &self.hello, &answer[..32]]);
        answer[32..].copy_from_slice(&tag);
        self.answer = Some((answer[..32].to_vec(), key.clone()));
        answer
    }

    /// The keys of the connection, once [`Event::Confirmed`] was true.
    pub fn session(&self) -> Option<Session> {
        let (answer, key) = self.answer.as_ref()?;
        Some(session(key, &self.hello, answer))
    }
}

/// The end that connects.
pub struct Caller {
    protocol: Preamble,
    hello: Vec<u8>,
    answer: Vec<u8>,
}

impl Caller {
    /// With this hello.
    pub fn new(protocol: Preamble, hello: &Hello) -> Caller {
        Caller {
            protocol,
            hello: hello.encode(protocol),
            answer: Vec::new(),
        }
    }

    /// The bytes to send first.
    pub fn hello(&self) -> &[u8] {
        &self.hello
    }

    /// How many bytes to read at most.
    pub fn wants(&self) -> usize {
        match self.answer.len() {
            have @ 0..FIRST_BYTES => FIRST_BYTES - have,
            have => ANSWER_BYTES - have,
        }
    }

    /// Bytes read so far: after [`Event::Foreign`] the host said something else with them.
    pub fn heard(&self) -> &[u8] {
        &self.answer
    }

    /// Takes at most [`Caller::wants`] bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Event {
        self.answer.extend(bytes);
        match opening(&self.answer, self.protocol) {
            Some(event) => event,
            None if self.answer.len() == ANSWER_BYTES => Event::Answer(self.answer[11]),
            None => Event::Nothing,
        }
    }

    /// After [`Event::Answer`]: what to send last, and the keys of the connection; `None` when the
    /// host does not have this key.
    pub fn confirm(&self, key: &Key) -> Option<([u8; CONFIRM_BYTES], Session)> {
        let (answer, tag) = self.answer.split_at_checked(32)?;
        key.is_tag(&[HOST, &self.hello, answer], tag).then(|| {
            let confirm = key.tag(&[CALLER, &self.hello, answer]);
            (confirm, session(key, &self.hello, answer))
        })
    }
}

fn body_length(hello: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([hello[12], hello[13]]))
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

#[cfg(test)]
#[path = "proof_tests.rs"]
mod tests;
