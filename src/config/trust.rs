//! Whose a settings file is: a setting may name a library that is loaded (`net_plugin`), so who can
//! write the file can do what its reader can.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether it is a folder above the file that this user may not enter. Of a home that belongs to
/// another (`sudo -u` keeps HOME) nobody expects to read anything.
pub(super) fn is_behind_closed_folder(path: &Path) -> bool {
    // To look at a file needs no right on the file itself.
    std::fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// A warning about a file that others may write: everybody, or an owner who is neither root nor
/// this user. Below the prefix its owner counts too, as the library itself is its owner's.
pub(super) fn foreign(path: &Path, prefix: Option<&Path>) -> Option<String> {
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
    Some(format!(
        "file {} {why}, who so decides what kolo does here (net_plugin loads a library); let it \
         belong to root or to you, and take the right to write from others (`chmod o-w`)",
        path.display()
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

#[cfg(test)]
mod tests {
    use super::unmapped_owner;

    #[test]
    fn only_a_container_with_users_of_its_own_hides_owners() {
        let whole = "         0          0 4294967295\n";
        assert_eq!(unmapped_owner(whole, "65534\n"), None);
        assert_eq!(unmapped_owner("0 1000 1\n", "65534\n"), Some(65534));
        assert_eq!(unmapped_owner("0 0 65536\n", "99\n"), Some(99));
        assert_eq!(unmapped_owner("", ""), None, "no /proc");
    }
}
