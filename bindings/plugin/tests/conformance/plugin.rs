//! The library, loaded as kolo loads it, and its table as checked calls.

use crate::site;
use kolo_plugin::abi::{CommConfig, Properties, Table};
use libloading::{Library, Symbol};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Where cargo put the library; builds it, except where all is built.
pub fn path() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let (profile, folder) = match cfg!(debug_assertions) {
            true => ("dev", "debug"),
            false => ("release", "release"),
        };
        if !site::is_built() {
            let status = Command::new(env!("CARGO"))
                .args([
                    "build",
                    "--quiet",
                    "-p",
                    site::PACKAGE,
                    "--profile",
                    profile,
                ])
                .arg("--target-dir")
                .arg(target)
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status()
                .unwrap();
            assert!(status.success(), "{} does not build", site::FILE);
        }
        target.join(folder).join(site::FILE)
    };
    PATH.get_or_init(find).clone()
}

/// Checks that it cannot be loaded, with a reason that names what is missing, where a library that
/// it calls by the name `needed` is not there.
pub fn loads_not_without(needed: &str) {
    // The library as it is, but it asks for another version, which no machine has.
    let mut bytes = std::fs::read(path()).unwrap();
    let (have, want) = (format!("{needed}.so.1\0"), format!("{needed}.so.0"));
    let places: Vec<usize> = (0..bytes.len() - have.len())
        .filter(|&at| bytes[at..].starts_with(have.as_bytes()))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + want.len()].copy_from_slice(want.as_bytes());
    }
    let copy = format!("kolo-{}-without-{needed}.so", std::process::id());
    let copy = std::env::temp_dir().join(copy);
    std::fs::write(&copy, bytes).unwrap();
    // SAFETY: nothing of the copy runs when it cannot be loaded.
    let loaded = unsafe { Library::new(&copy) };
    std::fs::remove_file(&copy).unwrap();
    let reason = loaded.err().unwrap().to_string();
    assert!(reason.contains(&want), "{reason}");
}

/// Code and sentence of a failed call.
#[derive(Clone, Debug)]
pub struct Failure {
    pub code: c_int,
    pub text: String,
}

pub type Result<T> = std::result::Result<T, Failure>;

/// The network while a test uses it. Tests take turns: settings are the process's.
pub struct Net {
    table: &'static Table,
    context: *mut c_void,
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // SAFETY: the library has no initialisers beyond those of its own code.
        unsafe { Library::new(path()) }.unwrap()
    })
}

fn table() -> &'static Table {
    // SAFETY: the symbol is a table of this form.
    let symbol: Symbol<*const Table> = unsafe { library().get(b"ncclNetPlugin_v11\0") }.unwrap();
    // SAFETY: the library is never unloaded.
    unsafe { &**symbol }
}

fn last_error() -> String {
    // SAFETY: the functions have these types, and the string lives until the next error.
    unsafe {
        let last: Symbol<extern "C" fn() -> *const c_char> =
            library().get(b"kolo_net_last_error\0").unwrap();
        CStr::from_ptr(last()).to_str().unwrap().to_owned()
    }
}

pub fn check(code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Failure {
            code,
            text: last_error(),
        }),
    }
}

pub fn configure(key: &str, value: &str) -> Result<()> {
    let (key, value) = (CString::new(key).unwrap(), CString::new(value).unwrap());
    // SAFETY: the function has this type and takes two strings.
    check(unsafe {
        let set: Symbol<unsafe extern "C" fn(*const c_char, *const c_char) -> c_int> =
            library().get(b"kolo_net_configure\0").unwrap();
        set(key.as_ptr(), value.as_ptr())
    })
}

unsafe extern "C" fn hear(level: c_int, text: *const c_char) {
    // SAFETY: the library gives strings.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    println!("    log {level}: {text}");
    LOG.lock().unwrap().push(format!("{level} {text}"));
}

/// Lines of the log since the last call; the level first.
pub fn log() -> Vec<String> {
    std::mem::take(&mut LOG.lock().unwrap())
}

