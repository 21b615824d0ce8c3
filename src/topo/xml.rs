//! From hwloc's XML to the hardware graph: the one way by which a [`Machine`] comes about.
//!
//! The live machine is exported by the library and then read here, a file is read here directly,
//! so that a topology from a user's machine can be looked at exactly as it was there. Format 2.x
//! is read (hwloc 2, `hwloc2.dtd`); older files are rewritten by the library first. Every error
//! names the source, the line and the element.

use super::hardware::{Core, Kind, Machine, NumaNode, Object};
use super::{CpuSet, xml_devices, xml_guard, xml_nvlink};
use crate::base::{Error, Result};
use roxmltree::{Document, Node, ParsingOptions};

/// Nodes of one file. A machine with 4096 PUs has about 60,000.
const MAX_NODES: u32 = 4_000_000;

/// Which format a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Read here.
    Two,
    /// hwloc 1.x: to be rewritten by the library first.
    One,
}

/// Reads XML of format 2 from `source` (a file name, or what else a person would look for).
pub(super) fn parse(xml: &str, source: &str) -> Result<Machine> {
    let document = open(xml, source, REMEDY)?;
    let reader = Reader {
        document: &document,
        source,
        remedy: REMEDY,
    };
    let topology = reader.topology()?;
    let mut found = Found::default();
    let root = reader.root(topology)?;
    let tree = reader.object(root, Kind::Machine, &mut found)?;
    if tree.cpus.is_empty() {
        return Err(reader.bad(root, "there is no PU (processing unit) in it"));
    }
    let allowed = match root.attribute("allowed_cpuset") {
        Some(_) => reader
            .cpuset(root, "allowed_cpuset")?
            .intersection(&tree.cpus),
        None => tree.cpus.clone(),
    };
    found.numa.sort_by_key(|node| node.os_index);
    if let Some(pair) = found
        .numa
        .windows(2)
        .find(|pair| pair[0].os_index == pair[1].os_index)
    {
        let twice = pair[0].os_index;
        return Err(reader.bad(root, &format!("NUMA node {twice} is in it twice")));
    }
    let mut machine = Machine {
        source: source.to_owned(),
        arch: info(root, "Architecture").map(str::to_owned),
        cores: cores(&tree),
        root: tree,
        allowed,
        numa: found.numa,
        devices: Vec::new(),
        nvlinks: xml_nvlink::read(&reader, topology)?,
    };
    machine.devices = xml_devices::read(&reader, root, &machine)?;
    Ok(machine)
}

/// The format of the file, or the error that it is no hwloc file at all.
pub(super) fn format(xml: &str, source: &str) -> Result<Format> {
    let document = open(xml, source, REMEDY)?;
    let reader = Reader {
        document: &document,
        source,
        remedy: REMEDY,
    };
    let topology = reader.topology()?;
    match topology.attribute("version") {
        None => Ok(Format::One),
        Some(version) if version == "2" || version.starts_with("2.") => Ok(Format::Two),
        Some(version) if version.starts_with("1.") => Ok(Format::One),
        Some(version) => Err(reader.bad(
            topology,
            &format!("its version is {version:?}, kolo reads 2.x"),
        )),
    }
}

/// The document in `xml`. Errors: it is not well-formed, or it is hostile.
pub(super) fn open<'a>(xml: &'a str, source: &str, remedy: &'static str) -> Result<Document<'a>> {
    if let Some((line, why)) = xml_guard::objection(xml) {
        return Err(Error::argument(
            format!("{source}, line {line}: {why}"),
            remedy,
        ));
    }
    let options = ParsingOptions {
        allow_dtd: true,
        nodes_limit: MAX_NODES,
    };
    Document::parse_with_options(xml, options).map_err(|error| {
        let at = error.pos();
        Error::argument(
            format!(
                "{source}, line {}: this is not well-formed XML: {error}",
                at.row
            ),
            remedy,
        )
    })
}

const REMEDY: &str = "make the file again with `lstopo --whole-io --of xml FILE` of hwloc 2.x";

/// What the walk collects beside the tree.
#[derive(Default)]
struct Found {
    numa: Vec<NumaNode>,
    cpus: CpuSet,
}

/// The document and its name: what is needed to say where an error is.
pub(super) struct Reader<'a, 'input> {
    pub(super) document: &'a Document<'input>,
    pub(super) source: &'a str,
    pub(super) remedy: &'static str,
}

/// How an element of the tree is treated.
enum Role {
    /// A part with processors.
    Part(Kind),
    /// Nothing of its own, but its children belong to the parent (instruction caches, the caches
    /// in front of memory).
    Through,
    /// A NUMA node.
    Memory,
    /// Read by `xml_devices`, or of no interest.
    Aside,
}

