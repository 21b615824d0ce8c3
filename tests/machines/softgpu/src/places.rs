//! Where devices are plugged in, and which links join them, as a file describes it.
//!
//! The file is one that kolo reads as `KOLO_TOPO_FILE` too, of the form `<system>`: `<cpu>`, inside
//! it `<pci>` in any depth, inside these `<gpu>` with its `<nvlink>`s. What is beside these is
//! passed over. Devices are the GPUs in the order of their `dev`.

use roxmltree::{Document, Node};
use std::collections::BTreeSet;

/// The class of NVSwitches on the PCI bus begins so, that of processors does so with a 1 behind.
const SWITCH: &str = "0x0680";
const PROCESSOR: &str = "0x068001";

/// A device's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// On the PCI bus: domain, bus, slot.
    pub domain: i32,
    pub bus: i32,
    pub slot: i32,
    /// The number of the NUMA node that is near; -1 if there is no other one.
    pub numa: i32,
    /// Addresses of devices and switches at the other ends of its links.
    links: BTreeSet<String>,
    /// Whether one of these is a switch.
    has_switch: bool,
    /// The number that the file gives it.
    dev: Option<u32>,
}

/// Link between two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joint {
    /// NVLinks, of their own or through switches.
    NvLink,
    /// The PCI bus of one processor.
    Pci,
    /// Only the link between processors, over which no device reaches another one.
    Processors,
}

impl Place {
    /// Domain 0, a bus of its own, slot 0; nobody knows what is near.
    pub fn without_file(number: u32) -> Place {
        Place {
            domain: 0,
            bus: 0x10 + number as i32,
            slot: 0,
            numa: -1,
            links: BTreeSet::new(),
            has_switch: false,
            dev: None,
        }
    }

    /// `0000:3b:00.0`.
    pub fn bus_id(&self) -> String {
        let (domain, bus, slot) = (self.domain, self.bus, self.slot);
        format!("{domain:04x}:{bus:02x}:{slot:02x}.0")
    }

    /// Finds the link between this device and another one.
    pub fn joint(&self, other: &Place) -> Joint {
        let is_linked = self.links.contains(&other.bus_id());
        let is_switched = self.has_switch && other.has_switch;
        match is_linked || is_switched {
            true => Joint::NvLink,
            false if self.numa == other.numa => Joint::Pci,
            false => Joint::Processors,
        }
    }
}

/// The places in the text of a file.
///
/// # Errors
/// What is wrong with it.
pub fn read(text: &str) -> Result<Vec<Place>, String> {
    let document = Document::parse(text).map_err(|error| error.to_string())?;
    let root = document.root_element();
    if !root.has_tag_name("system") {
        return Err("it does not begin with <system>".to_owned());
    }
    let mut places = Vec::new();
    for cpu in root.children().filter(|node| node.has_tag_name("cpu")) {
        let numa = cpu.attribute("numaid").unwrap_or("-1");
        let numa: i32 = numa.parse().map_err(|_| bad(&cpu, "numaid"))?;
        for pci in cpu.descendants().filter(is_device) {
            places.push(place(&pci, numa)?);
        }
    }
    // Devices without a number stand behind those that have one.
    places.sort_by_key(|place: &Place| place.dev.unwrap_or(u32::MAX));
    let all: BTreeSet<String> = places.iter().map(Place::bus_id).collect();
    match all.len() == places.len() {
        true => Ok(places),
        false => Err("two GPUs have the same busid".to_owned()),
    }
}

fn bad(node: &Node, attribute: &str) -> String {
    let position = node.document().text_pos_at(node.range().start);
    let name = node.tag_name().name();
    format!(
        "line {}: <{name}> has no {attribute} that can be read",
        position.row
    )
}

/// A `<pci>` with a `<gpu>` in it, or of a GPU's class.
fn is_device(node: &Node) -> bool {
    let class = node.attribute("class").unwrap_or("");
    let has_gpu = node.children().any(|inner| inner.has_tag_name("gpu"));
    node.has_tag_name("pci") && (has_gpu || class.starts_with("0x03") || class.starts_with("0x12"))
}

