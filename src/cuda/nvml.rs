//! NVLinks, as NVIDIA's library for management (NVML) tells of them.
//!
//! The driver says which devices reach each other, not by what. `libnvidia-ml.so.1` comes with the
//! driver and knows each link. It is loaded when somebody asks, and where it is missing there are
//! no facts, which is no fault.

use crate::base::pci_bus::canonical;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::OnceLock;

/// The library's file name.
const LIBRARY: &str = "libnvidia-ml.so.1";
/// More links than a device has.
const MOST_LINKS: u32 = 64;
/// More devices than a machine has.
const MOST_DEVICES: u32 = 1024;
/// The maker of processors that have NVLinks of their own (POWER9): not a switch.
const IBM: u32 = 0x1014;

/// Facts that the library tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvmlFacts {
    /// The driver's version: `550.54.15`.
    pub driver: String,
    /// Every device of the machine, seen by this process or not: where it is plugged in, and its
    /// UUID as `nvidia-smi -L` writes it.
    pub devices: Vec<(String, String)>,
    /// Links in use, those between the same two ends together.
    pub links: Vec<NvmlLink>,
}

/// NVLinks between a device and another one, or a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmlLink {
    /// Where both ends are plugged in. The second one is a switch if it is no device.
    pub ends: [String; 2],
    /// Bandwidth of one direction, all links together, as their makers say it.
    pub megabytes_per_s: u64,
}

impl NvmlFacts {
    /// The facts of this machine, which the first call asks for.
    ///
    /// # Errors
    /// Why there are none, in a sentence.
    pub fn get() -> Result<&'static NvmlFacts, &'static str> {
        static ASKED: OnceLock<Result<NvmlFacts, String>> = OnceLock::new();
        let asked = ASKED.get_or_init(|| ask(LIBRARY));
        asked.as_ref().map_err(String::as_str)
    }
}

fn ask(library: &str) -> Result<NvmlFacts, String> {
    let opened = Nvml::builder().lib_path(OsStr::new(library)).init();
    let nvml = opened.map_err(|error| match error {
        NvmlError::LibloadingError(_) => format!("{library} cannot be loaded"),
        error => format!("{library} does not start: {error}"),
    })?;
    let facts = facts(&nvml).map_err(|error| format!("{library}: {error}"));
    // Its end asks for a function that not every library has, and panics without it.
    std::mem::forget(nvml);
    facts
}

fn facts(nvml: &Nvml) -> Result<NvmlFacts, NvmlError> {
    let mut devices = Vec::new();
    let mut ends: BTreeMap<[String; 2], u64> = BTreeMap::new();
    for index in 0..nvml.device_count()?.min(MOST_DEVICES) {
        // One that this user may not look at says nothing.
        let Ok(device) = nvml.device_by_index(index) else {
            continue;
        };
        let pci = canonical(&device.pci_info()?.bus_id);
        for (other, rate) in links(&device) {
            let sum = ends.entry([pci.clone(), other]).or_default();
            *sum += rate;
        }
        devices.push((pci, device.uuid().unwrap_or_default()));
    }
    Ok(NvmlFacts {
        driver: nvml.sys_driver_version().unwrap_or_default(),
        links: once(&devices, ends),
        devices,
    })
}

/// The links of a device that are in use: the other end, and the rate.
fn links(device: &Device) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for number in 0..MOST_LINKS {
        let link = device.link_wrapper_for(number);
        match link.is_active() {
            Ok(true) => {}
            Ok(false) => continue,
            // There are no more, or there is none at all.
            Err(_) => break,
        }
        let Ok(other) = link.remote_pci_info() else {
            continue;
        };
        if other.pci_device_id & 0xffff != IBM {
            found.push((canonical(&other.bus_id), rate(link.version().unwrap_or(0))));
        }
    }
    found
}

/// Both devices of a link tell of it: it counts once, as the one that comes first tells it.
fn once(devices: &[(String, String)], ends: BTreeMap<[String; 2], u64>) -> Vec<NvmlLink> {
    let place = |pci: &String| devices.iter().position(|(known, _)| known == pci);
    let is_first = |[one, other]: &[String; 2]| match place(other) {
        Some(other) => place(one).is_some_and(|one| one < other),
        None => true,
    };
    let link = |(ends, megabytes_per_s)| NvmlLink {
        ends,
        megabytes_per_s,
    };
    let ends = ends.into_iter();
    ends.filter(|(ends, _)| is_first(ends)).map(link).collect()
}

/// Megabytes a second and direction of one link of this version.
fn rate(version: u32) -> u64 {
    match version {
        0 | 1 => 20_000,
        2..=4 => 25_000,
        _ => 50_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_or_another_one_is_a_sentence() {
        let missing = ask("libnvidia-ml-of-nobody.so.1").expect_err("no library");
        assert_eq!(missing, "libnvidia-ml-of-nobody.so.1 cannot be loaded");
        let other = ask("libc.so.6").expect_err("another library");
        assert!(other.starts_with("libc.so.6 does not start: "), "{other}");
    }

    #[test]
    fn a_link_counts_once() {
        let devices = ["b", "a", "c"].map(|pci| (pci.to_owned(), String::new()));
        let end = |one: &str, other: &str, rate| ([one.to_owned(), other.to_owned()], rate);
        let told = [
            end("a", "b", 50),
            end("b", "a", 50),
            end("a", "switch", 7),
            end("c", "switch", 8),
        ];
        let links = once(&devices, told.into());
        let of = |one: &str, other: &str, rate| NvmlLink {
            ends: [one.to_owned(), other.to_owned()],
            megabytes_per_s: rate,
        };
        let expected = [of("a", "switch", 7), of("b", "a", 50), of("c", "switch", 8)];
        assert_eq!(links, expected);
    }
}
