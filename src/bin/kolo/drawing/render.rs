//! The hardware graph as text that a person likes to read: what `kolo topo` prints.
//!
//! Packages and memory are shown one by one, with the PUs that this process may use. Below them
//! equal neighbours are shown once with their number, and the caches of one core stand on the line
//! of the core: `16 x Core: L2 1 MiB, L1 32 KiB, 2 PUs`.

use crate::out::counted;
use kolo::topo::hardware::{Device, DeviceClass, Machine, NumaNode, Object, ObjectKind};
use kolo::topo::{CpuSet, RankPlace};
use std::fmt::Write;

/// The machine as a tree of lines, ending with a line break. With a `place`, the tree says which
/// PUs that rank may use, and a line about the rank stands below it.
pub fn render(machine: &Machine, place: Option<&RankPlace>) -> String {
    let painter = Painter {
        machine,
        usable: place.map(|place| &place.cpus),
    };
    let root = Line {
        text: painter.summary(),
        below: painter.inside(&machine.root),
    };
    let mut out = format!("{}\n", root.text);
    draw(&root.below, "", &mut out);
    devices(machine, &mut out);
    if let Some(place) = place {
        about(place, &mut out);
    }
    out
}

/// A line of the tree and what hangs below it.
struct Line {
    text: String,
    below: Vec<Line>,
}

impl Line {
    fn leaf(text: String) -> Line {
        Line {
            text,
            below: Vec::new(),
        }
    }
}

struct Painter<'a> {
    machine: &'a Machine,
    usable: Option<&'a CpuSet>,
}

