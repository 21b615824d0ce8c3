//! Reads frames from a socket with few system calls: headers and small payloads come together
//! through a small buffer, large payloads go straight to their place.

use super::frame::{HEADER_BYTES, Header};
use super::stream::Stream;
use std::io::{self, IoSliceMut};

/// Bytes that are read ahead; the most of a large payload that is copied.
pub const AHEAD_BYTES: usize = 4096;

/// A header, or something else.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A whole header.
    Header(Header),
    /// Bytes that are no header: the stream is damaged.
    Garbage,
    /// Not yet.
    Nothing,
}

/// The reading half of a socket.
#[derive(Debug)]
pub struct Input {
    ahead: Box<[u8; AHEAD_BYTES]>,
    start: usize,
    end: usize,
    /// The socket had less than was asked for: asking again at once is in vain.
    drained: bool,
    /// The peer sends no more.
    ended: bool,
}

impl Input {
    /// Nothing read yet.
    pub fn new() -> Input {
        Input {
            ahead: Box::new([0; AHEAD_BYTES]),
            start: 0,
            end: 0,
            drained: false,
            ended: false,
        }
    }

    /// Begins another look at the socket.
    pub fn look_again(&mut self) {
        self.drained = false;
    }

    /// Whether bytes are here that nobody has asked for yet.
    pub fn holds_bytes(&self) -> bool {
        self.start < self.end
    }

    /// Whether the peer has ended the stream, and everything before the end was read.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The next header.
    pub fn header(&mut self, stream: &Stream) -> io::Result<Next> {
        while self.end - self.start < HEADER_BYTES {
            if self.drained || self.ended {
                return Ok(Next::Nothing);
            }
            self.ahead.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            let room = AHEAD_BYTES - self.end;
            let part = IoSliceMut::new(&mut self.ahead[self.end..]);
            let got = stream.receive(&mut [part])?;
            self.end += self.note(got, room);
        }
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(&self.ahead[self.start..self.start + HEADER_BYTES]);
        self.start += HEADER_BYTES;
        Ok(Header::decode(&bytes).map_or(Next::Garbage, Next::Header))
    }

    /// Receives into `place`, at least one byte unless there is nothing now; how many.
    pub fn payload(&mut self, stream: &Stream, place: &mut [u8]) -> io::Result<usize> {
        let held = (self.end - self.start).min(place.len());
        if held > 0 {
            place[..held].copy_from_slice(&self.ahead[self.start..self.start + held]);
            self.start += held;
            return Ok(held);
        }
        if self.drained || self.ended || place.is_empty() {
            return Ok(0);
        }
        let wanted = place.len();
        let mut parts = [IoSliceMut::new(place), IoSliceMut::new(&mut self.ahead[..])];
        let got = stream.receive(&mut parts)?;
        let count = self.note(got, wanted + AHEAD_BYTES);
        self.start = 0;
        self.end = count.saturating_sub(wanted);
        Ok(count.min(wanted))
    }

    /// Draws conclusions from one read of at most `room` bytes.
    fn note(&mut self, got: Option<usize>, room: usize) -> usize {
        self.ended |= got == Some(0);
        let count = got.unwrap_or(0);
        self.drained = count < room;
        count
    }
}

/// The reading of the first `N` bytes of a socket, and not one more.
#[derive(Debug)]
pub struct Opening<const N: usize> {
    bytes: [u8; N],
    have: usize,
}

impl<const N: usize> Opening<N> {
    /// Nothing read yet.
    pub fn new() -> Opening<N> {
        Opening {
            bytes: [0; N],
            have: 0,
        }
    }

    /// Reads on; all bytes once they are here. The end of the stream is an error.
    pub fn read(&mut self, stream: &Stream) -> io::Result<Option<[u8; N]>> {
        while self.have < N {
            let part = IoSliceMut::new(&mut self.bytes[self.have..]);
            match stream.receive(&mut [part])? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(count) => self.have += count,
                None => return Ok(None),
            }
        }
        Ok(Some(self.bytes))
    }
}
