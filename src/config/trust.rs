//! Whose a settings file is: a setting may name a library that is loaded (`net_plugin`), so who can
//! write the file can do what its reader can.

use super::source::{FileSeen, Layer};
use crate::base::Error;
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Faults of how these files lie there, whatever they say: others may write one, or only root can
/// read one of the site.
pub fn faults_of_files(files: &[FileSeen], prefix: Option<&Path>) -> Vec<Error> {
    let found = || files.iter().filter(|file| file.found);
    let foreign = found().filter_map(|file| foreign(&file.path, prefix));
    foreign.chain(unread(files, prefix)).collect()
}

/// A fault for each file of the site that root alone can read: root sees no mistake, and every job
/// of a user fails. To anybody else the file would be one that cannot be read.
pub(super) fn unread(files: &[FileSeen], prefix: Option<&Path>) -> Vec<Error> {
    // SAFETY: takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        return Vec::new();
    }
    let of_site = files
        .iter()
        .filter(|one| one.found && one.layer.is_of_site());
    of_site
        .filter_map(|file| hidden(&file.path, prefix.filter(|_| file.layer == Layer::Prefix)))
        .collect()
}

/// A fault where not even a group can read the file, or enter a folder that leads to it. Of an
/// installation only what is inside counts: where others cannot come to it, they do not use it.
fn hidden(path: &Path, prefix: Option<&Path>) -> Option<Error> {
    let is_closed = |place: &Path, right: u32| {
        let Ok(found) = std::fs::metadata(place) else {
            return false;
        };
        let of_group = found.gid() != 0 && found.mode() & (right << 3) != 0;
        found.mode() & right == 0 && !of_group && !has_access_list(place)
    };
    let refuse = |why: String, fix: String| {
        let what = format!(
            "file {} holds settings of all users, and only root can read it: {why}",
            path.display()
        );
        Some(Error::usage(what, fix))
    };
    if is_closed(path, 0o4) {
        let mode = std::fs::metadata(path).map_or(0, |found| found.mode() & 0o7777);
        let fix = format!("`chmod a+r {}`", path.display());
        return refuse(format!("its mode is {mode:04o}"), fix);
    }
    let inside = |folder: &&Path| {
        let is_above = prefix.is_some_and(|prefix| prefix.starts_with(folder));
        !is_above && !folder.as_os_str().is_empty()
    };
    let closed = path.ancestors().skip(1).filter(inside);
    let closed = closed.filter(|folder| is_closed(folder, 0o1)).last()?;
    let fix = format!("`chmod a+x {}`", closed.display());
    refuse(format!("others may not enter {}", closed.display()), fix)
}

/// Whether a list says who else has rights on it (acl(5)).
fn has_access_list(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let list = c"system.posix_acl_access";
    // SAFETY: both names end with a zero byte, and of no bytes none is written.
    unsafe { libc::getxattr(name.as_ptr(), list.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// Whether it is a folder above the file that this user may not enter. Of a home that belongs to
/// another (`sudo -u` keeps HOME) nobody expects to read anything.
pub(super) fn is_behind_closed_folder(path: &Path) -> bool {
    // To look at a file needs no right on the file itself.
    std::fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// The fault of a file that others may write: everybody, or an owner who is neither root nor
/// this user. Below the prefix its owner counts too, as the library itself is its owner's.
pub(super) fn foreign(path: &Path, prefix: Option<&Path>) -> Option<Error> {
    let file = std::fs::metadata(path).ok()?;
    // SAFETY: takes nothing.
    let me = unsafe { libc::geteuid() };
    let installed = prefix.filter(|prefix| path.starts_with(prefix));
    let owner = installed.and_then(|prefix| Some(std::fs::metadata(prefix).ok()?.uid()));
    let unmapped = unmapped_owner(
        &std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default(),
        &std::fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default(),
    );
    let why = why_foreign(&file, &[0, me, owner.unwrap_or(me), unmapped.unwrap_or(me)])?;
    Some(Error::usage(
        format!(
            "file {} {why}, who so decides what kolo does here (net_plugin loads a library)",
            path.display()
        ),
        "let it belong to root or to you, and take the right to write from others (`chmod o-w`)",
    ))
}

/// In a container with users of its own (user_namespaces(7)), the number that the owners show who
/// have none there. Root outside of it is one of them, so nothing can be said about such a file.
fn unmapped_owner(uid_map: &str, overflow: &str) -> Option<u32> {
    let mut words = uid_map.split_whitespace();
    let all = ["0", "0", "4294967295"];
    match all.iter().all(|word| words.next() == Some(word)) {
        true => None,
        false => overflow.trim().parse().ok(),
    }
}

fn why_foreign(file: &std::fs::Metadata, trusted: &[u32]) -> Option<String> {
    // Devices, such as /dev/null, hold no settings.
    match file.is_file() {
        true if file.mode() & 0o002 != 0 => Some("may be written by everybody".to_owned()),
        true if !trusted.contains(&file.uid()) => Some(format!("belongs to user {}", file.uid())),
        _ => None,
    }
}

/// A fault as a warning.
pub(super) fn warning(fault: Error) -> String {
    let parts = fault.into_parts();
    format!("{}; {}", parts.what, parts.remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_root_alone_can_read_is_known() {
        let root = std::env::temp_dir().join(format!("kolo-hidden-{}", std::process::id()));
        let folder = root.join("etc/kolo");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("kolo.toml");
        std::fs::write(&path, "").unwrap();
        let mode = |path: &Path, mode| set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let said = |prefix: Option<&Path>| {
            // What leads to the folder of temporary files is not of this test.
            let fault = hidden(&path, prefix.or(root.parent()))?.into_parts();
            Some((fault.what, fault.remedy.into_owned()))
        };
        for folder in [&root, &root.join("etc"), &folder] {
            mode(folder, 0o755);
        }
        mode(&path, 0o644);
        assert_eq!(said(None), None);
        mode(&path, 0o600);
        let (what, fix) = said(None).unwrap();
        assert!(
            what.contains("kolo.toml") && what.ends_with("its mode is 0600"),
            "{what}"
        );
        assert_eq!(fix, format!("`chmod a+r {}`", path.display()));
        mode(&path, 0o644);
        mode(&folder, 0o700);
        let (what, fix) = said(None).unwrap();
        let end = format!("others may not enter {}", folder.display());
        assert!(what.ends_with(&end), "{what}");
        assert_eq!(fix, format!("`chmod a+x {}`", folder.display()));
        // An installation that nobody else can come to hides nothing.
        mode(&folder, 0o755);
        mode(&root, 0o700);
        assert!(said(None).is_some());
        assert_eq!(said(Some(&root)), None);
        mode(&root, 0o755);
        // A group of users was let in.
        mode(&path, 0o640);
        if std::os::unix::fs::chown(&path, None, Some(12_345)).is_ok() {
            assert_eq!(said(None), None);
            std::os::unix::fs::chown(&path, None, Some(0)).unwrap();
            assert!(said(None).is_some(), "that is root's group");
        }
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn only_a_container_with_users_of_its_own_hides_owners() {
        let whole = "         0          0 4294967295\n";
        assert_eq!(unmapped_owner(whole, "65534\n"), None);
        assert_eq!(unmapped_owner("0 1000 1\n", "65534\n"), Some(65534));
        assert_eq!(unmapped_owner("0 0 65536\n", "99\n"), Some(99));
        assert_eq!(unmapped_owner("", ""), None, "no /proc");
    }
}
