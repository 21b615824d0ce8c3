//! The site's own MPI as a network between nodes.
//!
//! **Problem.** Every machine has an MPI that drives its fabric, whatever that is; not every fabric
//! has a plugin, and kolo is linked to no MPI.
//!
//! **Idea.** Point-to-point MPI comes in as a table of functions (`abi`, `calls`) over a private
//! duplicate of the program's communicator. Data go from the caller's memory to the caller's
//! memory: the receiver posts `MPI_Irecv` under a tag of MPI that nobody else uses, tells tag and
//! size to the sender in a *credit*, and only then the sender starts `MPI_Isend`. So nothing is
//! stored, messages of different tags may overtake each other, and MPI's limit on tags limits only
//! how many buffers are posted at once (32,767 of each rank at least). Credits, connecting and
//! closing are notes of 44 bytes under one tag (`note`), which whoever drives any connection takes
//! for all of them (`post`). Messages beyond what MPI takes at once go in parts.
//!
//! **Threads.** Below MPI_THREAD_MULTIPLE [`Net::any_thread`] is false: only threads of the program
//! that are inside a kolo call may use it, below MPI_THREAD_SERIALIZED only the main one. A call
//! on another thread is an error and does nothing. An end that is dropped there is left to MPI.
//!
//! **What stays as MPI does it.** Nothing can be slept on. MPI cannot take back a message that was
//! started: after an error its memory has to stay until the connection is closed, which waits for
//! it, at most 5 s. A peer that dies is noticed when MPI notices it.

pub mod abi;
mod calls;
mod ends;
mod note;
mod post;
mod recv;
mod send;

use super::{
    Connecting, Handle, Listener, MAX_RECEIVES, MemoryKinds, Net, Properties, RecvComm, SendComm,
};
use crate::base::{Code, Error, Result};
use abi::MpiNetTable;
use calls::Calls;
use note::{Note, NoteKind};
use post::Post;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Thread level of MPI_THREAD_MULTIPLE.
const MULTIPLE: c_int = 3;
/// First bytes of a handle.
const MAGIC: &[u8; 8] = b"KOLOmpi\x01";
/// Bytes of a handle: mark, rank, listener.
const HANDLE: usize = 20;
/// MPI does not tell the speed of its network, in Mbit/s.
const USUAL_SPEED: u32 = 100_000;
/// Nor the time of a small message one way, in nanoseconds.
const USUAL_LATENCY: u32 = 5_000;
/// A bound that only says "enough": memory runs out first.
const MANY_CONNECTIONS: u32 = 65_536;

/// The network of the program's MPI.
pub struct MpiNet {
    post: Arc<Post>,
    device: [Properties; 1],
}

impl MpiNet {
    /// Duplicates the communicator behind `context`. Every rank of it must call, at the same point
    /// of the program. The duplicate is freed when the network and all its connections are dropped,
    /// which every rank must do as well.
    ///
    /// Errors: `InvalidArgument` for a table that is none; `InvalidUsage` where this thread may not
    /// call MPI; `RemoteError` when MPI fails.
    ///
    /// # Safety
    /// `table` is null or points to as many readable bytes as its first member says; its functions
    /// have the declared types, stay as long as the program, and work with `context`.
    pub unsafe fn new(table: *const MpiNetTable, context: *mut c_void) -> Result<MpiNet> {
        // SAFETY: the caller's promise.
        let calls = unsafe { Calls::open(table, context) }?;
        calls.check_thread()?;
        let mut first = [0; 8];
        getrandom::fill(&mut first).map_err(|error| {
            let error = std::io::Error::other(error.to_string());
            Error::system(
                "the system gave no random bytes, with which KOLO_NET=mpi tells its messages apart",
                &error,
                "see whether /dev/urandom can be read on this node: a container may lack it",
            )
        })?;
        Ok(MpiNet {
            post: Arc::new(Post::new(calls, u64::from_ne_bytes(first))),
            device: [Properties {
                name: "mpi".into(),
                address: None,
                pci_path: None,
                speed_mbits: USUAL_SPEED,
                port: 1,
                max_connections: MANY_CONNECTIONS,
                max_receives: MAX_RECEIVES as u32,
                latency_ns: USUAL_LATENCY,
                memory: MemoryKinds {
                    host: true,
                    ..MemoryKinds::default()
                },
            }],
        })
    }

    /// This process's rank and the number of ranks in MPI's communicator.
    pub fn place(&self) -> (u32, u32) {
        let info = self.post.calls.info();
        (info.rank as u32, info.nranks as u32)
    }

    fn check_device(&self, device: usize) -> Result<()> {
        match device {
            0 => Ok(()),
            _ => Err(Error::argument(
                format!("network device {device} was asked for, but there is 1"),
                "use a position in the list of devices, from 0",
            )),
        }
    }
}

impl Net for MpiNet {
    fn name(&self) -> &str {
        "mpi"
    }

    fn devices(&self) -> &[Properties] {
        &self.device
    }

