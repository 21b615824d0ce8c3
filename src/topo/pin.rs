//! Where kolo's own threads run.
//!
//! A process has a service thread and perhaps a progress thread. They sleep when idle, but when
//! they work they should be near the memory of its ranks (or near the device they serve) and must
//! not take turns with a rank on its only core. Launchers bind a rank to one core as a rule, and a
//! new thread inherits that binding; so the threads of such a rank are moved to a core that no rank
//! of the node is bound to, if the cgroup leaves one.

use super::allowed::affinity_of;
use super::hardware::Machine;
use super::{CpuSet, RankPlace};
use crate::base::float_env::FloatEnv;
use crate::base::{Code, Error, Result};
use hwloc2::{CpuBindError, CpuBindFlags, Topology};
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Setting of how threads are pinned.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum PinSetting {
    /// Decided as [`Pinning::decide`] describes.
    #[default]
    Auto,
    /// Leave threads where the system puts them.
    Off,
    /// On one core of the rank, the first; ranks that share cores take different ones.
    Compact,
}

/// Why a thread was given its PUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinReason {
    /// The setting leaves it to the system.
    Off,
    /// The setting asks for one core of the rank.
    OneCore,
    /// The rank has several cores; the thread uses those near its device.
    OwnNearDevice,
    /// The rank has several cores; the thread uses them all.
    Own,
    /// The rank has one core; cores near the device are free.
    FreeNearDevice,
    /// The rank has one core; cores of its NUMA node are free.
    FreeSameNuma,
    /// The rank has one core; only cores of other NUMA nodes are free.
    FreeElsewhere,
    /// No core is free, but another hardware thread of the rank's core is.
    Sibling,
    /// Nothing is free: the thread shares the rank's core.
    Shared,
}

/// The decision for a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinning {
    /// The PUs; empty means that the thread is left where it is.
    pub cpus: CpuSet,
    /// Why these.
    pub reason: PinReason,
}

impl Pinning {
    /// Where a service or progress thread of the rank at `me` should run: a pure function. `local`
    /// are the places of all ranks of the node, `me` among them; `device` are the PUs near the
    /// device that the thread serves, if it serves one.
    pub fn decide(
        machine: &Machine,
        me: &RankPlace,
        local: &[&RankPlace],
        device: Option<&CpuSet>,
        setting: &PinSetting,
    ) -> Pinning {
        match setting {
            PinSetting::Off => {
                return Pinning {
                    cpus: CpuSet::new(),
                    reason: PinReason::Off,
                };
            }
            PinSetting::Compact => {
                return Pinning {
                    cpus: core_of(machine, me, local),
                    reason: PinReason::OneCore,
                };
            }
            PinSetting::Auto => {}
        }
        let near_device = |cpus: &CpuSet| match device {
            Some(near) => cpus.intersection(near),
            None => CpuSet::new(),
        };
        let choices = if me.cores.len() > 1 {
            vec![
                (near_device(&me.cpus), PinReason::OwnNearDevice),
                (me.cpus.clone(), PinReason::Own),
            ]
        } else {
            let bound = local
                .iter()
                .fold(me.cpus.clone(), |set, place| set.union(&place.cpus));
            let free = machine.allowed.difference(&machine.whole_cores(&bound));
            let same_numa = free.intersection(&machine.cpus_of_numa(&me.numa));
            let own_core = machine.whole_cores(&me.cpus).intersection(&machine.allowed);
            vec![
                // Memory that the thread touches is the rank's.
                (near_device(&same_numa), PinReason::FreeNearDevice),
                (near_device(&free), PinReason::FreeNearDevice),
                (same_numa, PinReason::FreeSameNuma),
                (free, PinReason::FreeElsewhere),
                (own_core.difference(&bound), PinReason::Sibling),
                (me.cpus.clone(), PinReason::Shared),
            ]
        };
        let chosen = choices.into_iter().find(|(cpus, _)| !cpus.is_empty());
        let (cpus, reason) = chosen.unwrap_or((CpuSet::new(), PinReason::Off));
        Pinning { cpus, reason }
    }
}

/// One core of a rank: the first; of ranks with the same PUs each has another one, if there are so
/// many.
pub(super) fn core_of(machine: &Machine, me: &RankPlace, local: &[&RankPlace]) -> CpuSet {
    let sharing = local.iter().filter(|place| place.cpus == me.cpus);
    let turn = sharing.take_while(|place| place.rank != me.rank).count();
    let cores = machine.cores.iter();
    let cores = cores.map(|core| core.cpus.intersection(&me.cpus));
    let cores: Vec<CpuSet> = cores.filter(|cpus| !cpus.is_empty()).collect();
    match cores.len() {
        0 => me.cpus.clone(),
        count => cores[turn % count].clone(),
    }
}

