//! Messages that stay where they lie until the receiver reads them: functions beside the table.
//!
//! **Problem.** By the table a message goes into a buffer that was posted before. Whoever wants it
//! elsewhere copies it from there, and whoever sends from memory that is not registered on the
//! connection copies it before.
//!
//! **Idea.** Memory is *pinned* once for a device and all of its connections. A message from there
//! is *lent*: the posted buffer gets a note of where it lies, and the receiving end reads it, into
//! that buffer or to where it was *diverted*, and then tells the sender. A *tail* of a few bytes
//! goes with the note, and lands behind the message's place in the buffer.

use crate::connection::{Connection, Kind, Request};
use crate::fabric::{self, Fabric};
use crate::guard::{guard, missing, object, put};
use crate::running::Stands;
use kolo::base::{Error, Result};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// Memory of the caller.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Its address.
    pub data: *const c_void,
    /// Its size.
    pub bytes: usize,
}

/// Most bytes of a tail.
pub const TAIL: usize = 32;

/// Least bytes that can be lent: the note of them takes their place.
pub const LEAST: usize = 64;

/// A message that is lent.
pub struct LentMessage<'a, M> {
    /// Its address.
    pub data: usize,
    /// Its size without the tail, at least [`LEAST`].
    pub bytes: usize,
    /// Bytes behind it, at most [`TAIL`].
    pub tail: &'a [u8],
    /// The tag of its buffer.
    pub tag: u32,
    /// Pinned memory that it lies in.
    pub memory: &'a M,
}

/// Where the first bytes of a message go, if it has a certain length.
pub struct Diversion<'a, M> {
    /// The address.
    pub data: usize,
    /// How many bytes.
    pub bytes: usize,
    /// Length of the message, with its tail.
    pub length: usize,
    /// Pinned memory that they go into.
    pub memory: &'a M,
}

/// A network whose receiving ends read.
pub trait Reads: Fabric<Sender: Lends<Self>, Receiver: Fetches<Self>> {
    /// Pins memory for a device.
    ///
    /// # Safety
    /// The memory stays mapped until what is returned is dropped.
    unsafe fn pin(&self, device: usize, data: usize, bytes: usize) -> Result<Self::Memory>;
}

/// A sending end that lends.
pub trait Lends<F: Fabric> {
    /// Whether both devices can do their part.
    fn is_read(&self) -> bool;

    /// Starts a message that is lent; its number, or `None`: not yet.
    ///
    /// # Safety
    /// The memory stays pinned and unchanged until the message is done or the end is dropped.
    unsafe fn isend_at(&mut self, message: &LentMessage<F::Memory>) -> Result<Option<usize>>;
}

/// A receiving end that reads.
pub trait Fetches<F: Fabric> {
    /// Lets a lent message that comes for this request of one buffer go elsewhere; false: too late.
    ///
    /// # Safety
    /// The place stays pinned and is left alone until the request is done or the end is dropped.
    unsafe fn divert(&mut self, number: usize, to: &Diversion<F::Memory>) -> Result<bool>;

    /// The size of the message of a request of one buffer, once, when it is there, and whether it
    /// was read to where it was diverted. `hold`: reading it may not begin yet.
    fn test_at(&mut self, number: usize, hold: bool) -> Result<Option<(usize, bool)>>;
}

/// Pins memory for a device.
///
/// # Safety
/// The memory stays mapped until it is unpinned; `out` is null or a place for the result.
pub unsafe fn pin<F: Stands + Reads>(
    device: c_int,
    data: *mut c_void,
    bytes: usize,
    out: *mut *mut c_void,
) -> c_int {
    guard(|| {
        let running = F::running().get()?;
        let device = fabric::device(&*running.fabric, device)?;
        // SAFETY: the caller's promise.
        unsafe {
            let memory = running.fabric.pin(device, data as usize, bytes)?;
            put(out, Box::into_raw(Box::new(memory)).cast())
        }
    })
}

