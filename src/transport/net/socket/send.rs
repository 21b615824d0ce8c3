//! The sending end: messages in flight, cut into pieces, over several sockets.
//!
//! A message waits for a *credit*: the receiver's word that a buffer of its tag is posted. Then it
//! is cut into *pieces* of at most [`PIECE_BYTES`]; each socket that is free takes the next one and
//! sends header and payload together, straight from the caller's memory. The first piece always
//! takes socket 0, so that the receiver learns there when to look at the others; a small message
//! is one piece and costs each side one system call.

use super::super::regions::Regions;
use super::super::{Region, Request, SendComm};
use super::ends::Ends;
use super::frame::{HEADER_BYTES, Header, Kind};
use super::input::{Input, Next};
use super::stream::{Pulse, Stream};
use super::{MAX_POSTED, SocketOptions};
use crate::base::clock::now;
use crate::base::{Error, Result};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Duration;

/// A message of at most this length goes as one piece.
pub const WHOLE_BYTES: usize = 64 << 10;
/// The largest piece.
pub const PIECE_BYTES: usize = 1 << 20;
/// The most messages in flight of one connection.
pub const MAX_SENDS: usize = 32;
/// Pieces that one call hands to one socket at most, so that a call is bounded.
const PIECES_A_CALL: usize = 64;
/// The longest that `close` waits for the peer's system to have everything.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
const CLOSE_PAUSE: Duration = Duration::from_micros(200);

const OPERATION: &str = "send over sockets";

/// A buffer that the receiver has posted.
#[derive(Clone, Copy, Debug, Default)]
struct Credit {
    number: u64,
    capacity: u64,
    tag: u32,
}

/// A message in flight.
struct Message {
    request: u64,
    credit: Credit,
    data: *const u8,
    bytes: usize,
    kind: Kind,
    /// Length of every piece but the last.
    piece_bytes: usize,
    /// Whether the first piece has been taken.
    begun: bool,
    /// Where the next piece other than the first begins.
    next: usize,
    /// Pieces that a socket has taken but not finished.
    flying: usize,
}

impl Message {
    /// A message that has not begun, to be cut for so many sockets.
    fn new(request: u64, credit: Credit, data: *const u8, bytes: usize, sockets: usize) -> Self {
        let share = bytes.div_ceil(sockets).next_multiple_of(4096);
        let piece_bytes = share.clamp(WHOLE_BYTES, PIECE_BYTES);
        Message {
            request,
            credit,
            data,
            bytes,
            kind: Kind::Data,
            piece_bytes,
            begun: false,
            next: piece_bytes,
            flying: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.begun && self.next >= self.bytes && self.flying == 0
    }

    /// Whether there is a piece for a socket.
    fn has_piece(&self, first_socket: bool) -> bool {
        self.next < self.bytes || (first_socket && !self.begun)
    }

    /// The range of the next piece for a socket.
    fn take(&mut self, first_socket: bool) -> Option<(usize, usize)> {
        let range = if first_socket && !self.begun {
            self.begun = true;
            (0, self.piece_bytes.min(self.bytes))
        } else if self.next < self.bytes {
            let start = self.next;
            self.next = (start + self.piece_bytes).min(self.bytes);
            (start, self.next)
        } else {
            return None;
        };
        self.flying += 1;
        Some(range)
    }
}

/// A piece on its way into a socket.
struct Piece {
    request: u64,
    header: [u8; HEADER_BYTES],
    data: *const u8,
    length: usize,
    /// Of header and payload together.
    sent: usize,
}

/// A socket and the piece that it sends.
struct Output {
    stream: Stream,
    pulse: Pulse,
    piece: Option<Piece>,
}

/// The sending end of a connection over sockets.
pub struct Sender {
    ends: Ends,
    connection: u32,
    checksum: bool,
    outputs: Vec<Output>,
    input: Input,
    credits: VecDeque<Credit>,
    messages: VecDeque<Message>,
    next_request: u64,
    regions: Regions,
    failed: Option<Error>,
}

// SAFETY: the pointers lead to memory that the caller of `isend` keeps valid for whatever thread
// drives the connection; everything else is owned.
unsafe impl Send for Sender {}

impl Sender {
    /// A connection whose sockets have been welcomed; `streams` is not empty.
    pub fn new(ends: Ends, connection: u64, streams: Vec<Stream>, options: &SocketOptions) -> Self {
        let output = |stream| Output {
            stream,
            pulse: Pulse::new(options.link_timeout),
            piece: None,
        };
        Sender {
            ends,
            // The low half names the connection in every frame.
            connection: connection as u32,
            checksum: options.checksum,
            outputs: streams.into_iter().map(output).collect(),
            input: Input::new(),
            credits: VecDeque::with_capacity(MAX_POSTED),
            messages: VecDeque::with_capacity(MAX_SENDS),
            next_request: 0,
            regions: Regions::default(),
            failed: None,
        }
    }

