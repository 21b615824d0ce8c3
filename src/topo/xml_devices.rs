//! The devices in hwloc's XML: PCI functions, and what the operating system made of them.
//!
//! Devices hang below PCI bridges, and the bridges hang below the part of the machine that is near
//! them. So a walk carries three things down: the near processors, the bridges, the PCI function.

use super::CpuSet;
use super::hardware::{Device, DeviceClass, Machine, PciId};
use super::notes::Reader;
use super::xml_format::{XmlFormat, objects};
use super::xml_tree::XmlNode;
use crate::base::Result;
use std::collections::HashSet;

/// Properties that a device inherits from the elements around it.
#[derive(Clone, Default)]
struct Around {
    cpus: CpuSet,
    bridges: Vec<String>,
    bus_id: Option<String>,
    pci: Option<PciId>,
    link_megabytes_per_s: Option<u64>,
}

/// All devices below `root`, in the order of the document.
pub(super) fn read(
    reader: &Reader,
    root: XmlNode,
    format: XmlFormat,
    machine: &Machine,
) -> Result<Vec<Device>> {
    let mut devices = Vec::new();
    let mut addresses = HashSet::new();
    let around = Around {
        cpus: machine.cpus().clone(),
        ..Around::default()
    };
    let mut stack = vec![(root, around)];
    while let Some((node, mut around)) = stack.pop() {
        match node.attribute("type") {
            Some("Bridge") => around
                .bridges
                .extend(node.attribute("bridge_pci").map(str::to_owned)),
            Some("PCIDev") => {
                if let Some(address) = node.attribute("pci_busid")
                    && !addresses.insert(address)
                {
                    reader.note(node, &format!("PCI function {address} is in it twice"))?;
                    continue;
                }
                devices.extend(pci_function(reader, node, &mut around, machine)?);
            }
            Some("OSDev") => devices.extend(os_device(reader, node, format, &around, machine)?),
            Some("Misc") => continue,
            // Their sets were read with the tree.
            Some("PU" | "NUMANode") => {}
            _ => {
                if let Some(near) = reader.optional_cpuset(node, "cpuset")? {
                    around.cpus = near;
                }
            }
        }
        let children: Vec<XmlNode> = objects(node).collect();
        stack.extend(
            children
                .into_iter()
                .rev()
                .map(|child| (child, around.clone())),
        );
    }
    Ok(devices)
}

/// Nothing for a function without an address.
fn pci_function(
    reader: &Reader,
    node: XmlNode,
    around: &mut Around,
    machine: &Machine,
) -> Result<Option<Device>> {
    let Some(bus_id) = reader.text(node, "pci_busid")? else {
        return Ok(None);
    };
    let bus_id = bus_id.to_owned();
    let text = reader.text(node, "pci_type")?;
    let pci = text.and_then(pci_id);
    if let (Some(text), None) = (text, pci) {
        let why = format!("pci_type={text:?} is not `CLASS [VENDOR:DEVICE] ...`: of no class");
        reader.note(node, &why)?;
    }
    // hwloc writes gigabytes per second with a fraction, and 0 where it does not know.
    let gigabytes: f64 = node
        .attribute("pci_link_speed")
        .and_then(|t| t.parse().ok())
        .unwrap_or(0.);
    around.link_megabytes_per_s = (gigabytes > 0.).then_some((gigabytes * 1000.).round() as u64);
    around.bus_id = Some(bus_id.clone());
    around.pci = pci;
    let class = pci.map_or(DeviceClass::Other, |pci| class_of_pci(pci.class));
    Ok(Some(device(class, bus_id, around, machine)))
}

/// Nothing for a device without a name.
fn os_device(
    reader: &Reader,
    node: XmlNode,
    format: XmlFormat,
    around: &Around,
    machine: &Machine,
) -> Result<Option<Device>> {
    let Some(name) = reader.text(node, "name")? else {
        return Ok(None);
    };
    let class = match (reader.text(node, "osdev_type")?, format) {
        (None, _) => None,
        (Some(text), XmlFormat::Three) => class_of_set(text),
        (Some(text), _) => class_of_number(text),
    };
    if let (Some(text), None) = (node.attribute("osdev_type"), class) {
        let why = format!("osdev_type={text:?} is no kind of device that kolo knows: of no class");
        reader.note(node, &why)?;
    }
    let class = class.unwrap_or(DeviceClass::Other);
    let mut device = device(class, name.to_owned(), around, machine);
    device.subtype = node.attribute("subtype").map(str::to_owned);
    device.is_os_device = true;
    Ok(Some(device))
}

