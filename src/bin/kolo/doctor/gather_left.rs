//! Reads what dead jobs have left. Others can put anything where it lies, so it is read through
//! open folders ([`kolo::base::folder`]), and no link is followed.

use super::facts::LeftFile;
use super::leftovers;
use kolo::base::folder::{Folder, user};
use kolo::config::kept;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files that dead jobs have left.
#[derive(Debug, Default, PartialEq)]
pub struct Left {
    /// Files of this user, and to root those of any dead job.
    pub removable: Vec<LeftFile>,
    /// Segments of others that a root of a container sees and cannot remove; nor does it see who
    /// has them open.
    pub foreign: Vec<LeftFile>,
}

/// Looks for them.
pub fn left() -> Left {
    let rights = Rights::of_process();
    let mut files = segments(Path::new("/dev/shm"), rights.uid);
    let own = kept::unfinished(&kept::places()).into_iter();
    files.extend(own.map(|(path, bytes)| (path, bytes, rights.uid)));
    if rights.uid == 0 {
        for (place, owner) in kept::places_of_others() {
            let left = kept::unfinished_of(&place, owner).into_iter();
            files.extend(left.map(|(path, bytes)| (path, bytes, owner)));
        }
    }
    if files.is_empty() {
        return Left::default();
    }
    let used = in_use();
    files.retain(|(path, ..)| path.file_name().is_none_or(|name| !used.contains(name)));
    let (removable, foreign): (Vec<_>, Vec<_>) = files
        .into_iter()
        .partition(|(.., owner)| rights.may_remove(*owner));
    let file = |(path, bytes, owner): (PathBuf, u64, u32)| LeftFile {
        path: path.display().to_string(),
        bytes,
        owner,
        is_own: owner == rights.uid,
    };
    let told = |files: Vec<(PathBuf, u64, u32)>| files.into_iter().map(file).collect();
    Left {
        removable: told(removable),
        foreign: told(foreign),
    }
}

/// Who this process is, where it comes to files of others.
struct Rights {
    uid: u32,
    /// Whether it may remove files of other users from a folder of all.
    is_fowner: bool,
    /// `/proc/self/uid_map`: users of this container, of those outside, and how many.
    map: String,
}

impl Rights {
    fn of_process() -> Rights {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Rights {
            uid: user(),
            is_fowner: is_fowner(&status),
            map: fs::read_to_string("/proc/self/uid_map").unwrap_or_default(),
        }
    }

    /// Whether it may remove a segment of this user.
    fn may_remove(&self, owner: u32) -> bool {
        owner == self.uid || self.uid == 0 && self.is_fowner && self.knows(owner)
    }

    /// Whether a user is one of this container, and not one outside of it, as whom all of those are
    /// shown.
    fn knows(&self, owner: u32) -> bool {
        /// `kernel.overflowuid` as it is everywhere.
        const OUTSIDE: u32 = 65_534;
        let mut lines = self.map.lines().map(|line| {
            let mut numbers = line.split_whitespace().map(|word| word.parse::<u32>());
            let mut next = || numbers.next()?.ok();
            Some((next()?, next()?, next()?))
        });
        // Without a map there is no container.
        self.map.trim().is_empty()
            || lines.any(|line| match line {
                Some((0, 0, u32::MAX)) => true,
                Some((first, _, count)) => {
                    owner != OUTSIDE && (first..first.saturating_add(count)).contains(&owner)
                }
                None => false,
            })
    }
}

/// Whether `/proc/self/status` shows CAP_FOWNER in force.
fn is_fowner(status: &str) -> bool {
    const CAP_FOWNER: u64 = 3;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.map(|bits| u64::from_str_radix(bits.trim(), 16));
    // What is not told is taken to be as it mostly is.
    !matches!(bits, Some(Ok(bits)) if bits >> CAP_FOWNER & 1 == 0)
}

/// Segments of MPIs in a folder where everybody may write: path, bytes and owner.
fn segments(place: &Path, uid: u32) -> Vec<(PathBuf, u64, u32)> {
    let Some(folder) = Folder::open(place).ok().filter(Folder::is_guarded) else {
        return Vec::new();
    };
    let mut files = folder.files();
    files.retain(|(name, seen)| leftovers::is_segment(name) && (uid == 0 || seen.uid() == uid));
    let files = files.into_iter();
    files
        .map(|(name, seen)| (place.join(name), seen.len(), seen.uid()))
        .collect()
}