    fn keep<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.failed.get_or_insert_with(|| error.clone());
        }
        result
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Reads what the receiver says: credits, or that it has gone.
    fn read_credits(&mut self) -> Result<()> {
        self.input.look_again();
        for _ in 0..=MAX_POSTED {
            let stream = &self.outputs[0].stream;
            let next = self.input.header(stream);
            let header = match next.map_err(|e| self.ends.failed(OPERATION, &e))? {
                Next::Header(header) => header,
                Next::Garbage => return Err(self.garbled("the receiver sent damaged bytes")),
                Next::Nothing if self.input.ended() => return Err(self.ends.closed(OPERATION)),
                Next::Nothing => return Ok(()),
            };
            let known = header.kind == Kind::Credit && header.connection == self.connection;
            if !known || self.credits.len() >= MAX_POSTED {
                return Err(self.garbled("the receiver sent a frame that does not belong here"));
            }
            self.credits.push_back(Credit {
                number: header.number,
                capacity: header.total,
                tag: header.tag,
            });
        }
        Ok(())
    }

    fn garbled(&self, which: &str) -> Error {
        self.ends.garbled(OPERATION, which)
    }

    /// Takes the oldest credit with this tag.
    fn take_credit(&mut self, tag: u32) -> Result<Option<Credit>> {
        let of_tag = |credits: &VecDeque<Credit>| credits.iter().position(|c| c.tag == tag);
        let mut found = of_tag(&self.credits);
        if found.is_none() {
            self.read_credits()?;
            found = of_tag(&self.credits);
        }
        Ok(found.and_then(|at| self.credits.remove(at)))
    }

    fn start(&mut self, data: *const u8, bytes: usize, tag: u32) -> Result<Option<Request>> {
        self.check()?;
        if self.messages.len() >= MAX_SENDS {
            self.drive()?;
            if self.messages.len() >= MAX_SENDS {
                return Ok(None);
            }
        }
        let Some(credit) = self.take_credit(tag)? else {
            // Data that the system has taken but cannot deliver shows here.
            self.feel_pulses()?;
            return Ok(None);
        };
        let fits = bytes as u64 <= credit.capacity;
        let request = self.next_request;
        self.next_request += 1;
        let sent = if fits { bytes } else { 0 };
        let mut message = Message::new(request, credit, data, sent, self.outputs.len());
        message.kind = match (fits, self.checksum) {
            // The peer is told the size, unless a piece of another message blocks the socket; then
            // it learns by the end of the connection that something is wrong.
            (false, _) => Kind::Refusal,
            (true, false) => Kind::Data,
            (true, true) => Kind::Checked,
        };
        if !fits {
            message.credit.capacity = bytes as u64;
        }
        self.messages.push_back(message);
        self.drive()?;
        match fits {
            true => Ok(Some(Request::new(request))),
            false => {
                let (bytes, capacity) = (bytes as u64, credit.capacity);
                Err(self.ends.too_large(OPERATION, bytes, capacity, tag))
            }
        }
    }

