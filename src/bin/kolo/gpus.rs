//! The GPUs that this process sees: what the driver and NVML say of them, and their place in the
//! machine.

use crate::launcher;
use kolo::base::{Error, Result};
use kolo::cuda::driver::{Driver, dotted};
use kolo::cuda::listing::list;
use kolo::cuda::{ListedDevice, NvmlFacts};
use kolo::topo::NvLink;
use kolo::topo::gpus::{GpuPlace, add_gpus};
use kolo::topo::graph::{Description, Graph, LinkKind, NodeKind};
use kolo::topo::nic;
use kolo::topo::paths::Paths;
use serde_json::{Value, json};
use std::fmt::Write;

/// Which GPUs of the machine a process sees.
pub const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
/// Name that the software GPU gives its devices.
const SOFTWARE: &str = "kolo software GPU";
/// The place in the system of the facts about devices on the PCI bus.
const SYSTEM: &str = "/sys/bus/pci/devices";

/// GPUs as a driver lists them.
pub struct DriverGpus {
    /// CUDA's version: `12.4`.
    pub cuda: String,
    /// By their numbers.
    pub devices: Vec<ListedDevice>,
}

impl DriverGpus {
    /// Asks the driver of this process.
    ///
    /// # Errors
    /// No driver, one that is too old or fails, no device.
    pub fn get() -> Result<DriverGpus> {
        let driver = Driver::get()?;
        Ok(DriverGpus {
            cuda: dotted(driver.version()),
            devices: list(driver)?,
        })
    }

    /// Whether they are those of the software GPU; `None` where there are none.
    pub fn is_software(&self) -> Option<bool> {
        let first = self.devices.first()?;
        Some(first.name == SOFTWARE)
    }

    /// Where the devices are. The system knows the NUMA node where the driver does not say it.
    fn places(&self) -> Vec<GpuPlace> {
        let place = |device: &ListedDevice| GpuPlace {
            number: device.number,
            pci: device.pci.clone(),
            numa: device.numa.or_else(|| numa_of(&device.pci)),
        };
        self.devices.iter().map(place).collect()
    }
}

/// -1 where the machine has one NUMA node only, or does not say.
fn numa_of(pci: &str) -> Option<u32> {
    let text = std::fs::read_to_string(format!("{SYSTEM}/{pci}/numa_node")).ok()?;
    text.trim().parse().ok()
}

/// NVLinks of these devices as NVML has them; what of it does not fit the driver is left out and
/// said.
pub fn nvlinks(facts: &NvmlFacts, devices: &[ListedDevice]) -> (Vec<NvLink>, Vec<String>) {
    let uuid_at = |pci: &str| {
        let mut known = facts.devices.iter();
        known.find(|(at, _)| at == pci).map(|(_, uuid)| uuid)
    };
    let other = devices
        .iter()
        .filter(|device| uuid_at(&device.pci).is_some_and(|uuid| *uuid != device.uuid_text()));
    let other: Vec<&ListedDevice> = other.collect();
    let is_other = |pci: &String| other.iter().any(|device| device.pci == *pci);
    let fits = |ends: &[String; 2]| !ends.iter().any(is_other);
    let links = facts.links.iter().filter(|link| fits(&link.ends));
    let links = links.map(|link| NvLink {
        ends: link.ends.clone(),
        megabytes_per_s: link.megabytes_per_s,
    });
    let links: Vec<NvLink> = links.collect();
    let mut said = Vec::new();
    if !other.is_empty() {
        let names = other.iter().map(|device| device.number.to_string());
        said.push(format!(
            "device {} is another one for NVML, by its UUID (a part of a GPU, or a GPU of \
             software): its NVLinks are left out",
            names.collect::<Vec<_>>().join(", ")
        ));
    }
    // Over a link of their own devices reach each other.
    let number = |pci: &String| devices.iter().position(|device| device.pci == *pci);
    for link in &links {
        if let [Some(one), Some(two)] = [&link.ends[0], &link.ends[1]].map(number)
            && !devices[one].reaches[two]
        {
            said.push(format!(
                "NVML has an NVLink between devices {one} and {two}, which do not reach each other \
                 for the driver"
            ));
        }
    }
    (links, said)
}

