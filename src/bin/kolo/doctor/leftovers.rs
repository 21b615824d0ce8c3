//! What dead jobs have left on a node.
//!
//! kolo's own memory has no name and ends with its processes. What can stay is a note that was
//! being written (`/tmp/kolo-UID`), and segments of an MPI beside kolo in /dev/shm.

use super::facts::{Gathered, NodeFacts};
use super::finding::{Finding, list, on_nodes};

/// Files that no process has open any more.
pub fn leftovers(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "leftovers", |node| {
        of_node(&node.facts).into_iter().collect()
    })
}

/// Lines about files that are not this user's to remove: no fault that he can mend.
pub fn notes(job: &Gathered) -> Vec<String> {
    let found = on_nodes(job, "leftovers", |node| {
        let told = plain(&node.facts.foreign).map(|(paths, bytes)| {
            let what = format!(
                "segments of users outside of this container, perhaps of dead jobs: {} ({})",
                list(&paths),
                crate::facts::amount(bytes)
            );
            (what, String::new())
        });
        told.into_iter().collect()
    });
    found.iter().map(Finding::short).collect()
}

/// The files whose names can be shown, and their bytes; none: there are none.
fn plain(files: &[(String, u64)]) -> Option<(Vec<&str>, u64)> {
    let named = files.iter().filter(|(path, _)| is_plain(path));
    let (paths, sizes): (Vec<&str>, Vec<u64>) =
        named.map(|(path, bytes)| (path.as_str(), *bytes)).unzip();
    (!paths.is_empty()).then(|| (paths, sizes.iter().sum()))
}

fn of_node(facts: &NodeFacts) -> Option<(String, String)> {
    let (paths, bytes) = plain(&facts.leftovers)?;
    let quoted: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
    Some((
        format!(
            "dead jobs have left {} ({})",
            list(&paths),
            crate::facts::amount(bytes)
        ),
        format!("rm {}", quoted.join(" ")),
    ))
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
    match path.chars().all(is_safe) {
        true => path.to_string(),
        false => format!("'{}'", path.replace('\'', r"'\''")),
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

    #[test]
    fn segments_are_told_with_their_size() {
        let mut job = healthy(2, 1);
        assert_eq!(leftovers(&job), []);
        job.nodes[1].facts.leftovers = vec![
            ("/dev/shm/vader_segment.node2.0".into(), 1 << 20),
            ("/tmp/kolo-0/machine.77".into(), 1 << 20),
        ];
        let found = lines(&leftovers(&job));
        assert!(found.starts_with("leftovers: node2: dead jobs have left /dev/shm/vader_segment"));
        assert!(found.contains("(2 MiB)"), "{found}");
        assert!(found.contains("rm /dev/shm/vader_segment.node2.0 /tmp/kolo-0/machine.77"));
    }

    #[test]
    fn what_somebody_cannot_remove_is_a_note() {
        let mut job = healthy(2, 1);
        assert_eq!(notes(&job), [""; 0]);
        job.nodes[1].facts.foreign = vec![("/dev/shm/sm_segment.node2.7".into(), 1 << 20)];
        assert_eq!(leftovers(&job), []);
        let found = notes(&job);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("leftovers: node2: segments of users outside"));
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
        let path = |name: &&str| (format!("/dev/shm/{name}"), 1);
        job.nodes[1].facts.leftovers = names.iter().map(path).collect();
        let found = lines(&leftovers(&job));
        let quoted = r"rm '/dev/shm/sm_segment.a b' '/dev/shm/kolo-$(id);'\''x'\'''";
        assert!(found.contains(quoted), "{found}");
        assert!(
            found.contains("(2 bytes)") && !found.contains("2J"),
            "{found}"
        );
        job.nodes[1].facts.leftovers = vec![("/dev/shm/kolo-\u{1b}[2J".into(), 1)];
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
