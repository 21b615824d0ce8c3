//! The machine as hwloc sees it, and what follows from it: which ranks share a machine, whether
//! they outnumber its cores, how they should wait, and where kolo's own threads should run.
//!
//! **Problem.** Every decision about waiting and placement needs facts about the machine, and the
//! obvious sources lie: a process counts processors that it may not use, two ranks are bound to one
//! core of a machine full of cores, a container is allowed the time of two processors out of 64.
//!
//! **Idea.** One way in: libhwloc's XML, of the running system or from a file, becomes a
//! [`Machine`], plain data. Each rank describes its place on it in a [`RankPlace`], the places are
//! gathered, and pure functions over the gathered list give the same answers on every rank. So all
//! of it can be tested with files from machines that are not at hand.
//!
//! **Terms.** PU: a hardware thread, what the system calls a processor. Core: one or more PUs.
//! Binding (affinity): the PUs a thread may run on. Quota: a limit on processor time by a cgroup.
//! Node: a machine as ranks see it. Crowded, oversubscribed: more ranks than cores for them.
//!
//! Reading order: [`cpuset`], [`hardware`], `xml_tree`, [`notes`], `xml` (and `xml_format`,
//! `xml_devices`, `xml_nvlink`, `hwloc_sys`), `detect`, [`cgroup`], [`allowed`], [`mod@sharing`],
//! [`place`], [`mod@nodes`], [`mod@crowding`], [`mod@proxy_rank`], [`near`], [`pin`],
//! [`mod@pairs`]. Then how data flows: [`graph`], [`gpus`], [`paths`], [`nic`], [`node_graph`],
//! [`search`], [`seats`], [`channels`], [`ways`], [`switches`], [`graph_file`]. How it is shown,
//! the command says (`src/bin/kolo/drawing`).
//!
//! Reference: F. Broquedis et al., "hwloc: a Generic Framework for Managing Hardware Affinities in
//! HPC Applications", PDP 2010, doi:10.1109/PDP.2010.67.

pub mod allowed;
pub mod cgroup;
pub mod channels;
pub mod cpuset;
pub mod crowding;
mod detect;
#[doc(hidden)]
pub mod fuzz;
pub mod gpus;
pub mod graph;
pub mod graph_file;
pub mod hardware;
mod hwloc_sys;
pub mod near;
pub mod nic;
pub mod node_graph;
pub mod nodes;
pub mod notes;
pub mod pairs;
pub mod paths;
pub mod pin;
pub mod place;
pub mod proxy_rank;
pub mod search;
pub mod seats;
pub mod sharing;
pub mod switches;
#[cfg(test)]
mod tests;
pub mod ways;
mod xml;
mod xml_devices;
mod xml_format;
mod xml_nvlink;
mod xml_tree;

pub use allowed::{Usable, affinity};
pub use cgroup::Quota;
pub use cpuset::{CpuSet, MAX_CPUS};
pub use crowding::{Crowding, WaitPolicy, crowding, wait_policy};
pub use hardware::{
    Core, Device, DeviceClass, Machine, NumaNode, NvLink, Object, ObjectKind, PciId,
};
pub use near::near_devices;
pub use nodes::{NodeMap, gathered, local_places, local_ranks, nodes};
pub use notes::Notes;
pub use pin::{PinReason, PinSetting, Pinning, pin_current_thread, pin_thread};
pub use place::{RankPlace, boot_id, host_name, host_of, place_name, short_host_name};
pub use proxy_rank::{Pxn, proxy_ranks};
pub use sharing::{SharedParts, sharing};
