//! From hwloc's XML to the hardware graph: the one way by which a [`Machine`] comes about.
//!
//! The live machine is exported by the library and then read here, a file is read here directly,
//! so that a topology from a user's machine can be looked at exactly as it was there. Formats 2 and
//! 3 are read (hwloc 2 and 3); older files are rewritten by the library first. What is unknown is
//! skipped, what cannot be true is dropped ([`Notes`]); an error remains where there is no
//! processor.

use super::hardware::{Core, Machine, NumaNode, Object, ObjectKind};
use super::notes::{Notes, Reader};
use super::xml_format::{XmlFormat, objects};
use super::xml_tree::{Document, XmlNode};
use super::{CpuSet, xml_devices, xml_nvlink};
use crate::base::{Error, Result};

/// Reads XML of format 2 or 3 from `source` (a file name, or what else a person would look for).
pub(super) fn parse(
    document: &Document,
    source: &str,
    format: XmlFormat,
    notes: &Notes,
) -> Result<Machine> {
    let reader = reader(source, notes);
    let topology = topology(document, source)?;
    let root = root(&reader, topology)?;
    let mut walk = ObjectWalk {
        reader: &reader,
        found: Found::default(),
    };
    let tree = walk.object(root, ObjectKind::Machine)?;
    let mut found = walk.found;
    let Some(tree) = tree.filter(|tree| !tree.cpus.is_empty()) else {
        return Err(reader.bad(root, "there is no PU (processing unit) in it"));
    };
    let allowed = reader.optional_cpuset(root, "allowed_cpuset")?;
    let mut allowed = allowed.map_or_else(|| tree.cpus.clone(), |set| set.intersection(&tree.cpus));
    if allowed.is_empty() {
        reader.note(
            root,
            "allowed_cpuset has none of its PUs: all count as allowed",
        )?;
        allowed = tree.cpus.clone();
    }
    for node in &mut found.numa {
        node.cpus = node.cpus.intersection(&tree.cpus);
    }
    found.numa.sort_by_key(|node| node.os_index);
    let arch = info(root, "Architecture").or_else(|| info(topology, "Architecture"));
    let mut machine = Machine {
        source: source.to_owned(),
        arch: arch.map(str::to_owned),
        cores: cores(&tree),
        root: tree,
        allowed,
        numa: found.numa,
        devices: Vec::new(),
        nvlinks: xml_nvlink::read(&reader, topology)?,
    };
    machine.devices = xml_devices::read(&reader, root, format, &machine)?;
    Ok(machine)
}

/// The format of the document, or the error that it is no hwloc file at all.
pub(super) fn format(document: &Document, source: &str, notes: &Notes) -> Result<XmlFormat> {
    format_of(&reader(source, notes), topology(document, source)?)
}

/// The document in `xml`. Errors: it is not well-formed, or too large.
pub(super) fn open<'x>(xml: &'x str, source: &str, remedy: &'static str) -> Result<Document<'x>> {
    Document::parse(xml).map_err(|refusal| {
        let what = format!("{source}, line {}: {}", refusal.line, refusal.why);
        Error::argument(what, remedy)
    })
}

/// Remedy against a bad file of hwloc.
pub(super) const REMEDY: &str =
    "make the file again with `lstopo --whole-io --of xml FILE` of hwloc 2.x or 3.x";

fn reader<'a>(source: &'a str, notes: &'a Notes) -> Reader<'a> {
    Reader {
        source,
        remedy: REMEDY,
        notes,
    }
}

fn topology<'d, 'x>(document: &'d Document<'x>, source: &str) -> Result<XmlNode<'d, 'x>> {
    let top = document.root();
    if top.is("topology") {
        return Ok(top);
    }
    let notes = Notes::lenient();
    Err(reader(source, &notes).bad(top, "a hwloc file begins with <topology>"))
}

/// A walk over the tree of objects.
struct ObjectWalk<'a> {
    reader: &'a Reader<'a>,
    found: Found,
}

/// Parts that the walk collects beside the tree.
#[derive(Default)]
struct Found {
    numa: Vec<NumaNode>,
    /// Their numbers.
    numbers: CpuSet,
    cpus: CpuSet,
}

/// How an element of the tree is treated.
enum Role {
    /// A part with processors.
    Part(ObjectKind),
    /// Nothing of its own, but its children belong to the parent (instruction caches, the caches
    /// in front of memory).
    Through,
    /// A NUMA node.
    Memory,
    /// Read by `xml_devices`, or of no interest.
    Aside,
}

fn format_of(reader: &Reader, topology: XmlNode) -> Result<XmlFormat> {
    let Some(version) = topology.attribute("version") else {
        return Ok(XmlFormat::One);
    };
    match version
        .split('.')
        .next()
        .and_then(|major| major.parse().ok())
    {
        Some(0..=1_u32) => Ok(XmlFormat::One),
        Some(2) => Ok(XmlFormat::Two),
        Some(3) => Ok(XmlFormat::Three),
        newer => {
            let why = format!("its version is {version:?}, kolo knows 2.x and 3.x: read as 3.x");
            reader.note(topology, &why)?;
            Ok(newer.map_or(XmlFormat::Two, |_| XmlFormat::Three))
        }
    }
}

fn root<'d, 'x>(reader: &Reader, topology: XmlNode<'d, 'x>) -> Result<XmlNode<'d, 'x>> {
    let Some(root) = objects(topology).next() else {
        return Err(reader.bad(topology, "there is no <object> in it"));
    };
    if root.attribute("type") != Some("Machine") {
        reader.note(
            root,
            "the first object is not of type Machine: taken for one",
        )?;
    }
    Ok(root)
}

