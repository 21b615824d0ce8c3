//! PMIx: the server beside every process that `srun --mpi=pmix` or Open MPI's `mpirun` starts.
//!
//! `libpmix.so.2` is loaded when a server is there, so that kolo needs none to run. Layouts are
//! those of the PMIx standard's versions 3 and 4 (pmix.org), which later ones keep. The client is
//! initialised once and finalised when the process exits, which is one sleeping thread and one
//! socket: a process that ends without finalising counts as crashed, and one that finalises and
//! initialises again may lose its part in a fence (seen with Open MPI 4.1 on three nodes, once in
//! ten runs).

use super::exchange::{Exchange, too_late};
use super::variables::{Get, of_process};
use crate::base::clock::{LOOK, now};
use crate::base::{Code, Error, Result, own_thread, turns};
use crate::bootstrap::settings::NetSettings;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::Duration;

const LIBRARY: &str = "libpmix.so.2";
/// Names a file to be loaded in its place.
const LIBRARY_VARIABLE: &str = "KOLO_PMIX_LIBRARY";

/// How long the library may take for an answer that needs no other rank.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

const SUCCESS: c_int = 0;
const GLOBAL: u8 = 3;
const RANK_WILDCARD: u32 = u32::MAX - 1;
const TYPE_BOOL: u16 = 1;
const TYPE_UINT32: u16 = 14;
const TYPE_BYTE_OBJECT: u16 = 27;
const JOB_SIZE: &CStr = c"pmix.job.size";
const COLLECT_DATA: &CStr = c"pmix.collect";
/// A word whose first byte, as C's `bool` lies in it, is true.
const TRUE: [u8; 8] = [1, 0, 0, 0, 0, 0, 0, 0];

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Proc {
    nspace: [c_char; 256],
    rank: u32,
}

/// `pmix_value_t`; the longest members of its union have three words.
#[repr(C)]
struct Value {
    kind: u16,
    data: [usize; 3],
}

/// `pmix_info_t`.
#[repr(C)]
struct Info {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

const _: () = assert!(size_of::<Proc>() == 260);
const _: () = assert!(size_of::<Value>() == 32 && align_of::<Value>() == 8);
const _: () = assert!(size_of::<Info>() == 552);

type InitFn = unsafe extern "C" fn(*mut Proc, *const Info, usize) -> c_int;
type FinalizeFn = unsafe extern "C" fn(*const Info, usize) -> c_int;
type PutFn = unsafe extern "C" fn(u8, *const c_char, *const Value) -> c_int;
type CommitFn = unsafe extern "C" fn() -> c_int;
type FenceFn = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int;
type GetFn =
    unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;
type TextFn = unsafe extern "C" fn(c_int) -> *const c_char;

/// The library's functions.
struct Functions {
    init: InitFn,
    finalize: FinalizeFn,
    put: PutFn,
    commit: CommitFn,
    fence: FenceFn,
    get: GetFn,
    text: TextFn,
}

/// Whether the variables of a PMIx server are set.
pub fn is_offered(get: Get) -> bool {
    get("PMIX_NAMESPACE").is_some() && get("PMIX_RANK").is_some()
}

/// The library, loaded once and never unloaded: it keeps handlers of the process.
fn functions() -> Result<&'static Functions> {
    static LOADED: OnceLock<std::result::Result<Functions, String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        let name = of_process(LIBRARY_VARIABLE).unwrap_or_else(|| LIBRARY.into());
        load(name.as_ref()).map_err(|error| format!("{name} cannot be used: {error}"))
    });
    loaded.as_ref().map_err(|why| {
        Error::usage(
            format!("a PMIx server is there, but {why}"),
            format!(
                "install the PMIx library ({LIBRARY}; the package libpmix2 of Debian), or name it \
                 in {LIBRARY_VARIABLE}"
            ),
        )
    })
}

fn load(name: &std::ffi::OsStr) -> std::result::Result<Functions, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: the initialisers of the library only set up itself; its plugins look for its symbols
    // among the global ones.
    let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) }?;
    // SAFETY: the PMIx standard gives the functions these types.
    let functions = unsafe {
        Functions {
            init: *library.get::<InitFn>(b"PMIx_Init\0")?,
            finalize: *library.get::<FinalizeFn>(b"PMIx_Finalize\0")?,
            put: *library.get::<PutFn>(b"PMIx_Put\0")?,
            commit: *library.get::<CommitFn>(b"PMIx_Commit\0")?,
            fence: *library.get::<FenceFn>(b"PMIx_Fence\0")?,
            get: *library.get::<GetFn>(b"PMIx_Get\0")?,
            text: *library.get::<TextFn>(b"PMIx_Error_string\0")?,
        }
    };
    std::mem::forget(library);
    Ok(functions)
}

/// The client of this process; `None` before its first use and after its end.
static CLIENT: Mutex<Option<Client>> = Mutex::new(None);

