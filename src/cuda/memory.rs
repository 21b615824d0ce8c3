//! Memory of a device that can be shared, device by device and process by process.
//!
//! **Problem.** `cuMemAlloc` and `cuMemFree` wait until a device has done its work, so a rank that
//! called them while a kernel waits for it would never go on. And what they allocate can be given
//! to other devices and processes only all at once.
//!
//! **Idea.** The driver's virtual memory: memory is made, addresses are reserved, one is mapped to
//! the other, and each device is granted access. Nothing of it waits. Memory that another process
//! made arrives as a file descriptor and is mapped in the same way.

use super::context::Context;
use super::failure::SUCCESS;
use crate::base::{Error, Result, descriptors};
use cudarc::driver::sys::{
    CUdevice_attribute, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemAllocationType, CUmemLocation,
    CUmemLocationType,
};
use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

const POSIX_FD: CUmemAllocationHandleType =
    CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// Memory of a device, mapped for one or more devices of this process.
pub struct DeviceMemory {
    context: Arc<Context>,
    what: String,
    /// Bytes that were asked for; more may be mapped.
    bytes: usize,
    is_shareable: bool,
    // In the order in which they must go.
    mapping: MappedRange,
    range: AddressRange,
    physical: PhysicalMemory,
}

impl DeviceMemory {
    /// New memory on the device of `context`, for this device and for those of `shared_with`. Its
    /// bytes are of any value. `what` says in errors what it is for.
    ///
    /// # Errors
    /// The device has no such memory, or too little of it; a device that does not reach it.
    pub fn new(
        context: &Arc<Context>,
        what: &str,
        bytes: usize,
        shared_with: &[Arc<Context>],
    ) -> Result<DeviceMemory> {
        let virtual_memory =
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED;
        if context.attribute(virtual_memory)? == 0 {
            return Err(Error::usage(
                format!(
                    "device {} has no virtual memory management",
                    context.device()
                ),
                "use a device and a driver that support it: it is what devices share",
            ));
        }
        let is_shareable = is_shareable(context)?;
        let properties = properties(context, is_shareable);
        let _current = context.enter()?;
        let whole = whole(context, &properties, bytes)?;
        let of = || format!(" of {whole} bytes for {what}");
        let mut handle = 0;
        let function = context.driver().functions().memory_create;
        // SAFETY: the driver writes one number and reads the properties.
        let code = unsafe { function(&raw mut handle, whole, &raw const properties, 0) };
        context.check(code, "cuMemCreate", of)?;
        let physical = PhysicalMemory {
            context: context.clone(),
            handle,
        };
        DeviceMemory::map(physical, what, bytes, whole, is_shareable, shared_with)
    }

    /// Memory that another process made with that many bytes and exported as `fd`, for the device
    /// of `context`, which need not be the one that has it.
    ///
    /// # Errors
    /// The device does not reach it; a descriptor that is none of memory.
    pub fn import(
        context: &Arc<Context>,
        fd: BorrowedFd<'_>,
        bytes: usize,
    ) -> Result<DeviceMemory> {
        let _current = context.enter()?;
        let whole = whole(context, &properties(context, true), bytes)?;
        // The number travels as a pointer, and the driver takes 0 for none.
        let (number, lifted) = match fd.as_raw_fd() {
            0 => {
                let lifted = descriptors::another(0).map_err(unkept)?;
                (lifted.as_raw_fd(), Some(lifted))
            }
            number => (number, None),
        };
        let mut handle = 0;
        let function = context.driver().functions().memory_import;
        // SAFETY: this kind of handle is the number itself, which the driver copies; it writes one
        // number.
        let code = unsafe { function(&raw mut handle, number as usize as *mut _, POSIX_FD) };
        drop(lifted);
        context.check(code, "cuMemImportFromShareableHandle", String::new)?;
        let physical = PhysicalMemory {
            context: context.clone(),
            handle,
        };
        DeviceMemory::map(physical, "memory of a peer", bytes, whole, true, &[])
    }

    /// Reserves addresses for the memory, maps them and grants them. The context is current.
    fn map(
        physical: PhysicalMemory,
        what: &str,
        bytes: usize,
        whole: usize,
        is_shareable: bool,
        shared_with: &[Arc<Context>],
    ) -> Result<DeviceMemory> {
        let context = physical.context.clone();
        let functions = context.driver().functions();
        let of = || format!(" of {whole} bytes for {what}");
        let mut start = 0;
        // SAFETY: the driver writes one number.
        let code = unsafe { (functions.memory_reserve)(&raw mut start, whole, 0, 0, 0) };
        context.check(code, "cuMemAddressReserve", of)?;
        let range = AddressRange {
            context: context.clone(),
            start,
            bytes: whole,
        };
        // SAFETY: the addresses were reserved just now, and the memory has that many bytes.
        let code = unsafe { (functions.memory_map)(start, whole, 0, physical.handle, 0) };
        context.check(code, "cuMemMap", of)?;
        let mapping = MappedRange {
            context: context.clone(),
            start,
            bytes: whole,
        };
        let memory = DeviceMemory {
            context: context.clone(),
            what: what.to_owned(),
            bytes,
            is_shareable,
            mapping,
            range,
            physical,
        };
        memory.grant(&context)?;
        for other in shared_with {
            memory.grant(other)?;
        }
        Ok(memory)
    }

