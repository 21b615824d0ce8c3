//! Reads what dead jobs have left. Others can put anything where it lies, so it is read through
//! open folders ([`kolo::base::folder`]), and no link is followed.

use super::leftovers;
use kolo::base::folder::{Folder, user};
use kolo::config::kept;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files of dead jobs of this user, and to root the segments of any dead job: paths and bytes.
pub fn left() -> Vec<(String, u64)> {
    let mut files = segments(Path::new("/dev/shm"), user());
    files.extend(kept::unfinished(&kept::places()));
    if files.is_empty() {
        return Vec::new();
    }
    let used = in_use();
    files.retain(|(path, _)| path.file_name().is_none_or(|name| !used.contains(name)));
    let told = files.into_iter();
    told.map(|(path, bytes)| (path.display().to_string(), bytes))
        .collect()
}

/// Segments of MPIs in a folder where everybody may write.
fn segments(place: &Path, uid: u32) -> Vec<(PathBuf, u64)> {
    let Some(folder) = Folder::open(place).ok().filter(Folder::is_guarded) else {
        return Vec::new();
    };
    let mut files = folder.files();
    files.retain(|(name, seen)| leftovers::is_segment(name) && (uid == 0 || seen.uid() == uid));
    let files = files.into_iter();
    files
        .map(|(name, seen)| (place.join(name), seen.len()))
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
        let both = ["sm_segment.2", "vader_segment.1"].map(|name| (place.join(name), 4));
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
