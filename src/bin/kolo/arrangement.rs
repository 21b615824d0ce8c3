//! Ranks on a machine that need not be there: how many, on what, and how they are dealt to it.

use clap::Args;
use kolo::base::{Error, Result, input_file};
use kolo::price::{Cluster, KnownSeat, SeatList, seating};
use kolo::topo::graph::{Description, TopoFile};
use kolo::topo::{CpuSet, Machine, Notes, sharing};
use std::path::{Path, PathBuf};

/// Nodes, ranks and their binding.
#[derive(Args, Clone, Debug)]
pub struct Arrangement {
    /// Nodes and ranks of each, as 64x8; one number means ranks of one node
    #[arg(short = 'n', long = "ranks", value_name = "NODESxRANKS", value_parser = ranks)]
    pub ranks: (u32, u32),
    /// Binding of a node's ranks: in order of the cores, to the sockets in turn (as Slurm does
    /// unless told otherwise), or by a file with the processors of one rank in each line, as 0-3,8
    #[arg(long, value_name = "block|cyclic|FILE", default_value = "block")]
    bind: String,
    /// A node, in a file that `lstopo --of xml FILE` wrote; ranks are spread over its cores
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sockets", "caches", "cores"])]
    machine: Option<PathBuf>,
    /// Sockets of a node
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    sockets: u32,
    /// Last-level caches of a socket
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    caches: u32,
    /// Cores of a node, where there are fewer than ranks
    #[arg(long, value_name = "N", default_value_t = 0)]
    cores: u32,
    /// Network interfaces of a node
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    nics: u32,
    /// Nodes of a leaf switch; without it the network has no bottleneck
    #[arg(long, value_name = "NODES", default_value_t = 0)]
    leaf: u32,
    /// How much slower a leaf's way up is than its nodes together
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    taper: u32,
}

/// Most ranks that can be asked about.
const MOST_RANKS: u32 = 1 << 22;
/// Most ranks of a node that has a list of places.
const MOST_LISTED: u32 = 1 << 16;
/// A file of bindings is not larger.
const MOST_BYTES: u64 = 16 << 20;

fn ranks(text: &str) -> std::result::Result<(u32, u32), String> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&n| n > 0);
    let parsed = match text.split_once(['x', 'X']) {
        Some((nodes, per_node)) => number(nodes).zip(number(per_node)),
        None => number(text).map(|per_node| (1, per_node)),
    };
    let few = |(nodes, per_node): &(u32, u32)| {
        nodes
            .checked_mul(*per_node)
            .is_some_and(|n| n <= MOST_RANKS)
    };
    parsed
        .filter(few)
        .ok_or_else(|| format!("nodes and ranks, as 64x8, of {MOST_RANKS} ranks at most"))
}

impl Arrangement {
    /// Ranks of all nodes.
    pub fn nranks(&self) -> u32 {
        self.ranks.0 * self.ranks.1
    }

    /// The machine with its ranks.
    ///
    /// # Errors
    /// Files that cannot be used; a file of bindings that has too few lines, or processors that the
    /// machine has not.
    pub fn cluster(&self) -> Result<Cluster> {
        let (nodes, per_node) = self.ranks;
        let cluster = match (&self.machine, self.bind.as_str()) {
            (None, "block") => Cluster {
                sockets: self.sockets,
                caches: self.caches,
                cores: self.cores,
                ..Cluster::uniform(nodes, per_node)
            },
            (None, "cyclic") if self.sockets > 1 => {
                listable(per_node)?;
                let dealt = seating::in_turn(per_node, self.sockets, self.caches);
                Cluster {
                    cores: self.cores,
                    ..Cluster::listed(nodes, dealt)
                }
            }
            // One socket has all turns.
            (None, "cyclic") => Cluster {
                caches: self.caches,
                cores: self.cores,
                ..Cluster::uniform(nodes, per_node)
            },
            _ => self.bound()?,
        };
        Ok(Cluster {
            nics: self.nics,
            leaf_nodes: self.leaf,
            taper: self.taper,
            ..cluster
        })
    }

    /// Ranks on the processors of a machine that is known.
    fn bound(&self) -> Result<Cluster> {
        let (nodes, per_node) = self.ranks;
        listable(per_node)?;
        let machine = match &self.machine {
            Some(file) => described(file)?,
            None => Machine::detect()?.clone(),
        };
        let bound = match self.bind.as_str() {
            "block" => in_order(&machine, per_node as usize),
            "cyclic" => in_turn(&machine, per_node as usize),
            file => listed(Path::new(file), &machine, per_node as usize)?,
        };
        Ok(on(&machine, nodes, &bound))
    }

    /// In words, where more is to be said than a number: what has ranks, and how they are dealt.
    pub fn text(&self, cluster: &Cluster) -> Option<String> {
        let dealt = match self.bind.as_str() {
            "cyclic" => "dealt to the sockets in turn",
            "block" => "dealt in order",
            _ => "dealt as the file says",
        };
        let parts = cluster.parts_text()?;
        Some(format!("{parts}, {dealt}"))
    }
}

