//! Kinds of the program's addresses.

use super::context::Context;
use super::driver::Driver;
use super::failure::SUCCESS;
use crate::base::Result;
use cudarc::driver::sys::CUpointer_attribute as Attribute;
use std::ffi::{c_int, c_uint, c_void};

/// Memory of the host (`CU_MEMORYTYPE_HOST`).
const HOST: c_uint = 1;
/// Memory of a device (`CU_MEMORYTYPE_DEVICE`).
const DEVICE: c_uint = 2;

/// Where the memory behind an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerKind {
    /// On the device with this number among those that this process sees.
    Device(u32),
    /// On the host, and devices reach it.
    Pinned,
    /// Wherever it was used last.
    Managed,
    /// On the host, and unknown to the driver.
    Pageable,
}

/// Asks the driver for the kind of an address.
///
/// # Errors
/// No driver; the driver's.
pub fn kind_of(address: u64) -> Result<PointerKind> {
    // Whichever is current: it only must be one.
    kind_in(&*Context::any()?, address)
}

/// Asks with this context for the kind of an address. The answer holds for this moment: the program
/// may free the memory and have other memory at the same address. A question for the number of the
/// allocation costs as much as this one.
///
/// # Errors
/// The driver's.
pub fn kind_in(context: &Context, address: u64) -> Result<PointerKind> {
    let _current = context.enter()?;
    let driver = context.driver();
    let (mut kind, mut managed, mut device): (c_uint, c_uint, c_int) = (0, 0, -1);
    let mut asked = [
        Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
        Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    ];
    let mut places: [*mut c_void; 3] = [
        (&raw mut kind).cast(),
        (&raw mut managed).cast(),
        (&raw mut device).cast(),
    ];
    // SAFETY: each place is as wide as its attribute (IS_MANAGED is a byte or a number, and the
    // place was 0), and the driver only looks the address up.
    let code = unsafe {
        (driver.functions().pointer_attributes)(
            asked.len() as c_uint,
            asked.as_mut_ptr(),
            places.as_mut_ptr(),
            address,
        )
    };
    driver.check(code, "cuPointerGetAttributes", || {
        format!(" of {address:#x}")
    })?;
    Ok(match kind {
        _ if managed != 0 => PointerKind::Managed,
        HOST => PointerKind::Pinned,
        DEVICE => PointerKind::Device(device.max(0) as u32),
        _ => PointerKind::Pageable,
    })
}

/// Whether memory of the host was pinned at this address, for devices. No where the driver cannot
/// say: it is asked with the context that the thread has, or else with one that kolo uses, and none
/// is made for it.
pub fn is_pinned(address: usize) -> bool {
    let Ok(driver) = Driver::get() else {
        return false;
    };
    pinned_here(driver, address).unwrap_or_else(|| {
        let Some(context) = Context::known() else {
            return false;
        };
        let entered = context.enter();
        entered.is_ok_and(|_current| pinned_here(driver, address) == Some(true))
    })
}

/// Asks with the context that the thread has; nothing where the driver does not answer.
fn pinned_here(driver: &Driver, address: usize) -> Option<bool> {
    let (mut kind, mut managed): (c_uint, c_uint) = (0, 0);
    let mut asked = [
        Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED,
    ];
    let mut places: [*mut c_void; 2] = [(&raw mut kind).cast(), (&raw mut managed).cast()];
    // SAFETY: as above.
    let code = unsafe {
        (driver.functions().pointer_attributes)(
            asked.len() as c_uint,
            asked.as_mut_ptr(),
            places.as_mut_ptr(),
            address as u64,
        )
    };
    (code == SUCCESS).then_some(kind == HOST && managed == 0)
}
