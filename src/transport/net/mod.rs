//! The network between nodes, as a table of functions: what sockets, verbs, MPI and plugins share.
//!
//! **Problem.** Between nodes there is no shared memory, and every fabric has another interface.
//! The engine that moves slots must not know which one it drives, must never wait inside a call
//! (it drives many connections), and must not need memory that grows with a slow receiver.
//!
//! **Idea.** A connection goes one way. The receiver *listens* and hands out a [`Handle`]; the
//! sender *connects* to it. Then the receiver *posts* buffers ([`RecvComm::irecv`]) and the sender
//! *starts* messages ([`SendComm::isend`]). Everything that would have to wait says "not yet"
//! (`None`) instead and is asked again. A message is started only when its receive has been
//! posted: so each byte goes from the caller's memory to the caller's memory, nothing is stored
//! between, and a receiver that posts nothing holds the sender back (*back pressure*).
//!
//! **Terms.** *Network*: an implementation of [`Net`]. *Device*: a port that it can use; one of
//! several is a *rail*. *Request*: a message that was started or a group of buffers that was
//! posted; [`SendComm::test`] moves it on and says when it is done. *Tag*: names which of several
//! posted buffers a message is for; buffers of one tag are filled in the order of posting.
//!
//! **Threads.** Every object may move between threads but is used by one at a time. None of the
//! calls waits, except `close`, which is bounded. Nothing moves unless a call drives it: the thread
//! that waits calls `test` again and again, or sleeps in `poll` on what `watch` names.
//!
//! The shape is that of the field's network plugins (NCCL's `ncclNet` v8 to v11: listen, connect,
//! accept, regMr, isend, irecv, iflush, test), so that a plugin fits behind the same trait.

pub mod candidates;
pub mod choose;
pub mod mpi;
pub mod plugin;
mod regions;
pub mod socket;

use super::lasting::LastingMemory;
use crate::base::{Error, Result, turns};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Largest handle in bytes.
pub const HANDLE_BYTES: usize = 128;

/// The most buffers that one [`RecvComm::irecv`] posts.
pub const MAX_RECEIVES: usize = 8;

/// The longest tail of a message ([`SendComm::isend_with_tail`]).
pub const MAX_TAIL: usize = 32;

/// About so many bytes are handed to a connection before one looks at what has come in.
///
/// Both ends of a connection send as a rule. Where each first hands over all it may, and only then
/// reads, every byte waits in the memory of the system until it has left the cache: `sendrecv`
/// of 4 MiB took 2.5 times as long (`benches/results/nodes-earlier.md`). The words about a token
/// go with it.
pub const AT_ONCE: usize = (64 << 10) + 4096;

/// Address and secret that a receiver hands to its sender, by any way: at most [`HANDLE_BYTES`]
/// bytes that only the network that made them understands. They are never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Handle {
    bytes: [u8; HANDLE_BYTES],
    length: usize,
}

impl Handle {
    /// Takes the bytes; `InvalidArgument` for more than [`HANDLE_BYTES`].
    pub fn new(bytes: &[u8]) -> Result<Handle> {
        let mut handle = Handle {
            bytes: [0; HANDLE_BYTES],
            length: bytes.len(),
        };
        match handle.bytes.get_mut(..bytes.len()) {
            Some(room) => room.copy_from_slice(bytes),
            None => {
                return Err(Error::argument(
                    format!("a network handle has {} bytes", bytes.len()),
                    format!("hand over the handle as listen gave it, at most {HANDLE_BYTES} bytes"),
                ));
            }
        }
        Ok(handle)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl TryFrom<Vec<u8>> for Handle {
    type Error = Error;

    fn try_from(bytes: Vec<u8>) -> Result<Handle> {
        Handle::new(&bytes)
    }
}

impl From<Handle> for Vec<u8> {
    fn from(handle: Handle) -> Vec<u8> {
        handle.bytes().to_vec()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({} bytes)", self.length)
    }
}

/// Kinds of memory that a device sends from and receives into by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryKinds {
    /// The process's ordinary memory.
    pub host: bool,
    /// Memory of a CUDA device, by its address.
    pub cuda: bool,
    /// Memory that is named by a dmabuf file descriptor.
    pub dmabuf: bool,
}

/// Properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Its name: an interface (`eth0`) or an adapter (`mlx5_0`).
    pub name: String,
    /// The address that it listens on, where it has one.
    pub address: Option<IpAddr>,
    /// Its place on the PCI bus, as a path below `/sys/devices`; `None` for virtual ones.
    pub pci_path: Option<String>,
    /// Speed in Mbit/s; a guess where the system does not tell.
    pub speed_mbits: u32,
    /// Port of the adapter, from 1.
    pub port: u32,
    /// The most connections that may be open at once.
    pub max_connections: u32,
    /// The most buffers of one [`RecvComm::irecv`], 1 to [`MAX_RECEIVES`].
    pub max_receives: u32,
    /// Time of the smallest message one way, in nanoseconds; a guess.
    pub latency_ns: u32,
    /// Which memory it reaches.
    pub memory: MemoryKinds,
}

