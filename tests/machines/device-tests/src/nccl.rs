//! NCCL beside kolo, where its library is there: loaded when a step wants it, by its documented
//! functions.
//!
//! Reference: NVIDIA, "NCCL user guide", chapter "API".

use crate::report::Failure;
use kolo::cuda::{Context, StreamId};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;

/// Names the library.
const VARIABLE: &str = "KOLO_TEST_NCCL";
const LIBRARY: &str = "libnccl.so.2";
/// `ncclFloat32` and `ncclSum`.
const FLOAT32: c_int = 7;
const SUM: c_int = 0;

/// `ncclUniqueId`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Id([u8; 128]);

type Comm = *mut c_void;

/// The library.
pub struct Nccl {
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    unique_id: unsafe extern "C" fn(*mut Id) -> c_int,
    init: unsafe extern "C" fn(*mut Comm, c_int, Id, c_int) -> c_int,
    all_reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        Comm,
        *mut c_void,
    ) -> c_int,
    destroy: unsafe extern "C" fn(Comm) -> c_int,
    text: unsafe extern "C" fn(c_int) -> *const c_char,
    _library: Library,
}

/// Where the library is: named, or beside this program.
fn file() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    let beside = std::env::current_exe().ok()?.with_file_name(LIBRARY);
    beside.is_file().then_some(beside)
}

impl Nccl {
    /// The library, if it is there.
    ///
    /// # Errors
    /// It is there, and cannot be loaded.
    pub fn find() -> Result<Option<Nccl>, Failure> {
        let Some(file) = file() else {
            return Ok(None);
        };
        let failed = |error| Failure(format!("{}: {error}", file.display()));
        // SAFETY: the library sets up nothing but itself.
        let library = unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(failed)?;
        // SAFETY: these names are NCCL's, and so are the types.
        let found = unsafe {
            Nccl {
                version: *library.get(b"ncclGetVersion\0").map_err(failed)?,
                unique_id: *library.get(b"ncclGetUniqueId\0").map_err(failed)?,
                init: *library.get(b"ncclCommInitRank\0").map_err(failed)?,
                all_reduce: *library.get(b"ncclAllReduce\0").map_err(failed)?,
                destroy: *library.get(b"ncclCommDestroy\0").map_err(failed)?,
                text: *library.get(b"ncclGetErrorString\0").map_err(failed)?,
                _library: library,
            }
        };
        Ok(Some(found))
    }

    fn check(&self, code: c_int, call: &str) -> Result<(), Failure> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the library returns a constant text for every number.
        let text = unsafe { CStr::from_ptr((self.text)(code)) };
        Err(Failure(format!("{call}: {}", text.to_string_lossy())))
    }

    /// Its version: 23003 is 2.30.3.
    ///
    /// # Errors
    /// The library's.
    pub fn version(&self) -> Result<i32, Failure> {
        let mut version = 0;
        // SAFETY: the library writes one number.
        let code = unsafe { (self.version)(&raw mut version) };
        self.check(code, "ncclGetVersion")?;
        Ok(version)
    }

    /// Makes an id, which the ranks of a communicator have in common.
    ///
    /// # Errors
    /// The library's.
    pub fn unique_id(&self) -> Result<Id, Failure> {
        let mut id = Id([0; 128]);
        // SAFETY: the library writes the 128 bytes.
        let code = unsafe { (self.unique_id)(&raw mut id) };
        self.check(code, "ncclGetUniqueId")?;
        Ok(id)
    }

    /// A rank on the device of this context. All ranks call it at once.
    ///
    /// # Errors
    /// The library's.
    pub fn join<'n>(
        &'n self,
        context: &'n Context,
        id: Id,
        (rank, nranks): (u32, u32),
    ) -> Result<NcclRank<'n>, Failure> {
        let _current = context.enter()?;
        let mut comm = std::ptr::null_mut();
        // SAFETY: the library writes one address; the context is the current one.
        let code = unsafe { (self.init)(&raw mut comm, nranks as c_int, id, rank as c_int) };
        self.check(code, "ncclCommInitRank")?;
        Ok(NcclRank {
            nccl: self,
            context,
            comm,
        })
    }
}

/// A rank of a communicator of NCCL.
pub struct NcclRank<'n> {
    nccl: &'n Nccl,
    context: &'n Context,
    comm: Comm,
}

impl NcclRank<'_> {
    /// Puts a sum of floats on the stream.
    ///
    /// # Errors
    /// The library's.
    ///
    /// # Safety
    /// The buffers have so many floats until the stream has passed the call.
    pub unsafe fn sum(
        &self,
        (send, recv): (*const u8, *mut u8),
        count: usize,
        on: StreamId,
    ) -> Result<(), Failure> {
        let _current = self.context.enter()?;
        let (function, stream) = (self.nccl.all_reduce, on.0 as usize as *mut c_void);
        // SAFETY: the caller's promise; the communicator and the stream live.
        let code = unsafe {
            function(
                send.cast(),
                recv.cast(),
                count,
                FLOAT32,
                SUM,
                self.comm,
                stream,
            )
        };
        self.nccl.check(code, "ncclAllReduce")
    }
}

impl Drop for NcclRank<'_> {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: made by `join`, and destroyed once.
            unsafe { (self.nccl.destroy)(self.comm) };
        }
    }
}
