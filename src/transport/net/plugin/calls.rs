//! The four tables behind one set of calls.
//!
//! Versions differ in few functions; each of those is an enumeration here, and nobody else asks
//! for the version. A table without a function that kolo calls is refused as a whole.

use super::abi::*;
use super::log;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

/// Answer of a plugin: `Err` holds its result code.
pub type Outcome<T> = std::result::Result<T, c_int>;

/// Name of the exported table of each version, best first.
pub const SYMBOLS: [(u32, &str); 4] = [
    (11, "ncclNetPlugin_v11"),
    (10, "ncclNetPlugin_v10"),
    (9, "ncclNetPlugin_v9"),
    (8, "ncclNetPlugin_v8"),
];

/// No class of traffic was asked for.
const NO_TRAFFIC_CLASS: c_int = -1;
/// Most bytes that old plugins take in one message, and that every plugin can report.
pub const MOST_BYTES: usize = c_int::MAX as usize;

#[derive(Clone, Copy)]
enum Init {
    V8(InitV8),
    V10(InitV10),
    V11(InitV11),
}

#[derive(Clone, Copy)]
enum Tell {
    V8(PropertiesFn<PropertiesV8>),
    V9(PropertiesFn<PropertiesV11>),
}

#[derive(Clone, Copy)]
enum Listen {
    V8(ListenV8),
    V11(ListenV11),
}

#[derive(Clone, Copy)]
enum Connect {
    V8(ConnectV8),
    V10(ConnectV10),
    V11(ConnectV11),
}

#[derive(Clone, Copy)]
enum Isend {
    V8(SendFn<c_int>),
    V9(SendFn<usize>),
    V10(SendV10),
}

#[derive(Clone, Copy)]
enum Irecv {
    V8(ReceiveFn<c_int>),
    V9(ReceiveFn<usize>),
    V10(ReceiveV10),
}

/// A table of any version.
pub struct Calls {
    /// Which version.
    pub version: u32,
    /// The plugin's name of itself.
    pub name: String,
    init: Init,
    devices: DevicesFn,
    properties: Tell,
    listen: Listen,
    connect: Connect,
    accept: AcceptFn,
    register: RegisterFn,
    deregister: DeregisterFn,
    isend: Isend,
    irecv: Irecv,
    test: TestFn,
    /// Closes what `connect` gave.
    pub close_send: ObjectFn,
    /// Closes what `accept` gave.
    pub close_recv: ObjectFn,
    /// Closes what `listen` gave.
    pub close_listen: ObjectFn,
    finalize: Option<ObjectFn>,
}

/// One buffer for [`Calls::irecv`].
#[derive(Clone, Copy)]
pub struct Buffer {
    pub data: *mut c_void,
    pub bytes: usize,
    pub tag: c_int,
    pub registration: *mut c_void,
}

impl Buffer {
    /// No buffer.
    pub const NONE: Buffer = Buffer {
        data: null_mut(),
        bytes: 0,
        tag: 0,
        registration: null_mut(),
    };
}

/// Properties of a device in plain values.
pub struct DeviceProperties {
    pub name: String,
    pub pci_path: Option<String>,
    pub pointers: c_int,
    pub speed_mbits: c_int,
    pub port: c_int,
    pub latency_us: f32,
    pub max_connections: c_int,
    pub max_receives: c_int,
    /// `None` where the version does not tell.
    pub max_message_bytes: Option<usize>,
}

/// Whether the table has it; the error names it.
fn need<T>(function: Option<T>, name: &str) -> std::result::Result<T, String> {
    function.ok_or_else(|| format!("its table has no {name}"))
}