impl Net {
    pub fn start(settings: &[(&str, &str)]) -> Result<Net> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in site::USUAL.iter().chain(settings) {
            configure(key, value).unwrap();
        }
        // SAFETY: the function has this type.
        unsafe {
            type SetLog = extern "C" fn(Option<unsafe extern "C" fn(c_int, *const c_char)>);
            let set: Symbol<SetLog> = library().get(b"kolo_net_set_log\0").unwrap();
            set(Some(hear));
        }
        let table = table();
        let mut context = null_mut();
        // SAFETY: a place for the context; no configuration and no logger.
        check(unsafe { (table.init)(&raw mut context, 7, null(), None, null()) })?;
        Ok(Net {
            table,
            context,
            _turn: turn,
        })
    }

    /// One more communicator that uses the network, and is gone again.
    pub fn used_by_another(&self) {
        let mut context = null_mut();
        let config = CommConfig { traffic_class: 32 };
        // SAFETY: a place for the context, and a configuration.
        unsafe {
            check((self.table.init)(
                &raw mut context,
                8,
                &raw const config,
                None,
                null(),
            ))
            .unwrap();
            assert!(!context.is_null() && context != self.context);
            check((self.table.finalize)(context)).unwrap();
        }
    }

    pub fn devices(&self) -> i32 {
        let mut count = -1;
        // SAFETY: a place for the number.
        check(unsafe { (self.table.devices)(&raw mut count) }).unwrap();
        count
    }

    pub fn properties(&self, device: i32) -> Result<Properties> {
        let mut place = MaybeUninit::uninit();
        // SAFETY: a place for the properties, which the call fills when it succeeds.
        unsafe {
            check((self.table.get_properties)(device, place.as_mut_ptr()))?;
            Ok(place.assume_init())
        }
    }

    pub fn name(&self, device: i32) -> String {
        let properties = self.properties(device).unwrap();
        // SAFETY: the name is a string that lives as long as the network.
        unsafe { CStr::from_ptr(properties.name) }
            .to_str()
            .unwrap()
            .to_owned()
    }

    pub fn listen(&self, device: i32) -> Result<(Handle, Listener)> {
        let (mut handle, mut raw) = (Handle([0; 128]), null_mut());
        // SAFETY: places for a handle and for the listener.
        check(unsafe {
            (self.table.listen)(
                self.context,
                device,
                handle.0.as_mut_ptr().cast(),
                &raw mut raw,
            )
        })?;
        let table = self.table;
        Ok((handle, Listener { table, raw }))
    }

    /// The sending end, or `None`: not yet. The handle is the caller's own copy.
    pub fn connect(&self, device: i32, handle: &mut Handle) -> Result<Option<Comm>> {
        let mut raw = null_mut();
        let bytes = handle.0.as_mut_ptr().cast();
        // SAFETY: a handle of 128 bytes, and a place for the connection.
        check(unsafe {
            (self.table.connect)(self.context, device, bytes, &raw mut raw, null_mut())
        })?;
        Ok(Comm::new(self.table, raw, true))
    }

    /// A connection from one device to another.
    pub fn pair(&self, from: i32, to: i32) -> Result<(Comm, Comm)> {
        let (mut handle, listener) = self.listen(to)?;
        let start = Instant::now();
        let (mut sender, mut receiver) = (None, None);
        while sender.is_none() || receiver.is_none() {
            if sender.is_none() {
                sender = self.connect(from, &mut handle)?;
            }
            if receiver.is_none() {
                receiver = listener.accept()?;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "no connection");
            std::thread::yield_now();
        }
        Ok((sender.unwrap(), receiver.unwrap()))
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: the context is of init.
        check(unsafe { (self.table.finalize)(self.context) }).unwrap();
    }
}

#[derive(Clone)]
pub struct Handle(pub [u8; 128]);

impl Handle {
    pub fn abandon(&mut self) {
        // SAFETY: the function has this type and takes a handle.
        unsafe {
            let abandon: Symbol<unsafe extern "C" fn(*mut c_void)> =
                library().get(b"kolo_net_abandon\0").unwrap();
            abandon(self.0.as_mut_ptr().cast());
        }
    }
}

pub struct Listener {
    table: &'static Table,
    raw: *mut c_void,
}

impl Listener {
    pub fn accept(&self) -> Result<Option<Comm>> {
        let mut raw = null_mut();
        // SAFETY: the listener is open, and there is a place for the connection.
        check(unsafe { (self.table.accept)(self.raw, &raw mut raw, null_mut()) })?;
        Ok(Comm::new(self.table, raw, false))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // SAFETY: the listener is open.
        check(unsafe { (self.table.close_listen)(self.raw) }).unwrap();
    }
}

/// One end of a connection. Dropped ends are closed.
pub struct Comm {
    table: &'static Table,
    raw: *mut c_void,
    sends: bool,
}

// SAFETY: a connection is used by one thread at a time, any.
unsafe impl Send for Comm {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request(pub *mut c_void);

// SAFETY: as for the connection that it belongs to.
unsafe impl Send for Request {}

#[derive(Clone, Copy, Debug)]
pub struct Memory(*mut c_void);

// SAFETY: a registration may be used by any thread.
unsafe impl Send for Memory {}

/// A buffer of a test: address, size, tag, registration.
pub type Place = (*mut u8, usize, i32, Memory);

#[allow(dead_code)] // Not every network has all.
impl Comm {
    fn new(table: &'static Table, raw: *mut c_void, sends: bool) -> Option<Comm> {
        (!raw.is_null()).then_some(Comm { table, raw, sends })
    }

    /// The table's pointer.
    pub fn raw(&self) -> *mut c_void {
        self.raw
    }

    /// Registers memory: kind 1 is the host's, 2 a device's.
    pub fn register(&self, data: *mut u8, bytes: usize, kind: i32) -> Result<Memory> {
        let mut memory = null_mut();
        // SAFETY: the connection is open; the test keeps the memory.
        check(unsafe { (self.table.reg_mr)(self.raw, data.cast(), bytes, kind, &raw mut memory) })?;
        Ok(Memory(memory))
    }

