//! Kinds of memory of this process, by `/proc/self/smaps`, and whether they may be moved.
//!
//! **Problem.** Pages may be moved onto a file in place only if nothing but plain stores and loads
//! notices. Stacks, files, pinned pages and memory of devices are no such pages, and an address
//! alone does not say what it is.
//!
//! **Idea.** The system lists every mapping with its flags. Only flags that are known to do no harm
//! are accepted; any other one refuses, so that a kind of memory that comes later refuses too.
//!
//! Reference: Linux `Documentation/filesystems/proc.rst` (`smaps`, `VmFlags`).

use crate::base::descriptors::lifted;
use crate::base::{Error, Result};
use crate::transport::fork::Fd;
use crate::transport::room;
use std::io::{BufRead, BufReader};
use std::ops::Range;

/// Where a file is, as mappings name it: device and number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FileIdentity {
    pub device: (u32, u32),
    pub inode: u64,
}

impl FileIdentity {
    pub(super) fn of(state: &libc::stat) -> FileIdentity {
        FileIdentity {
            device: (libc::major(state.st_dev), libc::minor(state.st_dev)),
            inode: state.st_ino,
        }
    }
}

/// How mappings name a file.
pub(super) fn identity(file: &Fd) -> Result<FileIdentity> {
    Ok(FileIdentity::of(&room::state(file)?))
}

/// One mapping of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Area {
    pub pages: Range<usize>,
    /// `rw-p` and the like.
    pub rights: String,
    /// Where in the file it begins.
    pub offset: u64,
    pub file: FileIdentity,
    /// Name that the system gives it: a path, `[heap]`, or nothing.
    pub name: String,
    /// Two letters each.
    flags: Vec<String>,
    /// Of memory protection keys; 0 is none.
    key: u32,
}

/// The first line of a mapping. Reading it allocates nothing: a child of fork() does so too.
pub(super) struct Head<'a> {
    pub pages: Range<usize>,
    pub rights: &'a str,
    pub offset: u64,
    pub file: FileIdentity,
}

impl Head<'_> {
    /// Reads `start-end rights offset major:minor inode name`, and gives the name beside it.
    pub(super) fn read(line: &str) -> Option<(Head<'_>, &str)> {
        let hex = |word: &str| u64::from_str_radix(word, 16).ok();
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let pages = hex(start)? as usize..hex(end)? as usize;
        let (rights, offset) = (words.next()?, hex(words.next()?)?);
        let (major, minor) = words.next()?.split_once(':')?;
        let file = FileIdentity {
            device: (hex(major)? as u32, hex(minor)? as u32),
            inode: words.next()?.parse().ok()?,
        };
        let name = words.next().unwrap_or_default().trim();
        let head = Head {
            pages,
            rights,
            offset,
            file,
        };
        Some((head, name))
    }

    /// Whether it is a mapping of `file`, shared or private, with each byte at the address that is
    /// the byte's offset.
    pub(super) fn is_in_place(&self, file: FileIdentity) -> bool {
        self.file == file && self.offset == self.pages.start as u64
    }

    pub(super) fn is_shared(&self) -> bool {
        self.rights.ends_with('s')
    }
}

/// Access rights, as mprotect(2) takes them.
pub(super) fn protection(rights: &str) -> libc::c_int {
    let known = [
        ('r', libc::PROT_READ),
        ('w', libc::PROT_WRITE),
        ('x', libc::PROT_EXEC),
    ];
    let given = known
        .into_iter()
        .filter(|(letter, _)| rights.contains(*letter));
    given.fold(0, |all, (_, right)| all | right)
}

/// Flags that do not matter, or that the new mapping has too.
const HARMLESS: &[&str] = &[
    "rd", "wr", "mr", "mw", "me", "ac", "nr", "sd", "sr", "rr", "hg", "nh", "mg", "dd",
];

