//! Owned objects of libibverbs, released in the right order, and its calls as checked functions.
//!
//! libibverbs is safe to call from several threads; each object says what must outlive it. Objects
//! keep their parents alive by `Arc`, so the order of release follows by itself.

use crate::gid::{Gid, Kind};
use ibverbs_sys as ib;
use kolo::base::{Error, Result};
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::sync::Arc;

/// An adapter may write into this local memory.
pub const LOCAL_WRITE: u32 = ib::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
/// The peer may write into it.
pub const REMOTE_WRITE: u32 = ib::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
/// The peer may read it.
pub const REMOTE_READ: u32 = ib::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0;

/// An opened device.
pub struct Context(pub *mut ib::ibv_context);

// SAFETY: libibverbs allows its objects to be used by any thread; what is not safe to use by
// several at once (posting and polling of one connection) is reached through one owner only.
unsafe impl Send for Context {}
// SAFETY: as above: its calls on a context lock by themselves.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened by `ibv_open_device`, and all that was made from it holds it alive.
        unsafe { ib::ibv_close_device(self.0) };
    }
}

/// Returns the error of a system call: in `errno` where it returned -1, else in the value itself.
pub fn refusal(code: c_int) -> io::Error {
    match code {
        -1 => io::Error::last_os_error(),
        code => io::Error::from_raw_os_error(code.abs()),
    }
}

fn last(doing: String, remedy: &'static str) -> Error {
    Error::system(doing, &io::Error::last_os_error(), remedy)
}

const LIMITS: &str = "raise the limit of locked memory (`ulimit -l unlimited`, or \
                      LimitMEMLOCK=infinity for the batch system's daemon), and see `dmesg`";

impl Context {
    /// Opens a device of a list.
    ///
    /// # Safety
    /// `device` is of a list that has not been freed.
    pub unsafe fn open(device: *mut ib::ibv_device) -> io::Result<Context> {
        // SAFETY: the caller's promise.
        let context = unsafe { ib::ibv_open_device(device) };
        match context.is_null() {
            true => Err(io::Error::last_os_error()),
            false => Ok(Context(context)),
        }
    }

    /// The file descriptor of asynchronous events.
    pub fn event_fd(&self) -> c_int {
        // SAFETY: the context is open.
        unsafe { (*self.0).async_fd }
    }

    /// Asks what the device can do.
    pub fn attributes(&self) -> io::Result<ib::ibv_device_attr> {
        let mut attributes = ib::ibv_device_attr::default();
        // SAFETY: the context is open, and `attributes` is a place for the answer.
        match unsafe { ib::ibv_query_device(self.0, &raw mut attributes) } {
            0 => Ok(attributes),
            code => Err(refusal(code)),
        }
    }

    /// The state of a port.
    pub fn port(&self, number: u8) -> io::Result<ib::ibv_port_attr> {
        let mut port = ib::ibv_port_attr::default();
        // SAFETY: the context is open; the call writes the beginning of the structure, which it
        // knows by an older name.
        match unsafe { ib::ibv_query_port(self.0, number, (&raw mut port).cast()) } {
            0 => Ok(port),
            code => Err(refusal(code)),
        }
    }

    /// The addresses of a port, without empty entries.
    pub fn gids(&self, port: u8, length: u32, ethernet: bool) -> Vec<Gid> {
        (0..length.min(256))
            .filter_map(|index| self.gid(port, index, ethernet))
            .collect()
    }

    fn gid(&self, port: u8, index: u32, ethernet: bool) -> Option<Gid> {
        let mut entry = ib::ibv_gid_entry::default();
        let size = size_of::<ib::ibv_gid_entry>();
        // SAFETY: the context is open, and `entry` has the size that is given.
        let code =
            unsafe { ib::_ibv_query_gid_ex(self.0, port.into(), index, &raw mut entry, 0, size) };
        let entry = ibverbs::GidEntry::from(entry);
        let kind = match entry.gid_type {
            _ if !ethernet => Kind::Infiniband,
            ib::IBV_GID_TYPE_ROCE_V2 => Kind::RoceV2,
            _ => Kind::RoceV1,
        };
        let mut raw = [0; 16];
        raw[..8].copy_from_slice(&entry.gid.subnet_prefix().to_be_bytes());
        raw[8..].copy_from_slice(&entry.gid.interface_id().to_be_bytes());
        (code == 0 && raw != [0; 16]).then_some(Gid { index, raw, kind })
    }
}

/// A protection domain: what of one device may be used together.
pub struct Domain {
    pub raw: *mut ib::ibv_pd,
    context: Arc<Context>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Domain {}
// SAFETY: as for `Context`.
unsafe impl Sync for Domain {}

impl Domain {
    pub fn new(context: &Arc<Context>) -> io::Result<Domain> {
        // SAFETY: the context is open.
        let raw = unsafe { ib::ibv_alloc_pd(context.0) };
        match raw.is_null() {
            true => Err(io::Error::last_os_error()),
            false => Ok(Domain {
                raw,
                context: context.clone(),
            }),
        }
    }

