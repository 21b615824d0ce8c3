//! A rank's place: host, processors and memory, in the form that ranks tell each other at init.
//!
//! Every rank sends its own [`RankPlace`] in an all-gather; the list that comes back is the same
//! everywhere, and so is all that is computed from it.

use super::CpuSet;
use super::allowed::{Usable, core_count};
use super::cgroup::Quota;
use super::hardware::Machine;
use super::sharing::{SharedParts, sharing};
use crate::base::{self, Error, Rank, Result, hash};
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Longest host name or boot id, in bytes.
const MAX_TEXT: usize = 255;

/// Where a rank lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPlace {
    /// The rank.
    pub rank: Rank,
    /// Host name up to the first dot, at most 255 bytes.
    pub host: String,
    /// Hash of the host name, or of the host id that a setting gives instead.
    pub host_hash: u64,
    /// The kernel's random id of this boot: tells apart machines with equal names. Empty where it
    /// cannot be read, and where a setting gives the host id.
    pub boot_id: String,
    /// Process id, as the process itself sees it.
    pub pid: u32,
    /// Drawn once in each process: processes of two containers of a machine may have one number.
    pub process: u64,
    /// PUs it may run on.
    pub cpus: CpuSet,
    /// Cores of these PUs, each by its lowest PU.
    pub cores: CpuSet,
    /// The quota of processor time over it.
    pub quota: Option<Quota>,
    /// NUMA nodes near its PUs.
    pub numa: CpuSet,
    /// The socket and the cache that have all of its PUs.
    pub sharing: SharedParts,
}

impl RankPlace {
    /// The place of the calling thread, which is going to be `rank`. `host_id` (a setting) replaces
    /// host name and boot id where ranks are compared. Errors: those of [`Usable::here`].
    pub fn here(rank: Rank, host_id: Option<&str>, machine: &Machine) -> Result<RankPlace> {
        let usable = Usable::here(machine)?;
        Ok(RankPlace::new(
            rank,
            &host_name(),
            host_id,
            &boot_id(),
            machine,
            usable,
        ))
    }

    /// A place put together from its parts: a pure function but for the process id.
    pub fn new(
        rank: Rank,
        host_name: &str,
        host_id: Option<&str>,
        boot_id: &str,
        machine: &Machine,
        usable: Usable,
    ) -> RankPlace {
        let short = host_name.split('.').next().unwrap_or("");
        RankPlace {
            rank,
            host: cut(short).to_owned(),
            // An id is taken whole: a person may well write 10.1 and 10.2.
            host_hash: host_id.map_or_else(|| hash::host(short), |id| hash::djb2a(id.as_bytes())),
            boot_id: if host_id.is_some() {
                String::new()
            } else {
                cut(boot_id).to_owned()
            },
            pid: std::process::id(),
            process: drawn(),
            numa: machine.numa_of(&usable.cpus),
            sharing: sharing(machine, &usable.cpus),
            cpus: usable.cpus,
            cores: usable.cores,
            quota: usable.quota,
        }
    }

    /// Whether both ranks are threads of one process.
    pub fn shares_process(&self, other: &RankPlace) -> bool {
        (self.process, self.pid, self.host_hash, &self.boot_id)
            == (other.process, other.pid, other.host_hash, &other.boot_id)
    }

    /// How many cores' worth of time this rank has for itself; at least 1.
    pub fn core_count(&self) -> u32 {
        core_count(&self.cores, self.quota)
    }

    /// Checks the place of another rank.
    pub(super) fn check(&self) -> Result<()> {
        let why = match self {
            place if place.cpus.is_empty() || place.cores.is_empty() => "it has no processor",
            RankPlace {
                quota: Some(quota), ..
            } if quota.millicpus == 0 => "its quota is 0",
            _ => return Ok(()),
        };
        Err(Error::argument(
            format!("the place of a rank cannot be: {why}"),
            "let all ranks use the same version of kolo",
        ))
    }
}

/// [`place_name`], for messages.
impl std::fmt::Display for RankPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&place_name(&self.host, self.pid))
    }
}

/// Where a process runs, as messages name it: `host (pid 77)`.
pub fn place_name(host: &str, pid: u32) -> String {
    format!("{host} (pid {pid})")
}

/// The host of such a name.
pub fn host_of(place: &str) -> &str {
    place.split(' ').next().unwrap_or_default()
}

