//! How much processor time the container may use: the CPU quota of cgroups.
//!
//! A container with 64 processors in its binding may still be allowed the time of two: the quota
//! (Linux `Documentation/admin-guide/cgroup-v2.rst`, `cpu.max`; for version 1
//! `scheduler/sched-bwc.rst`) stops all its threads for the rest of a period when the time is used
//! up. A library that spins on 64 processors would stand still most of the time.
//!
//! A process belongs to one group of each hierarchy and is limited by all groups above it as well;
//! the tightest one counts.

use crate::base::hash::fnv1a;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A limit on processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Thousandths of one processor's time.
    pub millicpus: u32,
    /// Which group has the limit: processes of one machine with equal numbers share it.
    pub group: u64,
}

impl Quota {
    /// The limit in whole processors, rounded up: half a processor still runs one thread.
    pub fn cpus(self) -> u32 {
        self.millicpus.div_ceil(1000)
    }
}

/// The file system, or a made-up one in tests.
pub(super) trait Files {
    /// The text of a file, if it can be read.
    fn text(&self, path: &Path) -> Option<String>;
    /// A number that is the same for all processes that look at the same directory.
    fn identity(&self, path: &Path) -> u64;
}

/// The real file system.
pub(super) struct RealFiles;

impl Files for RealFiles {
    fn text(&self, path: &Path) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }

    fn identity(&self, path: &Path) -> u64 {
        use std::os::unix::fs::MetadataExt;
        // Names differ between containers that see the same group; device and inode do not.
        let key = match std::fs::metadata(path) {
            Ok(data) => format!("{}:{}", data.dev(), data.ino()),
            Err(_) => path.display().to_string(),
        };
        fnv1a(key.as_bytes())
    }
}

/// The tightest quota over this process; `None` where there is none or no cgroup can be seen.
pub fn quota() -> Option<Quota> {
    quota_from(&RealFiles)
}

/// The tightest quota that these files tell of.
pub(super) fn quota_from(files: &impl Files) -> Option<Quota> {
    let mounts = files.text(Path::new("/proc/self/mountinfo"))?;
    let groups = files.text(Path::new("/proc/self/cgroup"))?;
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::read).collect();
    let mut tightest: Option<Quota> = None;
    for (version, path) in groups.lines().filter_map(membership) {
        let Some(mount) = mounts.iter().find(|mount| mount.version == version) else {
            continue;
        };
        for directory in mount.chain(path) {
            if let Some(millicpus) = limit(files, version, &directory)
                && tightest.is_none_or(|quota| millicpus < quota.millicpus)
            {
                let group = files.identity(&directory);
                tightest = Some(Quota { millicpus, group });
            }
        }
    }
    tightest
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A mounted cgroup hierarchy that has the CPU controller.
struct Mount {
    version: Version,
    /// The group that the mount point shows.
    root: String,
    point: PathBuf,
}

impl Mount {
    /// Reads a line of `/proc/self/mountinfo` (proc(5)).
    fn read(line: &str) -> Option<Mount> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let version = match right.next()? {
            "cgroup2" => Version::Two,
            "cgroup" if right.nth(1)?.split(',').any(|option| option == "cpu") => Version::One,
            _ => return None,
        };
        Some(Mount {
            version,
            root: unescaped(root),
            point: PathBuf::from(unescaped(point)),
        })
    }

    /// The directories of the group and of all groups above it that the mount shows.
    fn chain(&self, group: &str) -> Vec<PathBuf> {
        // In a namespace of its own a group may lie outside of the mount; then its top is used.
        let below = Path::new(group)
            .strip_prefix(&self.root)
            .unwrap_or(Path::new(""));
        let outside = below.components().any(|part| part.as_os_str() == "..");
        let below = if outside { Path::new("") } else { below };
        below
            .ancestors()
            .map(|part| self.point.join(part))
            .collect()
    }
}

/// Reads a line of `/proc/self/cgroup` (cgroups(7)) if it is about processor time.
fn membership(line: &str) -> Option<(Version, &str)> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    match controllers {
        "" => Some((Version::Two, path)),
        _ if controllers.split(',').any(|name| name == "cpu") => Some((Version::One, path)),
        _ => None,
    }
}

