//! The hardware graph: what the machine is made of, as plain data.
//!
//! A [`Machine`] is a tree of [`Object`]s: machine, packages (sockets), dies, groups, caches,
//! cores, processing units (PUs, hardware threads). Memory hangs beside the tree: a [`NumaNode`]
//! belongs to the object whose processors are near it. Devices (network, GPU, storage) are a list
//! with the processors near them. All numbers are the operating system's, so that they agree
//! between ranks and with binding calls. Terms: hwloc manual, "Terms and Definitions".

use super::CpuSet;
use serde::{Deserialize, Serialize};

/// Kind of an [`Object`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ObjectKind {
    /// The whole machine: the root.
    Machine,
    /// A package, which sits in a socket.
    Package,
    /// A chip inside a package.
    Die,
    /// Processors that belong together for a reason that has no name of its own.
    Group,
    /// A data or unified cache.
    Cache {
        /// 1 is nearest to the core.
        level: u8,
        /// Size in bytes; 0 where unknown.
        bytes: u64,
    },
    /// A core: one or more PUs that share arithmetic units.
    Core,
    /// A hardware thread: what the operating system calls a processor.
    Pu,
}

/// A part of the machine that has processors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Its kind.
    pub kind: ObjectKind,
    /// Number given by the operating system, where it gives one. Core numbers may repeat in
    /// another package; PU numbers are unique.
    pub os_index: Option<u32>,
    /// Model name, where known (packages).
    pub name: Option<String>,
    /// PUs in it, all that are online, whether or not this process may use them.
    pub cpus: CpuSet,
    /// Numbers of the NUMA nodes that are attached here.
    pub memory: Vec<u32>,
    /// Parts, in the order of the hardware.
    pub children: Vec<Object>,
}

/// Memory and the processors near it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Number given by the operating system.
    pub os_index: u32,
    /// PUs near it; empty for memory without processors.
    pub cpus: CpuSet,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kind of memory, where it is not ordinary (`HBM`, `NVM`, `GPUMemory`).
    pub subtype: Option<String>,
}

/// A core and its PUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Core {
    /// Its PUs, never empty.
    pub cpus: CpuSet,
}

/// Use of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DeviceClass {
    /// Ethernet, and InfiniBand in its role as an IP interface.
    Network,
    /// An InfiniBand, RoCE or Omni-Path device as the verbs library sees it.
    OpenFabrics,
    /// A graphics or compute device.
    Gpu,
    /// An accelerator as its run-time library sees it (CUDA, Level Zero, OpenCL).
    CoProcessor,
    /// Disks.
    Storage,
    /// A DMA engine.
    Dma,
    /// Anything else on the PCI bus.
    Other,
}

/// Numbers that a PCI function tells about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PciId {
    /// Class and subclass, for example 0x0200 (Ethernet).
    pub class: u16,
    /// Vendor.
    pub vendor: u16,
    /// Device.
    pub device: u16,
}

/// A device: a PCI function, or what the operating system made of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its use.
    pub class: DeviceClass,
    /// `eth0`, `mlx5_0`, `cuda0`; a PCI function without such a name has its bus address here.
    pub name: String,
    /// hwloc's subtype of an OS device (`CUDA`, `NVML`, `Disk`), where there is one.
    pub subtype: Option<String>,
    /// Whether this is the operating system's view. Such a device comes after its PCI function in
    /// the list and has the same bus address.
    pub is_os_device: bool,
    /// PCI bus address `0000:21:00.0`; `None` for devices that are not on PCI.
    pub bus_id: Option<String>,
    /// PCI numbers.
    pub pci: Option<PciId>,
    /// Speed of the PCI link in megabytes per second, where known.
    pub link_megabytes_per_s: Option<u64>,
    /// PCI bridges from the host bridge down, each by the range of buses below it
    /// (`0000:[16-1b]`): devices that share a longer beginning are nearer to each other.
    pub bridges: Vec<String>,
    /// PUs near it.
    pub cpus: CpuSet,
    /// The NUMA node near it; `None` where several are equally near.
    pub numa: Option<u32>,
}

