//! Connections that a lookout hears over, before and after it knows whose they are.

use super::message::{MOST_BYTES, Message, News, token};
use crate::base::{Error, Result};
use crate::transport::net::{Listener, Receive, RecvComm, Request};
use std::collections::VecDeque;

/// Buffers that are posted at once.
const POSTED: usize = 8;

/// A connection that is heard over. (The fields are dropped in order: the buffers go when nothing
/// can be received into them any more.)
pub(super) struct Ear {
    comm: Box<dyn RecvComm>,
    posted: VecDeque<(Request, Box<[u8]>)>,
    /// Why no buffer is posted any more: what was posted before may still be filled.
    closed: Option<Error>,
}

impl Ear {
    fn new(comm: Box<dyn RecvComm>) -> Result<Ear> {
        let mut ear = Ear {
            comm,
            posted: VecDeque::new(),
            closed: None,
        };
        for _ in 0..POSTED {
            ear.post(vec![0; MOST_BYTES].into())?;
        }
        Ok(ear)
    }

    fn post(&mut self, mut buffer: Box<[u8]>) -> Result<()> {
        let data = buffer.as_mut_ptr();
        // SAFETY: the boxed bytes do not move, and nobody touches them before the request is done
        // or the connection is closed, which is before they are dropped.
        let request = unsafe {
            let region = self.comm.register(data, MOST_BYTES)?;
            self.comm.irecv(&[Receive {
                data,
                capacity: MOST_BYTES,
                tag: 0,
                region,
            }])?
        };
        if let Some(request) = request {
            self.posted.push_back((request, buffer));
        }
        Ok(())
    }

    /// The next message, if it is here. Nothing that has come is lost by an error: it is the last
    /// word.
    pub fn next(&mut self) -> Result<Option<Message>> {
        let Some((request, _)) = self.posted.front() else {
            return self.closed.clone().map_or(Ok(None), Err);
        };
        let Some(received) = self.comm.test(request)? else {
            return Ok(None);
        };
        let Some((_, buffer)) = self.posted.pop_front() else {
            return Ok(None);
        };
        let length = received.bytes().first().copied().unwrap_or(0);
        let message = Message::decode(&buffer[..length]);
        if self.closed.is_none() {
            self.closed = self.post(buffer).err();
        }
        let garbled = || Error::internal("a lookout said something that cannot be understood");
        message.ok_or_else(garbled).map(Some)
    }

    /// Adds what to sleep on until there may be a message.
    pub fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        self.comm.watch(set)
    }

    /// Tells the neighbour's node without delay what has arrived.
    pub fn acknowledge(&mut self) {
        self.comm.acknowledge();
    }
}

/// Those who have connected and not said who they are. The listener lets in only whom its handle
/// was given to, and they may take as long as they like: one whose node is busy does not learn that
/// it was turned away, because it hears nothing over the connection, and would never come again.
pub(super) struct Newcomers {
    listener: Option<Box<dyn Listener>>,
    pub ears: Vec<Ear>,
}

impl Newcomers {
    pub fn new(listener: Box<dyn Listener>) -> Newcomers {
        Newcomers {
            listener: Some(listener),
            ears: Vec::new(),
        }
    }

    /// Accepts, and returns who has said that it belongs to the communicator.
    pub fn look(&mut self, nonce: u128) -> Vec<(u32, Ear)> {
        // A listener that fails lets nobody in any more; those who are in are not harmed.
        while let Some(Ok(Some(comm))) = self.listener.as_mut().map(|door| door.accept()) {
            if let Ok(ear) = Ear::new(comm) {
                self.ears.push(ear);
            }
        }
        let mut known = Vec::new();
        let mut index = 0;
        while index < self.ears.len() {
            match self.ears[index].next() {
                Ok(None) => index += 1,
                Ok(Some(message)) => {
                    let ear = self.ears.swap_remove(index);
                    if message.news == News::Hello(token(nonce, message.origin)) {
                        known.push((message.origin, ear));
                    }
                }
                Err(_) => drop(self.ears.swap_remove(index)),
            }
        }
        known
    }

    pub fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        let listens = self.listener.as_ref().is_none_or(|door| door.watch(set));
        self.ears
            .iter()
            .fold(listens, |all, ear| ear.watch(set) && all)
    }

    /// Leaves nobody here, and nobody who listens.
    pub fn take(&mut self) -> Newcomers {
        Newcomers {
            listener: self.listener.take(),
            ears: std::mem::take(&mut self.ears),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::net::{Received, Region};

    /// A connection on which two messages came before the other side closed: no buffer can be
    /// posted any more, and what came lies in those that were.
    struct Closing {
        posted: Vec<*mut u8>,
        came: VecDeque<Vec<u8>>,
    }

    // SAFETY: the buffers belong to the ear that is on the same thread.
    unsafe impl Send for Closing {}

    fn closed() -> Error {
        Error::internal("the peer has closed")
    }

    impl RecvComm for Closing {
        unsafe fn register(&mut self, _: *mut u8, _: usize) -> Result<Region> {
            Ok(Region(0))
        }

        fn deregister(&mut self, _: Region) -> Result<()> {
            Ok(())
        }

        unsafe fn irecv(&mut self, buffers: &[Receive]) -> Result<Option<Request>> {
            if self.posted.len() == POSTED {
                return Err(closed());
            }
            self.posted.push(buffers[0].data);
            Ok(Some(Request::new(self.posted.len() as u64 - 1)))
        }

        fn test(&mut self, request: &Request) -> Result<Option<Received>> {
            let message = self.came.pop_front().ok_or_else(closed)?;
            let place = self.posted[request.number() as usize];
            // SAFETY: the ear keeps what it has posted.
            unsafe { place.copy_from_nonoverlapping(message.as_ptr(), message.len()) };
            Ok(Some(Received::new(&[message.len()])))
        }

        fn flush(&mut self, _: &[Receive]) -> Result<Option<Request>> {
            Ok(None)
        }

        fn watch(&self, _: &mut Vec<libc::pollfd>) -> bool {
            true
        }

        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_has_come_is_heard_though_no_buffer_can_be_posted() {
        let said = [News::Ask, News::Bye].map(|news| Message {
            origin: 3,
            number: 9,
            news,
        });
        let comm = Closing {
            posted: Vec::new(),
            came: said.iter().map(Message::encode).collect(),
        };
        let mut ear = Ear::new(Box::new(comm)).unwrap();
        for message in said {
            assert_eq!(ear.next(), Ok(Some(message)));
        }
        assert_eq!(ear.next(), Err(closed()));
    }
}