macro_rules! collect {
    ($table:expr, $version:expr, $init:ident, $tell:ident, $listen:ident, $connect:ident,
     $send:ident, $receive:ident, $finalize:expr) => {{
        let table = $table;
        Ok(Calls {
            version: $version,
            name: text(table.name).unwrap_or_else(|| "without name".into()),
            init: Init::$init(need(table.init, "init")?),
            devices: need(table.devices, "devices")?,
            properties: Tell::$tell(need(table.properties, "getProperties")?),
            listen: Listen::$listen(need(table.listen, "listen")?),
            connect: Connect::$connect(need(table.connect, "connect")?),
            accept: need(table.accept, "accept")?,
            register: need(table.register, "regMr")?,
            deregister: need(table.deregister, "deregMr")?,
            isend: Isend::$send(need(table.isend, "isend")?),
            irecv: Irecv::$receive(need(table.irecv, "irecv")?),
            test: need(table.test, "test")?,
            close_send: need(table.close_send, "closeSend")?,
            close_recv: need(table.close_recv, "closeRecv")?,
            close_listen: need(table.close_listen, "closeListen")?,
            finalize: $finalize,
        })
    }};
}

/// # Safety
/// `place` is null or a string.
unsafe fn text(place: *const c_char) -> Option<String> {
    if place.is_null() {
        return None;
    }
    // SAFETY: not null, so a string by the caller's promise.
    let words = unsafe { CStr::from_ptr(place) };
    Some(words.to_string_lossy().into_owned())
}

fn outcome<T>(code: c_int, value: T) -> Outcome<T> {
    match code {
        SUCCESS => Ok(value),
        code => Err(code),
    }
}

fn configuration() -> Configuration {
    Configuration {
        traffic_class: NO_TRAFFIC_CLASS,
    }
}

impl Calls {
    /// Reads the table of a version; the error is why it cannot be used.
    ///
    /// # Safety
    /// `table` points to a table of that version that stays as it is.
    pub unsafe fn read(version: u32, table: *const c_void) -> std::result::Result<Calls, String> {
        // SAFETY: the caller's promise, in each arm; names are null or strings of the plugin.
        unsafe {
            match version {
                8 => collect!(&*table.cast::<NetV8>(), 8, V8, V8, V8, V8, V8, V8, None),
                9 => collect!(&*table.cast::<NetV9>(), 9, V8, V9, V8, V8, V9, V9, None),
                10 => collect!(
                    &*table.cast::<NetV10>(),
                    10,
                    V10,
                    V9,
                    V8,
                    V10,
                    V10,
                    V10,
                    None
                ),
                _ => {
                    let table = &*table.cast::<NetV11>();
                    collect!(table, 11, V11, V9, V11, V11, V10, V10, table.finalize)
                }
            }
        }
    }

    /// Starts the plugin; the context is null before version 11.
    pub fn init(&self) -> Outcome<*mut c_void> {
        let mut context = null_mut();
        let (log, profiler) = (log::function(), log::profiler());
        // SAFETY: all arguments are what the version asks for.
        let code = unsafe {
            match self.init {
                Init::V8(init) => init(log),
                Init::V10(init) => init(log, profiler),
                Init::V11(init) => init(&mut context, 0, &mut configuration(), log, profiler),
            }
        };
        outcome(code, context)
    }

    /// Ends the context of `init`.
    ///
    /// # Safety
    /// The context is that of `init`, and nothing uses it any more.
    pub unsafe fn finalize(&self, context: *mut c_void) {
        if let Some(finalize) = self.finalize {
            // SAFETY: the caller's promise. What it gives can no longer matter to anybody.
            unsafe { finalize(context) };
        }
    }

    /// The number of devices.
    pub fn devices(&self) -> Outcome<usize> {
        let mut count = 0;
        // SAFETY: a number to write.
        let code = unsafe { (self.devices)(&mut count) };
        outcome(code, usize::try_from(count).unwrap_or(0))
    }

