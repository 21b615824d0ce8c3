//! The sending end: messages in flight, cut into pieces, over several sockets.
//!
//! A message waits for a *credit*: the receiver's word that a buffer of its tag is posted. Then it
//! is cut into *pieces* ([`super::message`]); each socket that is free takes the next one and sends
//! header and payload together, straight from the caller's memory. The first piece always takes
//! socket 0, so that the receiver learns there when to look at the others; a small message is one
//! piece and costs each side one system call.

use super::super::regions::Regions;
use super::super::{AT_ONCE, Region, Request, SendComm};
use super::ends::Ends;
use super::frame::HeaderKind;
use super::input::{Input, Next};
use super::message::{Credit, Message, Piece, Tail};
use super::options::{MAX_POSTED, SocketOptions};
use super::stream::{Pulse, Stream};
use crate::base::clock::now;
use crate::base::turns;
use crate::base::{Error, Result};
use std::collections::VecDeque;
use std::time::Duration;

/// The most messages in flight of one connection.
pub const MAX_SENDS: usize = 32;
/// Pieces that one call hands to one socket at most, so that a call is bounded.
const PIECES_A_CALL: usize = 64;
/// The longest that `close` waits for the peer's system to have everything.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
const CLOSE_PAUSE: Duration = Duration::from_micros(200);

const OPERATION: &str = "send over sockets";

/// A socket and the piece that it sends.
struct Output {
    stream: Stream,
    pulse: Pulse,
    piece: Option<Piece>,
}

/// The sending end of a connection over sockets.
pub struct SocketSender {
    ends: Ends,
    connection: u32,
    checksum: bool,
    outputs: Vec<Output>,
    input: Input,
    credits: VecDeque<Credit>,
    messages: VecDeque<Message>,
    next_request: u64,
    regions: Regions,
    /// Bytes that the sockets have taken.
    carried: u64,
    /// The peer's system has everything, or the connection has ended.
    settled: bool,
    failed: Option<Error>,
}

// SAFETY: the pointers lead to memory that the caller of `isend` keeps valid for whatever thread
// drives the connection; everything else is owned.
unsafe impl Send for SocketSender {}

impl SocketSender {
    /// A connection whose sockets have been welcomed; `streams` is not empty.
    pub fn new(ends: Ends, connection: u64, streams: Vec<Stream>, options: &SocketOptions) -> Self {
        let output = |stream| Output {
            stream,
            pulse: Pulse::new(options.link_timeout),
            piece: None,
        };
        SocketSender {
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
            carried: 0,
            settled: false,
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
            let known = header.kind == HeaderKind::Credit && header.connection == self.connection;
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

    fn start(
        &mut self,
        (data, bytes, tail): (*const u8, usize, Tail),
        tag: u32,
    ) -> Result<Option<Request>> {
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
        let request = self.next_request;
        self.next_request += 1;
        let sockets = self.outputs.len();
        let mut message = Message::new(request, credit, (data, bytes, tail), sockets);
        let length = message.length() as u64;
        let fits = length <= credit.capacity;
        if !fits {
            message = Message::new(request, credit, (data, 0, Tail::default()), sockets);
            message.credit.capacity = length;
        }
        message.kind = match (fits, self.checksum) {
            // The peer is told the size, unless a piece of another message blocks the socket; then
            // it learns by the end of the connection that something is wrong.
            (false, _) => HeaderKind::Refusal,
            (true, false) => HeaderKind::Data,
            (true, true) => HeaderKind::Checked,
        };
        self.messages.push_back(message);
        // What a full socket holds goes first, and is asked about when messages are tested.
        if self.outputs.iter().any(|output| output.piece.is_none()) {
            self.drive()?;
        }
        match fits {
            true => Ok(Some(Request::new(request))),
            false => {
                let capacity = credit.capacity;
                Err(self.ends.too_large(OPERATION, length, capacity, tag))
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

    /// Gives pieces to all sockets until they take no more, or have taken enough for now.
    fn drive(&mut self) -> Result<()> {
        for index in 0..self.outputs.len() {
            let before = self.carried;
            for _ in 0..PIECES_A_CALL {
                if self.outputs[index].piece.is_none() {
                    self.outputs[index].piece = self.next_piece(index == 0);
                }
                let goes_on = self.push(index)?;
                if !goes_on || self.carried - before >= AT_ONCE as u64 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The next piece for a socket, of the oldest message that has one.
    fn next_piece(&mut self, first_socket: bool) -> Option<Piece> {
        let connection = self.connection;
        let mut messages = self.messages.iter_mut();
        messages.find_map(|message| message.take_piece(first_socket, connection))
    }

    /// Sends from a socket's piece; true when it is finished and another one may follow.
    fn push(&mut self, index: usize) -> Result<bool> {
        let output = &mut self.outputs[index];
        let Some(piece) = &mut output.piece else {
            return Ok(false);
        };
        let sent = output.stream.send(&piece.parts(AT_ONCE));
        let sent = sent.map_err(|error| self.ends.failed(OPERATION, &error))?;
        self.carried += sent as u64;
        if !piece.advance(sent) {
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
            let before = self.carried;
            self.drive()?;
            if self.carried == before {
                // A full socket may be all that is left of the peer.
                self.read_credits()?;
            }
        }
        if !self.messages[at].is_done() {
            return Ok(None);
        }
        Ok(self.messages.remove(at).map(|message| message.length()))
    }

    /// Waits until the peer's system has everything: closing a socket that has unread credits
    /// would throw away what is still on its way.
    fn settle(&mut self) {
        self.finish();
        let start = now();
        while !self.is_settled() && !start.past(CLOSE_LIMIT) {
            turns::sleep(CLOSE_PAUSE);
        }
    }
}

impl SendComm for SocketSender {
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
        let result = self.start((data, bytes, Tail::default()), tag);
        self.keep(result)
    }

    unsafe fn isend_with_tail(
        &mut self,
        data: *const u8,
        bytes: usize,
        tail: &[u8],
        tag: u32,
    ) -> Result<Option<Request>> {
        let tail = Tail::new(tail).ok_or_else(|| Error::internal("a tail is too long"))?;
        let result = self.start((data, bytes, tail), tag);
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

    fn carried(&self) -> u64 {
        self.carried
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

    fn is_settled(&mut self) -> bool {
        // The end of the stream counts as one byte, and may be acknowledged much later.
        let has_all = |output: &Output| output.stream.unacknowledged() <= 1;
        if !self.settled && self.failed.is_none() {
            self.settled = self.outputs.iter().all(has_all);
            let felt = self.feel_pulses();
            self.failed = felt.err();
        }
        self.settled || self.failed.is_some()
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