    /// Where it begins, for every device that it is granted to.
    pub fn address(&self) -> u64 {
        self.range.start
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The context that made or imported it.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Lets kernels of the other device use it, too.
    ///
    /// # Errors
    /// The other device does not reach it.
    pub fn grant(&self, other: &Context) -> Result<()> {
        let _current = self.context.enter()?;
        let access = CUmemAccessDesc {
            location: location(other),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        let function = self.context.driver().functions().memory_access;
        let (start, bytes) = (self.mapping.start, self.mapping.bytes);
        // SAFETY: the range is mapped; the driver reads one description.
        let code = unsafe { function(start, bytes, &raw const access, 1) };
        let of = || format!(" of {} to device {}", self.what, other.device());
        self.context.check(code, "cuMemSetAccess", of)
    }

    /// A descriptor by which another process of this host imports it.
    ///
    /// # Errors
    /// The device cannot share memory by descriptors.
    pub fn export(&self) -> Result<OwnedFd> {
        if !self.is_shareable {
            return Err(Error::usage(
                format!(
                    "device {} cannot share memory with other processes by file descriptors",
                    self.context.device()
                ),
                "use one process for all devices of a node, or a newer driver",
            ));
        }
        let _current = self.context.enter()?;
        let mut fd: c_int = -1;
        let function = self.context.driver().functions().memory_export;
        // SAFETY: for this kind of handle the driver writes one number.
        let code = unsafe { function((&raw mut fd).cast(), self.physical.handle, POSIX_FD, 0) };
        let of = || format!(" of {}", self.what);
        self.context
            .check(code, "cuMemExportToShareableHandle", of)?;
        // SAFETY: sets a flag of an open descriptor: programs that this one starts do not get it.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        // SAFETY: the driver has just opened the descriptor for its caller.
        unsafe { descriptors::made(fd) }.map_err(unkept)
    }
}

/// The system gives no number for a file of device memory.
fn unkept(error: std::io::Error) -> Error {
    let remedy = "raise the limit of open files (`ulimit -n`)";
    Error::system("cannot keep a file of device memory", &error, remedy)
}

/// Whether memory of the device may go to other processes as file descriptors.
fn is_shareable(context: &Context) -> Result<bool> {
    let by_fd = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    Ok(context.attribute(by_fd)? != 0)
}

fn location(context: &Context) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: context.handle(),
    }
}

fn properties(context: &Context, is_shareable: bool) -> CUmemAllocationProp {
    // SAFETY: the structure is made of numbers, a null pointer and enumerations that have 0.
    let mut properties: CUmemAllocationProp = unsafe { std::mem::zeroed() };
    properties.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = location(context);
    if is_shareable {
        properties.requestedHandleTypes = POSIX_FD;
    }
    properties
}

/// The bytes that are made for so many: memory comes in pieces of megabytes.
fn whole(context: &Context, properties: &CUmemAllocationProp, bytes: usize) -> Result<usize> {
    let mut piece = 0;
    let least = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    let function = context.driver().functions().memory_granularity;
    // SAFETY: the driver writes one number and reads the properties.
    let code = unsafe { function(&raw mut piece, properties, least) };
    context.check(code, "cuMemGetAllocationGranularity", String::new)?;
    let whole = bytes.max(1).checked_next_multiple_of(piece.max(1));
    whole.ok_or_else(|| {
        Error::argument(
            format!("{bytes} bytes are more than a device can have"),
            "ask for less memory",
        )
    })
}

/// Memory itself, without addresses.
struct PhysicalMemory {
    context: Arc<Context>,
    handle: u64,
}

impl Drop for PhysicalMemory {
    fn drop(&mut self) {
        release(&self.context, "cuMemRelease", || {
            // SAFETY: made once, and released once, here.
            unsafe { (self.context.driver().functions().memory_release)(self.handle) }
        });
    }
}

/// Addresses, with or without memory.
struct AddressRange {
    context: Arc<Context>,
    start: u64,
    bytes: usize,
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        release(&self.context, "cuMemAddressFree", || {
            let function = self.context.driver().functions().memory_unreserve;
            // SAFETY: reserved once; what was mapped there is unmapped.
            unsafe { function(self.start, self.bytes) }
        });
    }
}

/// That addresses have memory.
struct MappedRange {
    context: Arc<Context>,
    start: u64,
    bytes: usize,
}

impl Drop for MappedRange {
    fn drop(&mut self) {
        release(&self.context, "cuMemUnmap", || {
            // SAFETY: mapped once; whoever drops it vouches that no kernel uses it.
            unsafe { (self.context.driver().functions().memory_unmap)(self.start, self.bytes) }
        });
    }
}

/// Gives something back to the driver. A failure is only told: nobody can do anything about it.
fn release(context: &Context, call: &str, body: impl FnOnce() -> c_int) {
    // A forked child has nothing to give back, and a process that ends has no driver any more.
    let Ok(_current) = context.enter() else {
        return;
    };
    let code = body();
    if code != SUCCESS
        && let Err(error) = context.check(code, call, String::new)
    {
        tracing::debug!("memory of a device could not be given back: {error}");
    }
}
