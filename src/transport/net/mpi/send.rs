//! The sending end of a connection over MPI.

use super::super::regions::Regions;
use super::super::{Region, Request, SendComm};
use super::abi::MpiRequest;
use super::ends::{self, pieces};
use super::note::{Note, NoteKind};
use super::post::{self, CLOSING_LIMIT, Post};
use crate::base::clock::now;
use crate::base::{Code, Error, Result};
use std::ffi::c_int;
use std::sync::Arc;

/// The most messages in flight of one connection.
const MAX_SENDS: usize = 32;

const OPERATION: &str = "send over MPI";

/// A message on its way.
struct Flying {
    number: u64,
    bytes: usize,
    /// Requests that MPI has not done with.
    parts: Vec<MpiRequest>,
}

/// See the file's first line.
pub struct MpiSender {
    post: Arc<Post>,
    end: u64,
    peer: u64,
    rank: c_int,
    flying: Vec<Flying>,
    sent: u64,
    regions: Regions,
    failed: Option<Error>,
    closed: bool,
}

impl MpiSender {
    /// An end that rank `rank` has accepted as its `peer`.
    pub fn new(post: Arc<Post>, end: u64, peer: u64, rank: c_int) -> MpiSender {
        MpiSender {
            post,
            end,
            peer,
            rank,
            flying: Vec::with_capacity(MAX_SENDS),
            sent: 0,
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

    fn start(&mut self, data: *const u8, bytes: usize, tag: u32) -> Result<Option<Request>> {
        self.post.drive()?;
        self.check()?;
        if self.flying.len() >= MAX_SENDS {
            return Ok(None);
        }
        let (credit, closed) = self.post.sender(self.end, |state| {
            let at = state.credits.iter().position(|credit| credit.tag == tag);
            (at.and_then(|at| state.credits.remove(at)), state.closed)
        });
        if closed {
            return Err(post::closed(OPERATION, self.rank));
        }
        let Some(credit) = credit else {
            return Ok(None);
        };
        if bytes > credit.capacity {
            let note = Note {
                tag,
                number: credit.place as u64,
                bytes: bytes as u64,
                ..Note::new(NoteKind::TooLarge, self.peer, self.end)
            };
            self.post.send(self.rank, &note)?;
            let bytes = bytes as u64;
            return Err(post::too_large(
                OPERATION,
                self.rank,
                bytes,
                credit.capacity,
                tag,
            ));
        }
        let most = self.post.calls.info().most_bytes;
        let mut flying = Flying {
            number: self.sent,
            bytes,
            parts: Vec::with_capacity(1),
        };
        self.sent += 1;
        for (at, length) in pieces(bytes, credit.capacity, most) {
            // SAFETY: this thread may call MPI; the caller of `isend` keeps the data.
            let part = unsafe {
                let part = data.wrapping_add(at);
                self.post.calls.isend(part, length, self.rank, credit.place)
            }?;
            flying.parts.push(part);
        }
        let number = flying.number;
        self.flying.push(flying);
        Ok(Some(Request::new(number)))
    }

    fn ask(&mut self, request: &Request) -> Result<Option<usize>> {
        let mut all = self.flying.iter();
        let Some(at) = all.position(|f| f.number == request.number()) else {
            return Err(Error::argument(
                "a request was tested that is not in flight on this connection",
                "test a request until it is done, and on its own connection",
            ));
        };
        self.post.drive()?;
        self.check()?;
        let flying = &mut self.flying[at];
        while let Some(part) = flying.parts.last_mut() {
            // SAFETY: this thread may call MPI, and parts in the list are not done.
            match unsafe { self.post.calls.test(part, self.rank) }? {
                Some(_) => flying.parts.pop(),
                None => return Ok(None),
            };
        }
        Ok(Some(self.flying.remove(at).bytes))
    }

    /// Says goodbye. Messages in flight are waited for, bounded: MPI cannot give them up.
    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let result = self.post.drive().and_then(|()| {
            let note = Note {
                number: self.sent,
                ..Note::new(NoteKind::SenderClosed, self.peer, self.end)
            };
            self.post.send(self.rank, &note)
        });
        let in_flight = self.flying.len();
        let start = now();
        if result.is_ok() {
            for part in self.flying.iter_mut().flat_map(|f| &mut f.parts) {
                // SAFETY: this thread may call MPI, and parts in the list are not done.
                let ended = unsafe { self.post.wait(part, self.rank, start) };
                if !matches!(ended, Ok(Some(_))) {
                    let limit = CLOSING_LIMIT.as_secs();
                    tracing::warn!("MPI holds a message of a closed connection after {limit} s");
                }
            }
        }
        self.flying.clear();
        self.post.remove_sender(self.end);
        self.check()?;
        result?;
        match in_flight {
            0 => Ok(()),
            _ => Err(Error::usage(
                format!("a connection over MPI was closed with {in_flight} messages in flight"),
                "test every request until it is done, then close",
            )
            .during("close")),
        }
    }
}

impl SendComm for MpiSender {
    unsafe fn register(&mut self, _: *const u8, _: usize) -> Result<Region> {
        self.check().map(|()| self.regions.open())
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
        self.check()?;
        self.post.calls.check_thread()?;
        let result = self.start(data, bytes, tag);
        self.keep(result)
    }

    fn test(&mut self, request: &Request) -> Result<Option<usize>> {
        self.check()?;
        self.post.calls.check_thread()?;
        let result = self.ask(request);
        self.keep(result)
    }

    fn watch(&self, _: &mut Vec<libc::pollfd>) -> bool {
        false
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl Drop for MpiSender {
    fn drop(&mut self) {
        match self.end() {
            Err(error) if error.code == Code::RemoteError => {}
            Err(error) => tracing::debug!("{error}"),
            Ok(()) => {}
        }
    }
}
