//! Streams: queues of tasks, and what each task waits for.
//!
//! A task begins when those before it on its stream have ended, and when every *point* has been
//! passed that it waits for: a place in another stream. Events are points, and so are the rules of
//! the legacy default stream, which are made when a task is submitted.

use crate::error::{Answer, Code};
use crate::event::Point;
use crate::table::new_handle;
use crate::task::Task;
use std::collections::{BTreeMap, VecDeque};
use std::thread::ThreadId;

/// Which rules a stream follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// The default stream of a context: waits for its blocking streams, and they for it.
    Legacy,
    /// The default stream of a thread; it is a blocking one.
    PerThread,
    Blocking,
    NonBlocking,
}

/// A task, and what it waits for.
pub struct Item {
    pub ticket: u64,
    pub after: Vec<Point>,
    pub task: Task,
}

/// A queue of tasks.
pub struct Stream {
    pub context: u64,
    pub device: u32,
    pub manner: Manner,
    pub priority: i32,
    pub id: u64,
    issued: u64,
    ended: u64,
    queue: VecDeque<Item>,
    is_destroyed: bool,
}

impl Stream {
    fn is_idle(&self) -> bool {
        self.ended == self.issued
    }
}

/// All streams, by their handles. Default streams have handles, too, which no caller gets.
#[derive(Default)]
pub struct Streams {
    all: BTreeMap<u64, Stream>,
    /// The default stream of each context.
    legacy: BTreeMap<u64, u64>,
    per_thread: BTreeMap<(u64, u64), u64>,
    threads: Vec<ThreadId>,
    next_id: u64,
}

/// Handles that callers write for the default streams.
pub const NULL: u64 = 0;
pub const LEGACY: u64 = 1;
pub const PER_THREAD: u64 = 2;

impl Streams {
    pub fn create(&mut self, context: (u64, u32), manner: Manner, priority: i32) -> u64 {
        let handle = new_handle();
        self.next_id += 1;
        let stream = Stream {
            context: context.0,
            device: context.1,
            manner,
            priority,
            id: self.next_id,
            issued: 0,
            ended: 0,
            queue: VecDeque::new(),
            is_destroyed: false,
        };
        self.all.insert(handle, stream);
        handle
    }