impl Reader<'_, '_> {
    fn topology<'n>(&'n self) -> Result<Node<'n, 'n>> {
        let top = self.document.root_element();
        if top.has_tag_name("topology") {
            return Ok(top);
        }
        Err(self.bad(top, "a hwloc file begins with <topology>"))
    }

    fn root<'n>(&self, topology: Node<'n, 'n>) -> Result<Node<'n, 'n>> {
        let Some(root) = objects(topology).next() else {
            return Err(self.bad(topology, "there is no <object> in it"));
        };
        match root.attribute("type") {
            Some("Machine") => Ok(root),
            _ => Err(self.bad(root, "the first object must be of type Machine")),
        }
    }

    fn object(&self, node: Node, kind: Kind, found: &mut Found) -> Result<Object> {
        let mut object = Object {
            os_index: self.optional_number(node, "os_index")?,
            name: info(node, "CPUModel").map(str::to_owned),
            cpus: CpuSet::new(),
            memory: Vec::new(),
            children: Vec::new(),
            kind,
        };
        if object.kind == Kind::Pu {
            self.pu(node, &mut object, found)?;
        }
        self.children(node, &mut object, found)?;
        Ok(object)
    }

    /// Reads the objects inside `node` into `object`.
    fn children(&self, node: Node, object: &mut Object, found: &mut Found) -> Result<()> {
        for child in objects(node) {
            match self.role(child)? {
                Role::Part(kind) => {
                    let part = self.object(child, kind, found)?;
                    object.cpus = object.cpus.union(&part.cpus);
                    object.children.push(part);
                }
                Role::Through => self.children(child, object, found)?,
                Role::Memory => {
                    let numa = self.numa(child)?;
                    object.memory.push(numa.os_index);
                    found.numa.push(numa);
                }
                Role::Aside => {}
            }
        }
        Ok(())
    }

    fn role(&self, node: Node) -> Result<Role> {
        let name = self.text(node, "type")?;
        Ok(match name {
            "Package" => Role::Part(Kind::Package),
            "Die" => Role::Part(Kind::Die),
            "Group" => Role::Part(Kind::Group),
            "Core" => Role::Part(Kind::Core),
            "PU" => Role::Part(Kind::Pu),
            "NUMANode" => Role::Memory,
            "MemCache" | "L1iCache" | "L2iCache" | "L3iCache" => Role::Through,
            "L1Cache" | "L2Cache" | "L3Cache" | "L4Cache" | "L5Cache" => Role::Part(Kind::Cache {
                level: name.as_bytes()[1] - b'0',
                bytes: self.optional_number(node, "cache_size")?.unwrap_or(0),
            }),
            "Bridge" | "PCIDev" | "OSDev" | "Misc" => Role::Aside,
            "Machine" => return Err(self.bad(node, "a machine inside a machine")),
            _ => return Err(self.bad(node, "kolo does not know this type of object")),
        })
    }

    fn pu(&self, node: Node, object: &mut Object, found: &mut Found) -> Result<()> {
        let number: u32 = self.number(node, "os_index")?;
        if number >= super::MAX_CPUS {
            return Err(self.bad(node, &format!("os_index is not below {}", super::MAX_CPUS)));
        }
        object.cpus = CpuSet::single(number);
        if node.has_attribute("cpuset") && self.cpuset(node, "cpuset")? != object.cpus {
            return Err(self.bad(node, &format!("its cpuset is not just PU {number}")));
        }
        if !found.cpus.insert(number) {
            return Err(self.bad(node, &format!("PU {number} is in it twice")));
        }
        Ok(())
    }

    fn numa(&self, node: Node) -> Result<NumaNode> {
        let os_index = self.number(node, "os_index")?;
        if os_index >= super::MAX_CPUS {
            return Err(self.bad(node, &format!("os_index is not below {}", super::MAX_CPUS)));
        }
        Ok(NumaNode {
            os_index,
            cpus: self.cpuset(node, "cpuset")?,
            memory_bytes: self.optional_number(node, "local_memory")?.unwrap_or(0),
            subtype: node.attribute("subtype").map(str::to_owned),
        })
    }

    /// The attribute as text, or the error that it is missing.
    pub(super) fn text<'n>(&self, node: Node<'n, '_>, name: &str) -> Result<&'n str> {
        let missing = || self.bad(node, &format!("attribute {name} is missing"));
        node.attribute(name).ok_or_else(missing)
    }

    pub(super) fn number<T: std::str::FromStr>(&self, node: Node, name: &str) -> Result<T> {
        let text = self.text(node, name)?;
        let bad = |_| {
            self.bad(
                node,
                &format!("{name}={text:?} is not a number in its range"),
            )
        };
        text.parse().map_err(bad)
    }

    pub(super) fn optional_number<T: std::str::FromStr>(
        &self,
        node: Node,
        name: &str,
    ) -> Result<Option<T>> {
        match node.has_attribute(name) {
            true => self.number(node, name).map(Some),
            false => Ok(None),
        }
    }

    fn cpuset(&self, node: Node, name: &str) -> Result<CpuSet> {
        let text = self.text(node, name)?;
        CpuSet::parse_mask(text).map_err(|error| self.bad(node, &format!("{name}: {}", error.what)))
    }

    /// An error about this element.
    pub(super) fn bad(&self, node: Node, why: &str) -> Error {
        let line = self.document.text_pos_at(node.range().start).row;
        // The attribute by which a person finds the element.
        let mut known = ["type", "busid", "name", "target", "numaid", "dev"].iter();
        let shown = known.find_map(|name| Some((name, node.attribute(*name)?)));
        let element = match shown {
            Some((name, value)) => format!("<{} {name}={value:?}>", node.tag_name().name()),
            None => format!("<{}>", node.tag_name().name()),
        };
        Error::argument(
            format!("{}, line {line}, {element}: {why}", self.source),
            self.remedy,
        )
    }
}

/// The `<object>` elements directly inside.
pub(super) fn objects<'n, 'i>(node: Node<'n, 'i>) -> impl Iterator<Item = Node<'n, 'i>> {
    node.children().filter(|child| child.has_tag_name("object"))
}

/// The value of `<info name=...>` directly inside.
fn info<'n>(node: Node<'n, '_>, name: &str) -> Option<&'n str> {
    let mut infos = node.children().filter(|child| child.has_tag_name("info"));
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
            Kind::Core => !object.cpus.is_empty(),
            Kind::Pu => !covered(),
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