impl Painter<'_> {
    fn summary(&self) -> String {
        let machine = self.machine;
        let memory: u64 = machine.numa.iter().map(|node| node.memory_bytes).sum();
        let mut parts = vec![
            counted(machine.packages().count(), "package"),
            counted(machine.numa.len(), "NUMA node"),
            counted(machine.cores.len(), "core"),
            counted(machine.cpus().len(), "PU"),
        ];
        parts.push(size(memory));
        if machine.allowed != *machine.cpus() {
            parts.push(format!("only PUs {} allowed here", machine.allowed));
        }
        format!("Machine ({}): {}", machine.source, parts.join(", "))
    }

    /// The lines for an object: usually one.
    fn object(&self, object: &Object) -> Vec<Line> {
        match object.kind {
            ObjectKind::Package | ObjectKind::Die => {
                vec![Line {
                    text: heading(object),
                    below: self.inside(object),
                }]
            }
            ObjectKind::Machine | ObjectKind::Group => self.inside(object),
            _ => self.with_memory(object, self.run(std::slice::from_ref(object))),
        }
    }

    /// The lines for what is inside an object, below its memory if it has some.
    fn inside(&self, object: &Object) -> Vec<Line> {
        self.with_memory(object, self.parts(object))
    }

    /// The lines for the parts of an object.
    fn parts(&self, object: &Object) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut rest = object.children.as_slice();
        while let Some(first) = rest.first() {
            let count = if repeats(first) {
                rest.iter().take_while(|other| alike(first, other)).count()
            } else {
                1
            };
            let (run, after) = rest.split_at(count);
            lines.extend(if count > 1 {
                self.run(run)
            } else {
                self.object(first)
            });
            rest = after;
        }
        lines
    }

    /// Puts lines below the memory that is attached to their object. Further memory there (another
    /// kind, or memory without processors) gets lines of its own.
    fn with_memory(&self, object: &Object, lines: Vec<Line>) -> Vec<Line> {
        let numbers = object.memory.iter();
        let nodes = numbers.filter_map(|&number| self.machine.numa_node(number));
        let (near, far): (Vec<&NumaNode>, Vec<&NumaNode>) =
            nodes.partition(|node| !node.cpus.is_empty());
        let line = |node: &&NumaNode| Line::leaf(self.memory_text(node));
        let mut all: Vec<Line> = near.iter().map(line).collect();
        match all.first_mut() {
            Some(first) => first.below = lines,
            None => all = lines,
        }
        all.extend(far.iter().map(line));
        all
    }

    fn memory_text(&self, node: &NumaNode) -> String {
        let kind = node
            .subtype
            .as_deref()
            .map(|kind| format!(" ({kind})"))
            .unwrap_or_default();
        let cpus = if node.cpus.is_empty() {
            "no PUs".to_owned()
        } else {
            format!("PUs {}{}", node.cpus, self.may_use(&node.cpus))
        };
        format!(
            "NUMA {}{kind}: {}, {cpus}",
            node.os_index,
            size(node.memory_bytes)
        )
    }

    /// The line for equal neighbours (or one object) without memory of their own.
    fn run(&self, run: &[Object]) -> Vec<Line> {
        let times = if run.len() > 1 {
            format!("{} x ", run.len())
        } else {
            String::new()
        };
        let mut caches = Vec::new();
        let mut object = &run[0];
        // Down a chain of only children: the caches that one core has for itself.
        while let (ObjectKind::Cache { level, bytes }, [only]) =
            (&object.kind, object.children.as_slice())
        {
            if !only.memory.is_empty() || !one_liner(&only.kind) {
                break;
            }
            caches.push(cache(*level, *bytes));
            object = only;
        }
        match object.kind {
            ObjectKind::Core | ObjectKind::Pu => {
                let name = if object.kind == ObjectKind::Core {
                    "Core"
                } else {
                    "PU"
                };
                if object.kind == ObjectKind::Core {
                    caches.push(counted(object.cpus.len(), "PU"));
                }
                let tail = if caches.is_empty() { "" } else { ": " };
                let text = format!("{times}{name}{tail}{}", caches.join(", "));
                vec![Line::leaf(text)]
            }
            ObjectKind::Cache { level, bytes } => {
                caches.push(cache(level, bytes));
                let sets: Vec<String> = run.iter().map(|one| one.cpus.to_string()).collect();
                let sets = match sets.as_slice() {
                    [first, .., last] if sets.len() > 4 => format!("{first} | ... | {last}"),
                    all => all.join(" | "),
                };
                let text = format!("{times}{}: PUs {sets}", caches.join(", "));
                vec![Line {
                    text,
                    below: self.parts(object),
                }]
            }
            _ => self.parts(object),
        }
    }

    fn may_use(&self, cpus: &CpuSet) -> String {
        let Some(usable) = self.usable else {
            return String::new();
        };
        let usable = usable.intersection(cpus);
        match usable.len() {
            0 => " (none usable)".to_owned(),
            count if count == cpus.len() => " (all usable)".to_owned(),
            _ => format!(" (usable {usable})"),
        }
    }
}

/// Whether an object may be shown together with equal neighbours.
fn repeats(object: &Object) -> bool {
    one_liner(&object.kind) && object.walk().all(|part| part.memory.is_empty())
}

/// Whether such an object stands on one line with the caches around it.
fn one_liner(kind: &ObjectKind) -> bool {
    matches!(
        kind,
        ObjectKind::Cache { .. } | ObjectKind::Core | ObjectKind::Pu
    )
}

/// Whether two objects have the same parts, whatever their numbers.
fn alike(a: &Object, b: &Object) -> bool {
    a.kind == b.kind
        && b.memory.is_empty()
        && a.children.len() == b.children.len()
        && a.children.iter().zip(&b.children).all(|(a, b)| alike(a, b))
}

fn heading(object: &Object) -> String {
    let name = if object.kind == ObjectKind::Die {
        "Die"
    } else {
        "Package"
    };
    let number = object
        .os_index
        .map_or(String::new(), |number| format!(" {number}"));
    let model = object
        .name
        .as_ref()
        .map_or(String::new(), |model| format!(": {}", model.trim()));
    format!("{name}{number}{model}")
}

fn cache(level: u8, bytes: u64) -> String {
    if bytes == 0 {
        format!("L{level}")
    } else {
        format!("L{level} {}", size(bytes))
    }
}