    /// The handle of a stream: of a default one where the caller wrote 0, 1 or 2.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn resolve(&mut self, handle: u64, context: Answer<(u64, u32)>) -> Answer<u64> {
        match handle {
            NULL | LEGACY => {
                let context = context?;
                if let Some(known) = self.legacy.get(&context.0) {
                    return Ok(*known);
                }
                let made = self.create(context, Manner::Legacy, 0);
                self.legacy.insert(context.0, made);
                Ok(made)
            }
            PER_THREAD => {
                let context = context?;
                let key = (context.0, self.thread());
                if let Some(known) = self.per_thread.get(&key) {
                    return Ok(*known);
                }
                let made = self.create(context, Manner::PerThread, 0);
                self.per_thread.insert(key, made);
                Ok(made)
            }
            handle => {
                let known = self.all.get(&handle).filter(|stream| !stream.is_destroyed);
                known.map(|_| handle).ok_or(Code::INVALID_HANDLE)
            }
        }
    }

    /// The number of this thread.
    fn thread(&mut self) -> u64 {
        let mine = std::thread::current().id();
        let known = self.threads.iter().position(|thread| *thread == mine);
        known.unwrap_or_else(|| {
            self.threads.push(mine);
            self.threads.len() - 1
        }) as u64
    }

    /// # Errors
    /// There is no such stream.
    pub fn get(&self, handle: u64) -> Answer<&Stream> {
        self.all.get(&handle).ok_or(Code::INVALID_HANDLE)
    }

    /// The stream goes when its work has ended.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn destroy(&mut self, handle: u64) -> Answer {
        let stream = self.all.get_mut(&handle).ok_or(Code::INVALID_HANDLE)?;
        stream.is_destroyed = true;
        if stream.is_idle() {
            self.all.remove(&handle);
        }
        Ok(())
    }

    /// Puts a task at the end of a stream.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn submit(&mut self, handle: u64, mut after: Vec<Point>, task: Task) -> Answer<Point> {
        let stream = self.get(handle)?;
        let (context, manner) = (stream.context, stream.manner);
        match manner {
            Manner::Legacy => {
                let is_one = |other: &Stream| {
                    matches!(other.manner, Manner::Blocking | Manner::PerThread)
                        && other.context == context
                };
                after.extend(self.ends(is_one));
            }
            Manner::Blocking | Manner::PerThread => {
                let legacy = self.legacy.get(&context);
                after.extend(legacy.and_then(|handle| self.end(*handle)));
            }
            Manner::NonBlocking => {}
        }
        let stream = self.all.get_mut(&handle).ok_or(Code::INVALID_HANDLE)?;
        stream.issued += 1;
        let ticket = stream.issued;
        stream.queue.push_back(Item {
            ticket,
            after,
            task,
        });
        Ok(Point {
            stream: handle,
            ticket,
        })
    }

    /// The end of all work of a stream; none if nothing is left.
    pub fn end(&self, handle: u64) -> Option<Point> {
        let stream = self.all.get(&handle).filter(|stream| !stream.is_idle())?;
        Some(Point {
            stream: handle,
            ticket: stream.issued,
        })
    }

    fn ends(&self, is_one: impl Fn(&Stream) -> bool) -> Vec<Point> {
        let of = self.all.iter().filter(|(_, stream)| is_one(stream));
        of.filter_map(|(handle, _)| self.end(*handle)).collect()
    }

    /// The end of everything that was issued to a device.
    pub fn ends_of_device(&self, device: u32) -> Vec<Point> {
        self.ends(|stream| stream.device == device)
    }

    /// The end of everything that was issued in a context.
    pub fn ends_of_context(&self, context: u64) -> Vec<Point> {
        self.ends(|stream| stream.context == context)
    }

    /// Whether a point has been passed.
    pub fn is_past(&self, point: Point) -> bool {
        let stream = self.all.get(&point.stream);
        stream.is_none_or(|stream| stream.ended >= point.ticket)
    }

    /// All streams of a context.
    pub fn of_context(&self, context: u64) -> Vec<u64> {
        let of = self
            .all
            .iter()
            .filter(|(_, stream)| stream.context == context);
        of.map(|(handle, _)| *handle).collect()
    }

    /// Streams with work that has not ended.
    pub fn handles(&self) -> Vec<u64> {
        let busy = self.all.iter().filter(|(_, stream)| !stream.is_idle());
        busy.map(|(handle, _)| *handle).collect()
    }

    /// The next task of a stream, if it can begin or has begun.
    pub fn take(&mut self, handle: u64) -> Option<Item> {
        let stream = self.all.get(&handle)?;
        let next = stream.queue.front()?;
        if !next.after.iter().all(|point| self.is_past(*point)) {
            return None;
        }
        self.all.get_mut(&handle)?.queue.pop_front()
    }

    /// Puts a task back that has not ended.
    pub fn put_back(&mut self, handle: u64, item: Item) {
        if let Some(stream) = self.all.get_mut(&handle) {
            stream.queue.push_front(item);
        }
    }

    /// A task of a stream has ended.
    pub fn has_ended(&mut self, handle: u64, ticket: u64) {
        if let Some(stream) = self.all.get_mut(&handle) {
            stream.ended = ticket;
            if stream.is_destroyed && stream.is_idle() {
                self.all.remove(&handle);
            }
        }
    }

    pub fn drop_context(&mut self, context: u64) {
        self.all.retain(|_, stream| stream.context != context);
        self.legacy.remove(&context);
        self.per_thread.retain(|key, _| key.0 != context);
    }
}
