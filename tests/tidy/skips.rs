//! A test that cannot run somewhere says so through one helper for each language, which fails under
//! `CI=true` unless `tests/skipped.txt` names the test and a reason.

use crate::source::Source;

/// The helpers themselves, and files that speak of skipping something else.
const EXEMPT: &[&str] = &["tests/skip/", "tests/tidy"];

/// Words that print, in the languages of tests.
const SAYS: &[&str] = &["print!(", "println!(", "echo ", "printf ", "print("];

/// Words of such a line where a test does not run.
const WORDS: &[&str] = &["skip", "not tested", "nothing to test", "cannot be tested"];

/// Other ways to skip.
const WAYS: &[&str] = &["SkipTest", "pytest.skip", "exit 77"];

/// How the reason of `#[ignore]` begins: such a test is run by another one. No other is ignored.
const BODIES: &[&str] = &["the body of ", "the other end of ", "started by "];

/// Whether the file has tests in it.
fn is_test(source: &Source) -> bool {
    let path = &source.path;
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("tests.rs")
}

pub fn faults(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    if EXEMPT.iter().any(|place| source.path.starts_with(place)) {
        return found;
    }
    for (i, line) in source.raw.iter().enumerate() {
        let says = SAYS.iter().any(|word| line.contains(word));
        if is_test(source)
            && (says && WORDS.iter().any(|word| line.contains(word))
                || WAYS.iter().any(|word| line.contains(word)))
        {
            found.push(source.fault(i, "skip through tests/skip, so that CI notices"));
        }
        let Some(ignored) = line.trim_start().strip_prefix("#[ignore") else {
            continue;
        };
        if !BODIES
            .iter()
            .any(|begin| ignored.starts_with(&format!(" = \"{begin}")))
        {
            found.push(source.fault(i, "an ignored test must be the body of another one"));
        }
    }
    found
}

/// Names of the list without a reason, and names that no test uses.
pub fn listed(list: &str, sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let (name, reason) = line.split_once(' ').unwrap_or((line, ""));
        if reason.trim().is_empty() {
            found.push(format!("tests/skipped.txt: {name} has no reason"));
        }
        // Scripts put the name of a compiler behind theirs.
        let stem = name.strip_suffix("-flang").unwrap_or(name);
        let quoted = format!("skip(\"{name}\"");
        let used = sources.iter().any(|source| {
            source.path == format!("tests/mpi/{stem}.sh")
                || source.raw.iter().any(|line| line.contains(&quoted))
        });
        if !used {
            found.push(format!("tests/skipped.txt: no test skips itself as {name}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::is_listed;

    fn count(path: &str, text: &str) -> usize {
        faults(&Source::new(path, text)).len()
    }

    #[test]
    fn a_test_that_skips_itself_is_caught() {
        for (path, text) in [
            ("tests/a.rs", "println!(\"skipped: no IPv6\");"),
            ("bindings/c/tests/b.rs", "eprintln!(\"not tested: x\");"),
            ("src/x/tests.rs", "    println!(\"nothing to test\");"),
            ("tests/mpi/c.sh", "echo \"$name: skipped\""),
            ("tests/cluster/d.py", "    print(\"skip  the tests\")"),
            ("tests/cluster/e.py", "    raise unittest.SkipTest(why)"),
            ("tests/f.rs", "#[ignore]"),
            ("src/g.rs", "    #[ignore = \"slow\"]"),
        ] {
            assert_eq!(count(path, text), 1, "{path}: {text}");
        }
        assert_eq!(count("tests/a.rs", "skip::skip(\"ipv6\", \"none\");"), 0);
        assert_eq!(count("tests/a.rs", "#[ignore = \"the body of x\"]"), 0);
        assert_eq!(count("src/a.rs", "println!(\"skipped {n} lines\");"), 0);
    }

    #[test]
    fn names_of_the_list_have_reasons_and_are_used() {
        let sources = [Source::new("tests/a.rs", "skip(\"ipv6\", \"none\");")];
        assert!(listed("# x\nipv6 a reason\n", &sources).is_empty());
        assert_eq!(listed("ipv6\n", &sources).len(), 1);
        assert_eq!(listed("ipv4 a reason\n", &sources).len(), 1);
        assert!(is_listed("# x\nipv6  a reason\n", "ipv6"));
        assert!(!is_listed("ipv6\n", "ipv6") && !is_listed("ipv6 a\n", "ipv"));
    }
}
