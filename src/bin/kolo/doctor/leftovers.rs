//! Leftovers of dead jobs on a node.
//!
//! kolo's own memory has no name and ends with its processes. What can stay is a note that was
//! being written (`/tmp/kolo-UID`), and segments of an MPI beside kolo in /dev/shm.

use super::facts::{Gathered, LeftFile};
use super::finding::{Finding, WithFix, on_nodes};
use kolo::config;
use std::collections::BTreeMap;

/// Of so many files in a folder each is named.
const MOST_NAMED: usize = 4;

/// Files that no process has open any more: a line for each folder and user.
pub fn leftovers(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "leftovers", |node| {
        let groups = groups(&node.facts.leftovers);
        groups.iter().map(|files| of_folder(files)).collect()
    })
}

/// Lines about files that are not this user's to remove: no fault that he can mend.
pub fn notes(job: &Gathered) -> Vec<String> {
    let found = on_nodes(job, "leftovers", |node| {
        let told = |files: &Vec<&LeftFile>| {
            let what = format!(
                "files of users outside of this container, perhaps of dead jobs: {}",
                named(files)
            );
            (what, String::new())
        };
        groups(&node.facts.foreign).iter().map(told).collect()
    });
    found.iter().map(Finding::short).collect()
}

/// The files whose names can be shown, by folder and user.
fn groups(files: &[LeftFile]) -> Vec<Vec<&LeftFile>> {
    let mut groups: BTreeMap<(&str, u32), Vec<&LeftFile>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_plain(&file.path)) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        groups.entry((folder, file.owner)).or_default().push(file);
    }
    groups.into_values().collect()
}

/// Paths, or of many how many there are in which folder, with their bytes.
fn named(files: &[&LeftFile]) -> String {
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let what = match paths.as_slice() {
        [first, .., _] if paths.len() > MOST_NAMED => {
            let folder = first.rsplit_once('/').map_or("/", |(folder, _)| folder);
            format!("{} files in {folder}", paths.len())
        }
        _ => paths.join(", "),
    };
    let bytes = files.iter().map(|file| file.bytes).sum();
    format!("{what} ({})", crate::out::amount(bytes))
}

fn of_folder(files: &[&LeftFile]) -> WithFix {
    let whose = match files.iter().find(|file| !file.is_own) {
        Some(file) => format!("dead jobs of user {}", file.owner),
        None => "dead jobs".into(),
    };
    let others = files.iter().find(|file| !file.is_own && file.owner != 0);
    let fix = match others {
        // It looks at each file again, and takes no lines of a shell from names of users.
        Some(file) if files.len() > MOST_NAMED => {
            let prefix = config::install_prefix().unwrap_or_else(|| "PREFIX".into());
            let script = prefix.join("share/kolo/slurm/epilog.sh");
            format!("as root {} {}", script.display(), file.owner)
        }
        _ => {
            let quoted: Vec<String> = files.iter().map(|file| quoted(&file.path)).collect();
            format!("rm {}", quoted.join(" "))
        }
    };
    (format!("{whose} have left {}", named(files)), fix)
}

/// Whether a name can be shown. Every user may give a file any name: a terminal would obey some,
/// and others (not of text) are shown as what they are not.
fn is_plain(path: &str) -> bool {
    !path
        .chars()
        .any(|letter| letter.is_control() || letter == char::REPLACEMENT_CHARACTER)
}

/// A path as a shell takes it for one word that means nothing else.
fn quoted(path: &str) -> String {
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@%,".contains(letter);
    if path.chars().all(is_safe) {
        path.to_string()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// Names in /dev/shm that MPIs and their transports give to segments; with `*` at the end, names
/// that begin so. Those that the epilog of slurm/ removes.
const SEGMENTS: [&str; 8] = [
    "vader_segment.*",
    "sm_segment.*",
    "osc_sm.*",
    "osc_rdma*",
    "mpich_shar_tmp*",
    "mpich_shm*",
    "ucx_shm_*",
    "psm2_shm*",
];

/// Whether a file of /dev/shm is of an MPI.
pub fn is_segment(name: &str) -> bool {
    SEGMENTS
        .iter()
        .any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *pattern,
        })
}

#[cfg(test)]
mod tests {
    use super::super::samples::{healthy, lines};
    use super::*;
    use kolo::config::kept::KeptFile;

    fn file(path: &str, owner: u32) -> LeftFile {
        LeftFile {
            path: path.into(),
            bytes: 1 << 20,
            owner,
            is_own: owner == 0,
        }
    }

