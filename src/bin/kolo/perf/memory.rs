//! Memory: how much there is, and the buffers.

use kolo::base::{Code, Error, Result};
use kolo::comm::{Communicator, RegisteredBuffer};
use kolo::dtype::known::POISON;
use kolo::transport::memory;
use std::alloc::{Layout, alloc, dealloc};
use std::path::Path;

/// Left free, unless that is more than a quarter of what there is.
const RESERVE: u64 = 1 << 30;
const PAGE: usize = 4096;

/// Bytes that this process can still have: what the machine has available, or less if a group that
/// the process is in has a limit.
pub fn available() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| field(&text, "MemAvailable:"))
        .map_or(u64::MAX, |kib| kib << 10);
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    machine.min(group_limit(Path::new("/sys/fs/cgroup"), &groups))
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Bytes that the tightest control group leaves; `groups` is `/proc/self/cgroup`.
fn group_limit(root: &Path, groups: &str) -> u64 {
    let mut least = u64::MAX;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, limit, used) = match controllers {
            "" => (root.to_path_buf(), "memory.max", "memory.current"),
            _ if controllers.split(',').any(|name| name == "memory") => (
                root.join("memory"),
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            ),
            _ => continue,
        };
        let inside = root.join(path.trim_start_matches('/'));
        // Groups above limit too; inside a container the path may not exist, but the root does.
        for directory in inside.ancestors().take_while(|dir| dir.starts_with(&root)) {
            let number = |name| {
                let text = std::fs::read_to_string(directory.join(name)).ok()?;
                text.trim().parse::<u64>().ok()
            };
            if let (Some(limit), Some(used)) = (number(limit), number(used)) {
                least = least.min(limit.saturating_sub(used));
            }
        }
    }
    least
}

/// The greatest size for which `ranks` ranks of this machine have memory: two buffers each, and as
/// much again as one for the data that is compared.
pub fn most_bytes(available: u64, ranks: u64, checks: bool) -> u64 {
    let usable = available - RESERVE.min(available / 4);
    usable / ranks.max(1) / if checks { 3 } else { 2 }
}

/// Bytes of memory that this process holds now.
pub fn held() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&text, "VmRSS:").map_or(0, |kib| kib << 10)
}

/// Bytes that a process holds after each step of a measurement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    pub at_start: u64,
    pub with_communicators: u64,
    pub with_buffers: u64,
    pub after_calls: u64,
}

impl Held {
    /// Bytes that each step took: at the start, for communicators, for buffers, for the calls.
    pub fn steps(&self) -> [u64; 4] {
        [
            self.at_start,
            self.with_communicators.saturating_sub(self.at_start),
            self.with_buffers.saturating_sub(self.with_communicators),
            self.after_calls.saturating_sub(self.with_buffers),
        ]
    }
}

/// The lines of the memory report: `all` has the steps of each rank's process.
pub fn report(all: &[[u64; 4]]) -> Vec<String> {
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    let row = |(name, step): (&str, usize)| {
        let values = || all.iter().map(|steps| steps[step]);
        let (least, most) = (values().min(), values().max());
        let cells = [least, most].map(|bytes| mib(bytes.unwrap_or(0)));
        format!("# {name:>16} {:>10.1} {:>10.1}", cells[0], cells[1])
    };
    let names = ["start", "communicators", "buffers", "calls"];
    let mut lines = vec![
        "# Memory of a process, in MiB, of all processes".to_string(),
        format!("# {:>16} {:>10} {:>10}", "taken for", "least", "most"),
    ];
    lines.extend(names.into_iter().zip(0..).map(row));
    lines
}

/// Kind of the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BufferKind {
    /// Of the allocator
    Private,
    /// Of koloMemAlloc, which ranks of one machine read where they lie
    Mapped,
    /// Of the allocator, and registered by koloCommRegister
    Registered,
}

/// Memory of a rank, aligned to pages and touched.
pub struct Buffer {
    place: *mut u8,
    layout: Layout,
    kind: BufferKind,
    /// The communicator with which it is registered, if it is.
    registered: Option<(Communicator, RegisteredBuffer)>,
}

