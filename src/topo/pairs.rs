//! How far apart the ranks of a node are: each pair of them, by what its cores share.
//!
//! What a hand-over costs depends on little else. So one pair of each class is measured, and how
//! many pairs are of each class says how much its measurement counts.

use super::hardware::{Machine, ObjectKind};
use super::pin::core_of;
use super::{CpuSet, RankPlace};
use crate::base::{Error, Result};

/// Nearest thing that two cores share, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PairClass {
    /// A cache, whose level is two or more.
    Cache,
    /// A NUMA node and no cache.
    Numa,
    /// The machine only.
    Machine,
}

impl PairClass {
    /// All, the nearest first.
    pub const ALL: [PairClass; 3] = [PairClass::Cache, PairClass::Numa, PairClass::Machine];

    /// One word for files.
    pub fn name(self) -> &'static str {
        match self {
            PairClass::Cache => "cache",
            PairClass::Numa => "numa",
            PairClass::Machine => "machine",
        }
    }

    /// For people.
    pub fn description(self) -> &'static str {
        match self {
            PairClass::Cache => "cores that share a cache",
            PairClass::Numa => "cores of one NUMA node",
            PairClass::Machine => "cores of different NUMA nodes",
        }
    }
}

/// The pairs of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// The nearest thing that they share.
    pub class: PairClass,
    /// How many there are.
    pub count: u64,
    /// The cores of the first of them.
    pub cores: [CpuSet; 2],
}

/// The pairs of ranks of a node by class, the nearest first; two ranks on one core are no pair.
/// A rank that may use several cores counts with the one that would be its own.
pub fn pairs(machine: &Machine, local: &[&RankPlace]) -> Vec<Pairs> {
    let cores: Vec<CpuSet> = local
        .iter()
        .map(|place| core_of(machine, place, local))
        .collect();
    of_cores(machine, &cores)
}

/// The pairs of cores by class: those that a rank could be started on.
pub fn core_pairs(machine: &Machine) -> Vec<Pairs> {
    let allowed = machine.cores.iter();
    let allowed = allowed.map(|core| core.cpus.intersection(&machine.allowed));
    let cores: Vec<CpuSet> = allowed.filter(|cpus| !cpus.is_empty()).collect();
    of_cores(machine, &cores)
}

fn of_cores(machine: &Machine, cores: &[CpuSet]) -> Vec<Pairs> {
    let shared: Vec<&CpuSet> = machine
        .root
        .walk()
        .filter(|part| matches!(part.kind, ObjectKind::Cache { level: 2.., .. }))
        .map(|part| &part.cpus)
        .collect();
    // By number, so that pairs of many ranks are compared quickly.
    let caches: Vec<Vec<usize>> = cores.iter().map(|core| touching(&shared, core)).collect();
    let numa: Vec<CpuSet> = cores.iter().map(|core| machine.numa_of(core)).collect();
    let mut found: Vec<Pairs> = Vec::new();
    for second in 0..cores.len() {
        for first in (0..second).filter(|&first| !meet(&cores[first], &cores[second])) {
            let class = if caches[first].iter().any(|at| caches[second].contains(at)) {
                PairClass::Cache
            } else if meet(&numa[first], &numa[second]) {
                PairClass::Numa
            } else {
                PairClass::Machine
            };
            match found.iter_mut().find(|pairs| pairs.class == class) {
                Some(pairs) => pairs.count += 1,
                None => found.push(Pairs {
                    class,
                    count: 1,
                    cores: [cores[first].clone(), cores[second].clone()],
                }),
            }
        }
    }
    found.sort_by_key(|pairs| pairs.class);
    found
}

fn touching(sets: &[&CpuSet], core: &CpuSet) -> Vec<usize> {
    let touches = |set: &&CpuSet| meet(set, core);
    let numbered = sets.iter().enumerate();
    numbered
        .filter(|(_, set)| touches(set))
        .map(|(at, _)| at)
        .collect()
}

fn meet(a: &CpuSet, b: &CpuSet) -> bool {
    !a.intersection(b).is_empty()
}

/// Lets the calling thread run on these PUs only, at once: without a look at the machine, which
/// takes longer than what is measured afterwards.
///
/// # Errors
/// The system refuses.
pub fn bind_quickly(cpus: &CpuSet) -> Result<()> {
    let words = cpus.words();
    // SAFETY: `words` is readable for its length, which is a multiple of the size of a long.
    let status = unsafe { libc::sched_setaffinity(0, size_of_val(words), words.as_ptr().cast()) };
    if status == 0 {
        return Ok(());
    }
    Err(Error::system(
        format!("kolo cannot run a thread on processors {cpus} to measure how they hand data over"),
        &std::io::Error::last_os_error(),
        "see with `taskset -cp PID` which processors the job may use, and ask the launcher for \
         these (srun --cpus-per-task, mpirun --bind-to); KOLO_STORES says what is measured here",
    ))
}