/// The limit of one group in thousandths of a processor, rounded up.
fn limit(files: &impl Files, version: Version, directory: &Path) -> Option<u32> {
    let number =
        |name: &str| -> Option<u64> { files.text(&directory.join(name))?.trim().parse().ok() };
    let (quota, period) = match version {
        Version::Two => {
            let text = files.text(&directory.join("cpu.max"))?;
            let mut words = text.split_whitespace();
            // `max` is no number: no limit.
            let quota: u64 = words.next()?.parse().ok()?;
            (
                quota,
                words
                    .next()
                    .map_or(Some(100_000), |word| word.parse().ok())?,
            )
        }
        // -1 is no limit, and does not parse as an unsigned number.
        Version::One => (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?),
    };
    if quota == 0 || period == 0 {
        return None;
    }
    let milli = (u128::from(quota) * 1000).div_ceil(u128::from(period));
    Some(u32::try_from(milli).unwrap_or(u32::MAX))
}

/// Undoes the octal escapes of mountinfo (`\040` is a blank).
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut result = parts.next().unwrap_or("").to_owned();
    for part in parts {
        match part
            .get(..3)
            .and_then(|octal| u8::from_str_radix(octal, 8).ok())
        {
            Some(byte) => {
                result.push(char::from(byte));
                result.push_str(&part[3..]);
            }
            None => {
                result.push('\\');
                result.push_str(part);
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    struct Made(HashMap<&'static str, &'static str>);

    impl Files for Made {
        fn text(&self, path: &Path) -> Option<String> {
            self.0.get(path.to_str()?).map(|text| (*text).to_owned())
        }

        fn identity(&self, path: &Path) -> u64 {
            path.to_str().unwrap().len() as u64
        }
    }

    fn quota_of(files: &[(&'static str, &'static str)]) -> Option<Quota> {
        quota_from(&Made(files.iter().copied().collect()))
    }

    const V2_MOUNT: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
    const V1_MOUNTS: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpuset rw shared:9 - cgroup cgroup rw,cpuset\n\
        33 31 0:30 /docker/abc /sys/fs/cgroup/cpu\\040time rw - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn the_tightest_group_of_version_two_counts() {
        let found = quota_of(&[
            ("/proc/self/mountinfo", V2_MOUNT),
            ("/proc/self/cgroup", "0::/job/step/task\n"),
            ("/sys/fs/cgroup/job/cpu.max", "250000 100000\n"),
            ("/sys/fs/cgroup/job/step/cpu.max", "800000 100000\n"),
            ("/sys/fs/cgroup/job/step/task/cpu.max", "max 100000\n"),
        ]);
        let group = "/sys/fs/cgroup/job".len() as u64;
        assert_eq!(
            found,
            Some(Quota {
                millicpus: 2500,
                group
            })
        );
        assert_eq!(found.unwrap().cpus(), 3, "rounded up");
    }

    #[test]
    fn version_one_in_a_container() {
        let found = quota_of(&[
            ("/proc/self/mountinfo", V1_MOUNTS),
            (
                "/proc/self/cgroup",
                "5:cpuset:/\n4:cpu,cpuacct:/docker/abc\n0::/docker/abc\n",
            ),
            ("/sys/fs/cgroup/cpu time/cpu.cfs_quota_us", "50000\n"),
            ("/sys/fs/cgroup/cpu time/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(
            found.map(|quota| (quota.millicpus, quota.cpus())),
            Some((500, 1))
        );
    }

    #[test]
    fn the_top_of_a_namespace_is_read() {
        let found = quota_of(&[
            ("/proc/self/mountinfo", V2_MOUNT),
            ("/proc/self/cgroup", "0::/../other\n"),
            ("/sys/fs/cgroup/cpu.max", "400000 100000\n"),
        ]);
        assert_eq!(found.map(Quota::cpus), Some(4));
    }

    #[test]
    fn no_limit_and_nonsense_are_no_quota() {
        let v2 = |text| {
            quota_of(&[
                ("/proc/self/mountinfo", V2_MOUNT),
                ("/proc/self/cgroup", "0::/\n"),
                ("/sys/fs/cgroup/cpu.max", text),
            ])
        };
        assert_eq!(
            v2("100000\n").map(Quota::cpus),
            Some(1),
            "the period has a default"
        );
        for text in ["max 100000\n", "", "0 100000", "5 0", "many 3", "-5 100000"] {
            assert_eq!(v2(text), None, "{text:?}");
        }
        assert_eq!(
            v2("18446744073709551615 1").map(|q| q.millicpus),
            Some(u32::MAX)
        );
        assert_eq!(quota_of(&[]), None);
        let v1 = quota_of(&[
            ("/proc/self/mountinfo", V1_MOUNTS),
            ("/proc/self/cgroup", "4:cpu:/docker/abc\n"),
            ("/sys/fs/cgroup/cpu time/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu time/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(v1, None);
    }
}
