//! The devices in hwloc's XML: PCI functions, and what the operating system made of them.
//!
//! Devices hang below PCI bridges, and the bridges hang below the part of the machine that is near
//! them. So a walk carries three things down: the near processors, the bridges, the PCI function.

use super::CpuSet;
use super::hardware::{Device, DeviceClass, Machine, PciId};
use super::xml::{Reader, objects};
use crate::base::Result;
use roxmltree::Node;

/// What a device inherits from the elements around it.
#[derive(Clone, Default)]
struct Around {
    cpus: CpuSet,
    bridges: Vec<String>,
    bus_id: Option<String>,
    pci: Option<PciId>,
    link_megabytes_per_s: Option<u64>,
}

/// All devices below `root`, in the order of the document.
pub(super) fn read(reader: &Reader, root: Node, machine: &Machine) -> Result<Vec<Device>> {
    let mut devices = Vec::new();
    let mut stack = vec![(
        root,
        Around {
            cpus: machine.cpus().clone(),
            ..Around::default()
        },
    )];
    while let Some((node, mut around)) = stack.pop() {
        match node.attribute("type") {
            Some("Bridge") => around
                .bridges
                .extend(node.attribute("bridge_pci").map(str::to_owned)),
            Some("PCIDev") => devices.push(pci_function(reader, node, &mut around, machine)?),
            Some("OSDev") => devices.push(os_device(reader, node, &around, machine)?),
            Some("Misc") => continue,
            _ => {
                if let Some(near) = node.attribute("cpuset") {
                    around.cpus = CpuSet::parse_mask(near)
                        .map_err(|error| reader.bad(node, &format!("cpuset: {}", error.what)))?;
                }
            }
        }
        let children: Vec<Node> = objects(node).collect();
        stack.extend(
            children
                .into_iter()
                .rev()
                .map(|child| (child, around.clone())),
        );
    }
    Ok(devices)
}

fn pci_function(
    reader: &Reader,
    node: Node,
    around: &mut Around,
    machine: &Machine,
) -> Result<Device> {
    let bus_id = reader.text(node, "pci_busid")?.to_owned();
    let text = reader.text(node, "pci_type")?;
    let pci = pci_id(text).ok_or_else(|| {
        reader.bad(
            node,
            &format!("pci_type={text:?} is not `CLASS [VENDOR:DEVICE] ...`"),
        )
    })?;
    // hwloc writes gigabytes per second with a fraction, and 0 where it does not know.
    let gigabytes: f64 = node
        .attribute("pci_link_speed")
        .and_then(|t| t.parse().ok())
        .unwrap_or(0.);
    around.link_megabytes_per_s = (gigabytes > 0.).then_some((gigabytes * 1000.).round() as u64);
    around.bus_id = Some(bus_id.clone());
    around.pci = Some(pci);
    Ok(device(class_of_pci(pci.class), bus_id, around, machine))
}

fn os_device(reader: &Reader, node: Node, around: &Around, machine: &Machine) -> Result<Device> {
    let name = reader.text(node, "name")?.to_owned();
    // Numbers of `hwloc_obj_osdev_type_e` in hwloc 2.
    let class = match reader.text(node, "osdev_type")? {
        "0" => DeviceClass::Storage,
        "1" => DeviceClass::Gpu,
        "2" => DeviceClass::Network,
        "3" => DeviceClass::OpenFabrics,
        "4" => DeviceClass::Dma,
        "5" => DeviceClass::CoProcessor,
        other => return Err(reader.bad(node, &format!("osdev_type={other:?} is not 0 to 5"))),
    };
    let mut device = device(class, name, around, machine);
    device.subtype = node.attribute("subtype").map(str::to_owned);
    device.is_os_device = true;
    Ok(device)
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
