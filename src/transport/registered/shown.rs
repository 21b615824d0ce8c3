//! Whether addresses show a file as they did when they were registered.
//!
//! **Problem.** Who frees a registered buffer and forgets to deregister it may get the same address
//! again, for other pages. Peers would read the file, and so what was there before.
//!
//! **Idea.** A call asks the system first, and goes over slots where the file is gone. That costs a
//! system call for each buffer: Linux since 6.11 answers for one address. Before, the page tables
//! say which pages belong to a file, though not to which one. Where a page is not there (on swap
//! perhaps), all mappings are read as text.
//!
//! Reference: Linux `Documentation/filesystems/proc.rst` (`maps`, PROCMAP_QUERY) and
//! `Documentation/admin-guide/mm/pagemap.rst`.

use super::areas::{self, FileIdentity};
use crate::transport::fork::Fd;
use crate::transport::room;
use std::ffi::CStr;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

/// Structure that PROCMAP_QUERY reads and writes.
#[repr(C)]
#[derive(Default)]
struct MappingQuery {
    bytes: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    rights: u64,
    page_bytes: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_bytes: u32,
    build_bytes: u32,
    name: u64,
    build: u64,
}

/// Its number: one that reads and writes a [`MappingQuery`].
const ASK: u64 = 3 << 30 | (size_of::<MappingQuery>() as u64) << 16 | (b'f' as u64) << 8 | 17;
const IS_SHARED: u64 = 1 << 3;

/// In an entry of the page table: the page is there; it belongs to a file, or is shared.
const IS_THERE: u64 = 1 << 63;
const IS_OF_A_FILE: u64 = 1 << 61;

/// Whether all of `pages` shows that file, from the offset `from` on. No if nobody can say.
pub(super) fn is_shown(file: FileIdentity, pages: &Range<usize>, from: u64) -> bool {
    by_question(file, pages, from)
        .or_else(|| by_page_table(pages))
        .unwrap_or_else(|| by_text(file, pages, from))
}

/// A file of the system about this process. No child asks: it has no communicators.
fn opened(place: &'static OnceLock<Option<Fd>>, path: &CStr) -> Option<&'static Fd> {
    let open = || {
        // SAFETY: plain system call with a C string; the new descriptor has no other owner.
        let made =
            unsafe { Fd::from_result(libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC)) };
        made.ok()
    };
    place.get_or_init(open).as_ref()
}

/// `None` where the system does not know this question.
fn by_question(file: FileIdentity, pages: &Range<usize>, from: u64) -> Option<bool> {
    static MAPS: OnceLock<Option<Fd>> = OnceLock::new();
    let maps = opened(&MAPS, c"/proc/self/maps")?;
    let mut at = pages.start;
    while at < pages.end {
        let mut one = MappingQuery {
            bytes: size_of::<MappingQuery>() as u64,
            address: at as u64,
            ..MappingQuery::default()
        };
        // SAFETY: the request is the one for this structure, which lives through the call.
        let code = unsafe { libc::ioctl(maps.as_raw_fd(), ASK as _, &raw mut one) };
        if code != 0 {
            let is_unmapped = io::Error::last_os_error().raw_os_error() == Some(libc::ENOENT);
            return is_unmapped.then_some(false);
        }
        let found = FileIdentity {
            device: (one.major, one.minor),
            inode: one.inode,
        };
        let shows = one.offset.wrapping_add(at as u64 - one.start);
        let wanted = from + (at - pages.start) as u64;
        if found != file || one.rights & IS_SHARED == 0 || shows != wanted {
            return Some(false);
        }
        at = one.end as usize;
    }
    Some(true)
}