fn place(pci: &Node, numa: i32) -> Result<Place, String> {
    let found = pci.attribute("busid").and_then(address);
    let (domain, bus, slot) = found.ok_or_else(|| bad(pci, "busid"))?;
    let mut place = Place {
        domain,
        bus,
        slot,
        numa,
        links: BTreeSet::new(),
        has_switch: false,
        dev: None,
    };
    for gpu in pci.children().filter(|inner| inner.has_tag_name("gpu")) {
        let dev = gpu.attribute("dev").map(str::parse).transpose();
        place.dev = dev.map_err(|_| bad(&gpu, "dev"))?;
        for link in gpu.children().filter(|inner| inner.has_tag_name("nvlink")) {
            let class = link.attribute("tclass").unwrap_or("");
            let target = link.attribute("target").and_then(address);
            let (domain, bus, slot) = target.ok_or_else(|| bad(&link, "target"))?;
            if class.starts_with(PROCESSOR) {
                continue;
            }
            place.has_switch |= class.starts_with(SWITCH);
            let target = format!("{domain:04x}:{bus:02x}:{slot:02x}.0");
            place.links.insert(target);
        }
    }
    Ok(place)
}

/// Domain, bus and slot of `0000:3b:00.0`; a device is function 0 of its slot.
fn address(text: &str) -> Option<(i32, i32, i32)> {
    let number = |digits: &str| i32::from_str_radix(digits, 16).ok();
    let mut parts = text.split(':');
    let (domain, bus) = (number(parts.next()?)?, number(parts.next()?)?);
    let slot = number(parts.next()?.strip_suffix(".0")?)?;
    let fits = (0..0x10000).contains(&domain) && (0..256).contains(&bus) && (0..32).contains(&slot);
    (fits && parts.next().is_none()).then_some((domain, bus, slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_what_is_between_them() {
        let text = "<system version='1'><cpu numaid='1'><pci busid='0000:01:00.0' class='0x0604'>
            <pci busid='0002:2b:1f.0'><gpu dev='2'/></pci>
            <pci busid='0000:2c:00.0'><gpu dev='0'>
              <nvlink target='0000:2d:00.0' tclass='0x030200'/>
              <nvlink target='0000:f0:00.0' tclass='0x068001'/></gpu></pci>
            <pci busid='0000:99:00.0' class='0x020700'><nic/></pci></pci></cpu>
            <cpu numaid='3'><pci busid='0000:2d:00.0' class='0x030200'><gpu dev='1'>
              <nvlink target='0000:2c:00.0'/>
              <nvlink target='0000:c4:00.0' tclass='0x068000'/></gpu></pci>
            <pci busid='0000:2e:00.0' class='0x120000'/></cpu></system>";
        let places = read(text).expect("places");
        let ids: Vec<String> = places.iter().map(Place::bus_id).collect();
        let wanted = [
            "0000:2c:00.0",
            "0000:2d:00.0",
            "0002:2b:1f.0",
            "0000:2e:00.0",
        ];
        assert_eq!(ids, wanted);
        assert_eq!(
            places.iter().map(|it| it.numa).collect::<Vec<_>>(),
            [1, 3, 1, 3]
        );
        let joint = |one: usize, other: usize| places[one].joint(&places[other]);
        assert_eq!([joint(0, 1), joint(1, 0)], [Joint::NvLink; 2]);
        assert_eq!([joint(0, 2), joint(1, 3)], [Joint::Pci; 2]);
        assert_eq!([joint(0, 3), joint(1, 2)], [Joint::Processors; 2]);
    }

    #[test]
    fn switches_join_all_that_hang_on_one() {
        let gpu = |number: u32, class: &str| {
            format!(
                "<cpu numaid='{number}'><pci busid='0000:0{number}:00.0'><gpu>\
                 <nvlink target='0000:c{number}:00.0' tclass='{class}'/></gpu></pci></cpu>"
            )
        };
        let all = [gpu(0, "0x068000"), gpu(1, "0x068000"), gpu(2, "0x068001")].concat();
        let places = read(&format!("<system>{all}</system>")).expect("places");
        assert_eq!(places[0].joint(&places[1]), Joint::NvLink);
        assert_eq!(places[0].joint(&places[2]), Joint::Processors);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let gpu = |attributes: &str| format!("<system><cpu>\n<pci {attributes}/></cpu></system>");
        for (text, words) in [
            ("<graphs/>".to_owned(), "does not begin with <system>"),
            ("<system>".to_owned(), "never closed"),
            (gpu("class='0x03'"), "line 2: <pci> has no busid"),
            (
                gpu("class='0x03' busid='0000:2c:00.1'"),
                "line 2: <pci> has no busid",
            ),
            (
                gpu("class='0x03' busid='0:2c:20.0'"),
                "line 2: <pci> has no busid",
            ),
            (
                format!(
                    "<system><cpu>{0}{0}</cpu></system>",
                    "<pci class='0x03' busid='0:1:2.0'/>"
                ),
                "the same busid",
            ),
        ] {
            let fault = read(&text).expect_err(words);
            assert!(fault.contains(words), "{words}: {fault}");
        }
    }
}