    fn feel_pulses(&mut self) -> Result<()> {
        for output in &mut self.outputs {
            if let Some(limit) = output.pulse.silent(&output.stream) {
                return Err(self.ends.silent(OPERATION, limit));
            }
        }
        Ok(())
    }

    /// Gives pieces to all sockets until they take no more.
    fn drive(&mut self) -> Result<()> {
        for index in 0..self.outputs.len() {
            for _ in 0..PIECES_A_CALL {
                if self.outputs[index].piece.is_none() {
                    self.outputs[index].piece = self.next_piece(index == 0);
                }
                if !self.push(index)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The next piece for a socket, of the oldest message that has one.
    fn next_piece(&mut self, first_socket: bool) -> Option<Piece> {
        let (message, (start, end)) = self
            .messages
            .iter_mut()
            .find_map(|message| message.take(first_socket).map(|range| (message, range)))?;
        let length = end - start;
        // SAFETY: the range lies within the message, whose memory `isend`'s caller keeps valid.
        let data = unsafe { message.data.add(start) };
        let payload_sum = match message.kind {
            // SAFETY: as above; the memory is not written while the message is in flight.
            Kind::Checked => crc32c::crc32c(unsafe { bytes_at(data, length) }),
            _ => 0,
        };
        let header = Header {
            kind: message.kind,
            connection: self.connection,
            number: message.credit.number,
            total: match message.kind {
                Kind::Refusal => message.credit.capacity,
                _ => message.bytes as u64,
            },
            offset: start as u64,
            length: length as u32,
            tag: message.credit.tag,
            payload_sum,
        };
        Some(Piece {
            request: message.request,
            header: header.encode(),
            data,
            length,
            sent: 0,
        })
    }

    /// Sends from a socket's piece; true when it is finished and another one may follow.
    fn push(&mut self, index: usize) -> Result<bool> {
        let output = &mut self.outputs[index];
        let Some(piece) = &mut output.piece else {
            return Ok(false);
        };
        let header = &piece.header[piece.sent.min(HEADER_BYTES)..];
        let skip = piece.sent.saturating_sub(HEADER_BYTES);
        // SAFETY: `skip` is at most `length`; the piece lies in memory that is valid in flight.
        let payload = unsafe { bytes_at(piece.data.add(skip), piece.length - skip) };
        let parts = [IoSlice::new(header), IoSlice::new(payload)];
        let wanted = header.len() + payload.len();
        let sent = output.stream.send(&parts);
        let sent = sent.map_err(|error| self.ends.failed(OPERATION, &error))?;
        piece.sent += sent;
        if sent < wanted {
            return match output.pulse.silent(&output.stream) {
                Some(limit) => Err(self.ends.silent(OPERATION, limit)),
                None => Ok(false),
            };
        }
        let request = piece.request;
        output.piece = None;
        if let Some(message) = self.messages.iter_mut().find(|m| m.request == request) {
            message.flying -= 1;
        }
        Ok(true)
    }

    fn advance(&mut self, request: u64) -> Result<Option<usize>> {
        self.check()?;
        let Some(at) = self.messages.iter().position(|m| m.request == request) else {
            return Err(Error::argument(
                "a request was tested that is not in flight on this connection",
                "test a request until it is done, and not again",
            )
            .during(OPERATION));
        };
        if !self.messages[at].is_done() {
            self.drive()?;
        }
        if !self.messages[at].is_done() {
            // A full socket may be all that is left of the peer.
            self.read_credits()?;
            return Ok(None);
        }
        Ok(self.messages.remove(at).map(|message| message.bytes))
    }

    /// Waits until the peer's system has everything: closing a socket that has unread credits
    /// would throw away what is still on its way.
    fn settle(&mut self) {
        for output in &self.outputs {
            output.stream.finish();
        }
        let start = now();
        while !start.past(CLOSE_LIMIT) {
            // The end of the stream counts as one byte, and may be acknowledged much later.
            let left = |output: &Output| output.stream.unacknowledged() > 1;
            if !self.outputs.iter().any(left) {
                return;
            }
            std::thread::sleep(CLOSE_PAUSE);
        }
    }
}

/// # Safety
/// As `std::slice::from_raw_parts`, except that `data` may be anything when `length` is 0.
unsafe fn bytes_at<'a>(data: *const u8, length: usize) -> &'a [u8] {
    match length {
        0 => &[],
        // SAFETY: the caller vouches for the memory.
        _ => unsafe { std::slice::from_raw_parts(data, length) },
    }
}

impl SendComm for Sender {
    unsafe fn register(&mut self, _: *const u8, _: usize) -> Result<Region> {
        Ok(self.regions.open())
    }

    fn deregister(&mut self, region: Region) -> Result<()> {
        self.regions.close(region)
    }

    unsafe fn isend(
        &mut self,
        data: *const u8,
        bytes: usize,
        tag: u32,
        _: Region,
    ) -> Result<Option<Request>> {
        let result = self.start(data, bytes, tag);
        self.keep(result)
    }

    fn test(&mut self, request: &Request) -> Result<Option<usize>> {
        let result = self.advance(request.number());
        match &result {
            // A mistaken question does no harm to the connection.
            Err(error) if error.code == crate::base::Code::InvalidArgument => result,
            _ => self.keep(result),
        }
    }

    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        for (index, output) in self.outputs.iter().enumerate() {
            // A call hands over a bounded number of pieces, so that some may be left.
            let more = self.messages.iter().any(|m| m.has_piece(index == 0));
            let write = more || output.piece.is_some();
            // What the receiver says is of interest when there is nothing left to send by.
            let read = index == 0 && (self.credits.is_empty() || !self.messages.is_empty());
            if write || read {
                set.push(output.stream.watch(write));
            }
        }
        true
    }

    fn finish(&mut self) {
        if self.messages.iter().all(Message::is_done) {
            self.outputs
                .iter()
                .for_each(|output| output.stream.finish());
        }
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.check()?;
        let in_flight = self.messages.iter().filter(|m| !m.is_done()).count();
        if in_flight > 0 {
            return Err(Error::usage(
                format!("{in_flight} messages were in flight when the connection was closed"),
                "test every request until it is done",
            )
            .during(OPERATION));
        }
        self.settle();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sockets take pieces in any order: every byte once, and the first piece on socket 0, where
    /// the receiver waits for it.
    #[test]
    fn pieces_cover_a_message_and_begin_on_the_first_socket() {
        for seed in 0..500 {
            let mut random = fastrand::Rng::with_seed(seed);
            let bytes = random.usize(..if seed % 2 == 0 { 100_000 } else { 8 << 20 });
            let mut message = Message::new(0, Credit::default(), std::ptr::null(), bytes, 4);
            let mut ranges = Vec::new();
            while message.has_piece(true) {
                let first_socket = random.u8(..4) == 0;
                let has = message.has_piece(first_socket);
                let range = message.take(first_socket);
                assert_eq!(range.is_some(), has, "seed {seed}");
                assert!(
                    first_socket || range.is_none_or(|(start, _)| start > 0),
                    "seed {seed}"
                );
                ranges.extend(range);
                assert!(!message.is_done());
            }
            ranges.sort_unstable();
            let mut end = 0;
            for (start, stop) in &ranges {
                assert!(
                    *start == end && stop - start <= PIECE_BYTES,
                    "seed {seed}: {ranges:?}"
                );
                end = *stop;
            }
            assert_eq!(end, bytes, "seed {seed}");
            assert!(bytes > WHOLE_BYTES || ranges.len() == 1, "seed {seed}");
            message.flying = 0;
            assert!(message.is_done());
        }
    }
}