impl fmt::Display for Pinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.reason {
            PinReason::Off => return write!(f, "not pinned"),
            PinReason::OneCore => "one core of the rank, as set",
            PinReason::OwnNearDevice => "cores of the rank near the device",
            PinReason::Own => "the rank's own cores",
            PinReason::FreeNearDevice => "free cores near the device",
            PinReason::FreeSameNuma => "free cores of the rank's NUMA node",
            PinReason::FreeElsewhere => "free cores of another NUMA node",
            PinReason::Sibling => "another hardware thread of the rank's core",
            PinReason::Shared => "the rank's core, as none is free",
        };
        write!(f, "PUs {}: {why}", self.cpus)
    }
}

/// hwloc's own view of the machine, which its binding calls need. Made on first use and kept.
static BINDER: OnceLock<Option<Mutex<Topology>>> = OnceLock::new();

/// Lets the calling thread run on these PUs only. Errors: those of [`pin_thread`].
pub fn pin_current_thread(cpus: &CpuSet) -> Result<()> {
    // SAFETY: takes nothing; the calling thread lives.
    pin_thread(unsafe { libc::pthread_self() }, cpus)
}

/// Lets a thread of this process, which must be alive, run on these PUs only. Errors: the set is
/// empty; the system refuses, or puts the thread elsewhere (a cgroup that does not contain the
/// PUs).
pub fn pin_thread(thread: libc::pthread_t, cpus: &CpuSet) -> Result<()> {
    let remedy = "check the job's cgroup; the setting affinity=none leaves threads where they are";
    if cpus.is_empty() {
        return Err(Error::argument(
            "a thread cannot be pinned to no processor at all",
            remedy,
        ));
    }
    // hwloc takes milliseconds to look at a machine, and most threads are where they should be.
    if affinity_of(thread)? == *cpus {
        return Ok(());
    }
    let binder = BINDER.get_or_init(|| {
        let _program = FloatEnv::hold();
        Topology::new().map(Mutex::new)
    });
    let Some(binder) = binder else {
        return Err(Error::new(
            Code::SystemError,
            "hwloc cannot look at this machine",
            remedy,
        ));
    };
    let set: hwloc2::CpuSet = cpus.iter().collect();
    // A panic of another thread leaves no half-done change in the topology: binding only reads it.
    let mut binder = binder.lock().unwrap_or_else(PoisonError::into_inner);
    binder
        .set_cpubind_for_thread(thread, set, CpuBindFlags::empty())
        .map_err(|error| {
            let CpuBindError::Generic(number, _) = error;
            let source = std::io::Error::from_raw_os_error(number);
            Error::system(
                format!("a thread cannot be pinned to processors {cpus}"),
                &source,
                remedy,
            )
        })?;
    // hwloc says yes without doing anything when its variables give it another machine's topology.
    let now = affinity_of(thread)?;
    if now.is_subset(cpus) {
        return Ok(());
    }
    let what = format!("a thread was pinned to processors {cpus} but may run on {now}");
    Err(Error::new(Code::SystemError, what, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::alone::alone;
    use crate::topo::affinity;

    /// Bindings are of a thread: a thread of its own keeps the other tests as they are.
    fn in_a_thread(body: impl FnOnce() + Send + 'static) {
        std::thread::spawn(body).join().unwrap();
    }

    #[test]
    fn a_thread_goes_where_it_is_told() {
        in_a_thread(|| {
            let all = affinity().unwrap();
            for cpu in all.iter() {
                pin_current_thread(&CpuSet::single(cpu)).unwrap();
                assert_eq!(affinity().unwrap(), CpuSet::single(cpu));
            }
            pin_current_thread(&all).unwrap();
            assert_eq!(affinity().unwrap(), all);
        });
    }

    #[test]
    #[ignore = "the body of a test that needs a process of its own"]
    fn alone_where_it_is_already() {
        pin_current_thread(&affinity().unwrap()).unwrap();
        assert!(BINDER.get().is_none());
    }

    #[test]
    fn a_thread_that_is_there_already_needs_no_look_at_the_machine() {
        alone("topo::pin::tests::alone_where_it_is_already", &[]);
    }

    #[test]
    fn what_cannot_be_done_is_an_error() {
        in_a_thread(|| {
            let before = affinity().unwrap();
            let error = pin_current_thread(&CpuSet::new()).unwrap_err();
            assert!(error.what.contains("no processor"), "{error}");
            let error = pin_current_thread(&CpuSet::single(60_000)).unwrap_err();
            assert!(error.what.contains("60000"), "{error}");
            assert_eq!(affinity().unwrap(), before);
        });
    }
}