    /// Asks the plugin for the properties of device `number`.
    pub fn properties(&self, number: c_int) -> Outcome<DeviceProperties> {
        // SAFETY: all members may be zero; the plugin fills what its version has, and its strings
        // stay.
        unsafe {
            match self.properties {
                Tell::V8(tell) => {
                    let mut p: PropertiesV8 = std::mem::zeroed();
                    outcome(tell(number, &mut p), ())?;
                    Ok(DeviceProperties {
                        name: text(p.name).unwrap_or_default(),
                        pci_path: text(p.pci_path),
                        pointers: p.pointers,
                        speed_mbits: p.speed_mbits,
                        port: p.port,
                        latency_us: p.latency_us,
                        max_connections: p.max_connections,
                        max_receives: p.max_receives,
                        max_message_bytes: None,
                    })
                }
                Tell::V9(tell) => {
                    let mut p: PropertiesV11 = std::mem::zeroed();
                    outcome(tell(number, &mut p), ())?;
                    Ok(DeviceProperties {
                        name: text(p.name).unwrap_or_default(),
                        pci_path: text(p.pci_path),
                        pointers: p.pointers,
                        speed_mbits: p.speed_mbits,
                        port: p.port,
                        latency_us: p.latency_us,
                        max_connections: p.max_connections,
                        max_receives: p.max_receives,
                        max_message_bytes: Some(p.max_message_bytes),
                    })
                }
            }
        }
    }

    /// Opens the receiving end; `handle` gets what a sender needs.
    ///
    /// # Safety
    /// The context is that of `init`.
    pub unsafe fn listen(
        &self,
        context: *mut c_void,
        device: c_int,
        handle: &mut HandleBytes,
    ) -> Outcome<*mut c_void> {
        let mut comm = null_mut();
        let handle = handle.0.as_mut_ptr().cast();
        // SAFETY: the handle has the length of all handles.
        let code = unsafe {
            match self.listen {
                Listen::V8(listen) => listen(device, handle, &mut comm),
                Listen::V11(listen) => listen(context, device, handle, &mut comm),
            }
        };
        outcome(code, comm)
    }

    /// Goes on connecting; null: not yet. The plugin keeps its state in `handle`.
    ///
    /// # Safety
    /// The context is that of `init`; the handle is that of the call before, or of the listener.
    pub unsafe fn connect(
        &self,
        context: *mut c_void,
        device: c_int,
        handle: &mut HandleBytes,
    ) -> Outcome<*mut c_void> {
        let (mut comm, mut offload) = (null_mut(), null_mut());
        let handle = handle.0.as_mut_ptr().cast();
        let mut configuration = configuration();
        // SAFETY: the handle has the length of all handles; a null device means no offload.
        let code = unsafe {
            match self.connect {
                Connect::V8(connect) => connect(device, handle, &mut comm, &mut offload),
                Connect::V10(connect) => {
                    connect(device, &mut configuration, handle, &mut comm, &mut offload)
                }
                Connect::V11(connect) => connect(context, device, handle, &mut comm, &mut offload),
            }
        };
        outcome(code, comm)
    }

    /// Goes on accepting; null: not yet.
    ///
    /// # Safety
    /// `listener` is what `listen` gave.
    pub unsafe fn accept(&self, listener: *mut c_void) -> Outcome<*mut c_void> {
        let (mut comm, mut offload) = (null_mut(), null_mut());
        // SAFETY: the caller's promise; a null device means no offload.
        let code = unsafe { (self.accept)(listener, &mut comm, &mut offload) };
        outcome(code, comm)
    }

    /// Registers host memory.
    ///
    /// # Safety
    /// `comm` is open, and the memory stays mapped.
    pub unsafe fn register(
        &self,
        comm: *mut c_void,
        data: *mut c_void,
        bytes: usize,
    ) -> Outcome<*mut c_void> {
        let mut registration = null_mut();
        // SAFETY: the caller's promise.
        let code = unsafe { (self.register)(comm, data, bytes, POINTER_HOST, &mut registration) };
        outcome(code, registration)
    }

