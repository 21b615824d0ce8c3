//! The receiving end: posted buffers, and the pieces that fill them.
//!
//! Posting writes one *credit* frame a buffer on socket 0. A piece says which buffer it is for
//! and where in it it belongs, is checked against what was posted, and is read straight to that
//! place. Sockets other than the first are looked at only while a message is half here.

use super::super::regions::Regions;
use super::super::{MAX_RECEIVES, Receive, Received, RecvComm, Region, Request};
use super::ends::Ends;
use super::frame::{Header, HeaderKind};
use super::input::{Input, Next};
use super::options::MAX_POSTED;
use super::stream::Stream;
use crate::base::{Code, Error, Result};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Steps that one call makes on one socket at most, so that a call is bounded.
const STEPS_A_CALL: usize = 256;

const OPERATION: &str = "receive over sockets";

/// A posted buffer.
#[derive(Clone, Copy)]
struct Buffer {
    data: *mut u8,
    capacity: usize,
    tag: u32,
    /// Where the beginning of a message goes, its length, and that of the message for which this
    /// is meant.
    diverted: Option<(*mut u8, usize, usize)>,
    /// Length of its message, once the first piece has come.
    total: Option<usize>,
    /// Bytes that pieces have been announced for.
    announced: usize,
    /// Bytes that are here and, if they have a checksum, good.
    filled: usize,
}

impl Buffer {
    fn is_full(&self) -> bool {
        self.total == Some(self.filled)
    }
}

/// The buffers of one request.
struct Group {
    request: u64,
    first_number: u64,
    buffers: Vec<Buffer>,
}

/// A piece that is being read.
#[derive(Clone, Copy)]
struct Piece {
    header: Header,
    place: Place,
    got: usize,
    sum: u32,
}

/// Where a message goes: the first `diverted` bytes to one place, the others to another.
#[derive(Clone, Copy)]
struct Place {
    data: *mut u8,
    diverted: (*mut u8, usize),
}

impl Place {
    /// Where `length` bytes at `offset` go, as far as they lie together.
    ///
    /// # Safety
    /// The message has so many bytes, and both places are valid for it.
    unsafe fn range<'a>(&self, offset: usize, length: usize) -> &'a mut [u8] {
        let (other, first) = self.diverted;
        // SAFETY: the caller's promise.
        unsafe {
            match first.checked_sub(offset) {
                Some(left @ 1..) => {
                    std::slice::from_raw_parts_mut(other.add(offset), left.min(length))
                }
                _ => std::slice::from_raw_parts_mut(self.data.add(offset), length),
            }
        }
    }
}

/// A socket and the piece that it brings.
struct Line {
    stream: Stream,
    input: Input,
    piece: Option<Piece>,
}

/// The receiving end of a connection over sockets.
pub struct SocketReceiver {
    ends: Ends,
    connection: u32,
    lines: Vec<Line>,
    groups: VecDeque<Group>,
    posted_count: usize,
    /// Bytes of payload that have come in.
    carried: u64,
    /// Messages of which something is here and something is not.
    half: usize,
    /// Credit frames that the socket has not taken yet.
    unsent: VecDeque<u8>,
    /// Why they could not be sent.
    write_error: Option<Error>,
    next_request: u64,
    next_number: u64,
    regions: Regions,
    failed: Option<Error>,
}

// SAFETY: the pointers lead to memory that the caller of `irecv` keeps valid for whatever thread
// drives the connection; everything else is owned.
unsafe impl Send for SocketReceiver {}

impl SocketReceiver {
    /// A connection whose sockets have been welcomed; `streams` is not empty.
    pub fn new(ends: Ends, connection: u64, streams: Vec<Stream>) -> SocketReceiver {
        let line = |stream| Line {
            stream,
            input: Input::new(),
            piece: None,
        };
        SocketReceiver {
            ends,
            // The low half names the connection in every frame.
            connection: connection as u32,
            lines: streams.into_iter().map(line).collect(),
            groups: VecDeque::with_capacity(MAX_POSTED),
            posted_count: 0,
            carried: 0,
            half: 0,
            unsent: VecDeque::new(),
            write_error: None,
            next_request: 0,
            next_number: 0,
            regions: Regions::default(),
            failed: None,
        }
    }