/// A network. Shared by all threads.
pub trait Net: Send + Sync {
    /// One word: `socket`, `verbs`, `mpi`, or the name that a plugin gives.
    fn name(&self) -> &str;

    /// More about what carries the data, such as the driver that was taken.
    fn about(&self) -> Option<String> {
        None
    }

    /// The devices; their positions are the device numbers of the other calls. Never empty.
    fn devices(&self) -> &[Properties];

    /// Opens the receiving end on a device. The handle may be given to several senders.
    ///
    /// Errors: `InvalidArgument` for an unknown device; `SystemError` when the system refuses.
    fn listen(&self, device: usize) -> Result<(Handle, Box<dyn Listener>)>;

    /// Begins to connect from a device to whoever made the handle.
    ///
    /// Errors: `InvalidArgument` for an unknown device or a handle of another network.
    fn connect(&self, device: usize, handle: &Handle) -> Result<Box<dyn Connecting>>;

    /// Begins to connect by the first of these ways, each a device and a handle of the same peer;
    /// networks that can go on to the next one where it does not work.
    ///
    /// Errors: as [`Net::connect`].
    fn connect_by(&self, ways: &[(usize, &Handle)]) -> Result<Box<dyn Connecting>> {
        let Some(&(device, handle)) = ways.first() else {
            return Err(Error::internal("a connection without a way"));
        };
        self.connect(device, handle)
    }

    /// How far whoever made the handle is from a device, as far as that is known before one tries;
    /// `None` where it cannot be reached.
    fn distance(&self, _device: usize, _handle: &Handle) -> Option<u32> {
        Some(0)
    }

    /// Whether every thread may use this network and what it makes. If not, only a thread of the
    /// program that is inside a kolo call may: kolo's own threads must leave it alone.
    fn any_thread(&self) -> bool {
        true
    }

    /// Whether the calling thread, one of the program that is inside a kolo call, may use it.
    fn this_thread(&self) -> bool {
        true
    }

    /// Whether messages may be started in another order than their buffers were posted in. If
    /// not, a message is started only for a buffer of the oldest request that is not filled yet;
    /// its tag chooses among the buffers of that request alone.
    fn any_order(&self) -> bool {
        true
    }

    /// Whether a message may come from two places and go to two: [`SendComm::isend_with_tail`] and
    /// [`RecvComm::divert`].
    fn takes_parts(&self) -> bool {
        false
    }
}

/// The receiving end before connections exist. Dropping it closes it; connections that were
/// accepted stay.
pub trait Listener: Send {
    /// The next connection, or `None`: not yet. Whatever else arrives at the port is dropped.
    fn accept(&mut self) -> Result<Option<Box<dyn RecvComm>>>;

    /// Adds what a `poll` may sleep on until `accept` has something to do. False if it should be
    /// asked a little later all the same.
    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool;
}

/// A connection that is being made. Dropping it gives up.
pub trait Connecting: Send {
    /// The connection, once; `None`: not yet. `RemoteError` when nobody answers in time.
    fn poll(&mut self) -> Result<Option<Box<dyn SendComm>>>;

    /// Adds what to sleep on until `poll` has something to do. False if it should be polled a
    /// little later all the same.
    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool;
}

/// Names a message in flight. Belongs to the connection that gave it; [`SendComm::test`] and
/// [`RecvComm::test`] know it until they have said that it is done.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "a request has to be tested until it is done"]
pub struct Request(u64);

impl Request {
    /// For implementations: a request with their own number.
    pub fn new(number: u64) -> Request {
        Request(number)
    }

    /// The number given to [`Request::new`].
    pub fn number(&self) -> u64 {
        self.0
    }
}

/// Names registered memory on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region(pub u64);

/// One buffer to receive into.
#[derive(Clone, Copy, Debug)]
pub struct Receive {
    /// Its first byte; any alignment.
    pub data: *mut u8,
    /// Its length: the largest message that fits.
    pub capacity: usize,
    /// The tag of the message that it waits for.
    pub tag: u32,
    /// The registration that covers it.
    pub region: Region,
}

