//! Where kolo is installed: the directory above the `lib/` or `bin/` that holds the running code.
//!
//! The code may be in `libkolo.so`, in the `kolo` program, or linked into somebody's executable.
//! The kernel's list of mappings names the file that an address belongs to in all three cases.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The directory above the `lib/` or `bin/` that holds this code, e.g. `/opt/kolo`; `None` where it
/// runs from elsewhere, such as a build directory.
pub fn install_prefix() -> Option<PathBuf> {
    // The list grows with every mapping, and running code stays where it is.
    static KNOWN: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let maps = std::fs::read_to_string("/proc/thread-self/maps").ok()?;
        let here = install_prefix as fn() -> Option<PathBuf> as usize;
        prefix_of(&file_of(&maps, here)?)
    };
    KNOWN.get_or_init(find).clone()
}

/// Where a file of kolo's own is installed, which no program is linked to; it need not be there.
pub fn installed(file: &str) -> Option<PathBuf> {
    install_prefix().map(|prefix| prefix.join("lib/kolo").join(file))
}

/// The file that `address` is mapped from. A line of `maps` is
/// `from-to permissions offset device inode path`, and the path may hold blanks.
fn file_of(maps: &str, address: usize) -> Option<PathBuf> {
    let line = maps.lines().find(|line| {
        let range = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        let bounds = range.and_then(|(from, to)| {
            Some(usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?)
        });
        bounds.is_some_and(|bounds| bounds.contains(&address))
    })?;
    let path = &line[line.find('/')?..];
    // The kernel marks a file that was replaced while the program runs, as an update does.
    Some(PathBuf::from(
        path.strip_suffix(" (deleted)").unwrap_or(path),
    ))
}

fn prefix_of(file: &Path) -> Option<PathBuf> {
    const HOLDERS: [&str; 3] = ["bin", "lib", "lib64"];
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_string);
    let mut directory = file.parent()?;
    // Debian and its relatives put libraries into lib/x86_64-linux-gnu.
    if name(directory)?.contains("-linux-") {
        directory = directory.parent()?;
    }
    let holds = HOLDERS.contains(&name(directory)?.as_str());
    directory.parent().filter(|_| holds).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_above_lib_or_bin() {
        let prefix = |file| prefix_of(Path::new(file));
        let some = |path| Some(PathBuf::from(path));
        assert_eq!(prefix("/opt/kolo/lib/libkolo.so.0"), some("/opt/kolo"));
        assert_eq!(prefix("/opt/kolo/lib64/libkolo.so.0"), some("/opt/kolo"));
        assert_eq!(
            prefix("/usr/lib/x86_64-linux-gnu/libkolo.so.0"),
            some("/usr")
        );
        assert_eq!(prefix("/opt/my kolo/bin/kolo"), some("/opt/my kolo"));
        assert_eq!(prefix("/bin/kolo"), some("/"));
        assert_eq!(prefix("/home/u/kolo/target/debug/kolo"), None);
        assert_eq!(prefix("/kolo"), None);
    }

    #[test]
    fn the_mapping_that_holds_an_address() {
        let maps = "1000-2000 r--p 00000000 08:01 11 /opt/a b/lib/x.so\n\
                    2000-3000 r-xp 00001000 08:01 11 /opt/a b/lib/x.so (deleted)\n\
                    3000-4000 rw-p 00000000 00:00 0 \n";
        let file = Some(PathBuf::from("/opt/a b/lib/x.so"));
        assert_eq!(file_of(maps, 0x1000), file);
        assert_eq!(file_of(maps, 0x2fff), file);
        assert_eq!(file_of(maps, 0x3000), None);
        assert_eq!(file_of(maps, 0x4000), None);
    }

    #[test]
    fn this_test_finds_its_own_file() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let own = file_of(&maps, install_prefix as fn() -> Option<PathBuf> as usize).unwrap();
        assert_eq!(own, std::env::current_exe().unwrap());
    }
}