/// At most [`MAX_TEXT`] bytes, cut at a character boundary.
fn cut(text: &str) -> &str {
    let longest = text.len().min(MAX_TEXT);
    let end = (0..=longest).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
}

/// The host name without its domain.
pub fn short_host_name() -> String {
    let mut name = host_name();
    name.truncate(name.find('.').unwrap_or(name.len()));
    name
}

/// The host name; empty where the system does not tell (then all such hosts look alike, and the
/// hand-over of shared memory decides).
pub fn host_name() -> String {
    let mut buffer = [0_u8; 256];
    // SAFETY: the buffer has the length that is passed.
    let status = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len()) };
    let end = buffer
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(buffer.len());
    match status {
        0 => String::from_utf8_lossy(&buffer[..end]).into_owned(),
        _ => String::new(),
    }
}

/// A number that this process has drawn to be told apart; its forked child has another process
/// number. Where the system gives no random bytes, process numbers alone tell processes apart.
fn drawn() -> u64 {
    static DRAWN: OnceLock<u64> = OnceLock::new();
    *DRAWN.get_or_init(|| base::random().map_or(0, u64::from_ne_bytes))
}

/// The kernel's id of this boot, or nothing.
pub fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// Whether this is a virtual machine, whose cores the host may move: two of them that share a cache
/// now may share none in a minute. Known on x86 only.
pub fn is_virtual() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        /// Bit 31 of ECX of leaf 1 is left to hypervisors (AMD64 manual 24594, CPUID Fn0000_0001).
        const HYPERVISOR: u32 = 1 << 31;
        std::arch::x86_64::__cpuid(1).ecx & HYPERVISOR != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_rank_has_is_refused() {
        let machine = Machine::detect().unwrap();
        let good = RankPlace::here(Rank(1), None, machine).unwrap();
        good.check().unwrap();
        let text = |place: RankPlace| place.check().unwrap_err().into_what();
        let nowhere = RankPlace {
            cores: CpuSet::new(),
            ..good.clone()
        };
        assert!(text(nowhere).contains("no processor"));
        let quota = Some(Quota {
            millicpus: 0,
            group: 1,
        });
        assert!(text(RankPlace { quota, ..good }).contains("quota is 0"));
    }

    #[test]
    fn the_host_is_cut_at_its_first_dot_and_an_id_replaces_it() {
        let machine = Machine::detect().unwrap();
        let usable = Usable::here(machine).unwrap();
        let made = |id| {
            RankPlace::new(
                Rank(3),
                "node7.site.org",
                id,
                "boot",
                machine,
                usable.clone(),
            )
        };
        let place = made(None);
        assert_eq!(
            (place.host.as_str(), place.boot_id.as_str()),
            ("node7", "boot")
        );
        assert_eq!(place.host_hash, hash::host("node7"));
        let place = made(Some("10.1"));
        assert_eq!((place.host.as_str(), place.boot_id.as_str()), ("node7", ""));
        assert_eq!(place.host_hash, hash::djb2a(b"10.1"));
        assert_ne!(place.host_hash, made(Some("10.2")).host_hash);
        let long = RankPlace::new(
            Rank(0),
            &"\u{f6}".repeat(200),
            None,
            "",
            machine,
            usable.clone(),
        );
        assert_eq!(long.host, "\u{f6}".repeat(127));
    }

    /// As in two containers of one machine, each with processes of its own numbers.
    #[test]
    fn processes_with_one_number_are_told_apart() {
        let machine = Machine::detect().unwrap();
        let [mine, mate] = [0, 1].map(|rank| RankPlace::here(Rank(rank), None, machine).unwrap());
        assert!(mine.shares_process(&mate));
        let contained = RankPlace {
            process: !mine.process,
            ..mate
        };
        assert!(!mine.shares_process(&contained));
    }

    #[test]
    fn the_place_of_this_process() {
        let machine = Machine::detect().unwrap();
        let place = RankPlace::here(Rank(5), None, machine).unwrap();
        assert_eq!((place.rank, place.pid), (Rank(5), std::process::id()));
        assert_eq!(place.host, host_name().split('.').next().unwrap());
        assert!(place.core_count() >= 1 && !place.cpus.is_empty());
        place.check().unwrap();
    }
}
