//! The post office of a process: sends notes, and brings those that come to their ends.
//!
//! All connections of the network share it, because MPI's messages come from any rank for any
//! connection. Whoever drives a connection empties it for all. What it holds is bounded: at most
//! one credit for each buffer that a peer may post on a connection.

use super::abi::{CANCELLED, MpiRequest};
use super::calls::Calls;
use super::note::{NOTE_BYTES, NOTE_TAG, Note, NoteKind};
use crate::base::clock::{Moment, now};
use crate::base::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Notes that one call takes at most, so that a call is bounded.
const NOTES_A_CALL: usize = 64;
/// The longest that closing waits for what is on its way.
pub const CLOSING_LIMIT: Duration = Duration::from_secs(5);
/// The longest that the end of the network waits for other ranks to end it too.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);

/// A buffer that waits at the receiver.
#[derive(Clone, Copy)]
pub struct Credit {
    /// The caller's tag.
    pub tag: u32,
    /// Length of the buffer.
    pub capacity: usize,
    /// MPI's tag.
    pub place: c_int,
}

/// State of a sending end.
#[derive(Default)]
pub struct SendState {
    /// The receiver's end, once it has accepted.
    pub peer: Option<u64>,
    pub refused: bool,
    pub closed: bool,
    pub credits: VecDeque<Credit>,
}

/// State of a receiving end.
#[derive(Default)]
pub struct RecvState {
    /// How many messages the sender had sent when it closed.
    pub sent: Option<u64>,
    /// Messages that were refused: MPI's tag of the buffer, and their size.
    pub too_large: Vec<(c_int, u64)>,
    /// Messages that came whole, once the connection is closed.
    came: u64,
}

/// MPI's tags for data from one rank.
#[derive(Default)]
struct Places {
    used_to: c_int,
    free: Vec<c_int>,
}

/// A receive that its connection has given up: its message may still come.
struct Sink {
    /// MPI may write here.
    _data: Box<[u8]>,
    request: MpiRequest,
    rank: c_int,
    /// The receiving end that is closed.
    end: u64,
    /// The tag that is free afterwards, if this is the last part of the message.
    place: Option<c_int>,
    cancelled: bool,
}

#[derive(Clone, Copy, Default)]
struct Goodbyes {
    said: bool,
    heard: bool,
}

#[derive(Default)]
struct State {
    /// Connections that wait at each listener: rank and end.
    listeners: HashMap<u64, VecDeque<(c_int, u64)>>,
    senders: HashMap<u64, SendState>,
    receivers: HashMap<u64, RecvState>,
    places: HashMap<c_int, Places>,
    /// Notes that MPI has not done with.
    out: Vec<(Box<[u8; NOTE_BYTES]>, MpiRequest, c_int)>,
    sinks: Vec<Sink>,
    /// Ranks that notes went to or came from, and whether both have said goodbye.
    known: HashMap<c_int, Goodbyes>,
    next_end: u64,
}

/// See the file's first line.
pub struct Post {
    pub calls: Calls,
    state: Mutex<State>,
}

