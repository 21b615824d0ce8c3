//! Captures: streams whose tasks become nodes of a graph instead of running.
//!
//! A capture begins on one stream. An event that was recorded there takes other streams into it,
//! and they must be led back before it ends. A call that cannot be captured makes the capture
//! invalid; it lives on until it is ended, and gives no graph.

use crate::error::{Answer, Code};
use crate::event::CapturedPlace;
use crate::stream::{Manner, Streams};
use crate::table::Table;
use crate::task::{Task, TaskGraph};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::thread::ThreadId;

/// Which calls are forbidden meanwhile, and to whom: `CUstreamCaptureMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Mode {
    /// To all threads.
    Global = 0,
    /// To the thread that captures.
    ThreadLocal = 1,
    /// To nobody.
    Relaxed = 2,
}

impl Mode {
    /// # Errors
    /// There is no such mode.
    pub fn new(number: i32) -> Answer<Mode> {
        match number {
            0 => Ok(Mode::Global),
            1 => Ok(Mode::ThreadLocal),
            2 => Ok(Mode::Relaxed),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

thread_local! {
    static MINE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Changes how this thread takes captures of others; gives what was before.
pub fn exchange_mode(mode: Mode) -> Mode {
    MINE.replace(mode)
}

/// One that goes on.
pub struct Capture {
    pub origin: u64,
    mode: Mode,
    thread: ThreadId,
    pub graph: u64,
    pub is_invalid: bool,
}

/// A stream in a capture: its next node waits for these.
#[derive(Default)]
pub struct End {
    pub capture: u64,
    pub after: Vec<usize>,
    /// Their handles, as a caller was told them last.
    pub told: Vec<u64>,
}

/// All captures.
#[derive(Default)]
pub struct Captures {
    all: BTreeMap<u64, Capture>,
    streams: BTreeMap<u64, End>,
    last: u64,
}

impl Captures {
    /// The capture that a stream is in.
    pub fn of(&self, stream: u64) -> Option<(&Capture, &End)> {
        let end = self.streams.get(&stream)?;
        Some((self.all.get(&end.capture)?, end))
    }

    pub fn end_mut(&mut self, stream: u64) -> Option<&mut End> {
        self.streams.get_mut(&stream)
    }

    pub fn invalidate(&mut self, capture: u64) {
        if let Some(capture) = self.all.get_mut(&capture) {
            capture.is_invalid = true;
        }
    }

    /// A stream that is gone can be led back by nobody.
    pub fn drop_stream(&mut self, stream: u64) {
        if let Some(end) = self.streams.remove(&stream) {
            self.invalidate(end.capture);
        }
    }

    /// Captures that forbid this thread calls that may synchronise.
    fn forbidding(&self) -> Vec<u64> {
        let (me, mine) = (std::thread::current().id(), MINE.get());
        let forbids = |capture: &Capture| match (mine, capture.thread == me) {
            (Mode::Relaxed, _) | (Mode::ThreadLocal, false) => false,
            (_, true) => capture.mode != Mode::Relaxed,
            (Mode::Global, false) => capture.mode == Mode::Global,
        };
        let those = self.all.iter().filter(|(_, capture)| forbids(capture));
        those.map(|(id, _)| *id).collect()
    }

    /// # Errors
    /// A capture forbids this thread calls that may synchronise; it is invalid now.
    pub fn forbid(&mut self) -> Answer {
        let forbidding = self.forbidding();
        for capture in &forbidding {
            self.invalidate(*capture);
        }
        match forbidding.is_empty() {
            true => Ok(()),
            false => Err(Code::STREAM_CAPTURE_UNSUPPORTED),
        }
    }

    /// # Errors
    /// The stream is in a capture, where this call cannot be; the capture is invalid now.
    pub fn forbid_of(&mut self, stream: u64) -> Answer {
        match self.of(stream).map(|(_, end)| end.capture) {
            None => Ok(()),
            Some(capture) => {
                self.invalidate(capture);
                Err(Code::STREAM_CAPTURE_UNSUPPORTED)
            }
        }
    }

    /// # Errors
    /// A task on this default stream would wait for a blocking stream that is in a capture, which
    /// is invalid now.
    pub fn forbid_implicit(&mut self, streams: &Streams, stream: u64) -> Answer {
        let asked = streams.get(stream)?;
        if asked.manner != Manner::Legacy {
            return Ok(());
        }
        let (context, mut hit) = (asked.context, None);
        for (handle, end) in &self.streams {
            let is_hit = streams
                .get(*handle)
                .is_ok_and(|other| other.context == context && other.manner != Manner::NonBlocking);
            hit = is_hit.then_some(end.capture).or(hit);
        }
        match hit {
            None => Ok(()),
            Some(capture) => {
                self.invalidate(capture);
                Err(Code::STREAM_CAPTURE_IMPLICIT)
            }
        }
    }

    /// Begins a capture.
    ///
    /// # Errors
    /// The stream is in one, or is the default one.
    pub fn begin(
        &mut self,
        streams: &Streams,
        graphs: &mut Table<TaskGraph>,
        stream: u64,
        mode: Mode,
    ) -> Answer {
        if streams.get(stream)?.manner == Manner::Legacy {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.of(stream).is_some() {
            return Err(Code::INVALID_VALUE);
        }
        let graph = graphs.add(TaskGraph {
            is_open: true,
            ..TaskGraph::default()
        });
        self.last += 1;
        let id = self.last;
        let capture = Capture {
            origin: stream,
            mode,
            thread: std::thread::current().id(),
            graph,
            is_invalid: false,
        };
        self.all.insert(id, capture);
        let end = End {
            capture: id,
            ..End::default()
        };
        self.streams.insert(stream, end);
        Ok(())
    }

    /// Ends a capture: its graph.
    ///
    /// # Errors
    /// It did not begin on this stream or in this thread, or gives no graph.
    pub fn end(&mut self, graphs: &mut Table<TaskGraph>, stream: u64) -> Answer<u64> {
        let (capture, end) = self.of(stream).ok_or(Code::INVALID_VALUE)?;
        let id = end.capture;
        if capture.origin != stream {
            self.invalidate(id);
            return Err(Code::STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != Mode::Relaxed && capture.thread != std::thread::current().id() {
            return Err(Code::STREAM_CAPTURE_WRONG_THREAD);
        }
        let (handle, is_invalid) = (capture.graph, capture.is_invalid);
        let graph = graphs.get(handle)?;
        let ends = self.streams.values().filter(|other| other.capture == id);
        let is_joined = |node: &usize| graph.is_before(*node, &end.after);
        let are_joined = ends.flat_map(|other| &other.after).all(is_joined);
        self.streams.retain(|_, other| other.capture != id);
        self.all.remove(&id);
        let wrong = match (is_invalid, are_joined) {
            (true, _) => Some(Code::STREAM_CAPTURE_INVALIDATED),
            (_, false) => Some(Code::STREAM_CAPTURE_UNJOINED),
            _ => None,
        };
        match wrong {
            None => {
                graphs.get_mut(handle)?.is_open = false;
                Ok(handle)
            }
            Some(code) => {
                graphs.remove(handle)?;
                Err(code)
            }
        }
    }

    /// Makes a task a node, if the stream is in a capture; else gives it back.
    ///
    /// # Errors
    /// The capture is invalid.
    pub fn take(
        &mut self,
        graphs: &mut Table<TaskGraph>,
        stream: u64,
        task: Task,
    ) -> Answer<Option<Task>> {
        let Some((capture, end)) = self.of(stream) else {
            return Ok(Some(task));
        };
        if capture.is_invalid {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        let (graph, after) = (capture.graph, end.after.clone());
        let node = graphs.get_mut(graph)?.add(task, after);
        if let Some(end) = self.end_mut(stream) {
            end.after = vec![node];
        }
        Ok(None)
    }

    /// Where a stream of a capture stands, for an event that is recorded there.
    ///
    /// # Errors
    /// The capture is invalid.
    pub fn place(&self, stream: u64) -> Answer<Option<CapturedPlace>> {
        match self.of(stream) {
            None => Ok(None),
            Some((capture, _)) if capture.is_invalid => Err(Code::STREAM_CAPTURE_INVALIDATED),
            Some((_, end)) => Ok(Some(CapturedPlace {
                capture: end.capture,
                after: end.after.clone(),
            })),
        }
    }

    /// A stream waits for an event that was recorded in a capture: it is in the capture, too, from
    /// then on.
    ///
    /// # Errors
    /// The capture has ended or is invalid, or the stream is in another one.
    pub fn join(&mut self, streams: &Streams, stream: u64, place: CapturedPlace) -> Answer {
        let CapturedPlace { capture: id, after } = place;
        let capture = self.all.get(&id).ok_or(Code::CAPTURED_EVENT)?;
        if capture.is_invalid {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        if streams.get(stream)?.manner == Manner::Legacy {
            self.invalidate(id);
            return Err(Code::STREAM_CAPTURE_IMPLICIT);
        }
        let new = || End {
            capture: id,
            ..End::default()
        };
        let end = self.streams.entry(stream).or_insert_with(new);
        let other = end.capture;
        if other != id {
            self.invalidate(id);
            self.invalidate(other);
            return Err(Code::STREAM_CAPTURE_MERGE);
        }
        for node in after {
            if !end.after.contains(&node) {
                end.after.push(node);
            }
        }
        Ok(())
    }

    /// A stream of a capture waits for an event that was recorded outside of it.
    ///
    /// # Errors
    /// The stream is in a capture, which is invalid now.
    pub fn forbid_outside_event(&mut self, stream: u64) -> Answer {
        let refused = self.forbid_of(stream);
        refused.map_err(|_| Code::STREAM_CAPTURE_ISOLATION)
    }
}