/// The GPUs of a machine as they are shown.
pub struct ShownGpus {
    /// Answer of the driver, if it was asked, or why it has none.
    driver: Option<Result<DriverGpus>>,
    /// Why there are no facts about NVLinks.
    no_links: Option<String>,
    /// Contradictions between driver and system, a line each.
    pub warnings: Vec<String>,
}

impl ShownGpus {
    /// Brings the driver's GPUs into the picture of this machine.
    pub fn here(description: &mut Description) -> ShownGpus {
        let driver = DriverGpus::get();
        let Ok(seen) = &driver else {
            return ShownGpus {
                driver: Some(driver),
                no_links: None,
                warnings: Vec::new(),
            };
        };
        let nvml = NvmlFacts::get();
        let (links, mut warnings) = match nvml {
            Ok(facts) => nvlinks(facts, &seen.devices),
            Err(_) => (Vec::new(), Vec::new()),
        };
        let are_all = launcher::variable(VISIBLE).is_none();
        let links = nvml.is_ok().then_some(links.as_slice());
        warnings.extend(add_gpus(description, &seen.places(), are_all, links));
        let mut links = description.graph.links.iter();
        let has_links = links.any(|link| link.kind == LinkKind::NvLink);
        ShownGpus {
            driver: Some(driver),
            no_links: nvml.err().filter(|_| !has_links).map(str::to_owned),
            warnings,
        }
    }

    /// Those of another machine, which is described in a file.
    pub fn described() -> ShownGpus {
        ShownGpus {
            driver: None,
            no_links: None,
            warnings: Vec::new(),
        }
    }

    fn device(&self, number: u32) -> Option<&ListedDevice> {
        let seen = self.driver.as_ref()?.as_ref().ok()?;
        seen.devices.get(number as usize)
    }

    fn failure(&self) -> Option<&Error> {
        self.driver.as_ref()?.as_ref().err()
    }

