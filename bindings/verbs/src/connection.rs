//! A connection as the table's users see it: one end, its requests, and what is registered on it.

use crate::device::Device;
use crate::ends::Ends;
use crate::flush::FLUSHES;
use crate::memory::Registered;
use crate::recv::Receiver;
use crate::send::{MESSAGES, Sender};
use crate::slot::RING;
use kolo::base::{Error, Result};
use std::ffi::c_void;
use std::ptr::null_mut;

/// A connection as the table's users see it.
pub struct Connection {
    pub end: End,
    pub requests: Vec<Request>,
    /// Memory registered for it. Whatever is left is given back when the connection is closed.
    pub memory: Vec<*mut Registered>,
}

pub enum End {
    Send(Box<Sender>),
    Receive(Box<Receiver>),
}

/// A request as the table's users see it: it stays where it is as long as the connection.
#[derive(Clone, Copy)]
pub struct Request {
    pub connection: *mut Connection,
    pub kind: Kind,
    pub number: usize,
}

#[derive(Clone, Copy)]
pub enum Kind {
    Message,
    Receive,
    Flush,
}

impl Connection {
    pub fn open(end: End) -> *mut c_void {
        let kinds: Vec<(Kind, usize)> = match &end {
            End::Send(_) => (0..MESSAGES)
                .map(|number| (Kind::Message, number))
                .collect(),
            End::Receive(_) => {
                let flushes = (0..FLUSHES).map(|number| (Kind::Flush, number));
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

    pub fn ends(&self) -> &Ends {
        match &self.end {
            End::Send(sender) => &sender.ends,
            End::Receive(receiver) => &receiver.ends,
        }
    }

    pub fn device(&self) -> &Device {
        &self.ends().port().device
    }

    /// Keeps a registration, and gives its pointer for the table's users.
    pub fn keep(&mut self, memory: Registered) -> *mut c_void {
        let memory = Box::into_raw(Box::new(memory));
        self.memory.push(memory);
        memory.cast()
    }

    pub fn sender(&mut self) -> Result<&mut Sender> {
        match &mut self.end {
            End::Send(sender) => Ok(sender),
            End::Receive(_) => Err(wrong_end("sends")),
        }
    }

    pub fn receiver(&mut self) -> Result<&mut Receiver> {
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
