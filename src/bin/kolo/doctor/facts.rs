//! Facts that the checks look at, as plain values: each rank sends them to rank 0, and a test makes
//! them up. They travel as JSON, where members that one side does not know do no harm.

use crate::launcher::StartedBy;
use crate::ways::JobWays;
use kolo::base::interfaces::ways::{self, Barred, FaceTable};
use kolo::bootstrap::reach::Reached;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Facts about one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RankFacts {
    /// Its host, up to the first dot.
    pub host: String,
    /// This start of its system: hosts of one name may be several.
    pub boot: String,
    /// The processors that it may run on, as a list.
    pub cpus: String,
    /// Locked memory in bytes; `None`: no limit.
    pub memlock: Option<u64>,
    /// Open files.
    pub files: Option<u64>,
    /// Processes and threads of its user.
    pub processes: Option<u64>,
    /// Mistakes in its settings: what is wrong, and the fix.
    pub settings: Vec<(String, String)>,
    /// Options that all ranks must agree on, and what sets them, by key.
    pub shape: BTreeMap<String, (String, String)>,
    /// Which MPI it will use, and who started it.
    pub start: StartFacts,
    /// The file of measured times that it chooses by.
    pub tuner: Option<TunerFacts>,
    /// Fault of the file of its secret, and the fix.
    pub secret: Option<(String, String)>,
    /// The GPUs that it sees.
    pub gpus: GpuFacts,
}

/// Whether a process has a driver of GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriverState {
    /// Nobody looked.
    #[default]
    Unknown,
    /// There is none.
    Missing,
    /// It knows no device that this process may use.
    NoDevice,
    /// It is too old, or fails.
    Failing,
    /// It works.
    Ready,
}

/// The GPUs that a process sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuFacts {
    /// Whether there is a driver.
    pub state: DriverState,
    /// Why it does not work, and what to do.
    pub why: String,
    pub fix: String,
    /// The devices by their UUIDs, in their order.
    pub devices: Vec<String>,
    /// Pairs of them that do not reach each other.
    pub far: Vec<String>,
    /// A fault of the file with the kernels, and the fix.
    pub kernels: Option<(String, String)>,
    /// `CUDA_VISIBLE_DEVICES`, which may be empty.
    pub visible: Option<String>,
    /// Options of Slurm that may show each task its own device only.
    pub slurm: Vec<String>,
}

/// Which MPI a process will use, and who started it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StartFacts {
    /// Who started it.
    pub by: StartedBy,
    /// Files that say which MPI is meant: the program, the library that a variable names.
    pub linked: Vec<LinkedFacts>,
    /// The families that this installation of kolo has a library for; `None` where it is none.
    pub installed: Option<Vec<String>>,
}

/// A program or library, and which MPI it has when it starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkedFacts {
    /// The file as it was named.
    pub file: String,
    /// Whether the variable of kolo's library names it, and no user.
    pub is_named: bool,
    /// The module that sets this variable, if one does.
    pub module: Option<String>,
    /// Why it cannot be read.
    pub fault: Option<String>,
    /// The MPIs that come with it.
    pub mpis: Vec<MpiFacts>,
    /// The `libkolo_mpi` that come with it.
    pub kolo: Vec<KoloFacts>,
    /// Libraries that the loader does not find, and which file needs each; empty for this one.
    pub missing: Vec<(String, String)>,
    /// Why nothing is known of its MPI, or that it has none.
    pub untold: Option<String>,
}

/// An MPI that a program loads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MpiFacts {
    /// Its file name; empty where it is a part of the program.
    pub library: String,
    /// The file that needs it; empty for the program.
    pub by: String,
    /// Its binary interface: `openmpi`, `mpich` or `abi`.
    pub family: Option<String>,
    /// Whose launcher starts it: `openmpi` or `mpich`.
    pub launcher: Option<String>,
}

/// A `libkolo_mpi` that a program loads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KoloFacts {
    /// Its path.
    pub file: String,
    /// The family of MPI that it was built for.
    pub family: String,
}

/// A file of measured times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TunerFacts {
    /// Its path.
    pub path: String,
    /// Why it cannot be used.
    pub fault: Option<String>,
    /// The machine that it was measured on: processor and how many CPUs.
    pub machine: Option<(String, u32)>,
}

/// Facts about a node, as its lowest rank tells them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeFacts {
    /// All interfaces but the loopback.
    pub faces: Vec<Face>,
    /// Why kolo finds none to use.
    pub no_face: Option<NoFace>,
    /// The table that kolo would tell the other nodes, with the ports where this one listens for
    /// trials.
    pub table: FaceTable,
    /// Where it could not.
    pub deaf: Vec<String>,
    /// Size and free space of /dev/shm, in bytes; `None`: it is not there.
    pub shm: Option<(u64, u64)>,
    /// `kernel.yama.ptrace_scope`.
    pub yama: Option<u32>,
    /// Whether the settings want memory of other processes read.
    pub wants_cma: bool,
    /// Whether the settings let other processes read.
    pub lets_cma: bool,
    /// Whether logind removes what a user has in /dev/shm when his last session ends.
    pub removes_ipc: bool,
    /// All processors of the node, as a list.
    pub cpus: String,
    /// The processor's name.
    pub processor: String,
    /// RDMA ports, one a line.
    pub hcas: Vec<String>,
    /// Subnets of InfiniBand ports, one a line.
    pub fabrics: Vec<String>,
    /// Provider of libfabric, where kolo could use one.
    pub libfabric: Option<LibfabricFacts>,
    /// kolo's files: name, and what is in them, in short.
    pub builds: BTreeMap<String, String>,
    /// Files that dead jobs have left.
    pub leftovers: Vec<LeftFile>,
    /// Files that may be left of other users, and are not this one's to remove.
    pub foreign: Vec<LeftFile>,
}

