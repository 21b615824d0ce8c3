//! How connections between nodes come about: on first use, by the ranks at both ends.
//!
//! Every rank listens on each of its devices and tells its handles to all when the communicator is
//! made. The writer connects, by the handle of one of them ([`super::rails`]), and sends one
//! *greeting*: for which connection this is. The reader's service thread accepts and reads it, so
//! the reader's own threads need not be inside kolo. What does not greet, or greets for something
//! that is not there, is closed. The communicator's nonce, which only its ranks know, is not said:
//! a greeting carries a tag that follows from it and from all else that is said.

use super::ends::Ends;
use super::link::{SendLink, Shape};
use super::recv_link::RecvLink;
use crate::base::clock::{self, Moment};
use crate::base::{Error, Rank, Result};
use crate::transport::net::{Connecting, Handle, Listener, Receive, RecvComm, Request, SendComm};
use crate::trust::proof::Key;
use std::time::Duration;

const GREETING_BYTES: usize = 48;
const MAGIC: [u8; 8] = *b"kolotok2";
const TAG_BYTES: usize = 16;
/// How long whoever connects may take to say why.
const STRANGER_LIMIT: Duration = Duration::from_secs(10);

/// For which connection a network connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub nonce: u128,
    pub writer: u32,
    pub reader: u32,
    pub channel: u32,
    pub slot_bytes: u64,
}

impl Greeting {
    fn encode(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[24..28].copy_from_slice(&self.writer.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.reader.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.channel.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.slot_bytes.to_le_bytes());
        let tag = tag(self.nonce, &bytes);
        bytes[8..24].copy_from_slice(&tag);
        bytes
    }

    /// The greeting of a rank that knows this nonce.
    fn decode(bytes: &[u8], nonce: u128) -> Option<Greeting> {
        let bytes: &[u8; GREETING_BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let shown = bytes[8..24].iter().zip(tag(nonce, bytes));
        let differs = shown.fold(0, |sum, (a, b)| std::hint::black_box(sum | (a ^ b)));
        (bytes[..8] == MAGIC && word(36) == 0 && differs == 0).then(|| Greeting {
            nonce,
            writer: word(24),
            reader: word(28),
            channel: word(32),
            slot_bytes: long(40),
        })
    }
}

/// The connection that a greeting is for, if it is one of this rank's.
fn expects(ends: &Ends, greeting: &Greeting) -> Option<Shape> {
    let peer = greeting.writer as usize;
    let good = greeting.nonce == ends.nonce
        && greeting.reader as usize == ends.me
        && ends.is_remote.get(peer).copied().unwrap_or(false)
        && (greeting.channel as usize) < ends.channels;
    let shape = || ends.shape(Rank(greeting.writer), greeting.channel as u16);
    let fits = |shape: &Shape| greeting.slot_bytes == shape.slot_bytes as u64;
    good.then(shape).filter(fits)
}

/// Proof that the sender of this greeting knows the nonce.
fn tag(nonce: u128, greeting: &[u8; GREETING_BYTES]) -> [u8; TAG_BYTES] {
    let key = Key::derive(&nonce.to_le_bytes(), &[b"kolo greeting"]);
    let whole = key.tag(&[&greeting[8 + TAG_BYTES..]]);
    let mut tag = [0; TAG_BYTES];
    tag.copy_from_slice(&whole[..TAG_BYTES]);
    tag
}

/// The sending end of a connection, from its first use on.
pub(super) enum Outgoing {
    Connecting(Box<dyn Connecting>, Greeting),
    /// The greeting is to be sent, or is on its way. Its bytes do not move.
    Greeting(
        Box<dyn SendComm>,
        Box<[u8; GREETING_BYTES]>,
        Option<Request>,
    ),
    Up(SendLink),
    /// Only between two states.
    Gone,
}

impl Outgoing {
    /// Begins to connect to `peer`.
    ///
    /// # Errors
    /// Of the network.
    pub fn begin(ends: &Ends, peer: Rank, channel: u16) -> Result<Outgoing> {
        let greeting = Greeting {
            nonce: ends.nonce,
            writer: ends.me as u32,
            reader: peer.0,
            channel: u32::from(channel),
            slot_bytes: ends.shape(peer, channel).slot_bytes as u64,
        };
        let connecting = ends.connect(peer, channel)?;
        Ok(Outgoing::Connecting(connecting, greeting))
    }

    /// Goes on; true if it is up.
    ///
    /// # Errors
    /// Of the network.
    pub fn go_on(&mut self, ends: &Ends, shape: Shape) -> Result<bool> {
        loop {
            *self = match std::mem::replace(self, Outgoing::Gone) {
                Outgoing::Connecting(mut connecting, greeting) => match connecting.poll()? {
                    Some(comm) => Outgoing::Greeting(comm, Box::new(greeting.encode()), None),
                    None => {
                        *self = Outgoing::Connecting(connecting, greeting);
                        return Ok(false);
                    }
                },
                Outgoing::Greeting(mut comm, bytes, mut request) => {
                    if request.is_none() {
                        // SAFETY: the box lives, unchanged, until the request is done.
                        request = unsafe {
                            let region = comm.register(bytes.as_ptr(), bytes.len())?;
                            comm.isend(bytes.as_ptr(), bytes.len(), 0, region)?
                        };
                    }
                    let is_sent = match &request {
                        Some(request) => comm.test(request)?.is_some(),
                        None => false,
                    };
                    if !is_sent {
                        *self = Outgoing::Greeting(comm, bytes, request);
                        return Ok(false);
                    }
                    let memory = ends.reading(shape)?;
                    Outgoing::Up(SendLink::new(shape, memory, comm, &ends.lasting)?)
                }
                Outgoing::Up(link) => {
                    *self = Outgoing::Up(link);
                    return Ok(true);
                }
                Outgoing::Gone => return Err(Error::internal("a connection failed before")),
            };
        }
    }