/// A size in binary units with at most two decimals.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let power = (bytes.max(1).ilog2() / 10).min(UNITS.len() as u32 - 1);
    let text = format!(
        "{:.2}",
        bytes as f64 / f64::from(1_u32 << 10).powi(power as i32)
    );
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} {}", UNITS[power as usize])
}

fn draw(lines: &[Line], indent: &str, out: &mut String) {
    for (index, line) in lines.iter().enumerate() {
        let last = index + 1 == lines.len();
        let (branch, further) = if last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let _ = writeln!(out, "{indent}{branch}{}", line.text);
        draw(&line.below, &format!("{indent}{further}"), out);
    }
}

/// A table of the network and compute devices, one line a PCI function.
fn devices(machine: &Machine, out: &mut String) {
    let all = &machine.devices;
    let mut rows: Vec<[String; 5]> = Vec::new();
    for (index, device) in all.iter().enumerate() {
        if device.is_os_device && device.bus_id.is_some() {
            continue;
        }
        let names: Vec<&Device> = all[index + 1..]
            .iter()
            .take_while(|next| is_view_of(next, device))
            .collect();
        if !matters(device) && !names.iter().any(|name| matters(name)) {
            continue;
        }
        let own = if device.is_os_device {
            vec![device]
        } else {
            names
        };
        let own: Vec<&str> = own.iter().map(|name| name.name.as_str()).collect();
        rows.push([
            kind_of(device).to_owned(),
            own.join(", "),
            device.bus_id.clone().unwrap_or_default(),
            device.link_megabytes_per_s.map_or(String::new(), |speed| {
                format!("{:.1} GB/s", speed as f64 / 1000.)
            }),
            nearness(machine, device),
        ]);
    }
    if rows.is_empty() {
        return;
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..5).map(|column| width(column).unwrap_or(0)).collect();
    out.push_str("Devices\n");
    for row in &rows {
        let cells = row.iter().zip(&widths).filter(|(_, width)| **width > 0);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        let _ = writeln!(out, "  {}", cells.join("  ").trim_end());
    }
}

fn is_view_of(candidate: &Device, function: &Device) -> bool {
    candidate.is_os_device && candidate.bus_id.is_some() && candidate.bus_id == function.bus_id
}

fn matters(device: &Device) -> bool {
    !matches!(
        device.class,
        DeviceClass::Storage | DeviceClass::Dma | DeviceClass::Other
    )
}

fn kind_of(device: &Device) -> &'static str {
    match (device.class, device.pci.map(|pci| pci.class)) {
        (_, Some(0x0200)) => "Ethernet",
        (_, Some(0x0207)) => "InfiniBand",
        (DeviceClass::Network, _) => "Network",
        (DeviceClass::OpenFabrics, _) => "OpenFabrics",
        (DeviceClass::Gpu, _) => "GPU",
        (DeviceClass::CoProcessor, _) => "Accelerator",
        (DeviceClass::Storage, _) => "Storage",
        (DeviceClass::Dma, _) => "DMA",
        (DeviceClass::Other, _) => "Device",
    }
}

fn nearness(machine: &Machine, device: &Device) -> String {
    match device.numa {
        Some(number) => format!("NUMA {number}"),
        None if device.cpus == *machine.cpus() => "near all PUs".to_owned(),
        None => format!("near PUs {}", device.cpus),
    }
}

fn about(place: &RankPlace, out: &mut String) {
    let _ = write!(
        out,
        "Rank {} on {} (process {}): {}, PUs {}",
        place.rank,
        if place.host.is_empty() {
            "a host without a name"
        } else {
            &place.host
        },
        place.pid,
        counted(place.core_count() as usize, "core"),
        place.cpus,
    );
    if !place.numa.is_empty() {
        let _ = write!(out, ", NUMA {}", place.numa);
    }
    if let Some(quota) = place.quota {
        let processors = f64::from(quota.millicpus) / 1000.;
        let _ = write!(
            out,
            "; the cgroup grants the time of {processors} processors"
        );
    }
    out.push('\n');
}