    fn keep<T>(&mut self, result: Result<T>) -> Result<T> {
        match &result {
            // A mistaken call does no harm to the connection.
            Err(error) if error.code != Code::InvalidArgument => {
                self.failed.get_or_insert_with(|| error.clone());
            }
            _ => {}
        }
        result
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn garbled(&self, which: &str) -> Error {
        self.ends.garbled(OPERATION, which)
    }

    fn post(&mut self, receives: &[Receive]) -> Result<Option<Request>> {
        self.check()?;
        if receives.is_empty() || receives.len() > MAX_RECEIVES {
            return Err(Error::argument(
                format!("{} buffers were posted at once", receives.len()),
                format!("post 1 to {MAX_RECEIVES} buffers"),
            )
            .during(OPERATION));
        }
        if self.posted_count + receives.len() > MAX_POSTED {
            return Ok(None);
        }
        if self.lines[0].input.ended() {
            return Err(self.ends.closed(OPERATION));
        }
        let (request, first_number) = (self.next_request, self.next_number);
        self.next_request += 1;
        self.next_number += receives.len() as u64;
        self.posted_count += receives.len();
        for (receive, number) in receives.iter().zip(first_number..) {
            let credit = Header {
                kind: HeaderKind::Credit,
                connection: self.connection,
                number,
                total: receive.capacity as u64,
                offset: 0,
                length: 0,
                tag: receive.tag,
                payload_sum: 0,
            };
            self.unsent.extend(credit.encode());
        }
        let buffer = |receive: &Receive| Buffer {
            data: receive.data,
            capacity: receive.capacity,
            tag: receive.tag,
            diverted: None,
            total: None,
            announced: 0,
            filled: 0,
        };
        self.groups.push_back(Group {
            request,
            first_number,
            buffers: receives.iter().map(buffer).collect(),
        });
        Ok(Some(Request::new(request)))
    }

    /// Sends credits as far as the socket takes them. An error shows when reading: before it there
    /// may be data that the peer sent while it was well.
    fn send_credits(&mut self) {
        let (front, back) = self.unsent.as_slices();
        if front.is_empty() {
            return;
        }
        let parts = [IoSlice::new(front), IoSlice::new(back)];
        let sent = match self.lines[0].stream.send(&parts) {
            Ok(sent) => sent,
            Err(error) => {
                self.write_error = Some(self.ends.failed(OPERATION, &error));
                self.unsent.len()
            }
        };
        self.unsent.drain(..sent);
    }

    /// Reads from all sockets what is there, until a request is filled: what is behind it may still
    /// be diverted.
    fn drive(&mut self, request: u64) -> Result<()> {
        self.send_credits();
        for index in 0..self.lines.len() {
            if index > 0 && self.half == 0 {
                break;
            }
            self.lines[index].input.look_again();
            for _ in 0..STEPS_A_CALL {
                if self.is_filled(request) || !self.step(index)? {
                    break;
                }
            }
        }
        match self.misses() {
            true => {
                let closed = || self.ends.closed(OPERATION);
                Err(self.write_error.clone().unwrap_or_else(closed))
            }
            false => Ok(()),
        }
    }

    /// Whether something is awaited that cannot come any more. A peer may end its sockets as soon
    /// as it has sent everything, so one that has ended is no fault by itself.
    fn misses(&self) -> bool {
        let ended = |line: &Line| line.input.ended();
        let torn = self.lines.iter().any(|l| ended(l) && l.piece.is_some());
        let first_ended = ended(&self.lines[0]);
        // Every message begins on the first socket; the others may bring the rest of one.
        let silent = first_ended && (self.half == 0 || self.lines.iter().all(ended));
        let unfilled = |group: &Group| group.buffers.iter().any(|b| !b.is_full());
        torn || (silent && self.groups.iter().any(unfilled))
    }

    /// One header or one read of payload; false when the socket has nothing more now.
    fn step(&mut self, index: usize) -> Result<bool> {
        let line = &mut self.lines[index];
        let Some(piece) = &mut line.piece else {
            let next = line.input.header(&line.stream);
            return match next.map_err(|error| self.ends.failed(OPERATION, &error))? {
                Next::Header(header) => self.begin(index, header).map(|()| true),
                Next::Garbage => Err(self.garbled("the sender sent damaged bytes")),
                Next::Nothing => Ok(false),
            };
        };
        let left = piece.header.length as usize - piece.got;
        if left == 0 {
            return self.finish(index).map(|()| true);
        }
        // SAFETY: `begin` checked that the piece lies within its buffer, which `irecv`'s caller
        // keeps valid and leaves alone.
        let place = unsafe {
            let offset = piece.header.offset as usize + piece.got;
            piece.place.range(offset, left)
        };
        let got = line.input.payload(&line.stream, place);
        let got = got.map_err(|error| self.ends.failed(OPERATION, &error))?;
        if piece.header.kind == HeaderKind::Checked {
            piece.sum = crc32c::crc32c_append(piece.sum, &place[..got]);
        }
        piece.got += got;
        self.carried += got as u64;
        Ok(got > 0)
    }

    fn buffer(&mut self, number: u64) -> Option<&mut Buffer> {
        self.groups.iter_mut().find_map(|group| {
            let index = number.checked_sub(group.first_number)?;
            group.buffers.get_mut(usize::try_from(index).ok()?)
        })
    }

    /// Checks a header against what was posted.
    fn begin(&mut self, index: usize, header: Header) -> Result<()> {
        let known = header.connection == self.connection && header.kind != HeaderKind::Credit;
        let buffer = self.buffer(header.number).filter(|_| known);
        let Some(buffer) = buffer.filter(|b| b.tag == header.tag && !b.is_full()) else {
            return Err(self.garbled("the sender sent a frame that does not belong here"));
        };
        let capacity = buffer.capacity as u64;
        if header.total > capacity {
            let (total, tag) = (header.total, header.tag);
            return Err(self.ends.too_large(OPERATION, total, capacity, tag));
        }
        // Fits: it is not larger than a capacity, which is a usize.
        let total = header.total as usize;
        let length = u64::from(header.length);
        let end = header.offset.checked_add(length);
        let good = header.kind != HeaderKind::Refusal
            && end.is_some_and(|end| end <= header.total)
            && buffer.total.is_none_or(|same| same == total)
            && buffer.announced + length as usize <= total
            && (length > 0 || total == 0);
        if !good {
            return Err(self.garbled("the sender sent a piece outside its message"));
        }
        let is_first = buffer.total.is_none();
        buffer.total = Some(total);
        buffer.announced += length as usize;
        let place = Place {
            data: buffer.data,
            diverted: match buffer.diverted {
                Some((place, bytes, length)) if length == total => (place, bytes),
                _ => (std::ptr::null_mut(), 0),
            },
        };
        self.half += usize::from(is_first);
        self.lines[index].piece = Some(Piece {
            header,
            place,
            got: 0,
            sum: 0,
        });
        match length {
            0 => self.finish(index),
            _ => Ok(()),
        }
    }

    /// Counts a piece that is here.
    fn finish(&mut self, index: usize) -> Result<()> {
        let Some(piece) = self.lines[index].piece.take() else {
            return Ok(());
        };
        let header = piece.header;
        if header.kind == HeaderKind::Checked && piece.sum != header.payload_sum {
            return Err(self.garbled(&format!(
                "{} bytes at {} of a message of {} bytes with tag {} arrived changed: checksum \
                 {:08x} here, {:08x} at the sender",
                header.length,
                header.offset,
                header.total,
                header.tag,
                piece.sum,
                header.payload_sum
            )));
        }
        if let Some(buffer) = self.buffer(header.number) {
            buffer.filled += header.length as usize;
            let full = buffer.is_full();
            self.half -= usize::from(full);
        }
        Ok(())
    }

    /// A message that is here is given out even if the connection has failed since.
    fn is_filled(&self, request: u64) -> bool {
        let group = self.groups.iter().find(|group| group.request == request);
        group.is_none_or(|group| group.buffers.iter().all(Buffer::is_full))
    }

    fn advance(&mut self, request: u64) -> Result<Option<Received>> {
        let position = |receiver: &SocketReceiver| {
            let mut groups = receiver.groups.iter();
            groups.position(|group| group.request == request)
        };
        let Some(at) = position(self) else {
            self.check()?;
            return Err(Error::argument(
                "a request was tested that is not posted on this connection",
                "test a request until it is done, and not again",
            )
            .during(OPERATION));
        };
        if !self.is_filled(request) && self.failed.is_none() {
            let driven = self.drive(request);
            self.failed = driven.err();
        }
        if !self.is_filled(request) {
            return self.check().map(|()| None);
        }
        let Some(group) = self.groups.remove(at) else {
            return Ok(None);
        };
        self.posted_count -= group.buffers.len();
        let sizes: Vec<usize> = group.buffers.iter().map(|b| b.filled).collect();
        let mut buffers = group.buffers.iter();
        let is_diverted = buffers.any(|b| b.diverted.is_some_and(|(_, _, of)| of == b.filled));
        Ok(Some(Received::new(&sizes).diverted(is_diverted)))
    }
}

impl RecvComm for SocketReceiver {
    unsafe fn register(&mut self, _: *mut u8, _: usize) -> Result<Region> {
        Ok(self.regions.open())
    }