/// Meanings of the others, by their letters.
const HARMFUL: &[(&str, &str)] = &[
    ("lo", "is locked in memory (mlock)"),
    ("ht", "consists of huge pages of hugetlbfs"),
    ("io", "is memory of a device"),
    ("pf", "is memory of a device"),
    ("mm", "is memory of a device"),
    ("dx", "is memory of a device"),
    ("gd", "is a stack"),
    ("ss", "is a stack"),
    ("gu", "has guard pages, as stacks have"),
    (
        "dc",
        "is kept from children (MADV_DONTFORK), as ibv_fork_init does with what is pinned for a \
         network",
    ),
    ("wf", "is wiped in children (MADV_WIPEONFORK)"),
    ("um", "is watched by a userfaultfd"),
    ("uw", "is watched by a userfaultfd"),
    ("ui", "is watched by a userfaultfd"),
    ("sl", "is sealed (mseal)"),
];

const REMEDY: &str = "register memory of malloc or of an anonymous mmap, or take it from \
                      koloMemAlloc, which needs no registration";

impl Area {
    fn head(line: &str) -> Option<Area> {
        let (head, name) = Head::read(line)?;
        Some(Area {
            pages: head.pages,
            rights: head.rights.to_owned(),
            offset: head.offset,
            file: head.file,
            name: name.to_owned(),
            ..Area::default()
        })
    }

    /// Takes in one of the lines that follow.
    fn learn(&mut self, line: &str) {
        let of = |name| line.strip_prefix(name).map(str::trim);
        if let Some(flags) = of("VmFlags:") {
            self.flags = flags.split_ascii_whitespace().map(str::to_owned).collect();
        } else if let Some(key) = of("ProtectionKey:") {
            self.key = key.parse().unwrap_or(u32::MAX);
        }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.rights.ends_with('s')
    }

    pub(super) fn is_in_place(&self, file: FileIdentity) -> bool {
        let head = Head {
            pages: self.pages.clone(),
            rights: &self.rights,
            offset: self.offset,
            file: self.file,
        };
        head.is_in_place(file)
    }

    /// Why its pages may not be moved; `None` if they may. A phrase that follows "it".
    fn objection(&self, ours: FileIdentity) -> Option<String> {
        let private = self.rights == "rw-p";
        if self.name == "[stack]" {
            return Some("is a stack".into());
        }
        let is_settled = self.is_in_place(ours) && !self.is_shared();
        if self.file == ours && self.file.inode != 0 && !is_settled {
            return Some("was registered and then moved (mremap, realloc)".into());
        }
        if self.is_shared() {
            return Some(format!(
                "is shared already (`{}`), by a file that could be cut short under those who read \
                 it",
                self.name
            ));
        }
        if self.file.inode != 0 && !is_settled {
            return Some(format!("is a private mapping of the file {}", self.name));
        }
        if !private {
            return Some(format!("has the access rights {}, not rw-p", self.rights));
        }
        let is_anonymous = ["", "[heap]"].contains(&&*self.name) || self.name.starts_with("[anon:");
        if !is_anonymous && !is_settled {
            return Some(format!("is {}", self.name));
        }
        if self.key != 0 {
            return Some(format!("has the protection key {}", self.key));
        }
        let bad = |flag: &&String| !HARMLESS.contains(&flag.as_str());
        let flag = self.flags.iter().find(bad)?;
        let known = HARMFUL.iter().find(|(letters, _)| letters == flag);
        Some(match known {
            Some((_, phrase)) => (*phrase).into(),
            None => format!("has the flag `{flag}` in /proc/self/smaps, which kolo does not know"),
        })
    }
}