/// NVLinks between two PCI functions, all lanes together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvLink {
    /// Bus addresses of the two ends; an NVSwitch may be one of them.
    pub ends: [String; 2],
    /// Nominal bandwidth of one direction in megabytes per second.
    pub megabytes_per_s: u64,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Where the description came from: `this machine` or a file.
    pub source: String,
    /// The architecture as the system names it, such as `x86_64`, where it is told.
    pub arch: Option<String>,
    /// The tree.
    pub root: Object,
    /// PUs that the system allows to this container or job step (the cgroup), whatever the binding
    /// of the process.
    pub allowed: CpuSet,
    /// NUMA nodes in ascending order of their numbers.
    pub numa: Vec<NumaNode>,
    /// Cores in the order of the tree. Where the system does not tell, each PU counts as a core.
    pub cores: Vec<Core>,
    /// Devices in the order of the tree; empty unless they were asked for.
    pub devices: Vec<Device>,
    /// NVLinks, where hwloc was built to see them.
    pub nvlinks: Vec<NvLink>,
}

impl Object {
    /// All objects of the tree below and including this one, parents first.
    pub fn walk(&self) -> impl Iterator<Item = &Object> {
        let mut stack = vec![self];
        std::iter::from_fn(move || {
            let object = stack.pop()?;
            stack.extend(object.children.iter().rev());
            Some(object)
        })
    }
}

impl Core {
    /// The number by which a core is known: its lowest PU. The same on all ranks of a machine.
    pub fn id(&self) -> u32 {
        self.cpus.first().expect("a core has a PU")
    }
}

impl Machine {
    /// All PUs.
    pub fn cpus(&self) -> &CpuSet {
        &self.root.cpus
    }

    /// The packages, in the order of the tree.
    pub fn packages(&self) -> impl Iterator<Item = &Object> {
        self.root
            .walk()
            .filter(|object| object.kind == ObjectKind::Package)
    }

    /// The caches of one level with the PUs that share them.
    pub fn caches(&self, wanted: u8) -> impl Iterator<Item = &Object> {
        let level_of = |kind: &ObjectKind| match kind {
            ObjectKind::Cache { level, .. } => Some(*level),
            _ => None,
        };
        let objects = self.root.walk();
        objects.filter(move |object| level_of(&object.kind) == Some(wanted))
    }

    /// The cores that have at least one of these PUs, each by its lowest PU ([`Core::id`]).
    pub fn cores_of(&self, cpus: &CpuSet) -> CpuSet {
        let touched = self.cores.iter().filter(|core| core.cpus.intersects(cpus));
        touched.map(Core::id).collect()
    }

    /// All PUs of the cores that have at least one of these PUs.
    pub fn whole_cores(&self, cpus: &CpuSet) -> CpuSet {
        let touched = self.cores.iter().filter(|core| core.cpus.intersects(cpus));
        touched.flat_map(|core| core.cpus.iter()).collect()
    }

    /// Numbers of the NUMA nodes near at least one of these PUs.
    pub fn numa_of(&self, cpus: &CpuSet) -> CpuSet {
        let near = self.numa.iter().filter(|node| node.cpus.intersects(cpus));
        near.map(|node| node.os_index).collect()
    }

    /// The PUs near these NUMA nodes.
    pub fn cpus_of_numa(&self, nodes: &CpuSet) -> CpuSet {
        let named = self
            .numa
            .iter()
            .filter(|node| nodes.contains(node.os_index));
        named.flat_map(|node| node.cpus.iter()).collect()
    }

    /// The NUMA node with this number.
    pub fn numa_node(&self, os_index: u32) -> Option<&NumaNode> {
        self.numa.iter().find(|node| node.os_index == os_index)
    }
}
