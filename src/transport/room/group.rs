//! Memory that the limits of the control groups leave.
//!
//! A process belongs to a group, and is limited by all groups above it as well; the tightest one
//! counts (Linux `Documentation/admin-guide/cgroup-v2.rst`, `memory.max`; for version 1
//! `cgroup-v1/memory.rst`). What a group uses includes copies of files, and what the system itself
//! remembers of files, both of which it gives back when memory is short; those count as left.
//! Swap space does not: memory that goes there comes back slowly.

use std::path::{Path, PathBuf};

/// Limit of the tightest group, and what it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub limit: u64,
    /// Bytes until the limit.
    pub left: u64,
    /// The group, as a directory.
    pub name: String,
}

/// The group that leaves least; `None` where no limit can be seen.
pub(super) fn tightest() -> Option<Room> {
    tightest_of(&|path| std::fs::read_to_string(path).ok())
}

/// The text of a file, if it can be read.
type Text<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// The names of a version's files.
struct Names {
    limit: &'static str,
    usage: &'static str,
    /// Lines of `memory.stat` whose sum is what the system can take back.
    returnable: &'static [&'static str],
}

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    returnable: &["total_inactive_file", "total_active_file"],
};
const VERSION_2: Names = Names {
    limit: "memory.max",
    usage: "memory.current",
    returnable: &["inactive_file", "active_file", "slab_reclaimable"],
};

fn tightest_of(text: Text) -> Option<Room> {
    let mounts = text(Path::new("/proc/self/mountinfo"))?;
    let groups = text(Path::new("/proc/self/cgroup"))?;
    let mut tightest: Option<Room> = None;
    for line in groups.lines() {
        let Some((names, group)) = membership(line) else {
            continue;
        };
        let is_first = names.limit == VERSION_1.limit;
        let found = mounts.lines().find_map(|line| mount(line, is_first));
        let Some((root, point)) = found else { continue };
        // In a namespace of its own a group may lie outside of the mount; then its top is used.
        let below = Path::new(group).strip_prefix(&root);
        let bottom = point.join(below.unwrap_or(Path::new("")));
        let chain = bottom.ancestors().take_while(|at| at.starts_with(&point));
        for directory in chain {
            let room = room(text, names, directory);
            tightest = match (tightest, room) {
                (Some(old), Some(new)) if new.left >= old.left => Some(old),
                (old, None) => old,
                (_, new) => new,
            };
        }
    }
    tightest
}

/// Which version a line of `/proc/self/cgroup` is about, and the group.
fn membership(line: &str) -> Option<(&'static Names, &str)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?);
    if controllers.is_empty() {
        return Some((&VERSION_2, group));
    }
    let is_memory = controllers.split(',').any(|one| one == "memory");
    is_memory.then_some((&VERSION_1, group))
}

/// The group that a mount shows, and where, if it is one of the hierarchy sought (proc(5)).
fn mount(line: &str, is_first: bool) -> Option<(PathBuf, PathBuf)> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, point) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let is_sought = match right.next()? {
        "cgroup2" => !is_first,
        "cgroup" => is_first && right.nth(1)?.split(',').any(|one| one == "memory"),
        _ => false,
    };
    is_sought.then(|| (PathBuf::from(root), PathBuf::from(point)))
}

fn room(text: Text, names: &Names, directory: &Path) -> Option<Room> {
    let number = |name: &str| {
        let text = text(&directory.join(name))?;
        text.trim().parse::<u64>().ok()
    };
    // "max" is no number.
    let (limit, usage) = (number(names.limit)?, number(names.usage)?);
    let statistics = text(&directory.join("memory.stat")).unwrap_or_default();
    let lines = statistics.lines().filter_map(|line| line.split_once(' '));
    let returnable = lines
        .filter(|(name, _)| names.returnable.contains(name))
        .filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok());
    let returnable: u64 = returnable.sum();
    Some(Room {
        limit,
        left: limit.saturating_sub(usage.saturating_sub(returnable)),
        name: directory.display().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn read(files: &[(&str, &str)]) -> Option<Room> {
        let files: HashMap<PathBuf, String> = files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), text.to_string()))
            .collect();
        tightest_of(&|path| files.get(path).cloned())
    }

    #[test]
    fn the_tightest_group_of_version_2_counts_and_what_can_be_taken_back_does_not() {
        let mut files = vec![
            (
                "/proc/self/mountinfo",
                "30 1 0:9 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            ),
            ("/proc/self/cgroup", "0::/job/step\n"),
            ("/sys/fs/cgroup/job/step/memory.max", "max\n"),
            ("/sys/fs/cgroup/job/step/memory.current", "500\n"),
        ];
        assert_eq!(read(&files), None);
        files.extend([
            ("/sys/fs/cgroup/job/memory.max", "1000\n"),
            ("/sys/fs/cgroup/job/memory.current", "900\n"),
            (
                "/sys/fs/cgroup/job/memory.stat",
                "anon 5\ninactive_file 100\nactive_file 20\nshmem 7\n\
                 slab_reclaimable 30\nslab_unreclaimable 9\nslab 39\n",
            ),
        ]);
        let room = read(&files).expect("a limit");
        assert_eq!((room.limit, room.left), (1000, 250));
        assert_eq!(room.name, "/sys/fs/cgroup/job");
    }

    #[test]
    fn version_1_in_a_namespace_of_its_own() {
        let room = read(&[
            (
                "/proc/self/mountinfo",
                "30 1 0:9 /docker/a /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                 35 1 0:9 /docker/a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            ),
            ("/proc/self/cgroup", "4:memory:/docker/a\n0::/\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "5000\n"),
        ]);
        assert_eq!(room.map(|room| (room.limit, room.left)), Some((4096, 0)));
        assert_eq!(read(&[("/proc/self/cgroup", "0::/\n")]), None);
    }
}