/// Names of files that processes have open or mapped, as far as this one may look, without their
/// folders: a process in a container may see the same file elsewhere.
fn in_use() -> HashSet<OsString> {
    let mut used = HashSet::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for folder in processes.map(|entry| entry.path()) {
        // A name that is no text must not hide the others.
        let maps = fs::read(folder.join("maps")).unwrap_or_default();
        let paths = maps.split(|&byte| byte == b'\n').filter_map(|line| {
            let at = line.iter().rposition(|&byte| byte == b'/')?;
            line.get(at + 1..)
        });
        used.extend(paths.map(|name| OsString::from_vec(name.to_vec())));
        let open = fs::read_dir(folder.join("fd"));
        let open = open.into_iter().flatten().flatten();
        let targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        used.extend(targets.filter_map(|path| Some(path.file_name()?.to_owned())));
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn links_in_the_place_of_segments_are_none() {
        let root = std::env::temp_dir().join(format!("kolo-segments-{}", std::process::id()));
        let (place, results) = (root.join("shm"), root.join("results"));
        for folder in [&place, &results] {
            fs::create_dir_all(folder).unwrap();
            for name in ["vader_segment.1", "sm_segment.2", "mine", "kolo-mine"] {
                fs::write(folder.join(name), "four").unwrap();
            }
        }
        symlink(results.join("mine"), place.join("ucx_shm_link")).unwrap();
        symlink(&results, place.join("psm2_shm.folder")).unwrap();
        fs::hard_link(results.join("mine"), place.join("mpich_shm.other")).unwrap();
        let found = |place: &Path, uid| {
            let mut found = segments(place, uid);
            found.sort();
            found
        };
        let both = ["sm_segment.2", "vader_segment.1"].map(|name| (place.join(name), 4, user()));
        fs::set_permissions(&place, fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(found(&place, user()), both);
        assert_eq!(found(&place, user() + 1), []);
        // Where everybody takes away names, none is anybody's.
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(found(&place, user()), []);
        let link = root.join("link");
        symlink(&results, &link).unwrap();
        assert_eq!(found(&link, user()), []);
        fs::remove_dir_all(&root).unwrap();
    }

    /// Root of a container sees segments of users outside of it, and removes none of them.
    #[test]
    fn what_somebody_may_remove_is_known() {
        let rights = |uid, status: &str, map: &str| Rights {
            uid,
            is_fowner: is_fowner(status),
            map: map.into(),
        };
        let (able, unable) = ("CapEff:\t00000000a80425fb\n", "CapPrm:\tff\nCapEff:\t0\n");
        let (host, rootless) = ("0 0 4294967295\n", "0 1000 1\n1 100000 65536\n");
        let removes = |rights: Rights| [0, 7, 1000, 65_534].map(|one| rights.may_remove(one));
        assert_eq!(removes(rights(0, able, host)), [true; 4]);
        assert_eq!(removes(rights(0, "", "")), [true; 4], "nothing is told");
        assert_eq!(
            removes(rights(0, unable, host)),
            [true, false, false, false]
        );
        assert_eq!(
            removes(rights(0, able, rootless)),
            [true, true, true, false]
        );
        assert_eq!(
            removes(rights(0, able, "0 1000 1\n")),
            [true, false, false, false]
        );
        assert_eq!(
            removes(rights(1000, able, host)),
            [false, false, true, false]
        );
    }

    /// Names of files are any bytes; one that is no text must not hide the others.
    #[test]
    fn what_is_mapped_is_in_use_beside_a_name_that_is_no_text() {
        use std::os::fd::AsRawFd;
        use std::os::unix::ffi::OsStrExt;
        let folder = std::env::temp_dir().join(format!("kolo-mapped-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for name in [&b"no\xfftext"[..], b"a segment"] {
            let path = folder.join(OsStr::from_bytes(name));
            fs::write(&path, [1; 4096]).unwrap();
            let file = fs::File::open(&path).unwrap();
            let (fd, null) = (file.as_raw_fd(), std::ptr::null_mut());
            // SAFETY: a new mapping of a file of this test, which nobody reads.
            let at = unsafe { libc::mmap(null, 4096, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
            assert_ne!(at, libc::MAP_FAILED);
        }
        assert!(in_use().contains(OsStr::new("a segment")));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_open_is_in_use() {
        let path = std::env::temp_dir().join(format!("kolo-in-use-{}", std::process::id()));
        let file = fs::File::create(&path).unwrap();
        let name = path.file_name().unwrap();
        assert!(in_use().contains(name));
        drop(file);
        assert!(!in_use().contains(name));
        fs::remove_file(&path).unwrap();
    }
}
