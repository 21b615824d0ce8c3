//! Which processors this rank may really use.
//!
//! Three things limit a process: what the machine has, its binding (`sched_setaffinity`, set by
//! launchers and by cpuset cgroups), and a quota of processor time. A count of processors that
//! ignores one of them is wrong in containers.

use super::cgroup::{self, Quota};
use super::hardware::Machine;
use super::{CpuSet, MAX_CPUS};
use crate::base::{Error, Result};

/// Processors that a process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usable {
    /// PUs it may run on, never empty.
    pub cpus: CpuSet,
    /// The cores they belong to, each by its lowest PU, so that two hardware threads of one core
    /// count once.
    pub cores: CpuSet,
    /// The quota of processor time, if there is one.
    pub quota: Option<Quota>,
}

impl Usable {
    /// Returns what the calling thread may use on this machine. Errors: the system does not tell
    /// the binding; the binding and the topology have no processor in common.
    pub fn here(machine: &Machine) -> Result<Usable> {
        Usable::of(machine, &affinity()?, cgroup::quota())
    }

    /// Returns what a thread with this binding and this quota may use: a pure function.
    pub fn of(machine: &Machine, binding: &CpuSet, quota: Option<Quota>) -> Result<Usable> {
        let cpus = binding.intersection(machine.cpus());
        if cpus.is_empty() {
            let (source, all) = (&machine.source, machine.cpus());
            return Err(Error::argument(
                format!("{source} has processors {all}, but this process is bound to {binding}"),
                "use a topology of the machine on which the job runs, or none",
            ));
        }
        Ok(Usable {
            cores: machine.cores_of(&cpus),
            cpus,
            quota,
        })
    }

    /// How many cores' worth of time there is: distinct cores, or the quota (rounded up) if that is
    /// less. At least 1.
    pub fn core_count(&self) -> u32 {
        core_count(&self.cores, self.quota)
    }
}

/// See [`Usable::core_count`].
pub(super) fn core_count(cores: &CpuSet, quota: Option<Quota>) -> u32 {
    let cores = cores.len() as u32;
    quota.map_or(cores, |quota| cores.min(quota.cpus())).max(1)
}

/// The processors that the calling thread may run on (its binding), as the kernel says. Errors: the
/// system call fails, as it does under some sandboxes.
pub fn affinity() -> Result<CpuSet> {
    // SAFETY: takes nothing; the calling thread lives.
    affinity_of(unsafe { libc::pthread_self() })
}

/// The processors that a thread of this process may run on. The thread must be alive.
pub(super) fn affinity_of(thread: libc::pthread_t) -> Result<CpuSet> {
    let mut words = vec![0_u64; (MAX_CPUS / 64) as usize];
    let bytes = std::mem::size_of_val(words.as_slice());
    // SAFETY: at most `bytes` bytes are written into the buffer, which has that size and the
    // alignment of `cpu_set_t` (an array of unsigned long); the thread lives, as the caller says.
    let code = unsafe { libc::pthread_getaffinity_np(thread, bytes, words.as_mut_ptr().cast()) };
    if code != 0 {
        return Err(Error::system(
            "the processors of a thread cannot be read (sched_getaffinity)",
            &std::io::Error::from_raw_os_error(code),
            "allow this system call in the sandbox or container",
        ));
    }
    Ok(CpuSet::from_words(&words).expect("the buffer has MAX_CPUS bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binding_is_the_kernels() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let list = status
            .lines()
            .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))
            .unwrap();
        assert_eq!(affinity().unwrap(), CpuSet::parse_list(list).unwrap());
    }

    #[test]
    fn this_process_may_use_some_of_this_machine() {
        let machine = Machine::detect().unwrap();
        let usable = Usable::here(machine).unwrap();
        assert!(usable.cpus.is_subset(&machine.allowed));
        assert!(usable.core_count() >= 1);
        assert!(usable.core_count() as usize <= machine.cores.len());
    }
}