    /// Adds what a `poll` may sleep on.
    pub fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        match self {
            // Whoever sleeps on this takes short naps only, which serve for pauses too.
            Outgoing::Connecting(connecting, _) => {
                connecting.watch(set);
            }
            Outgoing::Greeting(comm, ..) => return comm.watch(set),
            Outgoing::Up(link) => return link.watch(set),
            Outgoing::Gone => {}
        }
        true
    }
}

/// A connection that has not said what it is for.
struct Stranger {
    comm: Box<dyn RecvComm>,
    bytes: Box<[u8; GREETING_BYTES]>,
    request: Request,
    since: Moment,
}

/// Where connections arrive.
pub(super) struct Arrivals {
    pub listeners: Vec<Box<dyn Listener>>,
    strangers: Vec<Stranger>,
}

impl Arrivals {
    /// Where nobody arrives.
    pub fn none() -> Arrivals {
        Arrivals {
            listeners: Vec::new(),
            strangers: Vec::new(),
        }
    }

    /// Opens a listener on every device.
    ///
    /// # Errors
    /// Of the network.
    pub fn open(net: &dyn crate::transport::net::Net) -> Result<(Vec<Handle>, Arrivals)> {
        let opened: Result<Vec<_>> = (0..net.devices().len()).map(|d| net.listen(d)).collect();
        let (handles, listeners) = opened?.into_iter().unzip();
        let arrivals = Arrivals {
            listeners,
            strangers: Vec::new(),
        };
        Ok((handles, arrivals))
    }

    /// Accepts who waits, and hears why they came: connections that are wanted are given to
    /// `take`.
    ///
    /// # Errors
    /// Of a listener. A stranger's mistakes are its own.
    pub fn look(
        &mut self,
        ends: &Ends,
        mut take: impl FnMut(Shape, RecvLink) -> Result<()>,
    ) -> Result<bool> {
        let mut moved = false;
        for listener in &mut self.listeners {
            while let Some(mut comm) = listener.accept()? {
                moved = true;
                let mut bytes = Box::new([0; GREETING_BYTES]);
                // SAFETY: the box lives, and is left alone, until the request is done or the
                // connection is closed.
                let posted = unsafe {
                    comm.register(bytes.as_mut_ptr(), GREETING_BYTES)
                        .and_then(|region| {
                            let receive = Receive {
                                data: bytes.as_mut_ptr(),
                                capacity: GREETING_BYTES,
                                tag: 0,
                                region,
                            };
                            comm.irecv(&[receive])
                        })
                };
                if let Ok(Some(request)) = posted {
                    self.strangers.push(Stranger {
                        comm,
                        bytes,
                        request,
                        since: clock::now(),
                    });
                }
            }
        }
        let mut index = 0;
        while index < self.strangers.len() {
            let stranger = &mut self.strangers[index];
            match stranger.comm.test(&stranger.request) {
                Ok(None) if !stranger.since.past(STRANGER_LIMIT) => index += 1,
                Ok(Some(_)) => {
                    let Stranger { comm, bytes, .. } = self.strangers.swap_remove(index);
                    moved = true;
                    let wanted = Greeting::decode(&*bytes, ends.nonce);
                    let wanted = wanted.and_then(|it| expects(ends, &it));
                    match wanted {
                        Some(shape) => {
                            let memory = ends.writing(shape)?;
                            let link = RecvLink::new(shape, memory, comm, &ends.lasting)?;
                            take(shape, link)?;
                        }
                        None => drop(comm),
                    }
                }
                _ => drop(self.strangers.swap_remove(index)),
            }
        }
        Ok(moved)
    }

    /// Adds what a `poll` may sleep on. False if some of it cannot be slept on.
    pub fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        let mut all = true;
        for listener in &self.listeners {
            all &= listener.watch(set);
        }
        for stranger in &self.strangers {
            all &= stranger.comm.watch(set);
        }
        all
    }

    /// Whether somebody has come who has not said why.
    pub fn has_strangers(&self) -> bool {
        !self.strangers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_round_trip_and_others_are_refused() {
        let greeting = Greeting {
            nonce: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
            writer: 1,
            reader: u32::MAX,
            channel: 3,
            slot_bytes: 1 << 33,
        };
        let (bytes, nonce) = (greeting.encode(), greeting.nonce);
        assert_eq!(Greeting::decode(&bytes, nonce), Some(greeting));
        assert_eq!(Greeting::decode(&bytes, nonce ^ 1), None);
        assert_eq!(Greeting::decode(&bytes[..47], nonce), None);
        for at in 0..GREETING_BYTES {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert_eq!(Greeting::decode(&bad, nonce), None, "byte {at}");
        }
        let said = nonce.to_le_bytes();
        assert!(!bytes.windows(4).any(|w| said.windows(4).any(|s| s == w)));
    }
}