/// A use of the client; others wait for its end.
pub struct Session(MutexGuard<'static, Option<Client>>);

impl Session {
    /// Loads the library and greets the server, unless that has been done.
    pub fn start() -> Result<Session> {
        let mut client = CLIENT.lock().unwrap_or_else(PoisonError::into_inner);
        if client.is_none() {
            *client = Some(Client::start()?);
            // SAFETY: the function may run at exit: it takes no lock that a dying thread may hold,
            // and the library, loaded before, is still there.
            unsafe { libc::atexit(say_farewell) };
        }
        Ok(Session(client))
    }

    fn client(&self) -> Result<&Client> {
        let client = self.0.as_ref();
        client.ok_or_else(|| Error::internal("the PMIx client has ended"))
    }
}

/// Ends the client of a process that exits.
extern "C" fn say_farewell() {
    // A thread that waits for other ranks holds the lock: then this is no orderly end anyway.
    let Ok(mut client) = CLIENT.try_lock() else {
        return;
    };
    if let Some(client) = client.take()
        && client.process == std::process::id()
    {
        // SAFETY: the client is initialised and not used after this. A failure concerns nobody.
        unsafe { (client.functions.finalize)(std::ptr::null(), 0) };
    }
}

/// A client of the server.
struct Client {
    functions: &'static Functions,
    me: Proc,
    nranks: u32,
    /// A forked child must not speak for its parent.
    process: u32,
}

impl Client {
    fn start() -> Result<Client> {
        let functions = functions()?;
        let me = greet(functions, ANSWER_LIMIT)?;
        let mut client = Client {
            functions,
            me,
            nranks: 0,
            process: std::process::id(),
        };
        client.nranks = client.job_size()?;
        if client.me.rank >= client.nranks {
            return Err(Error::usage(
                format!(
                    "the PMIx server says rank {} of {}",
                    client.me.rank, client.nranks
                ),
                "look into what changes the variables of the launcher",
            ));
        }
        Ok(client)
    }

    fn job_size(&self) -> Result<u32> {
        self.get(RANK_WILDCARD, JOB_SIZE, ANSWER_LIMIT, |value| {
            let number = value.data[0].to_ne_bytes();
            let number = u32::from_ne_bytes([number[0], number[1], number[2], number[3]]);
            (value.kind == TYPE_UINT32).then_some(number)
        })
    }

    /// Value that `rank` has put under `key`, as `read` understands it; an error where the library
    /// has not answered within `limit`.
    fn get<T: Send + 'static>(
        &self,
        rank: u32,
        key: &CStr,
        limit: Duration,
        read: fn(&Value) -> Option<T>,
    ) -> Result<T> {
        let (functions, whose, key) = (self.functions, Proc { rank, ..self.me }, key.to_owned());
        let found = within("kolo get", limit, move || {
            get(functions, &whose, &key, read)
        })?;
        found.unwrap_or_else(|| Err(silent("PMIx_Get", limit)))
    }

    fn put(&self, key: &CStr, bytes: &[u8]) -> Result<()> {
        let value = Value {
            kind: TYPE_BYTE_OBJECT,
            data: [bytes.as_ptr() as usize, bytes.len(), 0],
        };
        // SAFETY: the key is a string, and the library copies the bytes that the value names.
        let status = unsafe { (self.functions.put)(GLOBAL, key.as_ptr(), &value) };
        if status != SUCCESS {
            return Err(failed(self.functions, "PMIx_Put", status));
        }
        // SAFETY: the client is initialised.
        match unsafe { (self.functions.commit)() } {
            SUCCESS => Ok(()),
            status => Err(failed(self.functions, "PMIx_Commit", status)),
        }
    }

    /// Waits for all ranks of the job; what they have put can be got afterwards. False if they have
    /// not come within the limit.
    fn fence_within(&self, limit: Duration) -> Result<bool> {
        let functions = self.functions;
        let fenced = within("kolo fence", limit, move || fence(functions))?;
        fenced.map_or(Ok(false), |result| result.map(|()| true))
    }
}

/// Greets the server, which says who this process is; an error where it has not answered within
/// `limit`.
fn greet(functions: &'static Functions, limit: Duration) -> Result<Proc> {
    let greeted = within("kolo greet", limit, move || {
        let mut me = Proc {
            nspace: [0; 256],
            rank: 0,
        };
        // SAFETY: there is room for the answer; no attributes are given.
        match unsafe { (functions.init)(&mut me, std::ptr::null(), 0) } {
            SUCCESS => Ok(me),
            status => Err(failed(functions, "PMIx_Init", status)),
        }
    })?;
    greeted.unwrap_or_else(|| Err(silent("PMIx_Init", limit)))
}

/// The library has not come back from `call` within `limit`.
fn silent(call: &str, limit: Duration) -> Error {
    Error::new(
        Code::Timeout,
        format!(
            "the PMIx library has not answered {call} for {} s",
            limit.as_secs()
        ),
        "look for messages of the launcher; without PMIx, set KOLO_RANK, KOLO_NRANKS and \
         KOLO_COMM_ID",
    )
}