/// The mappings that hold bytes of `pages`, in the text of `/proc/self/smaps` or `maps`.
fn read(text: impl BufRead, pages: &Range<usize>) -> Vec<Area> {
    let mut found: Vec<Area> = Vec::new();
    let mut inside = false;
    for line in text.split(b'\n').map_while(std::result::Result::ok) {
        // A path may have any bytes.
        let line = String::from_utf8_lossy(&line);
        let is_head = line
            .split(' ')
            .next()
            .is_some_and(|word| word.contains('-'));
        if let Some(area) = is_head.then(|| Area::head(&line)).flatten() {
            if area.pages.start >= pages.end {
                break;
            }
            inside = area.pages.end > pages.start;
            found.extend(inside.then_some(area));
        } else if let (true, Some(area)) = (inside, found.last_mut()) {
            area.learn(&line);
        }
    }
    found
}

/// A file of `/proc` about this process. That of `/proc/self` is about its main thread, and empty
/// when the program has ended that one by `pthread_exit`.
fn path_of(name: &str) -> String {
    format!("/proc/thread-self/{name}")
}

fn of_file(name: &str, pages: &Range<usize>) -> Result<Vec<Area>> {
    let path = path_of(name);
    let opened = std::fs::File::open(&path).and_then(lifted);
    let file = opened.map_err(|cause| {
        let what = format!("{path} cannot be read, so nobody can say what this memory is");
        Error::system(
            what,
            &cause,
            "mount /proc, or take memory from koloMemAlloc",
        )
    })?;
    Ok(read(BufReader::with_capacity(1 << 16, file), pages))
}

/// The mappings that hold bytes of `pages`, with their flags.
pub(super) fn with_flags(pages: &Range<usize>) -> Result<Vec<Area>> {
    of_file("smaps", pages)
}

/// The mappings that hold bytes of `pages`, without their flags, which is cheaper.
pub(super) fn plain(pages: &Range<usize>) -> Result<Vec<Area>> {
    of_file("maps", pages)
}

/// Of the whole pages `inner` of a buffer, what is to be moved: all but what lies in our file in
/// place already. The pages around them, up to `hull`, stay where they are.
///
/// # Errors
/// `InvalidArgument` naming the first part that is not memory, or may not be moved, and why.
pub(super) fn movable(
    areas: &[Area],
    (hull, inner): (&Range<usize>, &Range<usize>),
    ours: FileIdentity,
) -> Result<Vec<Range<usize>>> {
    let mut to_move = Vec::new();
    let mut at = hull.start;
    for area in areas {
        let part = area.pages.start.max(at)..area.pages.end.min(hull.end);
        if part.start > at {
            return refuse(&(at..part.start), "is not mapped");
        }
        if !area.rights.starts_with('r') {
            let why = format!("has the access rights {}, not rw-p", area.rights);
            return refuse(&part, &why);
        }
        at = part.end;
        let whole = part.start.max(inner.start)..part.end.min(inner.end);
        if whole.is_empty() || area.is_in_place(ours) && area.is_shared() {
            continue;
        }
        if let Some(why) = area.objection(ours) {
            return refuse(&whole, &why);
        }
        if area.flags.is_empty() {
            let why = "has no flags in /proc/self/smaps, by which to judge it";
            return refuse(&whole, why);
        }
        to_move.push(whole);
    }
    match at < hull.end {
        true => refuse(&(at..hull.end), "is not mapped"),
        false => Ok(to_move),
    }
}