    /// Ends a registration.
    ///
    /// # Safety
    /// The registration is of this `comm`, which is open, and no request uses it.
    pub unsafe fn deregister(&self, comm: *mut c_void, registration: *mut c_void) -> Outcome<()> {
        // SAFETY: the caller's promise.
        outcome(unsafe { (self.deregister)(comm, registration) }, ())
    }

    /// Starts a message of at most [`MOST_BYTES`]; null: not yet.
    ///
    /// # Safety
    /// `comm` is open; the buffer is registered on it and stays readable until its request is done.
    pub unsafe fn isend(&self, comm: *mut c_void, buffer: &Buffer) -> Outcome<*mut c_void> {
        let Buffer {
            data,
            bytes,
            tag,
            registration,
        } = *buffer;
        let mut request = null_mut();
        // SAFETY: the caller's promise; the size fits `int`.
        let code = unsafe {
            match self.isend {
                Isend::V8(isend) => {
                    isend(comm, data, bytes as c_int, tag, registration, &mut request)
                }
                Isend::V9(isend) => isend(comm, data, bytes, tag, registration, &mut request),
                Isend::V10(isend) => isend(
                    comm,
                    data,
                    bytes,
                    tag,
                    registration,
                    null_mut(),
                    &mut request,
                ),
            }
        };
        outcome(code, request)
    }

    /// Posts 1 to 8 buffers; null: not yet.
    ///
    /// # Safety
    /// `comm` is open; the buffers are registered on it and stay writable until the request is
    /// done.
    pub unsafe fn irecv(&self, comm: *mut c_void, buffers: &[Buffer]) -> Outcome<*mut c_void> {
        const MOST: usize = super::super::MAX_RECEIVES;
        let count = buffers.len().min(MOST);
        let (mut data, mut registrations) = ([null_mut(); MOST], [null_mut(); MOST]);
        let (mut tags, mut bytes) = ([0; MOST], [0; MOST]);
        let mut profiles = [null_mut(); MOST];
        for (at, buffer) in buffers.iter().enumerate().take(count) {
            (data[at], registrations[at]) = (buffer.data, buffer.registration);
            // A larger buffer is no use: messages are not larger.
            (bytes[at], tags[at]) = (buffer.bytes.min(MOST_BYTES), buffer.tag);
        }
        let mut request = null_mut();
        let (data, regs) = (data.as_mut_ptr(), registrations.as_mut_ptr());
        let (tags, n) = (tags.as_mut_ptr(), count as c_int);
        // SAFETY: the caller's promise; all arrays hold `count` entries.
        let code = unsafe {
            match self.irecv {
                Irecv::V8(irecv) => {
                    let mut small = bytes.map(|bytes| bytes as c_int);
                    irecv(comm, n, data, small.as_mut_ptr(), tags, regs, &mut request)
                }
                Irecv::V9(irecv) => {
                    irecv(comm, n, data, bytes.as_mut_ptr(), tags, regs, &mut request)
                }
                Irecv::V10(irecv) => {
                    let (bytes, profiles) = (bytes.as_mut_ptr(), profiles.as_mut_ptr());
                    irecv(comm, n, data, bytes, tags, regs, profiles, &mut request)
                }
            }
        };
        outcome(code, request)
    }

    /// Moves on; when the request is done, the sizes of its messages.
    ///
    /// # Safety
    /// The request was not said to be done, and its connection is open.
    pub unsafe fn test(
        &self,
        request: *mut c_void,
    ) -> Outcome<Option<[c_int; super::super::MAX_RECEIVES]>> {
        let (mut done, mut bytes) = (0, [0; super::super::MAX_RECEIVES]);
        // SAFETY: the caller's promise; there is room for the sizes of the largest request.
        let code = unsafe { (self.test)(request, &mut done, bytes.as_mut_ptr()) };
        outcome(code, (done != 0).then_some(bytes))
    }
}