    fn listen(&self, device: usize) -> Result<(Handle, Box<dyn Listener>)> {
        self.check_device(device)?;
        let listener = self.post.listen();
        let rank = self.post.calls.info().rank as u32;
        let bytes = [&MAGIC[..], &rank.to_be_bytes(), &listener.to_be_bytes()];
        let door = MpiDoor {
            post: self.post.clone(),
            listener,
        };
        Ok((Handle::new(&bytes.concat())?, Box::new(door)))
    }

    fn connect(&self, device: usize, handle: &Handle) -> Result<Box<dyn Connecting>> {
        self.check_device(device)?;
        let nranks = self.post.calls.info().nranks;
        let Some((rank, listener)) = decode(handle).filter(|(rank, _)| *rank < nranks) else {
            return Err(Error::argument(
                "a handle was given to MPI as the network that it did not make",
                "let all ranks use the same network (setting KOLO_NET)",
            ));
        };
        let end = self.post.add_sender();
        let note = Note::new(NoteKind::Connect, listener, end);
        if let Err(error) = self.post.send(rank, &note) {
            self.post.remove_sender(end);
            return Err(error);
        }
        Ok(Box::new(MpiKnock {
            post: Some(self.post.clone()),
            end,
            rank,
        }))
    }

    fn any_thread(&self) -> bool {
        self.post.calls.info().thread_level == MULTIPLE
    }

    fn this_thread(&self) -> bool {
        self.post.calls.may_call()
    }
}

/// Rank and listener of a handle.
fn decode(handle: &Handle) -> Option<(c_int, u64)> {
    let bytes: &[u8; HANDLE] = handle.bytes().try_into().ok()?;
    let (magic, rest) = bytes.split_at(8);
    let (rank, listener) = rest.split_at(4);
    let rank = u32::from_be_bytes(rank.try_into().ok()?);
    let listener = u64::from_be_bytes(listener.try_into().ok()?);
    (magic == MAGIC).then_some((c_int::try_from(rank).ok()?, listener))
}

/// The receiving end before connections exist.
struct MpiDoor {
    post: Arc<Post>,
    listener: u64,
}

impl Listener for MpiDoor {
    fn accept(&mut self) -> Result<Option<Box<dyn RecvComm>>> {
        self.post.drive()?;
        let Some((rank, peer)) = self.post.next_of(self.listener) else {
            return Ok(None);
        };
        let end = self.post.add_receiver();
        let receiver = recv::MpiReceiver::new(self.post.clone(), end, peer, rank);
        self.post
            .send(rank, &Note::new(NoteKind::Accept, peer, end))?;
        Ok(Some(Box::new(receiver)))
    }

    /// MPI names nothing to sleep on.
    fn watch(&self, _: &mut Vec<libc::pollfd>) -> bool {
        true
    }
}

impl Drop for MpiDoor {
    fn drop(&mut self) {
        for (rank, peer) in self.post.unlisten(self.listener) {
            let note = Note::new(NoteKind::Refuse, peer, self.listener);
            if let Err(error) = self.post.send(rank, &note) {
                tracing::warn!("{error}");
            }
        }
    }
}

/// A connection that is being made.
struct MpiKnock {
    /// None once the connection was handed out.
    post: Option<Arc<Post>>,
    end: u64,
    rank: c_int,
}

impl Connecting for MpiKnock {
    fn poll(&mut self) -> Result<Option<Box<dyn SendComm>>> {
        let Some(post) = &self.post else {
            return Err(Error::internal("a connection was asked for twice"));
        };
        post.drive()?;
        let (peer, refused) = post.sender(self.end, |state| (state.peer, state.refused));
        if refused {
            let what = format!(
                "nobody listens at rank {} of MPI for this connection",
                self.rank
            );
            let remedy = "look for the first error of that rank";
            return Err(Error::new(Code::RemoteError, what, remedy).during("connect over MPI"));
        }
        let Some(peer) = peer else {
            return Ok(None);
        };
        let sender = self
            .post
            .take()
            .map(|post| send::MpiSender::new(post, self.end, peer, self.rank));
        Ok(sender.map(|sender| -> Box<dyn SendComm> { Box::new(sender) }))
    }

    /// MPI names nothing to sleep on.
    fn watch(&self, _: &mut Vec<libc::pollfd>) -> bool {
        false
    }
}

impl Drop for MpiKnock {
    fn drop(&mut self) {
        let Some(post) = self.post.take() else {
            return;
        };
        // An answer that comes later finds nobody, and the other end is told so.
        if let Some(peer) = post.sender(self.end, |state| state.peer) {
            let note = Note::new(NoteKind::SenderClosed, peer, self.end);
            if let Err(error) = post.send(self.rank, &note) {
                tracing::warn!("{error}");
            }
        }
        post.remove_sender(self.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_table_is_refused() {
        // SAFETY: null is allowed.
        let error = unsafe { MpiNet::new(std::ptr::null(), std::ptr::null_mut()) };
        assert_eq!(error.err().unwrap().code, Code::InvalidArgument);
    }
}