fn refuse<T>(part: &Range<usize>, why: &str) -> Result<T> {
    let what = format!(
        "the memory at {:#x} ({} bytes of the pages of the buffer) {why}",
        part.start,
        part.len()
    );
    Err(Error::argument(what, REMEDY))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: FileIdentity = FileIdentity {
        device: (0, 1),
        inode: 77,
    };
    const SMAPS: &str = "\
00001000-00003000 rw-p 00000000 00:00 0                                  [heap]
Size:                  8 kB
ProtectionKey:         0
VmFlags: rd wr mr mw me ac sd 
00003000-00005000 rw-s 00003000 00:01 77                                 /memfd:kolo (deleted)
VmFlags: rd wr sh mr mw me ms sd 
00005000-00006000 rw-p 00000000 00:00 0 
VmFlags: rd wr mr mw me ac sd 
00008000-00009000 rw-p 00000000 00:00 0 
VmFlags: rd wr mr mw me lo ac sd 
00009000-0000a000 rw-p 00002000 08:01 5                                  /bin/a program
VmFlags: rd wr mr mw me ac sd 
0000a000-0000b000 r--p 00000000 00:00 0 
VmFlags: rd mr mw me ac sd 
0000b000-0000c000 rw-p 00000000 00:00 0 
ProtectionKey:         3
VmFlags: rd wr mr mw me ac sd 
0000c000-0000d000 rw-p 00000000 00:00 0 
VmFlags: rd wr mr mw me ac zz sd 
0000d000-0000e000 rw-s 00000000 00:01 78                                 /dev/shm/a
VmFlags: rd wr sh mr mw me ms sd 
0000e000-0000f000 rw-s 00001000 00:01 77                                 /memfd:kolo (deleted)
VmFlags: rd wr sh mr mw me ms sd 
0000f000-00010000 rw-p 00000000 00:00 0                                  [stack]
VmFlags: rd wr mr mw me gd ac 
00010000-00011000 rw-p 00000000 00:00 0 
00011000-00012000 rw-p 00000000 00:00 0                                  [anon:arena]
VmFlags: rd wr mr mw me ac sd nh
";

    fn judged(pages: Range<usize>) -> Result<Vec<Range<usize>>> {
        movable(&read(SMAPS.as_bytes(), &pages), (&pages, &pages), OURS)
    }

    #[test]
    fn what_lies_in_place_is_not_moved_and_parts_are_cut_to_the_pages() {
        let moved = judged(0x2000..0x6000).unwrap();
        assert_eq!(moved, [0x2000..0x3000, 0x5000..0x6000]);
        assert!(judged(0x3000..0x5000).unwrap().is_empty());
        assert_eq!(judged(0x11000..0x12000).unwrap()[0], 0x11000..0x12000);
    }

    #[test]
    fn each_kind_that_may_not_be_moved_is_named() {
        let named = [
            (0x6000, "is not mapped"),
            (0x8000, "mlock"),
            (0x9000, "private mapping of the file /bin/a program"),
            (0xa000, "access rights r--p"),
            (0xb000, "protection key 3"),
            (0xc000, "flag `zz`"),
            (0xd000, "/dev/shm/a"),
            (0xe000, "realloc"),
            (0xf000, "is a stack"),
            (0x10000, "no flags"),
            (0x12000, "is not mapped"),
        ];
        for (start, words) in named {
            let error = judged(start..start + 0x1000).unwrap_err();
            assert!(error.what.contains(words), "{start:#x}: {error}");
            assert!(error.what.contains(&format!("{start:#x}")), "{error}");
        }
        for (flag, words) in HARMFUL {
            let text = SMAPS.replace(" ac sd \n0000800", &format!(" ac {flag} \n0000800"));
            let pages = 0x5000..0x6000;
            let error =
                movable(&read(text.as_bytes(), &pages), (&pages, &pages), OURS).unwrap_err();
            assert!(error.what.contains(words), "{flag}: {error}");
        }
    }

    #[test]
    fn a_range_that_begins_well_and_ends_badly_is_refused() {
        assert!(judged(0x5000..0x7000).is_err() && judged(0x5000..0x9000).is_err());
        assert!(judged(0x1000..0x6000).is_ok());
    }

    #[test]
    fn memory_of_this_process_is_found() {
        let boxed = Box::new([1_u8; 100]);
        let page = boxed.as_ptr() as usize / 4096 * 4096;
        let areas = with_flags(&(page..page + 4096)).unwrap();
        assert_eq!(areas.len(), 1, "{areas:?}");
        assert!(areas[0].pages.contains(&(boxed.as_ptr() as usize)));
        assert!(areas[0].flags.iter().any(|flag| flag == "wr"), "{areas:?}");
        assert_eq!(
            plain(&(page..page + 4096)).unwrap()[0].pages,
            areas[0].pages
        );
    }
}
