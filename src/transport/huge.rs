//! Huge pages (2 MiB on x86) for large memory that peers map.
//!
//! **Problem.** A processor translates addresses page by page. A stream over large memory begins a
//! new page of 4 KiB every 64 cache lines, and each translation that is not at hand costs a walk
//! through tables, in a virtual machine through those of the host, too. Memory of malloc may have
//! huge pages. That of files does not: the system's setting (`shmem_enabled`) is `never` nearly
//! everywhere.
//!
//! **Idea.** Since Linux 6.1 a process may ask for the huge pages of a range itself
//! (`MADV_COLLAPSE`), whatever that setting is, unless it is `deny`. Pages that nobody has touched
//! are zeroed at once, which takes less time than to find each small one when it is first touched.
//! So it is asked for when memory is allocated; what the system refuses stays small pages.

use std::ffi::c_void;
use std::fs;
use std::ops::Range;
use std::sync::OnceLock;

/// Linux's number; the C library of older systems has no name for it.
const MADV_COLLAPSE: libc::c_int = 25;
/// The memory that is free holds so many times what is taken, for it is taken at once.
const MARGIN: usize = 4;

/// Bytes of a huge page; none if the system has none.
fn page_bytes() -> Option<usize> {
    static BYTES: OnceLock<Option<usize>> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let said = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
        let bytes = said.ok()?.trim().parse().ok()?;
        usize::is_power_of_two(bytes).then_some(bytes)
    })
}

/// What the start of memory of so many bytes must be a multiple of, so that it can have huge pages:
/// in every process that maps it. 1 for what is too small.
pub(super) fn alignment(bytes: usize) -> usize {
    page_bytes().filter(|&huge| bytes >= huge).unwrap_or(1)
}

/// Asks for huge pages for all of the range that they fit in, which nobody has touched yet.
///
/// Not where this thread may run on several NUMA nodes: the pages would all come from the one where
/// it is now, and not from that of the thread that touches them first.
pub(super) fn take(range: Range<*mut u8>) {
    let Some(huge) = page_bytes() else { return };
    let first = range.start.addr().next_multiple_of(huge);
    let end = range.end.addr() / huge * huge;
    if end <= first || end - first > free_bytes() / MARGIN || !is_on_one_node() {
        return;
    }
    let place = range.start.with_addr(first).cast::<c_void>();
    // SAFETY: the content of the range stays as it is; a refusal changes nothing.
    unsafe { libc::madvise(place, end - first, MADV_COLLAPSE) };
}

/// Memory that nobody uses, not even as a cache of files.
fn free_bytes() -> usize {
    // SAFETY: plain queries.
    let (pages, bytes) = unsafe {
        (
            libc::sysconf(libc::_SC_AVPHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    let number = |said: libc::c_long| usize::try_from(said).unwrap_or(0);
    number(pages).saturating_mul(number(bytes))
}

/// Whether all processors on which this thread may run are of one NUMA node.
fn is_on_one_node() -> bool {
    let Ok(entries) = fs::read_dir("/sys/devices/system/node") else {
        return true;
    };
    let lists = entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("cpulist")).ok());
    let allowed = allowed();
    lists.filter(|list| reaches(list, &allowed)).count() <= 1
}

/// Whether a list of processors such as `0-3,8` has one that `allowed` has.
fn reaches(list: &str, allowed: &impl Fn(usize) -> bool) -> bool {
    let parts = list.trim().split(',').filter(|part| !part.is_empty());
    parts.into_iter().any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => (first..=last).any(allowed),
            _ => true,
        }
    })
}

/// On which processors this thread may run.
fn allowed() -> impl Fn(usize) -> bool {
    // SAFETY: a set of bits, all of them zero.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = size_of_val(&set);
    // SAFETY: the set has so many bytes.
    let known = unsafe { libc::sched_getaffinity(0, size, &raw mut set) } == 0;
    move |cpu| {
        // SAFETY: the number is below that of the bits.
        !known || cpu >= 8 * size || unsafe { libc::CPU_ISSET(cpu, &set) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        let allowed = |cpu: usize| cpu == 5;
        for (list, reached) in [
            ("0-3,8\n", false),
            ("0-3,5", true),
            ("4-6", true),
            ("", false),
            ("\n", false),
            ("5", true),
            ("no list", true),
        ] {
            assert_eq!(reaches(list, &allowed), reached, "{list}");
        }
    }

    #[test]
    fn this_thread_may_run_somewhere() {
        let allowed = allowed();
        assert!((0..4096).any(&allowed));
        assert!(free_bytes() > 0);
    }
}
