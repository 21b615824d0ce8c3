//! How a doc comment begins: with a noun or a verb of its item.
//!
//! "What ...", "The same ..." and "As [..]" leave the reader to find out what is spoken of. A file
//! that still has such comments is in `openings.txt`, with the number; the list only shrinks.

use crate::source::Source;
use std::collections::BTreeMap;

const FORBIDDEN: [&str; 3] = ["What ", "The same", "As ["];
const BLESS: &str = "run KOLO_BLESS=1 cargo test --test tidy";

/// The text of a line of a doc comment.
fn text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line
        .strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"))?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// Lines at which a doc comment begins with one of these words.
fn places(source: &Source) -> Vec<usize> {
    let lines = || source.raw.iter().map(|line| text(line));
    let before = std::iter::once(None).chain(lines());
    let begins = |before: Option<&str>, line: Option<&str>| {
        before.is_none() && line.is_some_and(|line| FORBIDDEN.iter().any(|it| line.starts_with(it)))
    };
    let pairs = before.zip(lines()).enumerate();
    pairs
        .filter(|(_, (before, line))| begins(*before, *line))
        .map(|(at, _)| at)
        .collect()
}

/// The number of each file that the list has.
fn read(list: &str) -> BTreeMap<&str, usize> {
    let lines = list.lines().filter_map(|line| line.split_once(' '));
    let numbers = lines.map(|(path, number)| (path, number.parse().unwrap_or(0)));
    numbers.collect()
}

/// Files that have more such comments than the list says, or fewer.
pub fn faults(sources: &[Source], list: &str) -> Vec<String> {
    let mut listed = read(list);
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let places = places(source);
        let allowed = listed.remove(source.path.as_str()).unwrap_or(0);
        if places.len() > allowed {
            let words = "a doc comment begins with a noun or a verb of its item";
            faults.extend(places.iter().map(|&at| source.fault(at, words)));
        } else if places.len() < allowed {
            let (path, has) = (&source.path, places.len());
            faults.push(format!(
                "openings.txt: {path} has {has}, not {allowed}: {BLESS}"
            ));
        }
    }
    let gone = listed.keys();
    faults.extend(gone.map(|path| format!("openings.txt: there is no {path}: {BLESS}")));
    faults
}

/// The list without what is gone.
pub fn shrunk(sources: &[Source], list: &str) -> String {
    let listed = read(list);
    let rust = sources.iter().filter(|source| source.is_rust());
    let lines = rust.filter_map(|source| {
        let allowed = *listed.get(source.path.as_str())?;
        let count = places(source).len().min(allowed);
        (count > 0).then(|| format!("{} {count}\n", source.path))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, list: &str) -> Vec<String> {
        faults(&[Source::new("src/base/a.rs", text)], list)
    }

    #[test]
    fn a_comment_that_begins_with_no_noun_is_a_fault() {
        for bad in [
            "/// What it holds.\nfn f() {}\n",
            "//! The same for devices.\n",
            "    /// As [`f`], the other way.\n    fn g() {}\n",
        ] {
            assert_eq!(told(bad, "").len(), 1, "{bad}");
            assert!(told(bad, "src/base/a.rs 1\n").is_empty(), "{bad}");
        }
        for good in [
            "/// Bytes of a slot.\n/// What follows is a second line.\nfn f() {}\n",
            "/// Whatever comes.\nfn f() {}\n",
            "// What a plain comment says.\n",
        ] {
            assert!(told(good, "").is_empty(), "{good}");
        }
    }

    #[test]
    fn the_list_only_shrinks() {
        let good = "/// Bytes.\nfn f() {}\n";
        assert_eq!(told(good, "src/base/a.rs 1\n").len(), 1);
        assert_eq!(told(good, "src/base/b.rs 1\n").len(), 1);
        let bad = Source::new("src/base/a.rs", "/// What it is.\nfn f() {}\n");
        let list = "src/base/a.rs 3\nsrc/base/b.rs 1\n";
        assert_eq!(shrunk(&[bad], list), "src/base/a.rs 1\n");
    }
}
