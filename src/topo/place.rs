//! A rank's place: host, processors and memory, in the form that ranks tell each other at init.
//!
//! Every rank sends the bytes of its own [`RankPlace`] in an all-gather; the list that comes back
//! is the same everywhere, and so is all that is computed from it. Bytes from another process are
//! an allegation: decoding checks every length and every number.

use super::allowed::{Usable, core_count};
use super::cgroup::Quota;
use super::hardware::Machine;
use super::{CpuSet, MAX_CPUS};
use crate::base::{Error, Rank, Result, hash};

/// First bytes of an encoded place; the digit changes with the form.
const MAGIC: &[u8; 4] = b"kpl1";
/// Longest host name or boot id, in bytes.
const MAX_TEXT: usize = 255;

/// Where a rank lives.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// PUs it may run on.
    pub cpus: CpuSet,
    /// Cores of these PUs, each by its lowest PU.
    pub cores: CpuSet,
    /// The quota of processor time over it.
    pub quota: Option<Quota>,
    /// NUMA nodes near its PUs.
    pub numa: CpuSet,
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
            numa: machine.numa_of(&usable.cpus),
            cpus: usable.cpus,
            cores: usable.cores,
            quota: usable.quota,
        }
    }

    /// Whether both ranks are threads of one process.
    pub fn shares_process(&self, other: &RankPlace) -> bool {
        (self.pid, self.host_hash, &self.boot_id) == (other.pid, other.host_hash, &other.boot_id)
    }

    /// How many cores' worth of time this rank has for itself; at least 1.
    pub fn core_count(&self) -> u32 {
        core_count(&self.cores, self.quota)
    }

    /// The bytes for the all-gather. Their number differs between ranks.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(self.rank.0.to_le_bytes());
        out.extend(self.pid.to_le_bytes());
        out.extend(self.host_hash.to_le_bytes());
        // A quota of 0 does not exist, so it can say "none".
        let quota = self.quota.unwrap_or(Quota {
            millicpus: 0,
            group: 0,
        });
        out.extend(quota.millicpus.to_le_bytes());
        out.extend(quota.group.to_le_bytes());
        for text in [cut(&self.host), cut(&self.boot_id)] {
            out.push(text.len() as u8);
            out.extend(text.as_bytes());
        }
        for set in [&self.cpus, &self.cores, &self.numa] {
            out.extend((set.words().len() as u16).to_le_bytes());
            out.extend(set.words().iter().flat_map(|word| word.to_le_bytes()));
        }
        out
    }

    /// Reads what [`RankPlace::to_bytes`] wrote. Errors: anything else, down to a byte too many.
    pub fn from_bytes(bytes: &[u8]) -> Result<RankPlace> {
        let mut input = Input {
            rest: bytes,
            length: bytes.len(),
        };
        if input.array::<4>("magic")? != *MAGIC {
            return Err(input.bad("it does not begin with `kpl1`"));
        }
        let rank = Rank(u32::from_le_bytes(input.array("rank")?));
        let pid = u32::from_le_bytes(input.array("pid")?);
        let host_hash = u64::from_le_bytes(input.array("host hash")?);
        let millicpus = u32::from_le_bytes(input.array("quota")?);
        let group = u64::from_le_bytes(input.array("quota group")?);
        if millicpus == 0 && group != 0 {
            return Err(input.bad("it has a quota group without a quota"));
        }
        let place = RankPlace {
            rank,
            pid,
            host_hash,
            quota: (millicpus > 0).then_some(Quota { millicpus, group }),
            host: input.text("host name")?,
            boot_id: input.text("boot id")?,
            cpus: input.set("processors")?,
            cores: input.set("cores")?,
            numa: input.set("NUMA nodes")?,
        };
        if !input.rest.is_empty() {
            return Err(input.bad(&format!("{} bytes too many at its end", input.rest.len())));
        }
        if place.cpus.is_empty() || place.cores.is_empty() {
            return Err(input.bad("it has no processor"));
        }
        Ok(place)
    }
}

/// Bytes that are being read.
/// `host (pid 77)`, for messages.
impl std::fmt::Display for RankPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (pid {})", self.host, self.pid)
    }
}

struct Input<'a> {
    rest: &'a [u8],
    length: usize,
}

