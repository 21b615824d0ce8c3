//! Results about this machine that kolo keeps for the next process: one small file.
//!
//! The directory may lie where everybody can write (`/tmp`), so nothing there is believed: the
//! directory and the file must be this user's alone and no links, and they are looked at through
//! the handle that is then used. What does not fit, is too large or cannot be read is as if it
//! were not there. A new file is written under a name of its own and renamed, so that a reader
//! finds the old one or the new one.

use crate::base::clock;
use crate::base::descriptors::made;
use crate::base::folder::{Folder, is_private, user};
use std::ffi::CString;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file that may be kept. `slurm/epilog.sh` has the names, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptFile {
    /// Costs of hand-overs between the cores of this machine.
    Machine,
}

impl KeptFile {
    /// All.
    pub const ALL: [KeptFile; 1] = [KeptFile::Machine];

    /// The file's name.
    pub fn name(self) -> &'static str {
        match self {
            KeptFile::Machine => "machine",
        }
    }

    /// Its name while this process writes it.
    fn under_way(self, writer: u32) -> String {
        format!("{}.{writer}", self.name())
    }
}

/// The longest file that is read.
const MOST_BYTES: u64 = 16 << 10;

/// The places where this user's directory may be, best first.
pub fn places() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute());
    let shared = PathBuf::from(format!("/tmp/kolo-{}", user()));
    runtime
        .map(|path| path.join("kolo"))
        .into_iter()
        .chain([shared])
        .collect()
}

/// Content of the first place that has this note. If it holds for some time only, an
/// older file, or one of the future, is as if it were not there.
pub fn read(places: &[PathBuf], note: KeptFile, holds: Option<Duration>) -> Option<String> {
    places.iter().find_map(|place| {
        let file = open(&directory(place).ok()?, note.name(), libc::O_RDONLY).ok()?;
        let seen = file.metadata().ok()?;
        if !seen.is_file() || !is_private(&seen) || seen.len() > MOST_BYTES {
            return None;
        }
        if let Some(holds) = holds
            && clock::age(seen.modified().ok()?)? > holds
        {
            return None;
        }
        let mut text = String::new();
        file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    })
}

/// Keeps `text` in the first place that takes it; whether one did.
pub fn write(places: &[PathBuf], note: KeptFile, text: &str) -> bool {
    places.iter().any(|place| {
        // That it exists already is the usual case; `directory` looks at what is there.
        let _ = DirBuilder::new().mode(0o700).create(place);
        put(place, note, text).is_ok()
    })
}

/// The places of other users in `/tmp`, and whose they are. Only root can look into them.
pub fn places_of_others() -> Vec<(PathBuf, u32)> {
    let owner_of = |path: &Path| {
        path.file_name()?
            .to_str()?
            .strip_prefix("kolo-")?
            .parse()
            .ok()
    };
    let found = std::fs::read_dir("/tmp").into_iter().flatten().flatten();
    let found = found.filter_map(|entry| Some((entry.path(), owner_of(&entry.path())?)));
    found.filter(|(_, owner)| *owner != user()).collect()
}

/// Notes that processes of this user were writing that have ended since: their paths and bytes.
pub fn unfinished(places: &[PathBuf]) -> Vec<(PathBuf, u64)> {
    let of_place = |place: &PathBuf| unfinished_of(place, user());
    places.iter().flat_map(of_place).collect()
}

/// Those of a user in a place.
pub fn unfinished_of(place: &Path, owner: u32) -> Vec<(PathBuf, u64)> {
    let is_dead = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
    let find = || {
        let above = Folder::open(&place.parent()?.canonicalize().ok()?).ok()?;
        let folder = Folder::open(place).ok()?;
        let is_sure = above.is_guarded() && folder.is_private_to(owner);
        let left = folder.files().into_iter().filter(|(name, seen)| {
            // The folder was private, but a file of another may have been moved there.
            seen.uid() == owner && writer_of(name).is_some_and(is_dead)
        });
        is_sure.then(|| {
            left.map(|(name, seen)| (place.join(name), seen.len()))
                .collect()
        })
    };
    find().unwrap_or_default()
}

/// The process that writes a note, by the note's name.
fn writer_of(name: &str) -> Option<u32> {
    let writer = name.rsplit_once('.')?.1.parse().ok()?;
    let is_one = |note: KeptFile| note.under_way(writer) == name;
    KeptFile::ALL.into_iter().any(is_one).then_some(writer)
}