    fn deregister(&mut self, region: Region) -> Result<()> {
        self.regions.close(region)
    }

    unsafe fn irecv(&mut self, buffers: &[Receive]) -> Result<Option<Request>> {
        let result = self.post(buffers);
        self.keep(result)
    }

    fn test(&mut self, request: &Request) -> Result<Option<Received>> {
        let result = self.advance(request.number());
        self.keep(result)
    }

    fn flush(&mut self, _: &[Receive]) -> Result<Option<Request>> {
        // The processor itself wrote the data to host memory.
        self.check().map(|()| None)
    }

    fn carried(&self) -> u64 {
        self.carried
    }

    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        let unsent = !self.unsent.is_empty();
        let entries = self.lines.iter().enumerate();
        let wanted = entries.filter(|(index, _)| *index == 0 || self.half > 0);
        set.extend(wanted.map(|(index, line)| line.stream.watch(index == 0 && unsent)));
        // No `poll` shows what was read ahead.
        !self.lines.iter().any(|line| line.input.holds_bytes())
    }

    unsafe fn divert(
        &mut self,
        request: &Request,
        data: *mut u8,
        bytes: usize,
        length: usize,
    ) -> bool {
        let mut groups = self.groups.iter_mut();
        let group = groups.find(|group| group.request == request.number());
        match group.map(|group| &mut group.buffers[..]) {
            Some([buffer]) if buffer.total.is_none() && bytes <= length => {
                buffer.diverted = Some((data, bytes, length));
                true
            }
            _ => false,
        }
    }

    fn announce(&mut self) {
        self.send_credits();
    }

    fn acknowledge(&mut self) {
        self.lines.iter().for_each(|line| line.stream.acknowledge());
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.check()?;
        let unfilled = self.posted_count;
        if unfilled > 0 {
            return Err(Error::usage(
                format!("{unfilled} buffers were posted when the connection was closed"),
                "test every request until it is done",
            )
            .during(OPERATION));
        }
        Ok(())
    }
}