/// Numbers of `hwloc_obj_osdev_type_e` in hwloc 2.
fn class_of_number(text: &str) -> Option<DeviceClass> {
    Some(match text {
        "0" => DeviceClass::Storage,
        "1" => DeviceClass::Gpu,
        "2" => DeviceClass::Network,
        "3" => DeviceClass::OpenFabrics,
        "4" => DeviceClass::Dma,
        "5" => DeviceClass::CoProcessor,
        _ => return None,
    })
}

/// Bits of `hwloc_obj_osdev_type_e` in hwloc 3; of several the one that says most counts: what
/// computes is more than what shows pictures.
fn class_of_set(text: &str) -> Option<DeviceClass> {
    const BITS: [(u32, DeviceClass); 7] = [
        (1 << 5, DeviceClass::OpenFabrics),
        (1 << 4, DeviceClass::Network),
        (1 << 3, DeviceClass::CoProcessor),
        (1 << 2, DeviceClass::Gpu),
        (1 << 0, DeviceClass::Storage),
        // Memory that is a device, which format 2 counts as storage.
        (1 << 1, DeviceClass::Storage),
        (1 << 6, DeviceClass::Dma),
    ];
    let set = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    match BITS.iter().find(|(bit, _)| set & bit != 0) {
        Some((_, class)) => Some(*class),
        // The library had no kind for it.
        None => (set == 0).then_some(DeviceClass::Other),
    }
}

fn device(class: DeviceClass, name: String, around: &Around, machine: &Machine) -> Device {
    Device {
        class,
        name,
        subtype: None,
        is_os_device: false,
        bus_id: around.bus_id.clone(),
        pci: around.pci,
        link_megabytes_per_s: around.link_megabytes_per_s,
        bridges: around.bridges.clone(),
        cpus: around.cpus.clone(),
        numa: near_numa(&around.cpus, machine),
    }
}

/// The node that is near all of these processors: the first of those that have ordinary memory, as
/// a machine with two kinds of memory has two nodes with the same processors.
fn near_numa(cpus: &CpuSet, machine: &Machine) -> Option<u32> {
    let around = |node: &&super::hardware::NumaNode| !cpus.is_empty() && cpus.is_subset(&node.cpus);
    let ordinary = machine
        .numa
        .iter()
        .filter(|node| node.subtype.is_none())
        .find(around);
    ordinary
        .or_else(|| machine.numa.iter().find(around))
        .map(|node| node.os_index)
}

/// Reads `0207 [15b3:1021] [15b3:0041] 00`: class, vendor and device in hexadecimal.
fn pci_id(text: &str) -> Option<PciId> {
    let mut words = text.split_whitespace();
    let class = u16::from_str_radix(words.next()?, 16).ok()?;
    let ids = words.next()?.strip_prefix('[')?.strip_suffix(']')?;
    let (vendor, device) = ids.split_once(':')?;
    Some(PciId {
        class,
        vendor: u16::from_str_radix(vendor, 16).ok()?,
        device: u16::from_str_radix(device, 16).ok()?,
    })
}

/// The PCI classes (PCI Code and ID Assignment Specification) that matter here.
fn class_of_pci(class: u16) -> DeviceClass {
    match class {
        0x0207 => DeviceClass::OpenFabrics,
        0x0c06 => DeviceClass::OpenFabrics,
        0x0100..=0x01ff => DeviceClass::Storage,
        0x0200..=0x02ff => DeviceClass::Network,
        0x0300..=0x03ff => DeviceClass::Gpu,
        0x0b40 | 0x1200..=0x12ff => DeviceClass::CoProcessor,
        0x0801 => DeviceClass::Dma,
        _ => DeviceClass::Other,
    }
}