/// Gives pinned memory back.
///
/// # Safety
/// `pinned` is null, or came from [`pin`], and no request uses it.
pub unsafe fn unpin<F: Reads>(pinned: *mut c_void) -> c_int {
    guard(|| {
        if pinned.is_null() {
            return Err(missing("the pinned memory"));
        }
        // SAFETY: made by `pin`, and given back once.
        drop(unsafe { Box::from_raw(pinned.cast::<F::Memory>()) });
        Ok(())
    })
}

/// Whether messages of this sending end may be lent: 1 or 0.
///
/// # Safety
/// `comm` is null, or came from the table, and is open.
pub unsafe fn is_read<F: Reads>(comm: *mut c_void) -> c_int {
    let mut answer = 0;
    // Whoever asks a wrong end hears that nothing can be lent.
    let _code = guard(|| {
        // SAFETY: the caller's promise.
        let connection: &mut Connection<F> = unsafe { object(comm, "the connection") }?;
        answer = c_int::from(connection.sender()?.is_read());
        Ok(())
    });
    answer
}

/// Starts a message that is lent.
///
/// # Safety
/// As of the table's `isend`; `pinned` came from [`pin`], and the tail is there.
pub unsafe fn isend_at<F: Reads>(
    comm: *mut c_void,
    message: Extent,
    tail: Extent,
    tag: c_int,
    pinned: *mut c_void,
    out: *mut *mut c_void,
) -> c_int {
    guard(|| {
        let (bytes, behind) = (message.bytes, tail.bytes);
        if bytes < LEAST || behind > TAIL || (tail.data.is_null() && behind > 0) {
            return Err(Error::argument(
                format!("{bytes} bytes are to be lent, and {behind} behind them"),
                format!("lend at least {LEAST} bytes, with at most {TAIL} behind them"),
            ));
        }
        // SAFETY: the caller's promise; the tail is copied before this returns.
        unsafe {
            put(out, null_mut())?;
            let connection: &mut Connection<F> = object(comm, "the connection")?;
            let tail = match behind {
                0 => &[][..],
                _ => std::slice::from_raw_parts(tail.data.cast::<u8>(), behind),
            };
            let message = LentMessage {
                data: message.data as usize,
                bytes,
                tail,
                tag: tag as u32,
                memory: memory::<F>(pinned)?,
            };
            let number = connection.sender()?.isend_at(&message)?;
            put(out, connection.request(number))
        }
    })
}

/// Pinned memory, which several threads may use.
///
/// # Safety
/// `pinned` is null, or came from [`pin`], and is not given back now.
unsafe fn memory<'a, F: Fabric>(pinned: *mut c_void) -> Result<&'a F::Memory> {
    // SAFETY: the caller's promise.
    let memory = unsafe { pinned.cast::<F::Memory>().as_ref() };
    memory.ok_or_else(|| missing("the pinned memory"))
}

/// The receiving end and the number of a request.
///
/// # Safety
/// `request` is null, or came from the table, and its connection is open.
unsafe fn receive<'a, F: Fabric>(request: *mut c_void) -> Result<(&'a mut F::Receiver, usize)> {
    // SAFETY: the caller's promise.
    unsafe {
        let request = &*object::<Request<F>>(request, "the request")?;
        match request.kind {
            Kind::Receive => Ok(((*request.connection).receiver()?, request.number)),
            Kind::Message | Kind::Flush => Err(Error::argument(
                "this request posted no buffer",
                "use what irecv gave",
            )),
        }
    }
}

/// Lets the first bytes of a lent message go elsewhere.
///
/// # Safety
/// As of the table's `irecv`; `pinned` came from [`pin`], `taken` is null or a place for a number.
pub unsafe fn divert<F: Reads>(
    request: *mut c_void,
    place: Extent,
    length: usize,
    pinned: *mut c_void,
    taken: *mut c_int,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe {
            put(taken, 0)?;
            let (receiver, number) = receive::<F>(request)?;
            let to = Diversion {
                data: place.data as usize,
                bytes: place.bytes,
                length,
                memory: memory::<F>(pinned)?,
            };
            put(taken, c_int::from(receiver.divert(number, &to)?))
        }
    })
}

