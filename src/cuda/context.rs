//! The primary context of this process on a device, which CUDA's runtime uses too.
//!
//! A context is taken once in a process and never given back: the program's own calls may use it,
//! and taking it anew would cost a second.

use super::driver::Driver;
use super::failure::{PEER_ALREADY_ENABLED, SUCCESS};
use super::listing;
use crate::base::{Error, Result};
use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute};
use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// The primary context of a device.
pub struct Context {
    driver: &'static Driver,
    /// The number among the devices that this process sees.
    number: u32,
    device: CUdevice,
    /// The driver's address of it, which is never followed here.
    raw: usize,
    name: String,
    uuid: [u8; 16],
    pci: String,
    multiprocessors: u32,
}

thread_local! {
    /// The driver's address of the context that this thread is inside of; 0 outside of all.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// Those of this process, by the number of the device.
static CONTEXTS: Mutex<Vec<Arc<Context>>> = Mutex::new(Vec::new());

impl Context {
    /// The context of the device with this number among those that this process sees.
    ///
    /// # Errors
    /// No driver, no such device, or a device that cannot be used.
    pub fn of(device: u32) -> Result<Arc<Context>> {
        let driver = Driver::get()?;
        let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = contexts.iter().find(|known| known.number == device) {
            return Ok(known.clone());
        }
        let made = Arc::new(Context::make(driver, device)?);
        contexts.push(made.clone());
        Ok(made)
    }

    /// One of this process, for calls that need any: what they make belongs to no device.
    ///
    /// # Errors
    /// Those of [`Context::of`].
    pub fn any() -> Result<Arc<Context>> {
        Driver::get()?;
        Context::known().map_or_else(|| Context::of(0), Ok)
    }

    /// One that kolo uses already.
    pub fn known() -> Option<Arc<Context>> {
        let known = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        known.first().cloned()
    }

    /// The one of this process that the driver's address stands for, if kolo uses it already.
    pub(super) fn that_is(raw: CUcontext) -> Option<Arc<Context>> {
        let known = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|known| known.is(raw)).cloned()
    }

    fn make(driver: &'static Driver, number: u32) -> Result<Context> {
        let count = driver.devices()?;
        if number >= count {
            return Err(Error::argument(
                format!("there is no device {number}: this process sees {count}, counted from 0"),
                "see `nvidia-smi -L`, and what the job was given: `echo $CUDA_VISIBLE_DEVICES`",
            ));
        }
        let functions = driver.functions();
        let of = || format!(" of device {number}");
        let mut device = 0;
        // SAFETY: the driver writes one number.
        let code = unsafe { (functions.device)(&raw mut device, number as c_int) };
        driver.check(code, "cuDeviceGet", of)?;
        let mut raw: CUcontext = std::ptr::null_mut();
        // SAFETY: the driver writes one address.
        let code = unsafe { (functions.primary_retain)(&raw mut raw, device) };
        driver.check(code, "cuDevicePrimaryCtxRetain", of)?;
        let mut context = Context {
            driver,
            number,
            device,
            raw: raw as usize,
            name: listing::name_of(driver, device)?,
            uuid: listing::uuid_of(driver, device)?,
            pci: listing::pci_of(driver, device)?,
            multiprocessors: 0,
        };
        let count = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        context.multiprocessors = context.attribute(count)?.max(0) as u32;
        Ok(context)
    }

    /// The driver.
    pub fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// The number of the device among those that this process sees.
    pub fn device(&self) -> u32 {
        self.number
    }

    /// The driver's handle of the device, which is the number of its [`Context::device`] so far.
    pub(super) fn handle(&self) -> CUdevice {
        self.device
    }

    /// The name of the device's model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's UUID, the same in every process, whatever number it has there.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Where the device is plugged in: `0000:3b:00.0`.
    pub fn pci(&self) -> String {
        self.pci.clone()
    }

    /// How many multiprocessors the device has.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Bytes of memory of the device: how many are free, and how many there are.
    ///
    /// # Errors
    /// The driver's.
    pub fn memory(&self) -> Result<(usize, usize)> {
        let _current = self.enter()?;
        let (mut free, mut all) = (0, 0);
        // SAFETY: the driver writes two numbers.
        let code = unsafe { (self.driver.functions().memory_info)(&raw mut free, &raw mut all) };
        self.check(code, "cuMemGetInfo", String::new)?;
        Ok((free, all))
    }

    /// A property of the device.
    ///
    /// # Errors
    /// The driver's: it does not know the property.
    pub fn attribute(&self, attribute: CUdevice_attribute) -> Result<i32> {
        let mut value = 0;
        let function = self.driver.functions().device_attribute;
        // SAFETY: the driver writes one number.
        let code = unsafe { function(&raw mut value, attribute, self.device) };
        self.check(code, "cuDeviceGetAttribute", || {
            format!(" of {attribute:?}")
        })?;
        Ok(value)
    }

    /// Makes this context the current one of this thread until the end of the returned value, which
    /// gives the thread back what it had. Inside of it already, it asks nothing of the driver: who
    /// makes several calls enters once for all of them.
    ///
    /// # Errors
    /// The driver's, and that of a forked process.
    pub fn enter(&self) -> Result<InContext<'_>> {
        self.driver.refuse_a_fork()?;
        let before = INSIDE.get();
        if before != self.raw {
            // SAFETY: the context was taken and is never given back.
            let code = unsafe { (self.driver.functions().context_push)(self.raw as CUcontext) };
            self.check(code, "cuCtxPushCurrent", String::new)?;
            INSIDE.set(self.raw);
        }
        Ok(InContext {
            context: self,
            before,
            of_this_thread: PhantomData,
        })
    }

    /// Whether a kernel of this device may read and write the memory of the other one.
    ///
    /// # Errors
    /// The driver's.
    pub fn reaches(&self, other: &Context) -> Result<bool> {
        if self.device == other.device {
            return Ok(true);
        }
        let mut can = 0;
        let function = self.driver.functions().can_access_peer;
        // SAFETY: the driver writes one number.
        let code = unsafe { function(&raw mut can, self.device, other.device) };
        let to = || format!(" to device {}", other.number);
        self.check(code, "cuDeviceCanAccessPeer", to)?;
        Ok(can != 0)
    }

    /// Lets kernels of this device use what the program allocated on the other one (`cudaMalloc`).
    /// Memory of kolo's own is granted by itself, see [`super::DeviceMemory::grant`].
    ///
    /// # Errors
    /// The driver's.
    pub fn reach(&self, other: &Context) -> Result<()> {
        if self.device == other.device {
            return Ok(());
        }
        let _current = self.enter()?;
        // SAFETY: the other context was taken and is never given back.
        let code = unsafe { (self.driver.functions().enable_peer)(other.raw as CUcontext, 0) };
        if code == PEER_ALREADY_ENABLED {
            return Ok(());
        }
        let to = || format!(" to device {}", other.number);
        self.check(code, "cuCtxEnablePeerAccess", to)
    }

    /// Waits until the device has done all work of this process. For tests and tools: a kernel that
    /// waits for this thread would never end.
    ///
    /// # Errors
    /// The driver's; the failure of any kernel before.
    pub fn synchronize(&self) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: takes nothing.
        let code = unsafe { (self.driver.functions().context_synchronize)() };
        self.check(code, "cuCtxSynchronize", String::new)
    }

    /// Whether the driver's address stands for this context.
    pub(super) fn is(&self, raw: CUcontext) -> bool {
        self.raw == raw as usize
    }

    /// An error unless the result is success; `of` says what the call was about.
    #[inline]
    pub(super) fn check(&self, code: c_int, call: &str, of: impl FnOnce() -> String) -> Result<()> {
        let number = self.number;
        self.driver
            .check(code, call, || format!("{} on device {number}", of()))
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "device {} ({}, {})", self.number, self.name, self.pci)
    }
}

/// While this lives, a context is the current one of this thread.
pub struct InContext<'c> {
    context: &'c Context,
    /// The context that the thread was inside of before; this one where nothing was pushed.
    before: usize,
    /// Each thread has a stack of contexts of its own.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for InContext<'_> {
    fn drop(&mut self) {
        if self.before == self.context.raw {
            return;
        }
        INSIDE.set(self.before);
        let mut popped: CUcontext = std::ptr::null_mut();
        // SAFETY: the driver writes one address; `enter` pushed what is popped here.
        let code = unsafe { (self.context.driver.functions().context_pop)(&raw mut popped) };
        debug_assert!(
            code != SUCCESS || self.context.is(popped),
            "contexts are left in the reverse order"
        );
    }
}
