//! What kolo has found out about this machine and keeps for the next process: one small file.
//!
//! The directory may lie where everybody can write (`/tmp`), so nothing there is believed: the
//! directory and the file must be this user's alone and no links, and they are looked at through
//! the handle that is then used. What does not fit, is too large or cannot be read is as if it
//! were not there. A new file is written under a name of its own and renamed, so that a reader
//! finds the old one or the new one.

use crate::base::clock;
use std::ffi::CString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// What the first place that has a file of this name holds. If it holds for some time only, an
/// older file, or one of the future, is as if it were not there.
pub fn read(places: &[PathBuf], name: &str, holds: Option<Duration>) -> Option<String> {
    places.iter().find_map(|place| {
        let file = open(&directory(place).ok()?, name, libc::O_RDONLY).ok()?;
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
pub fn write(places: &[PathBuf], name: &str, text: &str) -> bool {
    places.iter().any(|place| {
        // That it exists already is the usual case; `directory` looks at what is there.
        let _ = DirBuilder::new().mode(0o700).create(place);
        put(place, name, text).is_ok()
    })
}

fn put(place: &Path, name: &str, text: &str) -> io::Result<()> {
    let directory = directory(place)?;
    let new = format!("{name}.{}", std::process::id());
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    let mut file = open(&directory, &new, flags)?;
    if !is_private(&file.metadata()?) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    file.write_all(text.as_bytes())?;
    let (from, to) = (c_name(&new)?, c_name(name)?);
    let fd = directory.as_raw_fd();
    // SAFETY: an open directory, and two strings that end with a zero.
    match unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The directory, if it is one, and this user's alone.
fn directory(place: &Path) -> io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let directory = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(place)?;
    match is_private(&directory.metadata()?) {
        true => Ok(directory),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

fn open(directory: &File, name: &str, flags: i32) -> io::Result<File> {
    let name = c_name(name)?;
    // A pipe in the place of the file must not make us wait.
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: an open directory, a string that ends with a zero, and the mode of a new file.
    let fd = unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, 0o600) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

fn c_name(name: &str) -> io::Result<CString> {
    CString::new(name).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Whether it belongs to this user, and nobody else may write or read it.
fn is_private(seen: &std::fs::Metadata) -> bool {
    seen.uid() == user() && seen.mode() & 0o077 == 0
}

fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

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
        assert_eq!(read(&places, "facts", None), None);
        for text in ["one", "another"] {
            assert!(write(&places, "facts", text));
            assert_eq!(read(&places, "facts", None).as_deref(), Some(text));
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
        assert!(write(&places, "facts", "true"));
        let file = place.join("facts");
        chmod(&file, 0o620);
        assert_eq!(
            read(&places, "facts", None),
            None,
            "others may write the file"
        );
        chmod(&file, 0o600);
        chmod(&place, 0o770);
        assert_eq!(read(&places, "facts", None), None, "others may write here");
        assert!(!write(&places, "facts", "new"));
        chmod(&place, 0o700);
        assert_eq!(read(&places, "facts", None).as_deref(), Some("true"));
        let elsewhere = place.with_file_name("elsewhere");
        fs::rename(&place, &elsewhere).unwrap();
        symlink(&elsewhere, &place).unwrap();
        assert_eq!(
            read(&places, "facts", None),
            None,
            "the directory is a link"
        );
        assert!(!write(&places, "facts", "new"));
        fs::remove_file(&place).unwrap();
        fs::rename(&elsewhere, &place).unwrap();
        fs::rename(&file, place.join("other")).unwrap();
        symlink(place.join("other"), &file).unwrap();
        assert_eq!(read(&places, "facts", None), None, "the file is a link");
        fs::remove_dir_all(place.parent().unwrap()).unwrap();
    }

    #[test]
    fn what_holds_for_some_time_is_not_read_later() {
        let places = [place("age")];
        assert!(write(&places, "facts", "true"));
        let hour = Duration::from_secs(3600);
        let file = File::options().write(true).open(places[0].join("facts"));
        let file = file.unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        for (written, is_read) in [
            (now - hour / 2, true),
            (now - 2 * hour, false),
            (now + hour, false),
        ] {
            file.set_modified(written).unwrap();
            assert_eq!(read(&places, "facts", Some(hour)).is_some(), is_read);
            assert!(read(&places, "facts", None).is_some());
        }
    }

    #[test]
    fn what_is_no_small_text_is_not_read() {
        let place = place("text");
        let places = [place.clone()];
        assert!(write(
            &places,
            "facts",
            &"x".repeat(MOST_BYTES as usize + 1)
        ));
        assert_eq!(read(&places, "facts", None), None);
        fs::write(place.join("facts"), [0xff; 8]).unwrap();
        assert_eq!(read(&places, "facts", None), None);
        fs::remove_file(place.join("facts")).unwrap();
        let pipe = CString::new(place.join("facts").to_str().unwrap()).unwrap();
        // SAFETY: a string that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        assert_eq!(read(&places, "facts", None), None, "a pipe");
        fs::remove_dir_all(place.parent().unwrap()).unwrap();
    }
}