/// Tests a request of one buffer as the table's `test` does, and says whether the message went to
/// where it was diverted.
///
/// # Safety
/// As of the table's `test`; the places are null or of numbers.
pub unsafe fn test_at<F: Reads>(
    request: *mut c_void,
    hold: c_int,
    done: *mut c_int,
    size: *mut c_int,
    placed: *mut c_int,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe {
            put(done, 0)?;
            let (receiver, number) = receive::<F>(request)?;
            let Some((bytes, is_placed)) = receiver.test_at(number, hold != 0)? else {
                return Ok(());
            };
            put(size, bytes as c_int)?;
            put(placed, c_int::from(is_placed))?;
            put(done, 1)
        }
    })
}

/// Exports these functions for a network.
#[macro_export]
macro_rules! reading_exports {
    ($fabric:ty) => {
        /// Pins memory for a device.
        ///
        /// # Safety
        /// The memory stays mapped until it is unpinned.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn kolo_net_pin(
            device: ::std::ffi::c_int,
            data: *mut ::std::ffi::c_void,
            bytes: usize,
            out: *mut *mut ::std::ffi::c_void,
        ) -> ::std::ffi::c_int {
            // SAFETY: the caller's promise.
            unsafe { $crate::reading::pin::<$fabric>(device, data, bytes, out) }
        }

        /// Gives pinned memory back.
        ///
        /// # Safety
        /// `pinned` came from `kolo_net_pin`, and no request uses it.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn kolo_net_unpin(
            pinned: *mut ::std::ffi::c_void,
        ) -> ::std::ffi::c_int {
            // SAFETY: the caller's promise.
            unsafe { $crate::reading::unpin::<$fabric>(pinned) }
        }

        /// Whether messages of this sending end may be lent: 1 or 0.
        ///
        /// # Safety
        /// `comm` came from the table, and is open.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn kolo_net_is_read(
            comm: *mut ::std::ffi::c_void,
        ) -> ::std::ffi::c_int {
            // SAFETY: the caller's promise.
            unsafe { $crate::reading::is_read::<$fabric>(comm) }
        }

        /// Starts a message that is lent.
        ///
        /// # Safety
        /// As of the table's `isend`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn kolo_net_isend_at(
            comm: *mut ::std::ffi::c_void,
            data: *mut ::std::ffi::c_void,
            bytes: usize,
            tail: *const ::std::ffi::c_void,
            tail_bytes: usize,
            tag: ::std::ffi::c_int,
            pinned: *mut ::std::ffi::c_void,
            out: *mut *mut ::std::ffi::c_void,
        ) -> ::std::ffi::c_int {
            let message = $crate::reading::Extent { data, bytes };
            let tail = $crate::reading::Extent {
                data: tail,
                bytes: tail_bytes,
            };
            // SAFETY: the caller's promise.
            unsafe { $crate::reading::isend_at::<$fabric>(comm, message, tail, tag, pinned, out) }
        }

        /// Lets the first bytes of a lent message of `length` bytes go elsewhere.
        ///
        /// # Safety
        /// As of the table's `irecv`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn kolo_net_divert(
            request: *mut ::std::ffi::c_void,
            data: *mut ::std::ffi::c_void,
            bytes: usize,
            length: usize,
            pinned: *mut ::std::ffi::c_void,
            taken: *mut ::std::ffi::c_int,
        ) -> ::std::ffi::c_int {
            // SAFETY: the caller's promise.
            unsafe {
                let place = $crate::reading::Extent { data, bytes };
                $crate::reading::divert::<$fabric>(request, place, length, pinned, taken)
            }
        }

        /// Tests a request of one buffer; reading does not begin while `hold` is not 0.
        ///
        /// # Safety
        /// As of the table's `test`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn kolo_net_test_at(
            request: *mut ::std::ffi::c_void,
            hold: ::std::ffi::c_int,
            done: *mut ::std::ffi::c_int,
            size: *mut ::std::ffi::c_int,
            placed: *mut ::std::ffi::c_int,
        ) -> ::std::ffi::c_int {
            // SAFETY: the caller's promise.
            unsafe { $crate::reading::test_at::<$fabric>(request, hold, done, size, placed) }
        }
    };
}