fn put(place: &Path, note: KeptFile, text: &str) -> io::Result<()> {
    let directory = directory(place)?;
    let new = note.under_way(std::process::id());
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    let mut file = open(&directory, &new, flags)?;
    if !is_private(&file.metadata()?) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    file.write_all(text.as_bytes())?;
    let (from, to) = (c_name(&new)?, c_name(note.name())?);
    let fd = directory.handle().as_raw_fd();
    // SAFETY: an open directory, and two strings that end with a zero.
    match unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The directory, if it is one, and this user's alone.
fn directory(place: &Path) -> io::Result<Folder> {
    let directory = Folder::open(place)?;
    match directory.is_private() {
        true => Ok(directory),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

fn open(directory: &Folder, name: &str, flags: i32) -> io::Result<File> {
    let name = c_name(name)?;
    // A pipe in the place of the file must not make us wait.
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: an open directory, a string that ends with a zero, and the mode of a new file.
    let file = unsafe {
        made(libc::openat(
            directory.handle().as_raw_fd(),
            name.as_ptr(),
            flags,
            0o600,
        ))
    };
    // The descriptor is new and nobody else's.
    file.map(File::from)
}

fn c_name(name: &str) -> io::Result<CString> {
    CString::new(name).map_err(|_| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// A directory of the test's own, empty, with a place in it.
    fn place(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("kolo-kept-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).unwrap();
        root.join("kolo")
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let place = place("again");
        let places = [PathBuf::from("/proc/kolo"), place.clone()];
        assert_eq!(read(&places, KeptFile::Machine, None), None);
        for text in ["one", "another"] {
            assert!(write(&places, KeptFile::Machine, text));
            assert_eq!(
                read(&places, KeptFile::Machine, None).as_deref(),
                Some(text)
            );
        }
        let left: Vec<_> = fs::read_dir(&place).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o7777, 0o700);
        fs::remove_dir_all(place.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_others_could_have_written_is_not_believed() {
        let place = place("others");
        let places = [place.clone()];
        assert!(write(&places, KeptFile::Machine, "true"));
        let file = place.join("machine");
        chmod(&file, 0o620);
        assert_eq!(
            read(&places, KeptFile::Machine, None),
            None,
            "others may write the file"
        );
        chmod(&file, 0o600);
        chmod(&place, 0o770);
        assert_eq!(
            read(&places, KeptFile::Machine, None),
            None,
            "others may write here"
        );
        assert!(!write(&places, KeptFile::Machine, "new"));
        chmod(&place, 0o700);
        assert_eq!(
            read(&places, KeptFile::Machine, None).as_deref(),
            Some("true")
        );
        let elsewhere = place.with_file_name("elsewhere");
        fs::rename(&place, &elsewhere).unwrap();
        symlink(&elsewhere, &place).unwrap();
        assert_eq!(
            read(&places, KeptFile::Machine, None),
            None,
            "the directory is a link"
        );
        assert!(!write(&places, KeptFile::Machine, "new"));
        fs::remove_file(&place).unwrap();
        fs::rename(&elsewhere, &place).unwrap();
        fs::rename(&file, place.join("other")).unwrap();
        symlink(place.join("other"), &file).unwrap();
        assert_eq!(
            read(&places, KeptFile::Machine, None),
            None,
            "the file is a link"
        );
        fs::remove_dir_all(place.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_holds_for_some_time_is_not_read_later() {
        let places = [place("age")];
        assert!(write(&places, KeptFile::Machine, "true"));
        let hour = Duration::from_secs(3600);
        let file = File::options().write(true).open(places[0].join("machine"));
        let file = file.unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        for (written, is_read) in [
            (now - hour / 2, true),
            (now - 2 * hour, false),
            (now + hour, false),
        ] {
            file.set_modified(written).unwrap();
            assert_eq!(
                read(&places, KeptFile::Machine, Some(hour)).is_some(),
                is_read
            );
            assert!(read(&places, KeptFile::Machine, None).is_some());
        }
    }

    #[test]
    fn what_is_no_small_text_is_not_read() {
        let place = place("text");
        let places = [place.clone()];
        assert!(write(
            &places,
            KeptFile::Machine,
            &"x".repeat(MOST_BYTES as usize + 1)
        ));
        assert_eq!(read(&places, KeptFile::Machine, None), None);
        fs::write(place.join("machine"), [0xff; 8]).unwrap();
        assert_eq!(read(&places, KeptFile::Machine, None), None);
        fs::remove_file(place.join("machine")).unwrap();
        let pipe = CString::new(place.join("machine").to_str().unwrap()).unwrap();
        // SAFETY: a string that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        assert_eq!(read(&places, KeptFile::Machine, None), None, "a pipe");
        fs::remove_dir_all(place.parent().unwrap()).unwrap();
    }

    #[test]
    fn only_notes_of_dead_processes_in_a_private_place_are_unfinished() {
        let dead = "machine.4194000";
        let place = place("unfinished");
        let places = [place.clone()];
        assert!(write(&places, KeptFile::Machine, "true"));
        let mine = format!("machine.{}", std::process::id());
        let others = [
            "restart.000100",
            "machine.04194000",
            "libm.so.6",
            "machine.1.4194000",
        ];
        for name in others.iter().chain([&dead, &mine.as_str()]) {
            fs::write(place.join(name), "four").unwrap();
            chmod(&place.join(name), 0o600);
        }
        symlink(place.join("restart.000100"), place.join("machine.4194001")).unwrap();
        let found = [(place.join(dead), 4)];
        assert_eq!(unfinished(&places), found);
        // Others could have put it there.
        chmod(&place, 0o777);
        assert_eq!(unfinished(&places), []);
        chmod(&place, 0o700);
        // Others could have put the place there.
        let root = place.parent().unwrap();
        chmod(root, 0o777);
        assert_eq!(unfinished(&places), []);
        chmod(root, 0o1777);
        assert_eq!(unfinished(&places), found);
        let link = root.join("link");
        symlink(&place, &link).unwrap();
        assert_eq!(unfinished(&[link]), []);
        // Root finds those of others, in a folder and in files that are theirs.
        let other = user() + 1;
        assert_eq!(unfinished_of(&place, other), []);
        let given = |path: &Path| chown(path, Some(other), None).is_ok();
        if given(&place) {
            assert_eq!(unfinished_of(&place, other), [], "a file of root in it");
            assert!(given(&place.join(dead)));
            assert_eq!(unfinished_of(&place, other), found);
            assert_eq!(unfinished(&places), []);
        }
        fs::remove_dir_all(root).unwrap();
    }
}