impl Post {
    /// Ends get numbers from `first_end` on.
    pub fn new(calls: Calls, first_end: u64) -> Post {
        let state = State {
            next_end: first_end,
            ..State::default()
        };
        Post {
            calls,
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the notes that have come. Every call of this network begins so: it is an error on a
    /// thread that may not call MPI.
    pub fn drive(&self) -> Result<()> {
        self.calls.check_thread()?;
        let mut state = self.lock();
        state.reap(&self.calls)?;
        state.take_notes(&self.calls)
    }

    /// Sends a note.
    pub fn send(&self, rank: c_int, note: &Note) -> Result<()> {
        self.calls.check_thread()?;
        self.lock().send(&self.calls, rank, note)
    }

    /// A new listener.
    pub fn listen(&self) -> u64 {
        let mut state = self.lock();
        let end = state.new_end();
        state.listeners.insert(end, VecDeque::new());
        end
    }

    /// The next connection that waits at a listener.
    pub fn next_of(&self, listener: u64) -> Option<(c_int, u64)> {
        self.lock().listeners.get_mut(&listener)?.pop_front()
    }

    /// Ends a listener; who waits there.
    pub fn unlisten(&self, listener: u64) -> VecDeque<(c_int, u64)> {
        self.lock().listeners.remove(&listener).unwrap_or_default()
    }

    /// A new sending end.
    pub fn add_sender(&self) -> u64 {
        let mut state = self.lock();
        let end = state.new_end();
        state.senders.insert(end, SendState::default());
        end
    }

    /// A new receiving end.
    pub fn add_receiver(&self) -> u64 {
        let mut state = self.lock();
        let end = state.new_end();
        state.receivers.insert(end, RecvState::default());
        end
    }

    /// Looks at a sending end.
    pub fn sender<T>(&self, end: u64, look: impl FnOnce(&mut SendState) -> T) -> T {
        look(self.lock().senders.entry(end).or_default())
    }

    /// Looks at a receiving end.
    pub fn receiver<T>(&self, end: u64, look: impl FnOnce(&mut RecvState) -> T) -> T {
        look(self.lock().receivers.entry(end).or_default())
    }

    /// Forgets a sending end.
    pub fn remove_sender(&self, end: u64) {
        self.lock().senders.remove(&end);
    }

    /// Forgets a receiving end to which so many messages came, once its sinks have ended.
    pub fn remove_receiver(&self, end: u64, came: u64) {
        let mut state = self.lock();
        state.receivers.entry(end).or_default().came = came;
        state.forget(end);
    }

    /// A tag of MPI for data from `rank` that no other receive uses; `None` when all are in use.
    pub fn take_place(&self, rank: c_int) -> Option<c_int> {
        let most = self.calls.info().most_tag;
        let mut state = self.lock();
        let places = state.places.entry(rank).or_default();
        if let Some(place) = places.free.pop() {
            return Some(place);
        }
        if places.used_to >= most {
            return None;
        }
        places.used_to += 1;
        debug_assert_ne!(places.used_to, NOTE_TAG);
        Some(places.used_to)
    }

    /// Gives a tag back whose receive is done.
    pub fn free_place(&self, rank: c_int, place: c_int) {
        let mut state = self.lock();
        state.places.entry(rank).or_default().free.push(place);
    }

    /// Takes over a receive of `bytes` bytes that the receiving end `end` gives up: its message,
    /// which may have been started, goes to memory of the post office's own, so that its sender
    /// can end. The last part of a message has the tag `place` to give back; the others have none.
    pub fn sink(
        &self,
        end: u64,
        rank: c_int,
        tag: c_int,
        bytes: usize,
        place: Option<c_int>,
    ) -> Result<()> {
        let mut data = vec![0; bytes].into_boxed_slice();
        // SAFETY: the buffer lives in the list as long as the request.
        let request = unsafe { self.calls.irecv(data.as_mut_ptr(), bytes, rank, tag) }?;
        self.lock().sinks.push(Sink {
            _data: data,
            request,
            rank,
            end,
            place,
            cancelled: false,
        });
        Ok(())
    }

    /// Waits until a request is done, for at most [`CLOSING_LIMIT`] since `start`; the bytes that
    /// a receive got.
    ///
    /// # Safety
    /// This thread may call MPI, and the request is not done.
    pub unsafe fn wait(
        &self,
        request: &mut MpiRequest,
        rank: c_int,
        start: Moment,
    ) -> Result<Option<usize>> {
        loop {
            // SAFETY: the caller's promise.
            if let Some(bytes) = unsafe { self.calls.test(request, rank) }? {
                return Ok(Some(bytes));
            }
            if start.past(CLOSING_LIMIT) {
                return Ok(None);
            }
            self.drive()?;
            std::thread::yield_now();
        }
    }
}

impl Drop for Post {
    /// Says goodbye to every rank that was spoken to and waits, bounded, for theirs: MPI must not
    /// free a communicator to which messages are on their way. Then frees it. Where that
    /// cannot be had, or this thread may not call MPI, it is left to MPI_Finalize.
    fn drop(&mut self) {
        if !self.calls.may_call() {
            return;
        }
        let start = now();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut ended = false;
        while !ended && !start.past(GOODBYE_LIMIT) {
            match state.say_goodbye(&self.calls) {
                Ok(all) => ended = all,
                Err(error) => {
                    tracing::warn!("{error}");
                    break;
                }
            }
            std::thread::yield_now();
        }
        if !ended {
            tracing::debug!("a private communicator is left to MPI_Finalize");
            // MPI may still read and write there.
            std::mem::forget(std::mem::take(state));
            return;
        }
        // SAFETY: this thread may call MPI, and every user of the network held this object.
        if let Err(error) = unsafe { self.calls.close() } {
            tracing::warn!("{error}");
        }
    }
}

impl State {
    fn new_end(&mut self) -> u64 {
        self.next_end = self.next_end.wrapping_add(1);
        self.next_end
    }

    fn send(&mut self, calls: &Calls, rank: c_int, note: &Note) -> Result<()> {
        self.known.entry(rank).or_default();
        let bytes = Box::new(note.encode());
        // SAFETY: checked by the callers; the note stays in the list until it is done.
        let request = unsafe { calls.isend(bytes.as_ptr(), NOTE_BYTES, rank, NOTE_TAG) }?;
        self.out.push((bytes, request, rank));
        Ok(())
    }

    /// Takes the notes that have come, and answers.
    fn take_notes(&mut self, calls: &Calls) -> Result<()> {
        for _ in 0..NOTES_A_CALL {
            let mut bytes = [0; NOTE_BYTES];
            // SAFETY: checked by the callers, whose lock keeps other threads out.
            let Some(rank) = (unsafe { calls.poll(&mut bytes, NOTE_TAG) })? else {
                break;
            };
            let note = Note::decode(&bytes)?;
            if note.kind == NoteKind::Goodbye {
                self.known.entry(rank).or_default().heard = true;
                continue;
            }
            self.known.entry(rank).or_default();
            if let Some(answer) = self.deliver(rank, &note) {
                self.send(calls, rank, &answer)?;
            }
        }
        Ok(())
    }

    /// Moves the end of the network on; whether nothing is on its way any more.
    fn say_goodbye(&mut self, calls: &Calls) -> Result<bool> {
        self.take_notes(calls)?;
        let ranks: Vec<c_int> = self.known.keys().copied().collect();
        for rank in ranks {
            let goodbyes = self.known.entry(rank).or_default();
            if !std::mem::replace(&mut goodbyes.said, true) {
                self.send(calls, rank, &Note::new(NoteKind::Goodbye, 0, 0))?;
            }
        }
        self.reap(calls)?;
        let quiet = self.out.is_empty() && self.sinks.is_empty();
        Ok(quiet && self.known.values().all(|g| g.said && g.heard))
    }

    /// Drops what MPI has done with.
    fn reap(&mut self, calls: &Calls) -> Result<()> {
        let mut at = 0;
        while at < self.out.len() {
            let (_, request, rank) = &mut self.out[at];
            // SAFETY: checked by the callers; requests in the list are not done.
            match unsafe { calls.test(request, *rank) }? {
                Some(_) => drop(self.out.swap_remove(at)),
                None => at += 1,
            }
        }
        self.reap_sinks(calls)
    }

    /// A sink ends when its message has come, or its sender has closed without sending it.
    fn reap_sinks(&mut self, calls: &Calls) -> Result<()> {
        let mut at = 0;
        while at < self.sinks.len() {
            let sink = &mut self.sinks[at];
            let receiver = self.receivers.entry(sink.end).or_default();
            if !sink.cancelled && receiver.sent.is_some_and(|sent| receiver.came >= sent) {
                // SAFETY: checked by the callers; requests in the list are not done.
                unsafe { calls.cancel(&mut sink.request, sink.rank) }?;
                sink.cancelled = true;
            }
            // SAFETY: as above.
            let Some(bytes) = (unsafe { calls.test(&mut sink.request, sink.rank) })? else {
                at += 1;
                continue;
            };
            let sink = self.sinks.swap_remove(at);
            if sink.place.is_some() && !is_cancelled(bytes) {
                receiver.came += 1;
                // This may be what another sink, which was looked at before, has waited for.
                at = 0;
            }
            let places = self.places.entry(sink.rank).or_default();
            places.free.extend(sink.place);
            self.forget(sink.end);
        }
        Ok(())
    }

    /// Forgets a closed receiving end, unless messages for it may still come.
    fn forget(&mut self, end: u64) {
        if self.sinks.iter().all(|sink| sink.end != end) {
            self.receivers.remove(&end);
        }
    }

    /// Brings a note to its end; what there is to answer.
    fn deliver(&mut self, rank: c_int, note: &Note) -> Option<Note> {
        let sender = self.senders.get_mut(&note.to);
        let receiver = self.receivers.get_mut(&note.to);
        match (note.kind, sender, receiver) {
            (NoteKind::Connect, _, _) => match self.listeners.get_mut(&note.to) {
                Some(waiting) => waiting.push_back((rank, note.from)),
                None => return Some(Note::new(NoteKind::Refuse, note.from, note.to)),
            },
            (NoteKind::Accept, Some(sender), _) => sender.peer = Some(note.from),
            // Whoever connected has given up meanwhile.
            (NoteKind::Accept, None, _) => {
                return Some(Note::new(NoteKind::SenderClosed, note.from, note.to));
            }
            (NoteKind::Refuse, Some(sender), _) => sender.refused = true,
            (NoteKind::Credit, Some(sender), _) => sender.credits.push_back(Credit {
                tag: note.tag,
                capacity: note.bytes as usize,
                place: note.number as c_int,
            }),
            (NoteKind::ReceiverClosed, Some(sender), _) => sender.closed = true,
            (NoteKind::SenderClosed, _, Some(receiver)) => receiver.sent = Some(note.number),
            (NoteKind::TooLarge, _, Some(receiver)) => {
                receiver.too_large.push((note.number as c_int, note.bytes));
            }
            // For an end that is closed: it has said so.
            _ => {}
        }
        None
    }
}

/// Whether a receive was given up before its message came.
pub fn is_cancelled(received: usize) -> bool {
    received == CANCELLED
}

/// The error for a peer that closed.
pub fn closed(operation: &'static str, rank: c_int) -> Error {
    let what = format!("rank {rank} of MPI closed the connection or failed");
    let remedy = "look for the first error of that rank";
    Error::new(crate::base::Code::RemoteError, what, remedy).during(operation)
}

/// The error for a message that its buffer cannot hold.
pub fn too_large(
    operation: &'static str,
    rank: c_int,
    bytes: u64,
    capacity: usize,
    tag: u32,
) -> Error {
    let what = format!(
        "a message of {bytes} bytes with tag {tag} was sent to a buffer of {capacity} bytes (MPI, \
         rank {rank} at the other end)"
    );
    Error::usage(what, "make the counts of both ranks agree").during(operation)
}
