//! The few functions of libhwloc that crate `hwloc2` does not offer.
//!
//! `hwloc2` links the library and binds threads, the own and others ([`super::pin`]). But it keeps
//! its declarations private, does not tell the library's version, takes no type filters, and
//! neither reads nor writes XML; its look-up of NUMA nodes and PCI devices panics. Everything kolo
//! wants to know about a machine is in the XML that the library writes, so the functions below
//! suffice; they work on opaque pointers, and no structure of the library is described here.
//! Reference: hwloc manual 2.x and 3.x, `hwloc.h` and `hwloc/export.h`.
//!
//! The library and the XML library below it do arithmetic of their own, so they work in a
//! floating-point environment of their own ([`FloatEnv`]).

use crate::base::float_env::FloatEnv;
use crate::base::{Code, Error, Result};
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr;

#[allow(non_camel_case_types)]
type hwloc_topology_t = *mut c_void;

unsafe extern "C" {
    fn hwloc_get_api_version() -> c_uint;
    fn hwloc_topology_init(topology: *mut hwloc_topology_t) -> c_int;
    fn hwloc_topology_destroy(topology: hwloc_topology_t);
    fn hwloc_topology_load(topology: hwloc_topology_t) -> c_int;
    fn hwloc_topology_set_flags(topology: hwloc_topology_t, flags: c_ulong) -> c_int;
    fn hwloc_topology_set_io_types_filter(topology: hwloc_topology_t, filter: c_int) -> c_int;
    fn hwloc_topology_set_all_types_filter(topology: hwloc_topology_t, filter: c_int) -> c_int;
    fn hwloc_topology_set_xmlbuffer(
        topology: hwloc_topology_t,
        buffer: *const c_char,
        size: c_int,
    ) -> c_int;
    fn hwloc_topology_export_xmlbuffer(
        topology: hwloc_topology_t,
        buffer: *mut *mut c_char,
        length: *mut c_int,
        flags: c_ulong,
    ) -> c_int;
    fn hwloc_free_xmlbuffer(topology: hwloc_topology_t, buffer: *mut c_char);
}

/// `HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED`: show processors outside the cgroup too, so that all
/// ranks of a machine see the same graph whatever their binding.
const INCLUDE_DISALLOWED: c_ulong = 1;
/// `HWLOC_TYPE_FILTER_KEEP_ALL`.
const KEEP_ALL: c_int = 0;
/// `HWLOC_TYPE_FILTER_KEEP_NONE`.
const KEEP_NONE: c_int = 1;
/// `HWLOC_TYPE_FILTER_KEEP_IMPORTANT`: leaves out bridges without devices and minor functions.
const KEEP_IMPORTANT: c_int = 3;

/// Whether a topology is to hold devices beside processors, caches and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Devices {
    /// PCI and OS devices too; asking for them costs some milliseconds.
    Listed,
    /// No devices.
    LeftOut,
}

/// The interface version of the loaded library: 0x00MMmmpp.
pub(super) fn api_version() -> u32 {
    // SAFETY: takes nothing, touches nothing.
    unsafe { hwloc_get_api_version() }
}

/// The topology of this machine as XML (format 2 or 3). Errors: a library of another major version,
/// a refusal of the library.
pub(super) fn live_xml(devices: Devices) -> Result<String> {
    let _program = FloatEnv::hold();
    let topology = Topology::new()?;
    topology.check("set the flags of", |raw| {
        // SAFETY: `raw` is a live topology that is not loaded yet, as this call requires.
        unsafe { hwloc_topology_set_flags(raw, INCLUDE_DISALLOWED) }
    })?;
    let filter = if devices == Devices::Listed {
        KEEP_IMPORTANT
    } else {
        KEEP_NONE
    };
    topology.check("set the type filter of", |raw| {
        // SAFETY: as above; the filter is a value of the library's enumeration.
        unsafe { hwloc_topology_set_io_types_filter(raw, filter) }
    })?;
    topology.load()?;
    topology.export()
}