    pub fn context(&self) -> &Context {
        &self.context
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: regions and queue pairs of this domain hold it alive, so none is left.
        unsafe { ib::ibv_dealloc_pd(self.raw) };
    }
}

/// Memory that the adapter may use.
pub struct Region {
    raw: *mut ib::ibv_mr,
    domain: Arc<Domain>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Region {}
// SAFETY: as for `Context`; its keys are constant.
unsafe impl Sync for Region {}

impl Region {
    /// # Safety
    /// The memory stays mapped as long as the region lives.
    pub unsafe fn new(
        domain: &Arc<Domain>,
        address: usize,
        bytes: usize,
        access: u32,
    ) -> Result<Region> {
        // SAFETY: the caller's promise; the call only pins pages.
        let raw =
            unsafe { ib::ibv_reg_mr(domain.raw, address as *mut c_void, bytes, access as c_int) };
        match raw.is_null() {
            // Libraries give the same number for memory that is not mapped and for the limit.
            true => Err(last(
                format!("cannot register {bytes} bytes at {address:#x} for RDMA"),
                "register memory that is mapped and may be written, and raise the limit of locked \
                 memory (`ulimit -l unlimited`, or LimitMEMLOCK=infinity for the batch system)",
            )),
            false => Ok(Region {
                raw,
                domain: domain.clone(),
            }),
        }
    }

    /// Registers memory that a dmabuf file descriptor names; `address` is what it is called later.
    pub fn of_dmabuf(
        domain: &Arc<Domain>,
        register: RegisterDmabuf,
        (offset, bytes, address, fd): (u64, usize, u64, c_int),
    ) -> io::Result<Region> {
        let access = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ;
        // SAFETY: the function is libibverbs' own; a bad descriptor is an error.
        let raw = unsafe { register(domain.raw, offset, bytes, address, fd, access as c_int) };
        match raw.is_null() {
            true => Err(io::Error::last_os_error()),
            false => Ok(Region {
                raw,
                domain: domain.clone(),
            }),
        }
    }

    /// Whether it is of this domain.
    pub fn is_of(&self, domain: &Arc<Domain>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }

    pub fn local_key(&self) -> u32 {
        // SAFETY: the region is registered.
        unsafe { (*self.raw).lkey }
    }

    pub fn remote_key(&self) -> u32 {
        // SAFETY: the region is registered.
        unsafe { (*self.raw).rkey }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: registered, and no work that uses it is left: queue pairs are destroyed first.
        unsafe { ib::ibv_dereg_mr(self.raw) };
    }
}

/// Access to buffers that peers write into; that of a device is read for a flush, too.
pub fn access(of_device: bool) -> u32 {
    let read = if of_device { REMOTE_READ } else { 0 };
    LOCAL_WRITE | REMOTE_WRITE | read
}

/// Access to pinned memory: peers read it, and what is read from peers goes into it.
pub const PINNED: u32 = LOCAL_WRITE | REMOTE_READ;

/// Memory that one connection may use.
pub type Registered = kolo_plugin::memory::Registered<Region>;

/// The key for this end's adapter; an empty range needs none.
pub fn local_key(memory: &Registered) -> u32 {
    memory.region().map_or(0, Region::local_key)
}

/// The key for the peer's adapter.
pub fn remote_key(memory: &Registered) -> u32 {
    memory.region().map_or(0, Region::remote_key)
}

/// `ibv_reg_dmabuf_mr`, which older libraries lack.
pub type RegisterDmabuf =
    unsafe extern "C" fn(*mut ib::ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ib::ibv_mr;

/// The function that registers dmabuf memory, where this libibverbs has it.
pub fn register_dmabuf() -> Option<RegisterDmabuf> {
    // SAFETY: the library is loaded already, because this one is linked with it; it stays.
    let symbol = unsafe {
        let library = libc::dlopen(
            c"libibverbs.so.1".as_ptr(),
            libc::RTLD_NOW | libc::RTLD_NOLOAD,
        );
        if library.is_null() {
            return None;
        }
        libc::dlsym(library, c"ibv_reg_dmabuf_mr".as_ptr())
    };
    // SAFETY: a symbol of this name has this type, or it is not there.
    unsafe { std::mem::transmute::<*mut c_void, Option<RegisterDmabuf>>(symbol) }
}

/// A completion queue.
pub struct Completions {
    pub raw: *mut ib::ibv_cq,
    _context: Arc<Domain>,
}

// SAFETY: as for `Context`; polled by its one owner.
unsafe impl Send for Completions {}

impl Completions {
    pub fn new(domain: &Arc<Domain>, entries: u32) -> Result<Completions> {
        let none = std::ptr::null_mut();
        // SAFETY: the context is open; no channel and no cookie.
        let raw = unsafe {
            ib::ibv_create_cq(domain.context().0, entries as c_int, none, none.cast(), 0)
        };
        match raw.is_null() {
            true => Err(last(
                format!("cannot make a completion queue of {entries} entries"),
                LIMITS,
            )),
            false => Ok(Completions {
                raw,
                _context: domain.clone(),
            }),
        }
    }

    /// Takes what has completed; at most as many as there is room for.
    pub fn poll(&mut self, room: &mut [ib::ibv_wc]) -> io::Result<usize> {
        // SAFETY: the queue is alive; its context has this function, as every one has.
        let taken = unsafe {
            let poll = (*(*self.raw).context)
                .ops
                .poll_cq
                .expect("every device polls");
            poll(self.raw, room.len() as c_int, room.as_mut_ptr())
        };
        usize::try_from(taken).map_err(|_| io::Error::from_raw_os_error(libc::EIO))
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: the queue pairs that use it were dropped before: owners keep this order.
        unsafe { ib::ibv_destroy_cq(self.raw) };
    }
}

/// A text of libibverbs.
///
/// # Safety
/// `text` is a constant string of libibverbs.
pub unsafe fn constant(text: *const std::ffi::c_char) -> &'static str {
    if text.is_null() {
        return "unknown";
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }
        .to_str()
        .unwrap_or("unknown")
}
