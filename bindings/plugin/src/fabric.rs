//! Parts that a network provides: what it opens, and what the two ends of a connection do.

use crate::abi::Properties;
use crate::greeting::HELLO_BYTES;
use crate::line::Line;
use kolo::base::interfaces::Interface;
use kolo::base::{Error, Result};
use kolo::trust::proof::Preamble;
use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

/// Buffers of one request.
pub const GROUP: usize = 8;

/// Requests of a receiver that may be posted at once.
pub const RING: usize = 32;

/// Messages of a sender that may be on their way.
pub const MESSAGES: usize = 64;

/// Words and numbers by which a network is told from others.
pub struct Signs {
    /// Its kind, in sentences: `RDMA`.
    pub what: &'static str,
    /// The beginning of its lines in the log.
    pub log: &'static str,
    /// The page that lists its settings.
    pub page: &'static str,
    /// The first bytes of its handles.
    pub handle: [u8; 4],
    /// From which, with a handle's secret, the key is made by which both ends prove themselves.
    pub label: &'static [u8],
    /// The first bytes of the proof; the version is that of all that follows.
    pub protocol: Preamble,
}

/// A network behind the table.
pub trait Fabric: Sized + Send + Sync + 'static {
    /// How it is told from others.
    const SIGNS: Signs;
    /// Registered memory; dropped, it is given back.
    type Memory: 'static;
    /// The sending end of a connection.
    type Sender: Sending<Self>;
    /// The receiving end.
    type Receiver: Receiving<Self>;

    /// Opens all devices that the settings allow.
    ///
    /// # Errors
    /// `InvalidArgument` for a setting; `SystemError` when there is no device to use, with the
    /// reason for each.
    fn open() -> Result<Self>;

    /// Takes a setting by its key in kolo's files; false for an unknown key.
    fn configure(key: &str, value: &str) -> bool;

    /// More about what carries the data, as the end of a sentence.
    fn about(&self) -> Option<String> {
        None
    }

    /// How many devices it has.
    fn devices(&self) -> usize;

    /// Facts about one of them.
    fn properties(&self, device: usize) -> Properties;

    /// Where the two ends of a connection meet.
    fn meeting(&self) -> &Interface;

    /// How long a link may be silent.
    fn link_timeout(&self) -> Option<Duration>;
}

/// The device with this number. `InvalidArgument` where there is none.
pub fn device<F: Fabric>(fabric: &F, number: c_int) -> Result<usize> {
    let count = fabric.devices();
    let index = usize::try_from(number).ok().filter(|index| *index < count);
    index.ok_or_else(|| {
        Error::argument(
            format!(
                "there is no {} device {number}: there are {count}",
                F::SIGNS.what
            ),
            "number devices from 0",
        )
    })
}

/// Memory that a dmabuf file descriptor names.
pub struct Dmabuf {
    /// Its address in the caller's words.
    pub data: usize,
    /// Its size.
    pub bytes: usize,
    /// Where it begins in the dmabuf.
    pub offset: u64,
    /// The descriptor.
    pub fd: c_int,
}

/// One end of a connection, whichever.
pub trait Side<F: Fabric>: 'static {
    /// Takes over the connection by which the ends have met, for last words.
    fn keep_line(&mut self, line: Line);

    /// Registers memory of the kind [`PTR_HOST`](crate::abi::PTR_HOST) or
    /// [`PTR_CUDA`](crate::abi::PTR_CUDA).
    ///
    /// # Safety
    /// The memory stays mapped until the registration is dropped.
    unsafe fn register(&mut self, data: usize, bytes: usize, kind: c_int) -> Result<F::Memory>;

    /// Registers memory that a dmabuf names.
    fn register_dmabuf(&mut self, memory: &Dmabuf) -> Result<F::Memory>;

    /// Says goodbye in good order, or that messages were given up. Nothing is done afterwards.
    fn part(&mut self) -> Result<()>;
}

/// The sending end of a connection.
pub trait Sending<F: Fabric>: Side<F> + Sized {
    /// Makes the end on a device, not yet connected.
    fn new(fabric: &Arc<F>, device: usize, traffic_class: u8) -> Result<Self>;

    /// Greeting that tells the other end of it.
    fn greeting(&self) -> [u8; HELLO_BYTES];

    /// Connects to the end that answers so; false for an answer that is none.
    fn answered(&mut self, answer: &[u8; HELLO_BYTES]) -> Result<bool>;

    /// Starts a message; its number, below [`MESSAGES`], or `None`: not yet.
    ///
    /// # Safety
    /// The memory stays valid and unchanged until the message is done or the end is dropped.
    unsafe fn isend(
        &mut self,
        data: usize,
        bytes: usize,
        tag: u32,
        memory: Option<&F::Memory>,
    ) -> Result<Option<usize>>;

    /// The size of a message, once, when its memory is not needed any more; `None`: not yet.
    fn test(&mut self, number: usize) -> Result<Option<usize>>;
}

/// A buffer to receive into.
pub struct Buffer<'a, M> {
    /// Its address.
    pub data: usize,
    /// Its size.
    pub capacity: usize,
    /// The tag of its message.
    pub tag: u32,
    /// The registration that it lies in.
    pub memory: Option<&'a M>,
}

/// The receiving end of a connection.
pub trait Receiving<F: Fabric>: Side<F> + Sized {
    /// Flushes that may be open at once.
    const FLUSHES: usize;

    /// Makes the end for a sender with that greeting, and what to answer; `None`: it is no greeting
    /// of this network.
    #[allow(clippy::type_complexity)]
    fn greeted(
        fabric: &Arc<F>,
        device: usize,
        traffic_class: u8,
        greeting: &[u8; HELLO_BYTES],
    ) -> Result<Option<(Self, [u8; HELLO_BYTES])>>;

    /// Posts buffers as one request; its number, below [`RING`], or `None`: not yet.
    ///
    /// # Safety
    /// The buffers stay valid and are left alone until the request is done or the end is dropped.
    unsafe fn irecv(&mut self, buffers: &[Buffer<F::Memory>]) -> Result<Option<usize>>;

    /// The sizes of a request's messages, once, when all are there: they are written to `sizes`,
    /// and their number is returned. `None`: not yet.
    fn test(&mut self, number: usize, sizes: &mut [usize; GROUP]) -> Result<Option<usize>>;

    /// Starts to make visible to devices what arrived in their memory: addresses and registrations
    /// of filled buffers. Its number, below [`Receiving::FLUSHES`]; `None`: there is no need, or
    /// not yet.
    fn iflush(&mut self, filled: &[(usize, &F::Memory)]) -> Result<Option<usize>>;

    /// Whether a flush is done.
    fn flushed(&mut self, number: usize) -> Result<bool>;
}