/// A provider of libfabric, or why there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LibfabricFacts {
    /// In words; empty where there is none.
    pub provider: String,
    /// Names of its devices.
    pub devices: String,
    /// Why there is none.
    pub why_none: String,
}

/// Reason for which kolo finds no interface to use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoFace {
    /// In words.
    pub what: String,
    /// Way out.
    pub fix: String,
    /// A setting excludes all that there are, which is a fault on one node alone too.
    pub by_setting: bool,
}

/// A file that a dead job has left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftFile {
    /// Its path.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// The number of its user.
    pub owner: u32,
    /// It is of the user who asks.
    pub is_own: bool,
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Face {
    /// Its name.
    pub name: String,
    /// The address that kolo would use; `None`: kolo would not use this interface.
    pub address: Option<IpAddr>,
    /// The address that it would use if there were a signal.
    pub dark: Option<IpAddr>,
    /// How many bits of the address are the subnet's.
    pub prefix: u32,
    /// Whether it is up.
    pub up: bool,
    /// Whether there is a signal; `None`: the system does not say.
    pub carrier: Option<bool>,
    /// Bytes of a packet.
    pub mtu: Option<u32>,
    /// Megabits a second.
    pub speed: Option<u64>,
}

impl Face {
    /// The subnet of its address, as `10.1.0.0/16`.
    pub fn subnet(&self) -> Option<String> {
        let prefix = self.prefix;
        let masked: IpAddr = match self.address? {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
                std::net::Ipv4Addr::from(u32::from(v4) & mask).into()
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
                std::net::Ipv6Addr::from(u128::from(v6) & mask).into()
            }
        };
        Some(format!("{masked}/{prefix}"))
    }
}

/// How a node's trials went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trials {
    /// Connections to other nodes.
    pub links: Vec<Trial>,
    /// Names of other nodes that have no address here, and why.
    pub names: Vec<(String, String)>,
    /// Time of its clock before it heard of the others, and after all had said something.
    pub clock: (f64, f64),
}

/// A connection that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The interface of this node.
    pub from: String,
    /// The other node, by its place among the nodes.
    pub node: usize,
    /// Its interface.
    pub to: String,
    /// Its address and port.
    pub address: SocketAddr,
    /// How it went.
    pub answer: Reached,
}

/// A node of the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSeen {
    /// Its name.
    pub name: String,
    /// Its ranks.
    pub ranks: Vec<usize>,
    /// Facts that its lowest rank told.
    pub facts: NodeFacts,
    /// How its trials went.
    pub trials: Trials,
}

/// All that was gathered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    /// By rank.
    pub ranks: Vec<RankFacts>,
    /// In the order of their lowest ranks.
    pub nodes: Vec<NodeSeen>,
    /// Ways of data, where all ranks were asked.
    pub ways: JobWays,
}

impl Gathered {
    /// The ranks of a node.
    pub fn ranks_of<'a>(&'a self, node: &'a NodeSeen) -> impl Iterator<Item = &'a RankFacts> {
        node.ranks.iter().filter_map(|&rank| self.ranks.get(rank))
    }
}

/// Where a rank is: its host, and this start of its system.
pub type HostBoot = (String, String);

/// The ranks of each node, nodes in the order of their lowest ranks.
pub fn nodes_of(seats: &[HostBoot]) -> Vec<Vec<usize>> {
    let mut nodes: Vec<Vec<usize>> = Vec::new();
    for (number, seat) in seats.iter().enumerate() {
        match nodes.iter_mut().find(|node| seats[node[0]] == *seat) {
            Some(node) => node.push(number),
            None => nodes.push(vec![number]),
        }
    }
    nodes
}

/// Up to here every node tries every other one.
const ALL_PAIRS: usize = 64;

/// The nodes that node `me` of `count` tries.
pub fn partners(me: usize, count: usize) -> Vec<usize> {
    ways::partners(me, count, ALL_PAIRS)
}

/// Gives the interfaces that nodes use between them the addresses by which they do.
pub fn settle(nodes: &mut [NodeSeen]) {
    let tables: Vec<FaceTable> = nodes.iter().map(|node| node.facts.table.clone()).collect();
    for (me, node) in nodes.iter_mut().enumerate() {
        let others = partners(me, tables.len()).into_iter();
        let others: Vec<&FaceTable> = others.map(|other| &tables[other]).collect();
        // A node that lacks a network is told of by the check of trials.
        let used = ways::used(&tables[me], &others, &Barred::new()).unwrap_or_default();
        for card in &used {
            let mut faces = node.facts.faces.iter_mut();
            let face = faces.find(|face| face.name == card.name && face.dark.is_none());
            if let (Some(face), Some(place)) = (face, card.places.first()) {
                (face.address, face.prefix) = (Some(place.ip), place.prefix.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_stand_under_their_nodes() {
        let seats = [("b", "1"), ("a", "1"), ("b", "2"), ("b", "1")];
        let seats = seats.map(|(host, boot)| (host.to_string(), boot.to_string()));
        assert_eq!(nodes_of(&seats), [vec![0, 3], vec![1], vec![2]]);
    }

    #[test]
    fn subnets_come_from_the_prefix() {
        let face = |address: &str, prefix| Face {
            address: Some(address.parse().unwrap()),
            prefix,
            ..Face::default()
        };
        assert_eq!(face("10.77.1.9", 24).subnet().unwrap(), "10.77.1.0/24");
        assert_eq!(face("10.77.1.9", 0).subnet().unwrap(), "0.0.0.0/0");
        assert_eq!(face("fd77:1::9", 64).subnet().unwrap(), "fd77:1::/64");
        assert_eq!(Face::default().subnet(), None);
    }
}