    /// One line for each GPU; nothing where there is none.
    pub fn text(&self, graph: &Graph) -> String {
        let rows = rows(graph);
        if rows.is_empty() {
            return String::new();
        }
        let mut text = String::from("\nGPUs (GB/s and direction)\n");
        for row in &rows {
            let device = self.device(row.number);
            let name = device.map_or("", |device| device.name.as_str());
            let _ = write!(text, "  {:<7}{:<14}", row.label, row.pci);
            let parts = [
                Some(name.to_owned()).filter(|name| !name.is_empty()),
                row.cpu.clone(),
                Some(format!("nearest port {}", listed(&row.ports))),
                (!row.links.is_empty()).then(|| format!("NVLink {}", listed(&row.links))),
                device.map(reached),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            let _ = writeln!(text, "{}", parts.join("; "));
        }
        if let Some(error) = self.failure() {
            let _ = writeln!(text, "  the driver says nothing of them: {}", error.what);
        }
        if let Some(why) = &self.no_links {
            let _ = writeln!(text, "  NVLinks are unknown: {why}");
        }
        text
    }

    /// Lists the GPUs for programs.
    pub fn document(&self, graph: &Graph) -> Value {
        let gpu = |row: &GpuRow| {
            let device = self.device(row.number);
            json!({
                "number": row.number,
                "pci": row.pci,
                "cpu": row.cpu,
                "ports": row.ports,
                "nvlinks": row.links,
                "name": device.map(|device| device.name.clone()),
                "uuid": device.map(ListedDevice::uuid_text),
                "reaches": device.map(|device| {
                    let reached = (0..).zip(&device.reaches).filter(|(_, reaches)| **reaches);
                    let others = reached.map(|(other, _)| other);
                    others.filter(|other| *other != row.number).collect::<Vec<u32>>()
                }),
            })
        };
        json!({
            "devices": rows(graph).iter().map(gpu).collect::<Vec<_>>(),
            "cuda": self.driver.as_ref().and_then(|it| it.as_ref().ok()).map(|it| &it.cuda),
            "problem": self.failure().map(|error| &error.what),
            "nvlinks_unknown": self.no_links,
            "warnings": self.warnings,
        })
    }
}

/// Which devices it reaches, if not all of several.
fn reached(device: &ListedDevice) -> String {
    let others = device.reaches.len() - 1;
    let far = (0..).zip(&device.reaches).filter(|(_, reaches)| !**reaches);
    let far: Vec<String> = far.map(|(other, _): (u32, _)| other.to_string()).collect();
    match far.len() {
        _ if others == 0 => "alone".to_owned(),
        0 => "reaches all others".to_owned(),
        all if all == others => "reaches no other".to_owned(),
        _ => format!("does not reach {}", listed(&far)),
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// A GPU in the graph.
struct GpuRow {
    number: u32,
    label: String,
    pci: String,
    cpu: Option<String>,
    /// The nearest ports to the network, with the kind of way there.
    ports: Vec<String>,
    /// Devices that NVLinks join it to, with their bandwidth.
    links: Vec<String>,
}

fn rows(graph: &Graph) -> Vec<GpuRow> {
    let gpus = graph.of_kind(NodeKind::Gpu);
    let paths = Paths::new(graph);
    let nets = nic::nets(graph);
    let row = |(at, &node): (usize, &usize)| {
        let exits = nic::choose_net(graph, &paths, &gpus, at, false);
        let port = |net: u32| {
            let net = nets[net as usize];
            let kind = paths.get(node, net).map_or("", |path| path.kind.word());
            format!("{} ({kind})", graph.nodes[net].name)
        };
        let links = graph.leaving(node).iter().map(|&link| graph.links[link]);
        let links = links.filter(|link| link.kind == LinkKind::NvLink);
        let link = |link: kolo::topo::graph::GraphLink| {
            let rate = f64::from(link.megabytes_per_s) / 1000.0;
            format!("{} {rate}", graph.nodes[link.to].label())
        };
        let cpu = graph.cpu_above(node);
        GpuRow {
            number: graph.nodes[node].number,
            label: graph.nodes[node].label(),
            pci: graph.nodes[node].name.clone(),
            cpu: cpu.map(|cpu| graph.nodes[cpu].label()),
            ports: exits.iter().map(|exit| port(exit.net)).collect(),
            links: links.map(link).collect(),
        }
    };
    gpus.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kolo::cuda::NvmlLink;

    fn device(number: u32, reaches: [bool; 3]) -> ListedDevice {
        ListedDevice {
            number,
            name: "a GPU".into(),
            uuid: [number as u8 + 1; 16],
            pci: format!("0000:{number}a:00.0"),
            architecture: 90,
            numa: None,
            reaches: reaches.into(),
        }
    }

    fn link(one: u32, other: u32) -> NvmlLink {
        NvmlLink {
            ends: [one, other].map(|number| format!("0000:{number}a:00.0")),
            megabytes_per_s: 25_000 * u64::from(one + other),
        }
    }

    #[test]
    fn what_does_not_fit_the_driver_is_left_out_and_said() {
        let devices = [
            device(0, [true, true, false]),
            device(1, [true; 3]),
            device(2, [false, true, true]),
        ];
        let mut known: Vec<(String, String)> = devices
            .iter()
            .map(|device| (device.pci.clone(), device.uuid_text()))
            .collect();
        let facts = |known: &[(String, String)]| NvmlFacts {
            driver: "550.54".into(),
            devices: known.to_vec(),
            links: vec![link(0, 1), link(1, 2), link(0, 2)],
        };
        let (links, said) = nvlinks(&facts(&known), &devices);
        assert_eq!(links.len(), 3);
        let far = "an NVLink between devices 0 and 2, which do not reach each other";
        assert!(said.len() == 1 && said[0].contains(far), "{said:?}");
        known[2].1 = "MIG-77".into();
        let (links, said) = nvlinks(&facts(&known), &devices);
        assert_eq!(links.len(), 1);
        assert_eq!(links[0].megabytes_per_s, 25_000);
        assert!(
            said.len() == 1 && said[0].starts_with("device 2 is another one"),
            "{said:?}"
        );
    }

    #[test]
    fn which_devices_are_far_is_said() {
        assert_eq!(reached(&device(0, [true; 3])), "reaches all others");
        assert_eq!(
            reached(&device(0, [true, false, false])),
            "reaches no other"
        );
        assert_eq!(reached(&device(1, [true, true, false])), "does not reach 2");
    }
}
