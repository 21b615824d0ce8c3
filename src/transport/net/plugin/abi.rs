//! The C structures of the field's network plugins, versions 8 to 11, as their documentation
//! declares them: an interface between libraries that are built apart, so every field counts.
//!
//! A library exports a table as `ncclNetPlugin_v8` ... `ncclNetPlugin_v11`. All functions give a
//! result code ([`SUCCESS`] or one of kolo's numbers, which are the same). What changed:
//!
//! - 9: sizes of messages are `size_t`, devices may be merged (`make_device`).
//! - 10: `connect` takes a configuration; `init`, `isend` and `irecv` take what a profiler needs.
//! - 11: `init` makes a context, which `listen` and `connect` take and `finalize` ends; the
//!   configuration moved from `connect` to `init`.

use std::ffi::{c_char, c_int, c_ulong, c_void};

/// Code of a function that did what it says.
pub const SUCCESS: c_int = 0;
/// Memory that the processor addresses, in `pointers` and as the kind of a registration.
pub const POINTER_HOST: c_int = 1;
/// Memory of a CUDA device.
pub const POINTER_CUDA: c_int = 2;
/// Memory that a dmabuf names.
pub const POINTER_DMABUF: c_int = 4;
/// Bytes of a handle.
pub const HANDLE_BYTES: usize = 128;
/// Requests that every connection must bear at once.
pub const MAX_REQUESTS: usize = 32;

/// Writes a line of the plugin to the log; the rest is as for `printf`.
pub type LogFn = unsafe extern "C" fn(
    level: c_int,
    parts: c_ulong,
    file: *const c_char,
    line: c_int,
    format: *const c_char,
    ...
);
/// Tells a profiler of events; kolo's does nothing.
pub type ProfilerFn = unsafe extern "C" fn(
    event: *mut *mut c_void,
    kind: c_int,
    parent: *mut c_void,
    plugin: i64,
    data: *mut c_void,
) -> c_int;

/// Properties of a device in version 8. The strings belong to the plugin.
#[repr(C)]
pub struct PropertiesV8 {
    pub name: *const c_char,
    pub pci_path: *const c_char,
    pub guid: u64,
    pub pointers: c_int,
    pub registration_is_global: c_int,
    pub speed_mbits: c_int,
    pub port: c_int,
    pub latency_us: f32,
    pub max_connections: c_int,
    pub max_receives: c_int,
    pub offload: c_int,
    pub offload_version: c_int,
}

/// Which devices a device is made of.
#[repr(C)]
pub struct Merged {
    pub count: c_int,
    pub devices: [c_int; 4],
}

/// Properties of a device in versions 9 and 10, and in 11 with one number more.
#[repr(C)]
pub struct PropertiesV11 {
    pub name: *const c_char,
    pub pci_path: *const c_char,
    pub guid: u64,
    pub pointers: c_int,
    pub registration_is_global: c_int,
    pub must_flush: c_int,
    pub speed_mbits: c_int,
    pub port: c_int,
    pub latency_us: f32,
    pub max_connections: c_int,
    pub max_receives: c_int,
    pub offload: c_int,
    pub offload_version: c_int,
    pub merged: Merged,
    pub max_message_bytes: usize,
    pub max_collective_bytes: usize,
    /// Only from version 11 on: older plugins leave it alone.
    pub max_requests_at_once: c_int,
}

/// How a communicator wants its connections.
#[repr(C)]
pub struct Configuration {
    /// Class of traffic, or -1: the plugin's own.
    pub traffic_class: c_int,
}

type Out = *mut *mut c_void;

pub type InitV8 = unsafe extern "C" fn(log: LogFn) -> c_int;
pub type InitV10 = unsafe extern "C" fn(log: LogFn, profiler: ProfilerFn) -> c_int;
pub type InitV11 = unsafe extern "C" fn(
    context: Out,
    communicator: u64,
    configuration: *mut Configuration,
    log: LogFn,
    profiler: ProfilerFn,
) -> c_int;
pub type DevicesFn = unsafe extern "C" fn(count: *mut c_int) -> c_int;
pub type PropertiesFn<T> = unsafe extern "C" fn(device: c_int, properties: *mut T) -> c_int;
pub type ListenV8 = unsafe extern "C" fn(device: c_int, handle: *mut c_void, comm: Out) -> c_int;
pub type ListenV11 = unsafe extern "C" fn(
    context: *mut c_void,
    device: c_int,
    handle: *mut c_void,
    comm: Out,
) -> c_int;
pub type ConnectV8 =
    unsafe extern "C" fn(device: c_int, handle: *mut c_void, comm: Out, offload: Out) -> c_int;
