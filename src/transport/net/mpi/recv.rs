//! The receiving end of a connection over MPI.

use super::super::regions::Regions;
use super::super::{MAX_RECEIVES, Receive, Received, RecvComm, Region, Request};
use super::abi::MpiRequest;
use super::ends::{self, pieces};
use super::note::{Note, NoteKind};
use super::post::{self, Post, is_cancelled};
use crate::base::clock::{Moment, now};
use crate::base::{Code, Error, Result};
use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::Arc;

/// The most buffers that are posted on one connection.
const MAX_POSTED: usize = 64;

const OPERATION: &str = "receive over MPI";

/// A posted buffer.
struct Buffer {
    tag: u32,
    capacity: usize,
    /// MPI's tag.
    place: c_int,
    /// Parts that have not come, each with its length; the last one is looked at first.
    parts: Vec<(MpiRequest, usize)>,
    /// Bytes of the parts that came.
    got: usize,
}

/// The buffers of one request.
struct Group {
    request: u64,
    buffers: Vec<Buffer>,
}

/// See the file's first line.
pub struct MpiReceiver {
    post: Arc<Post>,
    end: u64,
    peer: u64,
    rank: c_int,
    groups: VecDeque<Group>,
    posted_count: usize,
    /// Messages that came whole.
    came: u64,
    next_request: u64,
    regions: Regions,
    failed: Option<Error>,
    closed: bool,
}

