//! A connection as the table's users see it: one end, its requests, and what is registered on it.

use crate::fabric::{Fabric, MESSAGES, RING, Receiving};
use kolo::base::{Error, Result};
use std::ffi::c_void;
use std::ptr::null_mut;

/// A connection as the table's users see it.
pub struct Connection<F: Fabric> {
    // Dropped in this order: what is under way ends before the memory that it may still use.
    /// The end itself.
    pub end: End<F>,
    /// Places that requests point to.
    pub requests: Vec<Request<F>>,
    /// Memory registered for it. Whatever is left is given back when the connection is closed.
    pub memory: Vec<Box<F::Memory>>,
}

/// The end of a connection.
pub enum End<F: Fabric> {
    /// Of `connect`.
    Send(Box<F::Sender>),
    /// Of `accept`.
    Receive(Box<F::Receiver>),
}

/// A request as the table's users see it: it stays where it is as long as the connection.
pub struct Request<F: Fabric> {
    /// Connection that it is of.
    pub connection: *mut Connection<F>,
    /// Kind of request.
    pub kind: Kind,
    /// Its number among those of its kind.
    pub number: usize,
}

/// Kinds of requests.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A message that is sent.
    Message,
    /// Buffers that are received into.
    Receive,
    /// A flush of a device's memory.
    Flush,
}

impl<F: Fabric> Connection<F> {
    /// Opens a connection, for the table's users to close.
    pub fn open(end: End<F>) -> *mut c_void {
        let kinds: Vec<(Kind, usize)> = match &end {
            End::Send(_) => (0..MESSAGES)
                .map(|number| (Kind::Message, number))
                .collect(),
            End::Receive(_) => {
                let flushes = (0..F::Receiver::FLUSHES).map(|number| (Kind::Flush, number));
                (0..RING)
                    .map(|number| (Kind::Receive, number))
                    .chain(flushes)
                    .collect()
            }
        };
        let connection = Box::into_raw(Box::new(Connection {
            end,
            requests: Vec::new(),
            memory: Vec::new(),
        }));
        let request = |(kind, number)| Request {
            connection,
            kind,
            number,
        };
        let requests = kinds.into_iter().map(request).collect();
        // SAFETY: the box was made above, and nobody else knows it yet.
        unsafe { (*connection).requests = requests };
        connection.cast()
    }

    /// Keeps a registration, and gives its pointer for the table's users.
    pub fn keep(&mut self, memory: F::Memory) -> *mut c_void {
        let mut memory = Box::new(memory);
        let place = (&raw mut *memory).cast();
        self.memory.push(memory);
        place
    }

    /// Gives a registration back.
    pub fn forget(&mut self, memory: *mut c_void) -> Result<()> {
        let mut kept = self.memory.iter().map(|kept| (&raw const **kept).cast());
        let Some(index) = kept.position(|kept| std::ptr::eq(kept, memory)) else {
            return Err(Error::argument(
                "this is no registration of this connection",
                "deregister what was registered on the same connection, once",
            ));
        };
        drop(self.memory.swap_remove(index));
        Ok(())
    }

    /// The sending end.
    pub fn sender(&mut self) -> Result<&mut F::Sender> {
        match &mut self.end {
            End::Send(sender) => Ok(sender),
            End::Receive(_) => Err(wrong_end("sends")),
        }
    }

    /// The receiving end.
    pub fn receiver(&mut self) -> Result<&mut F::Receiver> {
        match &mut self.end {
            End::Receive(receiver) => Ok(receiver),
            End::Send(_) => Err(wrong_end("receives")),
        }
    }

    /// The pointer of a request; null: not yet.
    pub fn request(&self, index: Option<usize>) -> *mut c_void {
        index.map_or(null_mut(), |index| {
            (&raw const self.requests[index]).cast_mut().cast()
        })
    }
}

fn wrong_end(does: &str) -> Error {
    Error::argument(
        format!("this end of the connection is not the one that {does}"),
        "send on what connect gave, and receive on what accept gave",
    )
}
