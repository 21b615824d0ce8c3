//! Memory of the host that somebody else allocated, made reachable for devices.
//!
//! The driver takes whole pages, and takes each page once. So what is registered is counted here:
//! two who need the same memory share one registration, and the last one ends it. Memory that the
//! program registered by itself is used as it is.

use super::context::Context;
use super::failure::ALREADY_REGISTERED;
use crate::base::{Error, Result};
use cudarc::driver::sys::CUdeviceptr;
use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Every context sees it, and devices may use it (`CU_MEMHOSTREGISTER_PORTABLE`, `_DEVICEMAP`).
const FLAGS: c_uint = 1 | 2;

/// Memory that devices reach as long as this lives.
pub struct HostMapping {
    context: Arc<Context>,
    start: usize,
}

/// One registration.
struct Registration {
    bytes: usize,
    /// Where devices find its first byte.
    address: u64,
    users: usize,
    /// Whether it is kolo's to end.
    is_own: bool,
}

/// Registrations by their first byte; they do not overlap.
static REGISTERED: Mutex<BTreeMap<usize, Registration>> = Mutex::new(BTreeMap::new());

fn registered() -> MutexGuard<'static, BTreeMap<usize, Registration>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// First page and end of the pages that have these bytes.
fn pages(start: usize, bytes: usize) -> (usize, usize) {
    // SAFETY: asks for a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
    let end = start + bytes.max(1);
    (start / page * page, end.next_multiple_of(page))
}

impl HostMapping {
    /// Lets devices reach the pages that have these bytes. The driver may wait for devices.
    ///
    /// # Errors
    /// The system or the driver does not allow it; only a part of the pages is registered already.
    ///
    /// # Safety
    /// The pages stay mapped at least as long as what is returned.
    pub unsafe fn of(start: *const u8, bytes: usize) -> Result<Arc<HostMapping>> {
        let context = Context::any()?;
        let (first, end) = pages(start as usize, bytes);
        let mut table = registered();
        let before = table.range_mut(..end).next_back();
        let overlapping = before.filter(|(at, known)| **at + known.bytes > first);
        let start = match overlapping {
            Some((at, known)) if *at <= first && *at + known.bytes >= end => {
                known.users += 1;
                *at
            }
            Some((at, known)) => {
                let what = format!(
                    "{:#x}..{:#x} is registered with the driver, and {first:#x}..{end:#x} only in \
                     part",
                    *at,
                    *at + known.bytes
                );
                let remedy = "use buffers that do not share a page, or one that has them all";
                return Err(Error::usage(what, remedy));
            }
            None => {
                table.insert(first, register(&context, first, end - first)?);
                first
            }
        };
        drop(table);
        Ok(Arc::new(HostMapping { context, start }))
    }

    /// Where devices find a byte of it.
    ///
    /// # Errors
    /// The byte is outside.
    pub fn address_of(&self, place: *const u8) -> Result<u64> {
        let table = registered();
        let inside = table.get(&self.start).and_then(|known| {
            let offset = (place as usize).checked_sub(self.start)?;
            (offset < known.bytes).then(|| known.address + offset as u64)
        });
        inside.ok_or_else(|| Error::internal(format!("{place:p} lies outside of a mapping")))
    }
}

fn register(context: &Context, start: usize, bytes: usize) -> Result<Registration> {
    let _current = context.enter()?;
    let functions = context.driver().functions();
    let of = || format!(" of {bytes} bytes at {start:#x}");
    // SAFETY: the caller of `of` vouches for the pages.
    let code = unsafe { (functions.host_register)(start as *mut _, bytes, FLAGS) };
    let is_own = code != ALREADY_REGISTERED;
    if is_own {
        context.check(code, "cuMemHostRegister", of)?;
    }
    let mut address: CUdeviceptr = 0;
    // SAFETY: the driver writes one number, and fails where it does not know the memory.
    let code = unsafe { (functions.host_address)(&raw mut address, start as *mut _, 0) };
    let known = context.check(code, "cuMemHostGetDevicePointer", of);
    if known.is_err() && is_own {
        // SAFETY: registered just now.
        unsafe { (functions.host_unregister)(start as *mut _) };
    }
    known?;
    Ok(Registration {
        bytes,
        address,
        users: 1,
        is_own,
    })
}

impl Drop for HostMapping {
    fn drop(&mut self) {
        let Ok(_current) = self.context.enter() else {
            return;
        };
        let mut table = registered();
        let Some(known) = table.get_mut(&self.start) else {
            return;
        };
        known.users -= 1;
        if known.users > 0 {
            return;
        }
        if known.is_own {
            let function = self.context.driver().functions().host_unregister;
            // SAFETY: registered once, and nobody uses it any more.
            let code = unsafe { function(self.start as *mut _) };
            if let Err(error) = self.context.check(code, "cuMemHostUnregister", String::new) {
                tracing::debug!("memory could not be taken from the devices: {error}");
            }
        }
        table.remove(&self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_the_bytes() {
        assert_eq!(pages(0x10_0000, 1), (0x10_0000, 0x10_1000));
        assert_eq!(pages(0x10_0fff, 2), (0x10_0000, 0x10_2000));
        assert_eq!(pages(0x10_0000, 0), (0x10_0000, 0x10_1000));
        assert_eq!(pages(0x10_1000, 0x1000), (0x10_1000, 0x10_2000));
    }
}