impl MpiReceiver {
    /// The end that accepted the end `peer` of rank `rank`.
    pub fn new(post: Arc<Post>, end: u64, peer: u64, rank: c_int) -> MpiReceiver {
        MpiReceiver {
            post,
            end,
            peer,
            rank,
            groups: VecDeque::new(),
            posted_count: 0,
            came: 0,
            next_request: 0,
            regions: Regions::default(),
            failed: None,
            closed: false,
        }
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Keeps the first error of the connection; a mistaken call is none.
    fn keep<T>(&mut self, result: Result<T>) -> Result<T> {
        ends::keep(&mut self.failed, result)
    }

    fn post(&mut self, buffers: &[Receive]) -> Result<Option<Request>> {
        if buffers.is_empty() || buffers.len() > MAX_RECEIVES {
            return Err(Error::argument(
                format!("{} buffers were posted at once", buffers.len()),
                format!("post 1 to {MAX_RECEIVES} buffers"),
            )
            .during(OPERATION));
        }
        if self.posted_count + buffers.len() > MAX_POSTED {
            return Ok(None);
        }
        let mut places = [0; MAX_RECEIVES];
        for at in 0..buffers.len() {
            match self.post.take_place(self.rank) {
                Some(place) => places[at] = place,
                None => {
                    for place in &places[..at] {
                        self.post.free_place(self.rank, *place);
                    }
                    return Ok(None);
                }
            }
        }
        let request = self.next_request;
        self.next_request += 1;
        self.groups.push_back(Group {
            request,
            buffers: Vec::with_capacity(buffers.len()),
        });
        for (receive, place) in buffers.iter().zip(places) {
            self.post_one(receive, place)?;
        }
        Ok(Some(Request::new(request)))
    }

    /// Posts into the last group, then tells the sender.
    fn post_one(&mut self, receive: &Receive, place: c_int) -> Result<()> {
        let most = self.post.calls.info().most_bytes;
        let mut buffer = Buffer {
            tag: receive.tag,
            capacity: receive.capacity,
            place,
            parts: Vec::with_capacity(1),
            got: 0,
        };
        let mut result = Ok(());
        for (at, length) in pieces(receive.capacity, receive.capacity, most) {
            // SAFETY: this thread may call MPI; the caller of `irecv` keeps the buffer.
            let part = unsafe {
                let part = receive.data.wrapping_add(at);
                self.post.calls.irecv(part, length, self.rank, place)
            };
            match part {
                Ok(part) => buffer.parts.push((part, length)),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        buffer.parts.reverse();
        self.posted_count += 1;
        if let Some(group) = self.groups.back_mut() {
            group.buffers.push(buffer);
        }
        result?;
        let note = Note {
            tag: receive.tag,
            number: place as u64,
            bytes: receive.capacity as u64,
            ..Note::new(NoteKind::Credit, self.peer, self.end)
        };
        self.post.send(self.rank, &note)
    }

    /// Looks which messages of a group have come; whether all have.
    fn look(&mut self, group: usize) -> Result<bool> {
        let mut whole = true;
        for buffer in &mut self.groups[group].buffers {
            let mut moved = false;
            while let Some((part, _)) = buffer.parts.last_mut() {
                // SAFETY: this thread may call MPI, and parts in the list are not done.
                match unsafe { self.post.calls.test(part, self.rank) }? {
                    Some(bytes) => buffer.got += bytes,
                    None => break,
                }
                buffer.parts.pop();
                moved = true;
            }
            if moved && buffer.parts.is_empty() {
                self.came += 1;
                self.post.free_place(self.rank, buffer.place);
            }
            whole &= buffer.parts.is_empty();
        }
        Ok(whole)
    }

    fn ask(&mut self, request: &Request) -> Result<Option<Received>> {
        let mut all = self.groups.iter();
        let Some(at) = all.position(|g| g.request == request.number()) else {
            return Err(Error::argument(
                "a request was tested that is not posted on this connection",
                "test a request until it is done, and on its own connection",
            ));
        };
        self.post.drive()?;
        self.check()?;
        if self.look(at)? {
            let mut sizes = [0; MAX_RECEIVES];
            let group = self.groups.remove(at);
            let buffers = group.map(|group| group.buffers).unwrap_or_default();
            for (size, buffer) in sizes.iter_mut().zip(&buffers) {
                *size = buffer.got;
            }
            self.posted_count -= buffers.len();
            return Ok(Some(Received::new(&sizes[..buffers.len()])));
        }
        self.look_for_the_end().map(|()| None)
    }

    /// An error when what this connection waits for cannot come any more.
    fn look_for_the_end(&mut self) -> Result<()> {
        let (sent, refused) = self.post.receiver(self.end, |state| {
            (state.sent, state.too_large.first().copied())
        });
        if let Some((place, bytes)) = refused {
            let mut buffers = self.groups.iter().flat_map(|g| &g.buffers);
            if let Some(buffer) = buffers.find(|b| b.place == place) {
                let (capacity, tag) = (buffer.capacity, buffer.tag);
                return Err(post::too_large(OPERATION, self.rank, bytes, capacity, tag));
            }
        }
        let Some(sent) = sent else {
            return Ok(());
        };
        for group in 0..self.groups.len() {
            self.look(group)?;
        }
        let missing = |group: &Group| group.buffers.iter().any(|b| !b.parts.is_empty());
        // Messages that came whole are handed out first, whichever is asked for.
        match self.came >= sent && self.groups.iter().all(missing) {
            true => Err(post::closed(OPERATION, self.rank)),
            false => Ok(()),
        }
    }

    /// Gives all buffers back to the caller: what MPI may still bring for them goes elsewhere.
    fn give_up(&mut self) {
        let start = now();
        for group in std::mem::take(&mut self.groups) {
            for buffer in group.buffers {
                match self.give_up_one(buffer, start) {
                    Ok(came) => self.came += u64::from(came),
                    Err(error) => tracing::warn!("{error}"),
                }
            }
        }
    }

    /// Whether the message came whole after all. The callers have checked the thread.
    fn give_up_one(&self, mut buffer: Buffer, start: Moment) -> Result<bool> {
        let mut open = Vec::new();
        let mut came = false;
        // The last part first: else its message could come to where an earlier one belongs.
        for (at, (part, length)) in buffer.parts.iter_mut().enumerate() {
            // SAFETY: this thread may call MPI, and parts in the list are not done.
            let ended = unsafe {
                self.post.calls.cancel(part, self.rank)?;
                self.post.wait(part, self.rank, start)?
            };
            match ended {
                Some(bytes) if is_cancelled(bytes) => open.push(*length),
                Some(_) => came |= at == 0,
                None => {
                    return Err(Error::internal(
                        "MPI does not end a receive into the memory of a closed connection",
                    ));
                }
            }
        }
        let parts = open.len();
        for (at, length) in open.into_iter().rev().enumerate() {
            let (tag, is_last) = (buffer.place, at + 1 == parts);
            let place = is_last.then_some(tag);
            self.post.sink(self.end, self.rank, tag, length, place)?;
        }
        Ok(came)
    }

    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let posted = self.groups.len();
        let result = self.post.drive().and_then(|()| {
            let note = Note::new(NoteKind::ReceiverClosed, self.peer, self.end);
            self.post.send(self.rank, &note)
        });
        if self.post.calls.may_call() {
            self.give_up();
        }
        self.post.remove_receiver(self.end, self.came);
        self.check()?;
        result?;
        match posted {
            0 => Ok(()),
            _ => Err(Error::usage(
                format!("a connection over MPI was closed with {posted} requests posted"),
                "test every request until it is done, then close",
            )
            .during("close")),
        }
    }
}

impl RecvComm for MpiReceiver {
    unsafe fn register(&mut self, _: *mut u8, _: usize) -> Result<Region> {
        self.check().map(|()| self.regions.open())
    }

    fn deregister(&mut self, region: Region) -> Result<()> {
        self.regions.close(region)
    }

    unsafe fn irecv(&mut self, buffers: &[Receive]) -> Result<Option<Request>> {
        self.check()?;
        self.post.calls.check_thread()?;
        let driven = self.post.drive();
        self.keep(driven)?;
        // A sender sends only to buffers that it has heard of: when it has said goodbye, each of
        // its messages has a buffer that was posted before, and nothing comes for one more. That
        // is no reason to lose what is still on its way to the others.
        if self.post.receiver(self.end, |state| state.sent.is_some()) {
            return Err(post::closed(OPERATION, self.rank));
        }
        let result = self.post(buffers);
        self.keep(result)
    }

    fn test(&mut self, request: &Request) -> Result<Option<Received>> {
        self.check()?;
        self.post.calls.check_thread()?;
        let result = self.ask(request);
        self.keep(result)
    }

    /// All memory is the process's own, which needs none.
    fn flush(&mut self, _: &[Receive]) -> Result<Option<Request>> {
        self.check().map(|()| None)
    }

    fn watch(&self, _: &mut Vec<libc::pollfd>) -> bool {
        false
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl Drop for MpiReceiver {
    fn drop(&mut self) {
        match self.end() {
            Err(error) if error.code == Code::RemoteError => {}
            Err(error) => tracing::debug!("{error}"),
            Ok(()) => {}
        }
    }
}
