//! Functions of a plugin whose receiving ends read messages from where they lie, all of them or
//! none.
//!
//! - `int kolo_net_pin(int device, void *data, size_t bytes, void **pinned)`: makes memory known to
//!   a device, for all of its connections.
//! - `int kolo_net_unpin(void *pinned)`.
//! - `int kolo_net_is_read(void *comm)`: 1 where messages of this sending end may be lent.
//! - `int kolo_net_isend_at(void *comm, void *data, size_t bytes, const void *tail,
//!   size_t tail_bytes, int tag, void *pinned, void **request)`: a message that is lent.
//! - `int kolo_net_divert(void *request, void *data, size_t bytes, size_t length, void *pinned,
//!   int *taken)`: where a lent message of this length goes.
//! - `int kolo_net_test_at(void *request, int hold, int *done, int *size, int *placed)`: `test` of
//!   one buffer; while `hold` is not 0, reading does not begin.

use super::calls::Outcome;
use libloading::os::unix::Library;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

type PinFn = unsafe extern "C" fn(c_int, *mut c_void, usize, *mut *mut c_void) -> c_int;
type PinnedFn = unsafe extern "C" fn(*mut c_void) -> c_int;
type IsendAtFn = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    usize,
    *const c_void,
    usize,
    c_int,
    *mut c_void,
    *mut *mut c_void,
) -> c_int;
type DivertFn =
    unsafe extern "C" fn(*mut c_void, *mut c_void, usize, usize, *mut c_void, *mut c_int) -> c_int;
type TestAtFn =
    unsafe extern "C" fn(*mut c_void, c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int;

/// See the file's first line.
#[derive(Clone, Copy)]
pub struct ReadingCalls {
    pin: PinFn,
    unpin: PinnedFn,
    is_read: PinnedFn,
    isend_at: IsendAtFn,
    divert: DivertFn,
    test_at: TestAtFn,
}

/// Memory of the program at an address.
#[derive(Clone, Copy)]
pub struct Stretch {
    pub data: *mut c_void,
    pub bytes: usize,
    /// Handle of the pinned memory that it lies in.
    pub pinned: *mut c_void,
}

/// A message that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    pub bytes: usize,
    pub is_diverted: bool,
}

fn outcome<T>(code: c_int, value: T) -> Outcome<T> {
    match code {
        super::abi::SUCCESS => Ok(value),
        code => Err(code),
    }
}

impl ReadingCalls {
    /// Looks them up.
    ///
    /// # Safety
    /// Functions of these names have the types above, and the library stays loaded.
    pub unsafe fn find(library: &Library) -> Option<ReadingCalls> {
        // SAFETY: the caller's promise, for all of them.
        unsafe {
            Some(ReadingCalls {
                pin: *library.get(b"kolo_net_pin\0").ok()?,
                unpin: *library.get(b"kolo_net_unpin\0").ok()?,
                is_read: *library.get(b"kolo_net_is_read\0").ok()?,
                isend_at: *library.get(b"kolo_net_isend_at\0").ok()?,
                divert: *library.get(b"kolo_net_divert\0").ok()?,
                test_at: *library.get(b"kolo_net_test_at\0").ok()?,
            })
        }
    }

    /// Pins memory for a device.
    ///
    /// # Safety
    /// The memory stays mapped until it is unpinned, or changes only after that.
    pub unsafe fn pin(&self, device: c_int, data: usize, bytes: usize) -> Outcome<*mut c_void> {
        let mut pinned = null_mut();
        // SAFETY: the caller's promise, and a place for the handle.
        let code = unsafe { (self.pin)(device, data as *mut c_void, bytes, &mut pinned) };
        outcome(code, pinned)
    }

    /// Gives it back.
    ///
    /// # Safety
    /// It came from `pin`, and no request uses it.
    pub unsafe fn unpin(&self, pinned: *mut c_void) -> Outcome<()> {
        // SAFETY: the caller's promise.
        outcome(unsafe { (self.unpin)(pinned) }, ())
    }

    /// Whether messages of a sending end may be lent.
    ///
    /// # Safety
    /// `comm` is open.
    pub unsafe fn is_read(&self, comm: *mut c_void) -> bool {
        // SAFETY: the caller's promise.
        unsafe { (self.is_read)(comm) == 1 }
    }

    /// Starts a message that is lent; null: not yet.
    ///
    /// # Safety
    /// `comm` is open; the message stays pinned and unchanged until its request is done.
    pub unsafe fn isend_at(
        &self,
        comm: *mut c_void,
        message: Stretch,
        tail: &[u8],
        tag: c_int,
    ) -> Outcome<*mut c_void> {
        let mut request = null_mut();
        let Stretch {
            data,
            bytes,
            pinned,
        } = message;
        let (place, length) = (tail.as_ptr().cast(), tail.len());
        // SAFETY: the caller's promise, and a place for the request.
        let code = unsafe {
            let out = &mut request;
            (self.isend_at)(comm, data, bytes, place, length, tag, pinned, out)
        };
        outcome(code, request)
    }

    /// Lets a lent message of `length` bytes go elsewhere; false: too late.
    ///
    /// # Safety
    /// The request is not done; the place stays pinned and is left alone until it is.
    pub unsafe fn divert(&self, request: *mut c_void, to: Stretch, length: usize) -> Outcome<bool> {
        let mut taken = 0;
        // SAFETY: the caller's promise, and a place for a number.
        let code =
            unsafe { (self.divert)(request, to.data, to.bytes, length, to.pinned, &mut taken) };
        outcome(code, taken != 0)
    }

    /// Moves on; the message, when the request of one buffer is done.
    ///
    /// # Safety
    /// The request was not said to be done, and its connection is open.
    pub unsafe fn test_at(&self, request: *mut c_void, hold: bool) -> Outcome<Option<Arrived>> {
        let (mut done, mut size, mut placed) = (0, 0, 0);
        // SAFETY: the caller's promise, and places for numbers.
        let code = unsafe {
            let hold = c_int::from(hold);
            (self.test_at)(request, hold, &mut done, &mut size, &mut placed)
        };
        let arrived = Arrived {
            bytes: usize::try_from(size).unwrap_or(0),
            is_diverted: placed != 0,
        };
        outcome(code, (done != 0).then_some(arrived))
    }
}
