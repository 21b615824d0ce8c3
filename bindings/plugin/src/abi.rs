//! The table of a network in the field's form, version 11 (`ncclNet_v11_t`), as C sees it.

use std::ffi::{c_char, c_int, c_ulong, c_void};

/// Room for a handle in bytes.
pub const HANDLE_BYTES: usize = 128;

/// Most requests of a connection that a caller keeps in flight.
pub const MAX_REQUESTS: usize = 32;

/// Kinds of memory: bits of `ptrSupport`, values of `type`.
pub const PTR_HOST: c_int = 1;
/// Memory of a CUDA device.
pub const PTR_CUDA: c_int = 2;
/// Memory that a dmabuf file descriptor names.
pub const PTR_DMABUF: c_int = 4;

/// Levels of the log.
pub const LOG_WARN: c_int = 2;
/// Level of lines that are of interest once a job.
pub const LOG_INFO: c_int = 3;

/// The subsystem "network" of the log, a bit.
pub const LOG_NET: c_ulong = 16;

/// The caller's log: `printf` with a level, a subsystem and a place in the source.
pub type Logger =
    unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char, ...) -> ();

/// Adapters that are joined to one; here always one.
#[allow(missing_docs)] // The field's names.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct VirtualDevice {
    pub ndevs: c_int,
    pub devs: [c_int; 4],
}

/// Wishes of the caller for a communicator's connections.
#[repr(C)]
pub struct CommConfig {
    /// -1: not given.
    pub traffic_class: c_int,
}

/// Properties of a device.
#[allow(missing_docs)] // The field's names.
#[repr(C)]
pub struct Properties {
    pub name: *mut c_char,
    pub pci_path: *mut c_char,
    pub guid: u64,
    pub ptr_support: c_int,
    pub reg_is_global: c_int,
    pub force_flush: c_int,
    /// Mbit/s.
    pub speed: c_int,
    pub port: c_int,
    /// Microseconds.
    pub latency: f32,
    pub max_comms: c_int,
    pub max_recvs: c_int,
    /// 0: the host drives it.
    pub net_device_type: c_int,
    pub net_device_version: c_int,
    pub virtual_device: VirtualDevice,
    pub max_p2p_bytes: usize,
    pub max_coll_bytes: usize,
    pub max_multi_request_size: c_int,
}

type Comm = *mut c_void;
type Out = *mut *mut c_void;

/// The table. `None` stands where this network has nothing to offer.
#[allow(missing_docs)] // The field's names.
#[repr(C)]
pub struct Table {
    pub name: *const c_char,
    pub init:
        unsafe extern "C" fn(Out, u64, *const CommConfig, Option<Logger>, *const c_void) -> c_int,
    pub devices: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub get_properties: unsafe extern "C" fn(c_int, *mut Properties) -> c_int,
    pub listen: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, Out) -> c_int,
    pub connect: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, Out, Out) -> c_int,
    pub accept: unsafe extern "C" fn(Comm, Out, Out) -> c_int,
    pub reg_mr: unsafe extern "C" fn(Comm, *mut c_void, usize, c_int, Out) -> c_int,
    pub reg_mr_dma_buf:
        unsafe extern "C" fn(Comm, *mut c_void, usize, c_int, u64, c_int, Out) -> c_int,
    pub dereg_mr: unsafe extern "C" fn(Comm, *mut c_void) -> c_int,
    pub isend: unsafe extern "C" fn(
        Comm,
        *mut c_void,
        usize,
        c_int,
        *mut c_void,
        *mut c_void,
        Out,
    ) -> c_int,
    pub irecv: unsafe extern "C" fn(
        Comm,
        c_int,
        *const *mut c_void,
        *const usize,
        *const c_int,
        *const *mut c_void,
        *const *mut c_void,
        Out,
    ) -> c_int,
    pub iflush: unsafe extern "C" fn(
        Comm,
        c_int,
        *const *mut c_void,
        *const c_int,
        *const *mut c_void,
        Out,
    ) -> c_int,
    pub test: unsafe extern "C" fn(*mut c_void, *mut c_int, *mut c_int) -> c_int,
    pub close_send: unsafe extern "C" fn(Comm) -> c_int,
    pub close_recv: unsafe extern "C" fn(Comm) -> c_int,
    pub close_listen: unsafe extern "C" fn(Comm) -> c_int,
    pub get_device_mr: Option<unsafe extern "C" fn(Comm, *mut c_void, Out) -> c_int>,
    pub irecv_consumed: Option<unsafe extern "C" fn(Comm, c_int, *mut c_void) -> c_int>,
    pub make_virtual_device: Option<unsafe extern "C" fn(*mut c_int, *mut VirtualDevice) -> c_int>,
    pub finalize: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub set_net_attr: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>,
}

// SAFETY: the table is constant; its name points to a constant string.
unsafe impl Sync for Table {}

const _: () = assert!(size_of::<Properties>() == 112);
const _: () = assert!(size_of::<Table>() == 22 * size_of::<usize>());
