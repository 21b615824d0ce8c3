//! Folders in which other users may have planted something: `/tmp`, `/dev/shm`.
//!
//! A link in the place of a folder, a folder of somebody else, links in it to files elsewhere: a
//! path says nothing about what it leads to, and may lead elsewhere a moment later. A folder is
//! opened once, without following a link at its end. What it is, and what it holds, are asked
//! through the handle.

use super::descriptors::lifted;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// An open folder.
pub struct Folder {
    file: File,
    seen: Metadata,
}

impl Folder {
    /// Opens the folder that stands there itself, and not one behind a link.
    ///
    /// # Errors
    /// The system's, also for a link and for what is no folder.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .and_then(lifted)?;
        let seen = file.metadata()?;
        Ok(Folder { file, seen })
    }

    /// The handle, for calls that take names relative to it.
    pub fn handle(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Whether it belongs to this user, and nobody else may read or write it.
    pub fn is_private(&self) -> bool {
        is_private(&self.seen)
    }

    /// Whether it belongs to that user, and nobody else may read or write it.
    pub fn is_private_to(&self, owner: u32) -> bool {
        self.seen.uid() == owner && self.seen.mode() & 0o077 == 0
    }

    /// Whether only root, this user, and who made a file can take the file's name away: a folder
    /// of root or this user, and sticky where others may write.
    pub fn is_guarded(&self) -> bool {
        let owned = [0, user()].contains(&self.seen.uid());
        owned && (self.seen.mode() & 0o022 == 0 || self.seen.mode() & libc::S_ISVTX != 0)
    }

    /// The regular files with one name only, links not followed; names that are no text are left
    /// out. What cannot be read is as if it were not there.
    pub fn files(&self) -> Vec<(String, Metadata)> {
        // The handle's entry in /proc leads to the open folder, whatever its path leads to by now.
        let here = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let entries = std::fs::read_dir(&here).into_iter().flatten().flatten();
        let file = |entry: std::fs::DirEntry| {
            let seen = entry.metadata().ok()?;
            let name = entry.file_name().into_string().ok()?;
            (seen.is_file() && seen.nlink() == 1).then_some((name, seen))
        };
        entries.filter_map(file).collect()
    }
}

/// Whether it belongs to this user, and nobody else may write or read it.
pub fn is_private(seen: &Metadata) -> bool {
    seen.uid() == user() && seen.mode() & 0o077 == 0
}

/// The number of the user with whose rights this process runs.
pub fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn links_and_other_names_are_no_files_of_a_folder() {
        let root = std::env::temp_dir().join(format!("kolo-folder-{}", std::process::id()));
        let place = root.join("place");
        fs::create_dir_all(place.join("folder")).unwrap();
        for name in ["one", "two"] {
            fs::write(place.join(name), name).unwrap();
        }
        symlink(place.join("one"), place.join("link")).unwrap();
        fs::hard_link(place.join("two"), root.join("elsewhere")).unwrap();
        let folder = Folder::open(&place).unwrap();
        // What comes into its place meanwhile is another folder.
        fs::rename(&place, root.join("moved")).unwrap();
        symlink(root.join("moved"), &place).unwrap();
        let names: Vec<String> = folder.files().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["one"]);
        assert!(Folder::open(&place).is_err(), "a link");
        assert!(Folder::open(&root.join("elsewhere")).is_err(), "a file");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_folder_where_others_may_write_is_guarded_by_its_sticky_bit() {
        let place = std::env::temp_dir().join(format!("kolo-sticky-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        for (mode, is_guarded, is_private) in [
            (0o700, true, true),
            (0o755, true, false),
            (0o775, false, false),
            (0o777, false, false),
            (0o1777, true, false),
        ] {
            fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
            let folder = Folder::open(&place).unwrap();
            let seen = (folder.is_guarded(), folder.is_private());
            assert_eq!(seen, (is_guarded, is_private), "{mode:o}");
            assert_eq!(folder.is_private_to(user()), is_private, "{mode:o}");
            assert!(!folder.is_private_to(user() + 1), "{mode:o}");
        }
        fs::remove_dir_all(&place).unwrap();
    }
}