    #[test]
    fn segments_are_told_with_their_size() {
        let mut job = healthy(2, 1);
        assert_eq!(leftovers(&job), []);
        job.nodes[1].facts.leftovers = vec![
            file("/dev/shm/vader_segment.node2.0", 0),
            file("/tmp/kolo-0/machine.77", 0),
        ];
        let found = leftovers(&job);
        assert_eq!(found.len(), 2);
        let begin = "leftovers: node2: dead jobs have left ";
        for (line, path) in found
            .iter()
            .zip(["/dev/shm/vader_segment.node2.0", "/tmp/kolo-0/machine.77"])
        {
            assert_eq!(
                line.line(),
                format!("{begin}{path} (1 MiB); fix: rm {path}")
            );
        }
    }

    /// Many files of another user are one line, which root can type.
    #[test]
    fn many_files_are_counted_by_folder_and_user() {
        let mut job = healthy(1, 1);
        let names = (0..19).map(|pid| file(&format!("/tmp/kolo-1000/machine.{pid}"), 1000));
        job.nodes[0].facts.leftovers = names.collect();
        let others = (0..5).map(|pid| file(&format!("/dev/shm/sm_segment.{pid}"), 0));
        job.nodes[0].facts.leftovers.extend(others);
        let found: Vec<String> = leftovers(&job).iter().map(Finding::line).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(
            found[0],
            "leftovers: node1: dead jobs have left 5 files in /dev/shm (5 MiB); fix: rm \
             /dev/shm/sm_segment.0 /dev/shm/sm_segment.1 /dev/shm/sm_segment.2 \
             /dev/shm/sm_segment.3 /dev/shm/sm_segment.4"
        );
        assert_eq!(
            found[1],
            "leftovers: node1: dead jobs of user 1000 have left 19 files in /tmp/kolo-1000 \
             (19 MiB); fix: as root PREFIX/share/kolo/slurm/epilog.sh 1000"
        );
    }

    #[test]
    fn what_somebody_cannot_remove_is_a_note() {
        let mut job = healthy(2, 1);
        assert_eq!(notes(&job), [""; 0]);
        job.nodes[1].facts.foreign = vec![file("/dev/shm/sm_segment.node2.7", 0)];
        assert_eq!(leftovers(&job), []);
        let found = notes(&job);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("leftovers: node2: files of users outside"));
        assert!(
            found[0].ends_with("/dev/shm/sm_segment.node2.7 (1 MiB)"),
            "{found:?}"
        );
    }

    /// Any user may make a file of such a name, and root may paste the line.
    #[test]
    fn names_are_quoted_for_the_shell_or_left_out() {
        let mut job = healthy(2, 1);
        let names = [
            "sm_segment.a b",
            "kolo-$(id);'x'",
            "kolo-\u{1b}[2J",
            "kolo-1\n2",
        ];
        let path = |name: &&str| file(&format!("/dev/shm/{name}"), 0);
        job.nodes[1].facts.leftovers = names.iter().map(path).collect();
        let found = lines(&leftovers(&job));
        let quoted = r"rm '/dev/shm/sm_segment.a b' '/dev/shm/kolo-$(id);'\''x'\'''";
        assert!(found.contains(quoted), "{found}");
        assert!(
            found.contains("(2 MiB)") && !found.contains("2J"),
            "{found}"
        );
        job.nodes[1].facts.leftovers = vec![file("/dev/shm/kolo-\u{1b}[2J", 0)];
        assert_eq!(leftovers(&job), []);
    }

    #[test]
    fn names_of_segments_are_known() {
        assert!(is_segment("vader_segment.node1.1000.3") && is_segment("ucx_shm_posix_1a"));
        assert!(!is_segment("firefox-shm") && !is_segment("sem.mine"));
        // kolo's own memory has no name: such a file is somebody's.
        assert!(!is_segment("kolo-data"));
    }

    #[test]
    fn the_epilog_removes_what_is_told() {
        let script = include_str!("../../../../slurm/epilog.sh");
        let removed = |list: &str| -> Vec<&str> {
            let quoted = script.lines().filter_map(|line| line.strip_prefix(list));
            quoted
                .flat_map(|words| words.split(['\'', '"', ' ']))
                .filter(|word| !word.is_empty() && !word.starts_with('$'))
                .collect()
        };
        assert_eq!(removed("SEGMENTS="), SEGMENTS);
        assert_eq!(removed("NOTES="), KeptFile::ALL.map(KeptFile::name));
    }
}