/// How many bytes arrived in each buffer of a request, in the order of posting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    bytes: [usize; MAX_RECEIVES],
    count: usize,
    is_diverted: bool,
}

impl Received {
    /// The sizes of at most [`MAX_RECEIVES`] messages.
    pub fn new(sizes: &[usize]) -> Received {
        let mut received = Received::default();
        for &size in &sizes[..sizes.len().min(MAX_RECEIVES)] {
            received.bytes[received.count] = size;
            received.count += 1;
        }
        received
    }

    /// Says whether the message went to where it was diverted.
    pub fn diverted(self, is_diverted: bool) -> Received {
        Received {
            is_diverted,
            ..self
        }
    }

    /// Whether the message went to where [`RecvComm::divert`] said.
    pub fn is_diverted(&self) -> bool {
        self.is_diverted
    }

    /// One number of bytes for each buffer.
    pub fn bytes(&self) -> &[usize] {
        &self.bytes[..self.count]
    }
}

/// The sending end of a connection.
///
/// The first error of a connection is its last word: every later call returns it again, and no
/// memory of the caller is touched any more.
pub trait SendComm: Send {
    /// Makes memory known, so that `isend` may name it. Cheap where the network needs none.
    ///
    /// # Safety
    /// The memory must stay mapped until it is deregistered or the connection is closed.
    unsafe fn register(&mut self, data: *const u8, bytes: usize) -> Result<Region>;

    /// Ends a registration; no message in flight may use it. `InvalidArgument` for an unknown one.
    fn deregister(&mut self, region: Region) -> Result<()>;

    /// Starts a message of `bytes` bytes (0 is a message too). `None`: not yet, because the peer
    /// has not posted a buffer of this tag or too many messages are in flight.
    ///
    /// Errors: `RemoteError` when the peer or the link is gone; `InvalidUsage` when the message
    /// is larger than the buffer that the peer posted for it (the peer gets the same error).
    ///
    /// # Safety
    /// `data` must be valid for reads of `bytes` bytes and stay so, unchanged, until `test` says
    /// that the request is done, or this connection has returned an error, or is closed.
    unsafe fn isend(
        &mut self,
        data: *const u8,
        bytes: usize,
        tag: u32,
        region: Region,
    ) -> Result<Option<Request>>;

    /// Learns which memory of the program stays where it is, before the first message.
    fn reach(&mut self, _lasting: &Arc<dyn LastingMemory>) {}

    /// Whether [`SendComm::isend_with_tail`] takes these bytes from where they lie.
    fn sends_from(&mut self, _data: *const u8, _bytes: usize) -> bool {
        true
    }

    /// Sends as [`SendComm::isend`] does, with a copy of `tail` behind the bytes at `data`, from
    /// memory that need not be registered. Only where [`Net::takes_parts`] and
    /// [`SendComm::sends_from`] there, and at most [`MAX_TAIL`] bytes.
    ///
    /// # Safety
    /// As for [`SendComm::isend`].
    unsafe fn isend_with_tail(
        &mut self,
        _data: *const u8,
        _bytes: usize,
        _tail: &[u8],
        _tag: u32,
    ) -> Result<Option<Request>> {
        Err(Error::internal("this network sends from one place"))
    }

    /// Moves all messages of the connection on. `Some(bytes)`, once, when this one needs its
    /// memory no more (it may not have arrived yet); `None`: not yet.
    fn test(&mut self, request: &Request) -> Result<Option<usize>>;

    /// Bytes that the network has taken so far, whatever became of their messages: a number that
    /// has changed says that something moved. Always 0 where that cannot be told.
    fn carried(&self) -> u64 {
        0
    }

    /// Adds what a `poll` may sleep on until `isend` or `test` have something to do. False when
    /// this network cannot be slept on and must be asked now and then.
    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool;

    /// Says that nothing more will be sent, so that the waiting of `close` may begin for many
    /// connections at once. Only `is_settled` and `close` may follow.
    fn finish(&mut self) {}

    /// Whether `close` would not have to wait, because the peer's node has everything or the
    /// connection is lost. False before `finish`, where that matters.
    fn is_settled(&mut self) -> bool {
        true
    }

    /// Ends the connection. What was sent still arrives: waits, for a bounded time, until the
    /// peer's node has it. `InvalidUsage` while a message is in flight (it is given up).
    fn close(self: Box<Self>) -> Result<()>;
}