impl ObjectWalk<'_> {
    /// Nothing for a PU that cannot be used.
    fn object(&mut self, node: XmlNode, kind: ObjectKind) -> Result<Option<Object>> {
        let mut object = Object {
            os_index: None,
            name: info(node, "CPUModel").map(str::to_owned),
            cpus: CpuSet::new(),
            memory: Vec::new(),
            children: Vec::new(),
            kind,
        };
        if object.kind == ObjectKind::Pu {
            let Some(number) = self.pu(node)? else {
                return Ok(None);
            };
            object.os_index = Some(number);
            object.cpus = CpuSet::single(number);
            return Ok(Some(object));
        }
        object.os_index = self.reader.optional_number(node, "os_index")?;
        self.children(node, &mut object)?;
        Ok(Some(object))
    }

    /// Reads the objects inside `node` into `object`.
    fn children(&mut self, node: XmlNode, object: &mut Object) -> Result<()> {
        for child in objects(node) {
            match self.role(child)? {
                Role::Part(kind) => {
                    if let Some(part) = self.object(child, kind)? {
                        object.cpus = object.cpus.union(&part.cpus);
                        object.children.push(part);
                    }
                }
                Role::Through => self.children(child, object)?,
                Role::Memory => {
                    if let Some(numa) = self.numa(child)? {
                        object.memory.push(numa.os_index);
                        self.found.numa.push(numa);
                    }
                }
                Role::Aside => {}
            }
        }
        Ok(())
    }

    fn role(&self, node: XmlNode) -> Result<Role> {
        let Some(name) = self.reader.text(node, "type")? else {
            return Ok(Role::Through);
        };
        Ok(match name {
            "Package" => Role::Part(ObjectKind::Package),
            "Die" => Role::Part(ObjectKind::Die),
            "Group" | "Tile" | "Module" | "Cluster" => Role::Part(ObjectKind::Group),
            "Core" => Role::Part(ObjectKind::Core),
            "PU" => Role::Part(ObjectKind::Pu),
            "NUMANode" => Role::Memory,
            "MemCache" | "L1iCache" | "L2iCache" | "L3iCache" => Role::Through,
            "L1Cache" | "L2Cache" | "L3Cache" | "L4Cache" | "L5Cache" => {
                Role::Part(ObjectKind::Cache {
                    level: name.as_bytes()[1] - b'0',
                    bytes: self
                        .reader
                        .optional_number(node, "cache_size")?
                        .unwrap_or(0),
                })
            }
            "Bridge" | "PCIDev" | "OSDev" | "Misc" => Role::Aside,
            "Machine" => {
                self.reader
                    .note(node, "a machine inside a machine: taken for a group")?;
                Role::Part(ObjectKind::Group)
            }
            _ => {
                let why = "kolo does not know this type of object: only what is inside is read";
                self.reader.note(node, why)?;
                Role::Through
            }
        })
    }

    fn pu(&mut self, node: XmlNode) -> Result<Option<u32>> {
        let Some(number) = self.reader.number(node, "os_index")? else {
            return Ok(None);
        };
        if number >= super::MAX_CPUS {
            self.reader
                .note(node, &format!("os_index is not below {}", super::MAX_CPUS))?;
            return Ok(None);
        }
        let set = self.reader.optional_cpuset(node, "cpuset")?;
        if set.is_some_and(|set| set != CpuSet::single(number)) {
            let why = format!("its cpuset is not just PU {number}: os_index counts");
            self.reader.note(node, &why)?;
        }
        if !self.found.cpus.insert(number) {
            self.reader
                .note(node, &format!("PU {number} is in it twice"))?;
            return Ok(None);
        }
        Ok(Some(number))
    }

    fn numa(&mut self, node: XmlNode) -> Result<Option<NumaNode>> {
        let Some(os_index) = self.reader.number(node, "os_index")? else {
            return Ok(None);
        };
        if os_index >= super::MAX_CPUS {
            self.reader
                .note(node, &format!("os_index is not below {}", super::MAX_CPUS))?;
            return Ok(None);
        }
        if self.reader.text(node, "cpuset")?.is_none() {
            return Ok(None);
        }
        let Some(cpus) = self.reader.optional_cpuset(node, "cpuset")? else {
            return Ok(None);
        };
        if !self.found.numbers.insert(os_index) {
            self.reader
                .note(node, &format!("NUMA node {os_index} is in it twice"))?;
            return Ok(None);
        }
        Ok(Some(NumaNode {
            os_index,
            cpus,
            memory_bytes: self
                .reader
                .optional_number(node, "local_memory")?
                .unwrap_or(0),
            subtype: node.attribute("subtype").map(str::to_owned),
        }))
    }
}

/// The value of `<info name=...>` directly inside.
fn info<'d>(node: XmlNode<'d, '_>, name: &str) -> Option<&'d str> {
    let mut infos = node.children().filter(|child| child.is("info"));
    infos
        .find(|child| child.attribute("name") == Some(name))?
        .attribute("value")
}

/// The cores; a PU that is in no core (some virtual machines) counts as one of its own.
fn cores(tree: &Object) -> Vec<Core> {
    let mut cores: Vec<Core> = Vec::new();
    for object in tree.walk() {
        let covered = || {
            cores
                .last()
                .is_some_and(|core| object.cpus.is_subset(&core.cpus))
        };
        let is_core = match object.kind {
            ObjectKind::Core => !object.cpus.is_empty() && !covered(),
            ObjectKind::Pu => !covered(),
            _ => false,
        };
        if is_core {
            cores.push(Core {
                cpus: object.cpus.clone(),
            });
        }
    }
    cores
}