/// Nodes like this machine, with ranks that may run on these processors.
pub fn on(machine: &Machine, nodes: u32, bound: &[CpuSet]) -> Cluster {
    let per_node = bound.len() as u32;
    let cores = bound.iter().map(|cpus| machine.cores_of(cpus));
    let cores = cores.fold(CpuSet::new(), |all, these| all.union(&these));
    let cores = cores.len() as u32;
    let ranks = (0..).zip(bound);
    let known: Vec<KnownSeat> = ranks
        .map(|(rank, cpus)| known(machine, rank, cpus))
        .collect();
    let cluster = match SeatList::of_known(&known) {
        Some(listed) => Cluster::listed(nodes, listed),
        None => Cluster::uniform(nodes, per_node),
    };
    Cluster {
        cores: if cores < per_node { cores } else { 0 },
        ..cluster
    }
}

/// Refuses more ranks of a node than have a list.
fn listable(per_node: u32) -> Result<()> {
    if per_node <= MOST_LISTED {
        return Ok(());
    }
    Err(Error::argument(
        format!("{per_node} ranks of a node are too many to be bound one by one"),
        format!("ask for {MOST_LISTED} ranks of a node at most"),
    ))
}

/// The machine of a file.
fn described(file: &Path) -> Result<Machine> {
    let notes = Notes::lenient();
    let Description { machine, .. } = TopoFile::read_noting(file, &notes)?.describe()?;
    for line in notes.lines() {
        eprintln!("kolo: warning: {line}");
    }
    machine
        .filter(|machine| !machine.cores.is_empty())
        .ok_or_else(|| {
            Error::argument(
                format!("{} does not say which cores there are", file.display()),
                "name a file that `lstopo --of xml FILE` wrote",
            )
        })
}

/// Rank by rank over all cores in their order.
fn in_order(machine: &Machine, count: usize) -> Vec<CpuSet> {
    let cores = &machine.cores;
    let core = |rank: usize| cores[rank * cores.len() / count].cpus.clone();
    (0..count).map(core).collect()
}

/// To the packages in turn, and in each over its cores in their order.
fn in_turn(machine: &Machine, count: usize) -> Vec<CpuSet> {
    let cores_of = |package: &CpuSet| {
        let cores = machine
            .cores
            .iter()
            .filter(|core| core.cpus.intersects(package));
        cores.map(|core| core.cpus.clone()).collect::<Vec<_>>()
    };
    let packages: Vec<Vec<CpuSet>> = machine
        .packages()
        .map(|package| cores_of(&package.cpus))
        .filter(|cores| !cores.is_empty())
        .collect();
    if packages.is_empty() {
        return in_order(machine, count);
    }
    let place = |rank: usize| {
        let (package, seat) = (rank % packages.len(), rank / packages.len());
        let seats = (count - package).div_ceil(packages.len());
        let cores = &packages[package];
        cores[seat * cores.len() / seats].clone()
    };
    (0..count).map(place).collect()
}

/// One line a rank.
fn listed(file: &Path, machine: &Machine, count: usize) -> Result<Vec<CpuSet>> {
    let remedy = "write a line with the processors of each rank of a node, as 0-3,8; \
                  or --bind block or cyclic";
    let text = input_file::text(file, MOST_BYTES).map_err(|error| {
        let doing = format!("--bind {} cannot be read", file.display());
        input_file::refused(doing, &error, remedy)
    })?;
    let lines = (1..).zip(
        text.lines()
            .map(|line| line.split('#').next().unwrap_or("").trim()),
    );
    let lines = lines.filter(|(_, line)| !line.is_empty());
    let wrong = |what: String| Error::argument(format!("{}: {what}", file.display()), remedy);
    let read = |(number, line): (usize, &str)| {
        let cpus = CpuSet::parse_list(line)
            .map_err(|error| wrong(format!("line {number}: {}", error.what)))?;
        if cpus.is_empty() || !cpus.is_subset(machine.cpus()) {
            return Err(wrong(format!(
                "line {number}: {} has the processors {}, and not all of {cpus}",
                machine.source,
                machine.cpus()
            )));
        }
        Ok(cpus)
    };
    let bound = lines.map(read).collect::<Result<Vec<CpuSet>>>()?;
    if bound.len() < count {
        return Err(wrong(format!(
            "{} lines for {count} ranks of a node",
            bound.len()
        )));
    }
    Ok(bound.into_iter().take(count).collect())
}

fn known(machine: &Machine, rank: u32, cpus: &CpuSet) -> KnownSeat {
    let shared = sharing(machine, cpus);
    let cores = machine.cores_of(cpus);
    KnownSeat {
        socket: shared.socket,
        cache: shared.cache,
        // A rank of several cores has one of them for itself.
        core: match cores.len() {
            1 => cores.first().unwrap_or(rank),
            _ => kolo::topo::MAX_CPUS + rank,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements() {
        assert_eq!(ranks("64x8"), Ok((64, 8)));
        assert_eq!(ranks("8"), Ok((1, 8)));
        for bad in ["", "x", "0", "8x", "0x8", "9999999x9999999", "-1"] {
            assert!(ranks(bad).is_err(), "{bad}");
        }
    }
}