/// Rewrites XML of an older format to a newer one by loading and exporting it.
pub(super) fn rewritten_xml(xml: &str) -> Result<String> {
    let _program = FloatEnv::hold();
    let topology = Topology::new()?;
    topology.check("set the type filter of", |raw| {
        // SAFETY: `raw` is a live topology that is not loaded yet; the filter is one of the enum's.
        unsafe { hwloc_topology_set_all_types_filter(raw, KEEP_ALL) }
    })?;
    let mut buffer = Vec::with_capacity(xml.len() + 1);
    buffer.extend_from_slice(xml.as_bytes());
    buffer.push(0);
    let size = c_int::try_from(buffer.len())
        .map_err(|_| Error::argument("hwloc XML of more than 2 GiB", "give a smaller file"))?;
    topology.check("read XML into", |raw| {
        // SAFETY: `raw` is live and not loaded; the buffer ends with NUL, `size` counts it, and it
        // outlives `topology`, which the load below reads it into.
        unsafe { hwloc_topology_set_xmlbuffer(raw, buffer.as_ptr().cast(), size) }
    })?;
    topology.load()?;
    topology.export()
}

/// A topology of the library, destroyed with this value.
struct Topology(hwloc_topology_t);

impl Topology {
    fn new() -> Result<Topology> {
        supported(api_version())?;
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is a valid place for the new pointer.
        if unsafe { hwloc_topology_init(&mut raw) } != 0 || raw.is_null() {
            return Err(failure("make"));
        }
        Ok(Topology(raw))
    }

    fn check(&self, doing: &str, call: impl FnOnce(hwloc_topology_t) -> c_int) -> Result<()> {
        if call(self.0) != 0 {
            Err(failure(doing))
        } else {
            Ok(())
        }
    }

    fn load(&self) -> Result<()> {
        // SAFETY: the pointer is live and was not loaded before: every caller loads once.
        self.check("load", |raw| unsafe { hwloc_topology_load(raw) })
    }

    fn export(&self) -> Result<String> {
        let (mut text, mut length) = (ptr::null_mut(), 0);
        self.check("export", |raw| {
            // SAFETY: `raw` is loaded; both places are valid; flags 0 means the newest format.
            unsafe { hwloc_topology_export_xmlbuffer(raw, &mut text, &mut length, 0) }
        })?;
        let length = usize::try_from(length).unwrap_or(0);
        if text.is_null() {
            return Err(failure("export"));
        }
        // SAFETY: the library returned `length` bytes at `text`, which are freed only below.
        let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        let copy = String::from_utf8_lossy(bytes).into_owned();
        // SAFETY: `text` came from the export of this topology and is freed once.
        unsafe { hwloc_free_xmlbuffer(self.0, text) };
        Ok(copy)
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        // SAFETY: made by `hwloc_topology_init` and destroyed once, here.
        unsafe { hwloc_topology_destroy(self.0) }
    }
}

/// Only these series have the functions and the XML formats that this room was written for.
fn supported(version: u32) -> Result<()> {
    if matches!(version >> 16, 2 | 3) {
        return Ok(());
    }
    Err(Error::new(
        Code::SystemError,
        format!("the loaded libhwloc has interface {version:#010x}, kolo needs 2.x or 3.x"),
        "install libhwloc 2.x (package libhwloc15) or 3.x, and see with `ldd` which one is loaded",
    ))
}

fn failure(doing: &str) -> Error {
    Error::system(
        format!("hwloc could not {doing} a topology"),
        &std::io::Error::last_os_error(),
        "run `lstopo` on this machine; HWLOC_XML_VERBOSE=1 and HWLOC_COMPONENTS_VERBOSE=1 say more",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_second_and_third_series_are_taken() {
        assert!(supported(api_version()).is_ok());
        for version in [0x0002_0000, 0x0002_0c00, 0x0003_0000] {
            assert!(supported(version).is_ok(), "{version:#x}");
        }
        for version in [0x0001_0b00, 0x0004_0000] {
            let error = supported(version).unwrap_err();
            assert!(error.what.contains("2.x or 3.x"), "{error}");
        }
    }

    #[test]
    fn devices_are_left_out_unless_asked_for() {
        assert!(
            !live_xml(Devices::LeftOut)
                .unwrap()
                .contains("type=\"PCIDev\"")
        );
        assert!(live_xml(Devices::Listed).unwrap().contains("type=\"PU\""));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(rewritten_xml("<topology><object type=\"Mach").is_err());
    }
}
