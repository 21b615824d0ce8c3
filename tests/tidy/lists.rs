//! Second lists of collectives or algorithms: a file that names many of them is one more to change
//! when there is a new one.
//!
//! The tables are `src/base/collective.rs` and `src/algo/mod.rs`; what they say is not said again.
//! A file of the library or the command names at most [`FEW`] variants of either, tests left out.
//! Those that still name more are in `lists.txt`, with the number; the list only shrinks.

use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// So many names are no list: special cases that a file is about.
const FEW: usize = 6;
const ENUMS: [&str; 2] = ["Algorithm", "Collective"];

/// The lines before the tests.
fn product(source: &Source) -> impl Iterator<Item = &String> {
    let tests = |line: &&String| line.trim() != "#[cfg(test)]";
    source.code.iter().take_while(tests)
}

/// How many variants of an enum a file names.
fn named(source: &Source, name: &str) -> usize {
    let mut found = BTreeSet::new();
    for line in product(source) {
        for (at, _) in line.match_indices(&format!("{name}::")) {
            let before = line[..at].chars().next_back();
            let rest = &line[at + name.len() + 2..];
            let end = rest.find(|c: char| !c.is_alphanumeric());
            let variant = &rest[..end.unwrap_or(rest.len())];
            let is_constant = variant.chars().all(|c| c.is_uppercase());
            let is_variant = variant.starts_with(char::is_uppercase) && !is_constant;
            if is_variant && !before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                found.insert(variant.to_owned());
            }
        }
    }
    found.len()
}

/// Files that name more than a few and are not in the list, and lines of the list that are not so.
pub fn faults(sources: &[Source], list: &str) -> Vec<String> {
    let mut listed: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        if let [name, path, number] = line.split(' ').collect::<Vec<_>>()[..] {
            listed.insert((name, path), number);
        }
    }
    let mut found = Vec::new();
    for source in sources
        .iter()
        .filter(|it| it.is_rust() && it.path.starts_with("src/"))
    {
        for name in ENUMS {
            let (number, told) = (named(source, name), listed.remove(&(name, &source.path)));
            let number = if number > FEW {
                number.to_string()
            } else {
                "0".into()
            };
            if told.unwrap_or("0") != number {
                let told = told.unwrap_or("none");
                let what = format!("names {number} of {name}, lists.txt says {told}");
                found.push(source.fault(0, &what));
            }
        }
    }
    found.extend(
        listed
            .keys()
            .map(|(_, path)| format!("lists.txt names {path}, which is gone")),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_list_is_a_fault() {
        let text = "match it { Algorithm::Ring | Algorithm::Tree | Algorithm::Chain | \
            Algorithm::Pat => 1, Algorithm::Hd | Algorithm::Rd | Algorithm::Nvls => 2 }\n\
            Algorithm::ALL; Algorithm::named(x); MyCollective::A;\n\
            #[cfg(test)]\nmod tests { use Collective::{A, B}; Collective::C; }\n";
        let source = |path: &str, text: &str| vec![Source::new(path, text)];
        let of = |path: &str, list: &str| faults(&source(path, text), list);
        assert_eq!(
            of("src/a/b.rs", ""),
            ["src/a/b.rs:1: names 7 of Algorithm, lists.txt says none"]
        );
        assert_eq!(of("src/a/b.rs", "# x\nAlgorithm src/a/b.rs 7\n"), [""; 0]);
        assert_eq!(of("src/a/b.rs", "Algorithm src/a/b.rs 8\n").len(), 1);
        assert_eq!(
            of(
                "src/a/b.rs",
                "Algorithm src/a/b.rs 7\nCollective src/c.rs 9\n"
            )
            .len(),
            1
        );
        assert_eq!(of("tests/b.rs", ""), [""; 0]);
        let few = "Algorithm::Ring; Algorithm::Tree; // Algorithm::A Algorithm::B Algorithm::C\n";
        let few = source("src/a.rs", few);
        assert_eq!(faults(&few, ""), [""; 0]);
        assert_eq!(
            faults(&few, "Algorithm src/a.rs 2\n").len(),
            1,
            "it only shrinks"
        );
    }
}