/// `None` where a page is not there, which may be so for either kind.
fn by_page_table(pages: &Range<usize>) -> Option<bool> {
    static TABLE: OnceLock<Option<Fd>> = OnceLock::new();
    const AT_ONCE: usize = 256;
    let table = opened(&TABLE, c"/proc/self/pagemap")?;
    let page = room::page_bytes();
    let (mut at, end) = (pages.start / page, pages.end / page);
    while at < end {
        let mut entries = [0_u64; AT_ONCE];
        let wanted = size_of_val(&entries[..AT_ONCE.min(end - at)]);
        let offset = (at * size_of::<u64>()) as libc::off_t;
        // SAFETY: `entries` is writable for at least so many bytes, and any bytes are numbers.
        let got = unsafe {
            libc::pread(
                table.as_raw_fd(),
                entries.as_mut_ptr().cast(),
                wanted,
                offset,
            )
        };
        let got = usize::try_from(got).ok()? / size_of::<u64>();
        for entry in entries.get(..got).filter(|entries| !entries.is_empty())? {
            match (entry & IS_THERE != 0, entry & IS_OF_A_FILE != 0) {
                (true, true) => (),
                (true, false) => return Some(false),
                (false, _) => return None,
            }
        }
        at += got;
    }
    Some(true)
}

fn by_text(file: FileIdentity, pages: &Range<usize>, from: u64) -> bool {
    let mut at = pages.start;
    for area in areas::plain(pages).unwrap_or_default() {
        let shows = area
            .offset
            .wrapping_add(at.wrapping_sub(area.pages.start) as u64);
        let is_next = area.pages.contains(&at) && area.is_shared() && area.file == file;
        if !is_next || shows != from + (at - pages.start) as u64 {
            return false;
        }
        at = area.pages.end;
    }
    at >= pages.end
}

#[cfg(test)]
mod tests {
    use super::super::fenced::{FencedPages, PAGE, PRIVATE, SHARED, map_at};
    use super::super::{deregister, find, register};
    use super::*;

    #[test]
    fn three_ways_to_ask_say_the_same() {
        let file = room::memory_file(c"shown").unwrap();
        room::grow(&file, 8 * PAGE as u64).unwrap();
        let ours = areas::identity(&file).unwrap();
        let pages = FencedPages::of(SHARED, 8 * PAGE, Some(&file));
        pages.fill(1);
        let start = pages.at(0) as usize;
        let say = |range: Range<usize>, from: usize| {
            let range = start + range.start * PAGE..start + range.end * PAGE;
            let from = (from * PAGE) as u64;
            let known = by_text(ours, &range, from);
            assert_eq!(is_shown(ours, &range, from), known, "{range:x?}");
            // An older system does not know the question.
            assert!(by_question(ours, &range, from).is_none_or(|said| said == known));
            (known, by_page_table(&range))
        };
        assert_eq!(say(0..8, 0), (true, Some(true)));
        assert_eq!(say(3..8, 3), (true, Some(true)));
        assert!(
            !say(3..8, 2).0 && !say(0..9, 0).0,
            "another place, or too long"
        );
        // The middle is another mapping of the same.
        // SAFETY: pages of the test.
        unsafe { libc::mprotect(pages.at(4 * PAGE).cast(), PAGE, libc::PROT_READ) };
        assert_eq!(say(0..8, 0), (true, Some(true)));
        map_at(pages.at(2 * PAGE) as usize, PAGE, PRIVATE, None);
        assert!(!say(0..8, 0).0 && !say(2..3, 2).0);
        assert_eq!(say(3..8, 3), (true, Some(true)));
        pages.write(2 * PAGE, 1);
        assert_eq!(say(0..8, 0), (false, Some(false)));
        // SAFETY: pages of the test.
        unsafe { libc::munmap(pages.at(6 * PAGE).cast(), PAGE) };
        assert_eq!(say(5..8, 5), (false, None));
    }

    /// Who frees memory that is registered, and gets the same address again, has other memory
    /// there.
    #[test]
    fn what_is_mapped_anew_is_not_found() {
        let pages = FencedPages::new(6);
        pages.fill(5);
        let number = register(pages.at(10), 6 * PAGE - 20).unwrap();
        assert!(find(pages.at(10), 6 * PAGE - 20).is_some());
        map_at(pages.at(2 * PAGE) as usize, PAGE, PRIVATE, None);
        assert!(find(pages.at(10), 6 * PAGE - 20).is_none());
        assert!(find(pages.at(2 * PAGE + 5), 1).is_none());
        assert!(find(pages.at(3 * PAGE), PAGE).is_some(), "the rest");
        assert!(deregister(number).unwrap());
    }
}
