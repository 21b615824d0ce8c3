//! The table of functions behind calls that give kolo's errors.

use super::abi::*;
use crate::base::{Code, Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};

const THREAD_REMEDY: &str = "call MPI_Init_thread with MPI_THREAD_MULTIPLE, or call kolo from the \
                             thread that called MPI_Init only";
const RANK_REMEDY: &str = "look for the first message of MPI in the output of all ranks";

macro_rules! functions {
    ($($name:ident: $type:ty),* $(,)?) => {
        /// The functions, all there.
        #[derive(Clone, Copy)]
        struct Functions {
            $($name: $type,)*
        }

        impl Functions {
            /// The error names what is missing.
            fn of(table: &MpiNetTable) -> std::result::Result<Functions, &'static str> {
                Ok(Functions {
                    $($name: table.$name.ok_or(stringify!($name))?,)*
                })
            }
        }
    };
}

functions! {
    open: unsafe extern "C" fn(*mut c_void, *mut MpiNetInfo) -> c_int,
    may_call: unsafe extern "C" fn(*mut c_void) -> c_int,
    isend: unsafe extern "C" fn(
        *mut c_void, *const c_void, usize, c_int, c_int, *mut MpiRequest,
    ) -> c_int,
    irecv: unsafe extern "C" fn(
        *mut c_void, *mut c_void, usize, c_int, c_int, *mut MpiRequest,
    ) -> c_int,
    test: unsafe extern "C" fn(*mut c_void, *mut MpiRequest, *mut c_int, *mut usize) -> c_int,
    cancel: unsafe extern "C" fn(*mut c_void, *mut MpiRequest) -> c_int,
    poll: unsafe extern "C" fn(*mut c_void, *mut c_void, usize, c_int, *mut c_int) -> c_int,
    error_text: unsafe extern "C" fn(c_int, *mut c_char, usize),
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// MPI on a private communicator of the program's ranks.
pub struct Calls {
    functions: Functions,
    info: MpiNetInfo,
}

// SAFETY: the pointer is only handed back to the functions, which `may_call` guards.
unsafe impl Send for Calls {}
// SAFETY: as above.
unsafe impl Sync for Calls {}

fn bad_table(what: &str) -> Error {
    Error::argument(
        format!("the table of MPI's point-to-point functions {what}"),
        "libkolo_mpi and libkolo must come from the same installation",
    )
}

impl Calls {
    /// Checks the table and opens the network; collective.
    ///
    /// # Safety
    /// `table` is null or points to as many readable bytes as its first member says, its functions
    /// are as declared, and the context fits them.
    pub unsafe fn open(table: *const MpiNetTable, context: *mut c_void) -> Result<Calls> {
        if table.is_null() {
            return Err(bad_table("is a null pointer"));
        }
        // SAFETY: the caller says that the first member can be read; the rest only if it is there.
        let functions = unsafe {
            let size = (*table).size;
            if size < size_of::<MpiNetTable>() {
                return Err(bad_table(&format!("has only {size} bytes")));
            }
            if (*table).version != NET_VERSION {
                return Err(bad_table(&format!("has version {}", (*table).version)));
            }
            Functions::of(&*table)
        };
        let functions =
            functions.map_err(|name| bad_table(&format!("has a null pointer for {name}")))?;
        let mut info = MpiNetInfo {
            net: std::ptr::null_mut(),
            rank: 0,
            nranks: 0,
            thread_level: 0,
            most_tag: 0,
            most_bytes: 0,
        };
        // SAFETY: the caller's promise.
        let code = unsafe { (functions.open)(context, &mut info) };
        let calls = Calls { functions, info };
        calls.outcome("MPI_Comm_dup", None, code)?;
        if info.most_tag < 1 || info.most_bytes == 0 || !(0..info.nranks).contains(&info.rank) {
            return Err(bad_table(&format!(
                "opens a network that is none: {info:?}"
            )));
        }
        Ok(calls)
    }

    /// The answer of `open`.
    pub fn info(&self) -> &MpiNetInfo {
        &self.info
    }

    /// Whether this thread may call MPI now.
    pub fn may_call(&self) -> bool {
        // SAFETY: may be called by any thread until `close`.
        unsafe { (self.functions.may_call)(self.info.net) == MAY_CALL }
    }

    /// An error where this thread may not call MPI.
    pub fn check_thread(&self) -> Result<()> {
        // SAFETY: as in `may_call`.
        let error = match unsafe { (self.functions.may_call)(self.info.net) } {
            MAY_CALL => return Ok(()),
            FINALISED => Error::usage(
                "MPI carries the data between nodes (KOLO_NET=mpi), and it is finalised",
                "destroy kolo's communicators before MPI_Finalize",
            ),
            _ => {
                let level = match self.info.thread_level {
                    0 => "MPI_THREAD_SINGLE",
                    1 => "MPI_THREAD_FUNNELED",
                    _ => "MPI_THREAD_SERIALIZED",
                };
                let what = format!(
                    "MPI carries the data between nodes (KOLO_NET=mpi), and its thread level \
                     {level} does not allow this thread to call it"
                );
                Error::usage(what, THREAD_REMEDY)
            }
        };
        Err(error.during("MPI as the network"))
    }

    fn outcome(&self, call: &str, peer: Option<c_int>, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut text = [0 as c_char; 512];
        // SAFETY: room for so many bytes, the last of which stays zero.
        let words = unsafe {
            (self.functions.error_text)(code, text.as_mut_ptr(), text.len() - 1);
            CStr::from_ptr(text.as_ptr()).to_string_lossy()
        };
        let with = peer.map_or(String::new(), |peer| format!(" with rank {peer} of MPI"));
        let what = format!("{call}{with} failed: {words} (code {code})");
        Err(Error::new(Code::RemoteError, what, RANK_REMEDY).during("MPI as the network"))
    }

    /// Starts to send.
    ///
    /// # Safety
    /// This thread may call MPI; `data` stays readable and as it is until the request is done.
    pub unsafe fn isend(
        &self,
        data: *const u8,
        bytes: usize,
        rank: c_int,
        tag: c_int,
    ) -> Result<MpiRequest> {
        let mut request = NO_REQUEST;
        let (net, data) = (self.info.net, data.cast());
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.isend)(net, data, bytes, rank, tag, &mut request) };
        self.outcome("MPI_Isend", Some(rank), code)
            .map(|()| request)
    }

    /// Starts to receive.
    ///
    /// # Safety
    /// This thread may call MPI; `data` stays writable and left alone until the request is done.
    pub unsafe fn irecv(
        &self,
        data: *mut u8,
        bytes: usize,
        rank: c_int,
        tag: c_int,
    ) -> Result<MpiRequest> {
        let mut request = NO_REQUEST;
        let (net, data) = (self.info.net, data.cast());
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.irecv)(net, data, bytes, rank, tag, &mut request) };
        self.outcome("MPI_Irecv", Some(rank), code)
            .map(|()| request)
    }

    /// `Some(bytes received)` when the request is done; it is none then.
    ///
    /// # Safety
    /// This thread may call MPI, and the request is one that was not done.
    pub unsafe fn test(&self, request: &mut MpiRequest, rank: c_int) -> Result<Option<usize>> {
        let (mut done, mut received) = (0, 0);
        // SAFETY: the caller's promise.
        let code =
            unsafe { (self.functions.test)(self.info.net, request, &mut done, &mut received) };
        self.outcome("MPI_Test of a message", Some(rank), code)?;
        Ok((done != 0).then_some(received))
    }

    /// Gives a receive up; it is to be tested until it is done.
    ///
    /// # Safety
    /// As for `test`.
    pub unsafe fn cancel(&self, request: &mut MpiRequest, rank: c_int) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.cancel)(self.info.net, request) };
        self.outcome("MPI_Cancel", Some(rank), code)
    }

    /// The next message with this tag and the rank that sent it, if one is here.
    ///
    /// # Safety
    /// This thread may call MPI, and no other thread calls `poll`.
    pub unsafe fn poll(&self, message: &mut [u8], tag: c_int) -> Result<Option<c_int>> {
        let mut rank = -1;
        let (place, bytes) = (message.as_mut_ptr().cast(), message.len());
        // SAFETY: the caller's promise; the place has so many bytes.
        let code = unsafe { (self.functions.poll)(self.info.net, place, bytes, tag, &mut rank) };
        self.outcome("MPI_Recv", None, code)?;
        Ok((rank >= 0).then_some(rank))
    }

    /// Frees the private communicator.
    ///
    /// # Safety
    /// This thread may call MPI, and nothing uses the network any more.
    pub unsafe fn close(&self) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.functions.close)(self.info.net) };
        self.outcome("MPI_Comm_free", None, code)
    }
}