pub type ConnectV10 = unsafe extern "C" fn(
    device: c_int,
    configuration: *mut Configuration,
    handle: *mut c_void,
    comm: Out,
    offload: Out,
) -> c_int;
pub type ConnectV11 = unsafe extern "C" fn(
    context: *mut c_void,
    device: c_int,
    handle: *mut c_void,
    comm: Out,
    offload: Out,
) -> c_int;
pub type AcceptFn = unsafe extern "C" fn(listen: *mut c_void, comm: Out, offload: Out) -> c_int;
pub type RegisterFn = unsafe extern "C" fn(
    comm: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    kind: c_int,
    registration: Out,
) -> c_int;
pub type RegisterDmabufFn = unsafe extern "C" fn(
    comm: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    kind: c_int,
    offset: u64,
    descriptor: c_int,
    registration: Out,
) -> c_int;
pub type DeregisterFn = unsafe extern "C" fn(comm: *mut c_void, registration: *mut c_void) -> c_int;
/// `S` is the type of sizes.
pub type SendFn<S> = unsafe extern "C" fn(
    comm: *mut c_void,
    data: *mut c_void,
    bytes: S,
    tag: c_int,
    registration: *mut c_void,
    request: Out,
) -> c_int;
pub type SendV10 = unsafe extern "C" fn(
    comm: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    tag: c_int,
    registration: *mut c_void,
    profile: *mut c_void,
    request: Out,
) -> c_int;
/// `S` is the type of sizes.
pub type ReceiveFn<S> = unsafe extern "C" fn(
    comm: *mut c_void,
    count: c_int,
    data: Out,
    bytes: *mut S,
    tags: *mut c_int,
    registrations: Out,
    request: Out,
) -> c_int;
pub type ReceiveV10 = unsafe extern "C" fn(
    comm: *mut c_void,
    count: c_int,
    data: Out,
    bytes: *mut usize,
    tags: *mut c_int,
    registrations: Out,
    profiles: Out,
    request: Out,
) -> c_int;
pub type FlushFn = unsafe extern "C" fn(
    comm: *mut c_void,
    count: c_int,
    data: Out,
    bytes: *mut c_int,
    registrations: Out,
    request: Out,
) -> c_int;
pub type TestFn =
    unsafe extern "C" fn(request: *mut c_void, done: *mut c_int, bytes: *mut c_int) -> c_int;
/// Takes one object of the plugin.
pub type ObjectFn = unsafe extern "C" fn(object: *mut c_void) -> c_int;
pub type DeviceRegistrationFn =
    unsafe extern "C" fn(comm: *mut c_void, registration: *mut c_void, place: Out) -> c_int;
pub type ConsumedFn =
    unsafe extern "C" fn(comm: *mut c_void, count: c_int, request: *mut c_void) -> c_int;
pub type MakeDeviceFn = unsafe extern "C" fn(device: *mut c_int, of: *mut Merged) -> c_int;
pub type AttributesFn =
    unsafe extern "C" fn(context: *mut c_void, attributes: *mut c_void) -> c_int;

/// Declares a table: its own functions before and after those that all versions share.
macro_rules! table {
    (
        $(#[$doc:meta])* $name:ident, $init:ty, $properties:ty, $listen:ty, $connect:ty,
        $send:ty, $receive:ty, { $($last:ident: $type:ty),* }
    ) => {
        $(#[$doc])*
        #[repr(C)]
        #[allow(dead_code, reason = "members that kolo does not use have their place all the same")]
        pub struct $name {
            pub name: *const c_char,
            pub init: Option<$init>,
            pub devices: Option<DevicesFn>,
            pub properties: Option<PropertiesFn<$properties>>,
            pub listen: Option<$listen>,
            pub connect: Option<$connect>,
            pub accept: Option<AcceptFn>,
            pub register: Option<RegisterFn>,
            pub register_dmabuf: Option<RegisterDmabufFn>,
            pub deregister: Option<DeregisterFn>,
            pub isend: Option<$send>,
            pub irecv: Option<$receive>,
            pub iflush: Option<FlushFn>,
            pub test: Option<TestFn>,
            pub close_send: Option<ObjectFn>,
            pub close_recv: Option<ObjectFn>,
            pub close_listen: Option<ObjectFn>,
            pub device_registration: Option<DeviceRegistrationFn>,
            pub irecv_consumed: Option<ConsumedFn>,
            $(pub $last: Option<$type>,)*
        }
    };
}

table!(
    /// Version 8.
    NetV8, InitV8, PropertiesV8, ListenV8, ConnectV8, SendFn<c_int>, ReceiveFn<c_int>, {}
);
table!(
    /// Version 9.
    NetV9, InitV8, PropertiesV11, ListenV8, ConnectV8, SendFn<usize>, ReceiveFn<usize>,
    { make_device: MakeDeviceFn }
);
table!(
    /// Version 10.
    NetV10, InitV10, PropertiesV11, ListenV8, ConnectV10, SendV10, ReceiveV10,
    { make_device: MakeDeviceFn }
);
table!(
    /// Version 11.
    NetV11, InitV11, PropertiesV11, ListenV11, ConnectV11, SendV10, ReceiveV10,
    { make_device: MakeDeviceFn, finalize: ObjectFn, set_attributes: AttributesFn }
);

const WORD: usize = size_of::<usize>();
const _: () = assert!(size_of::<NetV8>() == 19 * WORD);
const _: () = assert!(size_of::<NetV9>() == 20 * WORD && size_of::<NetV10>() == 20 * WORD);
const _: () = assert!(size_of::<NetV11>() == 22 * WORD);
const _: () = assert!(std::mem::offset_of!(PropertiesV8, offload_version) == 56);
const _: () = assert!(std::mem::offset_of!(PropertiesV11, merged) == 64);
const _: () = assert!(std::mem::offset_of!(PropertiesV11, max_requests_at_once) == 104);

/// A handle where plugins may put pointers.
#[repr(C, align(16))]
#[derive(Clone)]
pub struct HandleBytes(pub [u8; HANDLE_BYTES]);
