//! A source of the product belongs to one crate: `#[path]` does not compile it into another one.
//!
//! Beside its own tree a file may be brought in by path from a test that shares its support. What
//! else is still compiled twice stands in [`STILL`], with a reason; the list only shrinks.

use crate::source::Source;

/// Who brings in whose source, and why.
const STILL: &[(&str, &str, &str)] = &[
    (
        "bindings/mpi/src/lib.rs",
        "src/bootstrap/mpi_abi.rs",
        "libkolo_mpi is built for each MPI, without the library",
    ),
    (
        "bindings/mpi/src/lib.rs",
        "src/transport/net/mpi/abi.rs",
        "as above",
    ),
    (
        "bindings/pmpi/src/lib.rs",
        "src/tune/mpi_table.rs",
        "libkolo_pmpi is built for each MPI, without the library",
    ),
    (
        "bindings/pmpi/src/lib.rs",
        "src/base/mpi_calls.rs",
        "as above",
    ),
    (
        "bindings/pmpi/src/lib.rs",
        "src/base/printed.rs",
        "as above",
    ),
    (
        "tests/dropin.rs",
        "bindings/pmpi/src/decide.rs",
        "its crate is built for each MPI, and tests have none",
    ),
    (
        "tests/dropin.rs",
        "bindings/pmpi/src/footprint.rs",
        "as above",
    ),
    ("tests/dropin.rs", "bindings/pmpi/src/places.rs", "as above"),
    ("tests/dropin.rs", "bindings/pmpi/src/table.rs", "as above"),
    ("tests/loom/lib.rs", "src/base/mod.rs", LOOM),
    ("tests/loom/lib.rs", "src/wire/mod.rs", LOOM),
    ("tests/loom/lib.rs", "src/comm/flight/completion.rs", LOOM),
    ("tests/loom/lib.rs", "src/comm/flight/lock.rs", LOOM),
    ("tests/loom/lib.rs", "src/proxy/net/wanted.rs", LOOM),
];
const LOOM: &str = "with loom's atomics, which the rest cannot be built with";

/// The file that a `#[path]` in `from` names.
fn target(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The tree of a crate's sources that a file belongs to: the folder `src` above it.
fn tree(path: &str) -> Option<&str> {
    let end = match path.strip_prefix("src/") {
        Some(_) => "src".len(),
        None => path.find("/src/")? + "/src".len(),
    };
    Some(&path[..end])
}

/// Sources of another tree that a file brings in, and lines of the list that are not so any more.
pub fn faults(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    let mut used = vec![false; STILL.len()];
    for source in sources.iter().filter(|source| source.is_rust()) {
        for (index, line) in source.raw.iter().enumerate() {
            let path = line.trim_start().strip_prefix("#[path = \"");
            let Some((path, _)) = path.and_then(|rest| rest.split_once('"')) else {
                continue;
            };
            let target = target(&source.path, path);
            let Some(whose) = tree(&target).filter(|whose| tree(&source.path) != Some(whose))
            else {
                continue;
            };
            let listed = STILL
                .iter()
                .position(|(from, to, _)| (*from, *to) == (&source.path, &target));
            match listed {
                Some(at) => used[at] = true,
                None => {
                    let what = format!("compiles {target} again: use the crate of `{whose}`");
                    found.push(source.fault(index, &what));
                }
            }
        }
    }
    let left = STILL.iter().zip(used).filter(|(_, used)| !used);
    found.extend(left.map(|((from, to, _), _)| format!("tidy/twice.rs: {from} has no {to} now")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_of_another_crate_is_a_fault() {
        let count = |path: &str, line: &str| {
            let found = faults(&[Source::new(path, line)]);
            found.iter().filter(|it| it.contains("again")).count()
        };
        let base = "#[path = \"../../../src/base/clock.rs\"]";
        assert_eq!(count("bindings/verbs/src/base.rs", base), 1);
        assert_eq!(count("tests/a.rs", "    #[path = \"../src/bin/b.rs\"]"), 1);
        assert_eq!(count("tests/a.rs", "#[path = \"skip/mod.rs\"]"), 0);
        assert_eq!(
            count("src/bin/kolo/main.rs", "#[path = \"kolo/cli.rs\"]"),
            0
        );
        assert_eq!(count("src/trust/door.rs", "#[path = \"door_tests.rs\"]"), 0);
        let loom = "#[path = \"../../src/base/mod.rs\"]";
        assert_eq!(count("tests/loom/lib.rs", loom), 0);
        let left = faults(&[Source::new("tests/loom/lib.rs", loom)]);
        assert_eq!(left.len(), STILL.len() - 1, "the list only shrinks");
    }
}
