//! Where a [`Machine`] comes from: the running system, or a file that was written on another one.
//!
//! Asking the system costs milliseconds and climate codes make many communicators, so each process
//! asks once. Devices cost more (libraries of GPUs may be loaded) and are listed only when somebody
//! wants them.

use super::hardware::Machine;
use super::hwloc_sys::{self, Devices};
use super::xml;
use super::xml_format::XmlFormat;
use super::{CpuSet, Notes, near, xml_tree};
use crate::base::{Error, Result, input_file};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Files may have this size. A machine with 4096 PUs has about 10 MB.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Name of a live machine as a source.
const LIVE: &str = "this machine";

static WITHOUT_DEVICES: OnceLock<Result<Machine>> = OnceLock::new();
static WITH_DEVICES: OnceLock<Result<Machine>> = OnceLock::new();

impl Machine {
    /// This machine without devices: processors outside the cgroup are in it too, so that all ranks
    /// of the machine get equal graphs. Asked once in a process, then kept; any thread may call.
    /// hwloc's own variables apply (`HWLOC_XMLFILE` and others). Errors: libhwloc is not of the 2.x
    /// or 3.x series or cannot look at the machine; the error is kept as well.
    pub fn detect() -> Result<&'static Machine> {
        // A full description serves as well, where one was made already.
        if let Some(Ok(machine)) = WITH_DEVICES.get() {
            return Ok(machine);
        }
        kept(&WITHOUT_DEVICES, Devices::LeftOut)
    }

    /// This machine with its PCI and OS devices; otherwise as [`Machine::detect`].
    pub fn detect_with_devices() -> Result<&'static Machine> {
        kept(&WITH_DEVICES, Devices::Listed)
    }

    /// A machine from a file that `lstopo --of xml FILE` (or `--whole-io` for all devices) wrote.
    /// Errors: the file cannot be read, is larger than 64 MiB, or says nothing of processors; they
    /// name the file, the line and the element.
    pub fn from_xml_file(path: &Path) -> Result<Machine> {
        Machine::from_xml_str(&text_of(path)?, &path.display().to_string())
    }

    /// A machine from hwloc's XML; `source` is what errors call it. Format 1 (hwloc 1.x) is taken
    /// too. What cannot be used is left out with a warning. Errors as for
    /// [`Machine::from_xml_file`].
    pub fn from_xml_str(text: &str, source: &str) -> Result<Machine> {
        let notes = Notes::lenient();
        let machine = Machine::from_xml(text, source, &notes)?;
        notes.warn();
        Ok(machine)
    }

    /// Reads a machine, where `notes` take the warnings.
    pub fn from_xml(text: &str, source: &str, notes: &Notes) -> Result<Machine> {
        let document = xml::open(text, source, xml::REMEDY)?;
        let format = xml::format(&document, source, notes)?;
        if format != XmlFormat::One {
            return xml::parse(&document, source, format, notes);
        }
        // The library gets what was seen here and nothing else: its own reader calls itself.
        let newer =
            hwloc_sys::rewritten_xml(&xml_tree::plain(&document)).map_err(|mut error| {
                error.what = format!("{source} (hwloc 1.x format): {}", error.what);
                error
            })?;
        let newer = xml::open(&newer, source, xml::REMEDY)?;
        let format = xml::format(&newer, source, notes)?;
        xml::parse(&newer, source, format, notes)
    }

    /// The PUs that the system says to be near the device at `pci_path`, a path below
    /// `/sys/devices`. None where it does not say, and for a machine from a file.
    pub fn told_near(&self, pci_path: &str) -> Option<CpuSet> {
        let is_here = self.source == LIVE && pci_path.starts_with("/sys/");
        if !is_here {
            return None;
        }
        // Each rank of a process asks for each of its ranks.
        static TOLD: Mutex<BTreeMap<String, Option<CpuSet>>> = Mutex::new(BTreeMap::new());
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cpus) = told.get(pci_path) {
            return cpus.clone();
        }
        let cpus = near::in_tree(Path::new(pci_path));
        told.insert(pci_path.to_owned(), cpus.clone());
        cpus
    }

    /// The version of the loaded libhwloc, for `kolo info`: `2.8` is the interface of 2.8 and 2.9.
    pub fn library_version() -> String {
        let version = hwloc_sys::api_version();
        format!("{}.{}", version >> 16, version >> 8 & 0xff)
    }
}

fn kept(place: &'static OnceLock<Result<Machine>>, devices: Devices) -> Result<&'static Machine> {
    let made = place.get_or_init(|| {
        let notes = Notes::lenient();
        let machine = Machine::from_xml(&hwloc_sys::live_xml(devices)?, LIVE, &notes);
        notes.mention();
        machine
    });
    made.as_ref().map_err(Error::clone)
}

/// The text of a topology file. Errors: it cannot be read, is no file or is larger than 64 MiB.
pub(super) fn text_of(path: &Path) -> Result<String> {
    let remedy = "check the path; the file is written by `lstopo --whole-io --of xml FILE`";
    let bytes = input_file::bytes(path, MAX_FILE_BYTES).map_err(|error| {
        let doing = format!("the topology file {} cannot be read", path.display());
        input_file::refused(doing, &error, remedy)
    })?;
    // Names that firmware gives are in whatever alphabet; nothing that counts is.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The rate of a network device of this machine in megabits per second, where the system knows it.
pub(super) fn port_rate(name: &str) -> Option<u32> {
    // InfiniBand: `200 Gb/sec (4X HDR)`. A name is one path component, or it is no device's.
    if name.contains(['/', '\0']) || name.starts_with('.') {
        return None;
    }
    let fabric = std::fs::read_to_string(format!("/sys/class/infiniband/{name}/ports/1/rate"));
    if let Ok(text) = fabric {
        let gigabits: f64 = text.split_whitespace().next()?.parse().ok()?;
        return (gigabits > 0.).then_some((gigabits * 1000.) as u32);
    }
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()?;
    // -1 where the device does not know.
    text.trim().parse().ok().filter(|&rate| rate > 0)
}