impl Input<'_> {
    fn take(&mut self, count: usize, what: &str) -> Result<&[u8]> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.bad(&format!("it ends inside the field `{what}`"))),
        }
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        Ok(self.take(N, what)?.try_into().expect("N bytes were taken"))
    }

    fn text(&mut self, what: &str) -> Result<String> {
        let [count] = self.array(what)?;
        let bytes = self.take(usize::from(count), what)?.to_vec();
        String::from_utf8(bytes).map_err(|_| self.bad(&format!("the {what} is not UTF-8")))
    }

    fn set(&mut self, what: &str) -> Result<CpuSet> {
        let count = usize::from(u16::from_le_bytes(self.array(what)?));
        if count > (MAX_CPUS / 64) as usize {
            return Err(self.bad(&format!("the set of {what} has {count} words")));
        }
        let bytes = self.take(8 * count, what)?;
        let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        let words: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
        let set = CpuSet::from_words(&words).filter(|set| set.words() == words);
        set.ok_or_else(|| self.bad(&format!("the set of {what} ends with an empty word")))
    }

    fn bad(&self, why: &str) -> Error {
        Error::argument(
            format!(
                "the description of a rank ({} bytes) cannot be read: {why}",
                self.length
            ),
            "let all ranks use the same version of kolo",
        )
    }
}

/// At most [`MAX_TEXT`] bytes, cut at a character boundary.
fn cut(text: &str) -> &str {
    let longest = text.len().min(MAX_TEXT);
    let end = (0..=longest).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
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

    fn sample(random: &mut fastrand::Rng) -> RankPlace {
        let set = |random: &mut fastrand::Rng| -> CpuSet {
            (0..random.usize(1..9))
                .map(|_| random.u32(0..300))
                .collect()
        };
        RankPlace {
            rank: Rank(random.u32(..)),
            host: "n\u{f6}de7".repeat(random.usize(0..3)),
            host_hash: random.u64(..),
            boot_id: "5f".repeat(random.usize(0..18)),
            pid: random.u32(..),
            cpus: set(random),
            cores: set(random),
            quota: random.bool().then(|| Quota {
                millicpus: random.u32(1..9999),
                group: random.u64(..),
            }),
            numa: if random.bool() {
                set(random)
            } else {
                CpuSet::new()
            },
        }
    }

    #[test]
    fn bytes_round_trip_and_every_other_length_is_an_error() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..100 {
            let place = sample(&mut random);
            let bytes = place.to_bytes();
            assert_eq!(RankPlace::from_bytes(&bytes).unwrap(), place);
            for length in 0..bytes.len() {
                let error = RankPlace::from_bytes(&bytes[..length]).unwrap_err();
                assert!(
                    error.what.contains("it ends inside the field"),
                    "{length}: {error}"
                );
            }
            let longer = [bytes.as_slice(), &[0]].concat();
            let error = RankPlace::from_bytes(&longer).unwrap_err();
            assert!(error.what.contains("1 bytes too many"), "{error}");
        }
    }

    /// Whatever the bytes are, decoding answers, and what it takes encodes to the same bytes.
    #[test]
    fn damaged_bytes_never_panic() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..3000 {
            let mut bytes = sample(&mut random).to_bytes();
            let at = random.usize(0..bytes.len());
            bytes[at] = random.u8(..);
            if let Ok(place) = RankPlace::from_bytes(&bytes) {
                assert_eq!(place.to_bytes(), bytes);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let mut random = fastrand::Rng::with_seed(1);
        let good = RankPlace {
            numa: CpuSet::new(),
            quota: None,
            ..sample(&mut random)
        };
        let bytes = good.to_bytes();
        let text = |bytes: &[u8]| RankPlace::from_bytes(bytes).unwrap_err().what;
        let mut other = bytes.clone();
        other[3] = b'2';
        assert!(text(&other).contains("kpl1"));
        let mut other = bytes.clone();
        other[24] = 1;
        assert!(text(&other).contains("quota group without"));
        let mut other = bytes.clone();
        let end = other.len() - 2;
        other[end] = 1;
        other.extend([0; 8]);
        assert!(text(&other).contains("NUMA nodes ends with an empty word"));
        let nowhere = RankPlace {
            cpus: CpuSet::new(),
            ..good
        };
        assert!(text(&nowhere.to_bytes()).contains("no processor"));
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

    #[test]
    fn the_place_of_this_process() {
        let machine = Machine::detect().unwrap();
        let place = RankPlace::here(Rank(5), None, machine).unwrap();
        assert_eq!((place.rank, place.pid), (Rank(5), std::process::id()));
        assert_eq!(place.host, host_name().split('.').next().unwrap());
        assert!(place.core_count() >= 1 && !place.cpus.is_empty());
        assert_eq!(RankPlace::from_bytes(&place.to_bytes()).unwrap(), place);
    }
}