/// The receiving end of a connection. Errors last as in [`SendComm`].
pub trait RecvComm: Send {
    /// Registers memory, as [`SendComm::register`] does.
    ///
    /// # Safety
    /// The memory must stay mapped until it is deregistered or the connection is closed.
    unsafe fn register(&mut self, data: *mut u8, bytes: usize) -> Result<Region>;

    /// Deregisters memory, as [`SendComm::deregister`] does.
    fn deregister(&mut self, region: Region) -> Result<()>;

    /// Posts 1 to [`MAX_RECEIVES`] buffers as one request. `None`: not yet, because too many are
    /// posted already. The sender may learn of them only by [`RecvComm::announce`] or `test`. Where
    /// it has closed, an error says that nothing comes for these buffers; what it sent before
    /// still comes to those that were posted earlier.
    ///
    /// # Safety
    /// Each buffer must be valid for writes of its capacity and be left alone until `test` says
    /// that the request is done, or this connection has returned an error, or is closed.
    unsafe fn irecv(&mut self, buffers: &[Receive]) -> Result<Option<Request>>;

    /// Learns which memory of the program stays where it is, before the first message.
    fn reach(&mut self, _lasting: &Arc<dyn LastingMemory>) {}

    /// Lets the first `bytes` bytes of a message of `length` bytes go to `data`, and only what is
    /// behind them to the same place of the buffer that was posted with this request alone. A
    /// message of another length goes to that buffer whole; [`Received::is_diverted`] says which.
    /// False: too late, or the network cannot do it there.
    ///
    /// # Safety
    /// `data` is as a buffer of [`RecvComm::irecv`].
    unsafe fn divert(
        &mut self,
        _request: &Request,
        _data: *mut u8,
        _bytes: usize,
        _length: usize,
    ) -> bool {
        false
    }

    /// Tells the sender of what was posted, where `irecv` leaves that for several requests at once.
    fn announce(&mut self) {}

    /// Moves all buffers of the connection on. `Some`, once, when every buffer of this request is
    /// filled; `None`: not yet.
    fn test(&mut self, request: &Request) -> Result<Option<Received>>;

    /// Tests as [`RecvComm::test`] does, but leaves a message that lies at the sender's there, as
    /// it may still be said where it is to go.
    fn test_held(&mut self, request: &Request) -> Result<Option<Received>> {
        self.test(request)
    }

    /// Begins to bring a message that still lies at the sender's, for a request behind others that
    /// is not tested yet. Its `test` says all the same that it is done.
    fn bring(&mut self, _request: &Request) -> Result<()> {
        Ok(())
    }

    /// Makes what arrived in device memory visible to the device; `None` where nothing is needed,
    /// else a request to test.
    ///
    /// An adapter writes payload to the GPU and the news of it to host memory. These are two ways
    /// over PCIe, and only writes of one way stay in order, so the news may be seen first. A read
    /// of the same memory by the adapter pushes the writes before it, so the flush is such a read.
    /// Host memory needs none, as the processor that sees the news sees what was written before;
    /// nor do GPUs that order the two by themselves (compute capability 9.0 and later).
    fn flush(&mut self, buffers: &[Receive]) -> Result<Option<Request>>;

    /// Counts the bytes that have come in, as [`SendComm::carried`] counts those that go out.
    fn carried(&self) -> u64 {
        0
    }

    /// Adds descriptors to sleep on, as [`SendComm::watch`] does.
    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool;

    /// Tells the sender's node without delay what has arrived, so that the sender's end settles.
    fn acknowledge(&mut self) {}

    /// Ends the connection. `InvalidUsage` while a buffer is posted (it is given up).
    fn close(self: Box<Self>) -> Result<()>;
}

/// Sleeps until one of these has something to do, or for `nap`.
pub fn sleep_on(set: &mut [libc::pollfd], nap: std::time::Duration) {
    // An error, such as a signal, is a short sleep.
    let _ = turns::poll(set, Some(nap));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_have_a_limit_and_keep_their_secret() {
        let handle = Handle::new(&[7; 128]).unwrap();
        assert_eq!(handle.bytes(), [7; 128]);
        assert!(!format!("{handle:?}").contains('7'));
        assert_eq!(Handle::new(&[1, 2]).unwrap().bytes(), [1, 2]);
        let error = Handle::new(&[0; 129]).unwrap_err();
        assert!(error.what.contains("129"), "{error}");
    }

    #[test]
    fn sizes_come_in_order() {
        assert_eq!(Received::new(&[3, 0, 9]).bytes(), [3, 0, 9]);
        assert_eq!(Received::new(&[1; 9]).bytes(), [1; 8]);
    }
}