    pub fn register_dmabuf(&self, data: *mut u8, bytes: usize, fd: i32) -> Result<Memory> {
        let mut memory = null_mut();
        let out = &raw mut memory;
        // SAFETY: the connection is open.
        check(unsafe { (self.table.reg_mr_dma_buf)(self.raw, data.cast(), bytes, 2, 0, fd, out) })?;
        Ok(Memory(memory))
    }

    pub fn deregister(&self, memory: Memory) {
        // SAFETY: the registration is of this connection, and is given back once.
        check(unsafe { (self.table.dereg_mr)(self.raw, memory.0) }).unwrap();
    }

    /// The sentence of a registration that is not one.
    pub fn forget(&self, memory: Memory) -> String {
        // SAFETY: the library looks the pointer up and does not follow it.
        let result = check(unsafe { (self.table.dereg_mr)(self.raw, memory.0) });
        result.unwrap_err().text
    }

    pub fn isend(&self, (data, bytes, tag, memory): Place) -> Result<Option<Request>> {
        let mut request = null_mut();
        let data = data.cast();
        // SAFETY: the connection is open; the test keeps the memory until the request is done.
        check(unsafe {
            let out = &raw mut request;
            (self.table.isend)(self.raw, data, bytes, tag, memory.0, null_mut(), out)
        })?;
        Ok((!request.is_null()).then_some(Request(request)))
    }

    pub fn irecv(&self, places: &[Place]) -> Result<Option<Request>> {
        let data: Vec<*mut c_void> = places.iter().map(|place| place.0.cast()).collect();
        let sizes: Vec<usize> = places.iter().map(|place| place.1).collect();
        let tags: Vec<c_int> = places.iter().map(|place| place.2).collect();
        let memory: Vec<*mut c_void> = places.iter().map(|place| place.3.0).collect();
        let mut request = null_mut();
        // SAFETY: the arrays have as many entries as there are places.
        check(unsafe {
            (self.table.irecv)(
                self.raw,
                places.len() as c_int,
                data.as_ptr(),
                sizes.as_ptr(),
                tags.as_ptr(),
                memory.as_ptr(),
                null(),
                &raw mut request,
            )
        })?;
        Ok((!request.is_null()).then_some(Request(request)))
    }

    pub fn iflush(&self, places: &[Place]) -> Result<Option<Request>> {
        let data: Vec<*mut c_void> = places.iter().map(|place| place.0.cast()).collect();
        let sizes: Vec<c_int> = places.iter().map(|place| place.1 as c_int).collect();
        let memory: Vec<*mut c_void> = places.iter().map(|place| place.3.0).collect();
        let (count, mut request) = (places.len() as c_int, null_mut());
        let (data, sizes, memory) = (data.as_ptr(), sizes.as_ptr(), memory.as_ptr());
        // SAFETY: the arrays have as many entries as there are places.
        check(unsafe {
            (self.table.iflush)(self.raw, count, data, sizes, memory, &raw mut request)
        })?;
        Ok((!request.is_null()).then_some(Request(request)))
    }

    /// The sizes of a request's messages, when it is done.
    pub fn test(&self, request: Request) -> Result<Option<[c_int; 8]>> {
        let (mut done, mut sizes) = (-1, [-1; 8]);
        // SAFETY: the request is of an open connection; there is room for eight sizes.
        check(unsafe { (self.table.test)(request.0, &raw mut done, sizes.as_mut_ptr()) })?;
        Ok((done == 1).then_some(sizes))
    }

    /// Tests until it is done or fails.
    pub fn wait(&self, request: Request) -> Result<[c_int; 8]> {
        until(30, || self.test(request))
    }

    pub fn close(self) -> Result<()> {
        let raw = self.raw;
        let close = if self.sends {
            self.table.close_send
        } else {
            self.table.close_recv
        };
        std::mem::forget(self);
        // SAFETY: the connection is open, and this was its last use.
        check(unsafe { close(raw) })
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        let close = if self.sends {
            self.table.close_send
        } else {
            self.table.close_recv
        };
        // SAFETY: the connection is open. It may have failed: tests look at errors before.
        unsafe { close(self.raw) };
    }
}

/// Calls until there is an answer.
pub fn until<T>(seconds: u64, mut call: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = call()? {
            return Ok(answer);
        }
        assert!(
            start.elapsed() < Duration::from_secs(seconds),
            "no end after {seconds} s"
        );
        std::thread::yield_now();
    }
}

/// Calls until there is a failure, and how long it took.
pub fn until_failure<T>(
    seconds: u64,
    mut call: impl FnMut() -> Result<Option<T>>,
) -> (Failure, Duration) {
    let start = Instant::now();
    loop {
        if let Err(failure) = call() {
            return (failure, start.elapsed());
        }
        assert!(
            start.elapsed() < Duration::from_secs(seconds),
            "no failure after {seconds} s"
        );
        std::thread::yield_now();
    }
}