impl Buffer {
    /// `bytes` of memory full of poison.
    ///
    /// # Errors
    /// The system has no more.
    pub fn new(bytes: usize, kind: BufferKind) -> Result<Buffer> {
        let short = || {
            Error::new(
                Code::SystemError,
                format!("no memory for a buffer of {bytes} bytes"),
                "choose a smaller -e, or fewer ranks",
            )
        };
        let layout = Layout::from_size_align(bytes.max(1), PAGE).map_err(|_| short())?;
        let place = match kind {
            BufferKind::Mapped => memory::allocate(layout.size())?,
            // SAFETY: the layout is not empty.
            BufferKind::Private | BufferKind::Registered => unsafe { alloc(layout) },
        };
        if place.is_null() {
            return Err(short());
        }
        // SAFETY: freshly allocated with that size.
        unsafe { place.write_bytes(POISON, layout.size()) };
        Ok(Buffer {
            place,
            layout,
            kind,
            registered: None,
        })
    }

    /// Registers it with a communicator, if it is of that kind.
    ///
    /// # Errors
    /// kolo's.
    pub fn register_with(&mut self, comm: &Communicator) -> Result<()> {
        if self.kind == BufferKind::Registered {
            // SAFETY: nobody else knows the buffer yet. What lies beside it in its last page is the
            // allocator's; the other threads of this process wait for their own buffers.
            let made = unsafe { comm.register(self.place, self.layout.size()) }?;
            self.registered = Some((comm.clone(), made));
        }
        Ok(())
    }

    /// Where it begins.
    pub fn place(&self) -> *mut u8 {
        self.place
    }

    /// The content from `from` on, to be read.
    pub fn seen(&self, from: usize, length: usize) -> &[u8] {
        // SAFETY: allocated and initialised; borrowed for as long as the slice lives.
        let all = unsafe { std::slice::from_raw_parts(self.place, self.layout.size()) };
        &all[from..from + length]
    }

    /// The content from `from` on. Nobody else uses the buffer meanwhile: calls have ended.
    pub fn bytes(&mut self, from: usize, length: usize) -> &mut [u8] {
        // SAFETY: allocated and initialised; borrowed for as long as the slice lives.
        let all = unsafe { std::slice::from_raw_parts_mut(self.place, self.layout.size()) };
        &mut all[from..from + length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some((comm, registration)) = self.registered.take() {
            // One that ended with its communicator is gone already.
            let _ = comm.deregister(registration);
        }
        if self.kind == BufferKind::Mapped {
            // Fails only for memory that is not shared.
            let _ = memory::free(self.place);
        } else {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.place, self.layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_shrink_with_memory() {
        assert_eq!(most_bytes(5 << 30, 2, true), (4 << 30) / 6);
        assert_eq!(most_bytes(5 << 30, 2, false), 1 << 30);
        assert_eq!(most_bytes(1 << 20, 1, true), (1 << 18));
        assert!(available() > 0);
    }

    #[test]
    fn steps_are_what_was_added() {
        let held = Held {
            at_start: 5 << 20,
            with_communicators: 7 << 20,
            with_buffers: 71 << 20,
            after_calls: 70 << 20,
        };
        assert_eq!(held.steps().map(|bytes| bytes >> 20), [5, 2, 64, 0]);
        let lines = report(&[held.steps(), [6 << 20, 0, 0, 1 << 19]]);
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&lines[2]), ["#", "start", "5.0", "6.0"]);
        assert_eq!(words(&lines[4]), ["#", "buffers", "0.0", "64.0"]);
        assert_eq!(words(&lines[5]), ["#", "calls", "0.0", "0.5"]);
        assert!(self::held() > 0);
    }

    #[test]
    fn limits_of_groups_above_count() {
        let root = std::env::temp_dir().join(format!("kolo-memory-{}", std::process::id()));
        let inner = root.join("job/step");
        std::fs::create_dir_all(&inner).unwrap();
        let write = |dir: &Path, most: &str, used: &str| {
            std::fs::write(dir.join("memory.max"), most).unwrap();
            std::fs::write(dir.join("memory.current"), used).unwrap();
        };
        write(&inner, "max\n", "10\n");
        write(&root.join("job"), "1000\n", "300\n");
        let found = group_limit(&root, "0::/job/step\n");
        let none = group_limit(&root, "1:cpu:/job\n");
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((found, none), (700, u64::MAX));
    }
}