/// Does what may take long on a thread of its own. `None` when the limit has passed: the library
/// then goes on there, and nobody joins it.
fn within<T: Send + 'static>(
    name: &str,
    limit: Duration,
    act: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>> {
    let (say, hear) = mpsc::channel();
    let builder = std::thread::Builder::new().name(name.into());
    let begun = own_thread::start(builder, move || drop(say.send(act())));
    begun.map_err(|error| {
        let what = "cannot start a thread that asks the PMIx library";
        Error::system(what, &error, "raise the limit of processes (`ulimit -u`)")
    })?;
    let start = now();
    loop {
        let left = start.left(limit);
        match hear.recv_timeout(left.min(LOOK).min(turns::some_rest())) {
            Ok(result) => return Ok(Some(result)),
            Err(mpsc::RecvTimeoutError::Timeout) if !left.is_zero() => {}
            Err(_) => return Ok(None),
        }
    }
}

/// Value that a rank has put under `key`, without limit.
fn get<T>(
    functions: &Functions,
    whose: &Proc,
    key: &CStr,
    read: fn(&Value) -> Option<T>,
) -> Result<T> {
    let mut value = std::ptr::null_mut::<Value>();
    // SAFETY: the key is a string, there is room for the answer, no attributes are given.
    let status = unsafe {
        let no_info = std::ptr::null();
        (functions.get)(whose, key.as_ptr(), no_info, 0, &mut value)
    };
    if status != SUCCESS || value.is_null() {
        return Err(failed(functions, "PMIx_Get", status));
    }
    // SAFETY: a successful call gives a value that is the caller's.
    let held = unsafe { &*value };
    let found = read(held).ok_or_else(|| {
        Error::usage(
            format!(
                "the PMIx server has a value of type {} under {}",
                held.kind,
                key.to_string_lossy()
            ),
            "use the same version of kolo on every rank",
        )
    });
    // SAFETY: the library allocates values and byte objects with malloc and leaves them to the
    // caller; nothing borrows them any more.
    unsafe {
        if held.kind == TYPE_BYTE_OBJECT {
            libc::free(held.data[0] as *mut c_void);
        }
        libc::free(value.cast());
    }
    found
}

fn fence_here(functions: &Functions) -> Result<bool> {
    fence(functions).map(|()| true)
}

/// Waits for all ranks of the job, without limit.
fn fence(functions: &Functions) -> Result<()> {
    let mut collect = Info {
        key: [0; 512],
        flags: 0,
        value: Value {
            kind: TYPE_BOOL,
            data: [usize::from_ne_bytes(TRUE), 0, 0],
        },
    };
    for (place, &byte) in collect.key.iter_mut().zip(COLLECT_DATA.to_bytes()) {
        *place = byte as c_char;
    }
    // SAFETY: no list of processes means all of the job; one attribute is given.
    match unsafe { (functions.fence)(std::ptr::null(), 0, &collect, 1) } {
        SUCCESS => Ok(()),
        status => Err(failed(functions, "PMIx_Fence", status)),
    }
}

impl Exchange for Session {
    fn rank(&self) -> u32 {
        self.0.as_ref().map_or(0, |client| client.me.rank)
    }

    fn nranks(&self) -> u32 {
        self.0.as_ref().map_or(1, |client| client.nranks)
    }

    fn share(&mut self, key: &str, mine: Option<&[u8]>, settings: &NetSettings) -> Result<Vec<u8>> {
        let client = self.client()?;
        let key = CString::new(key).map_err(|_| Error::internal("a key with a zero byte"))?;
        if let Some(mine) = mine {
            client.put(&key, mine)?;
        }
        let met = match settings.meeting_limit() {
            Some((limit, _)) => client.fence_within(limit)?,
            None => fence_here(client.functions)?,
        };
        if !met {
            // It is in use for good: nobody must finalise it when the process ends.
            *self.0 = None;
            return Err(too_late(settings));
        }
        let got = client.get(0, &key, ANSWER_LIMIT, |value| {
            let (data, length) = (value.data[0] as *const u8, value.data[1]);
            let good = value.kind == TYPE_BYTE_OBJECT && !data.is_null();
            // SAFETY: a byte object names as many bytes as it says.
            good.then(|| unsafe { std::slice::from_raw_parts(data, length) }.to_vec())
        });
        if got.as_ref().is_err_and(|error| error.code == Code::Timeout) {
            // As above.
            *self.0 = None;
        }
        got
    }
}

fn failed(functions: &Functions, call: &str, status: c_int) -> Error {
    // SAFETY: the library gives a constant string for every number.
    let text = unsafe { CStr::from_ptr((functions.text)(status)) };
    Error::usage(
        format!("{call} failed with {status} ({})", text.to_string_lossy()),
        "look for messages of the launcher and of the other ranks; without PMIx, set KOLO_RANK, \
         KOLO_NRANKS and KOLO_COMM_ID",
    )
}

#[cfg(test)]
#[path = "pmix_tests.rs"]
mod tests;
