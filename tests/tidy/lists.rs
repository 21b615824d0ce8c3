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

/// The code before the tests.
fn product(source: &Source) -> String {
    let tests = |line: &&String| line.trim() != "#[cfg(test)]";
    let lines = source.code.iter().take_while(tests);
    lines.cloned().collect::<Vec<_>>().join("\n")
}

/// Where `name` stands as a whole word before `mark`: the line, and what follows the mark.
fn behind<'a>(
    code: &'a str,
    name: &str,
    mark: &str,
) -> impl Iterator<Item = (usize, &'a str)> + use<'a> {
    let wanted = format!("{name}{mark}");
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let places = code.match_indices(&wanted).map(|(at, _)| at);
    let whole: Vec<usize> = places
        .filter(|&at| !code[..at].ends_with(is_part))
        .collect();
    whole.into_iter().map(move |at| {
        let line = code[..at].matches('\n').count();
        (line, &code[at + wanted.len()..])
    })
}

/// The letters that a text begins with.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric());
    &text[..end.unwrap_or(text.len())]
}

/// An enum under its own name, and under those that a file gives it.
fn spellings(code: &str, name: &str) -> Vec<String> {
    let given = behind(code, name, " as ").map(|(_, rest)| word(rest).to_owned());
    let is_type = |given: &String| given.starts_with(char::is_uppercase);
    [name.to_owned()]
        .into_iter()
        .chain(given.filter(is_type))
        .collect()
}

/// How many variants of an enum a file names.
fn named(code: &str, name: &str) -> usize {
    let mut found = BTreeSet::new();
    for spelling in spellings(code, name) {
        for (_, rest) in behind(code, &spelling, "::") {
            // One, or some in braces.
            let several = rest
                .strip_prefix('{')
                .map(|list| list.split('}').next().unwrap_or(list).split(','));
            let all = several.into_iter().flatten().map(str::trim).map(word);
            for variant in all.chain([word(rest)]) {
                let is_constant = variant.chars().all(char::is_uppercase);
                if variant.starts_with(char::is_uppercase) && !is_constant {
                    found.insert(variant.to_owned());
                }
            }
        }
    }
    found.len()
}

/// Lines that import all variants: behind them nobody can count.
fn globs(code: &str, name: &str) -> Vec<usize> {
    let all = spellings(code, name);
    let lines = all.iter().flat_map(|it| behind(code, it, "::*"));
    lines.map(|(line, _)| line).collect()
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
        let code = product(source);
        for name in ENUMS {
            for line in globs(&code, name) {
                let what = format!("imports all of {name}: name the few that are meant");
                found.push(source.fault(line, &what));
            }
            let (number, told) = (named(&code, name), listed.remove(&(name, &source.path)));
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

    #[test]
    fn another_spelling_is_no_way_out() {
        let of = |text: &str| faults(&[Source::new("src/a.rs", text)], "");
        let list = "Aa, Bb, Cc, Dd, Ee, Ff, Gg";
        let each = |prefix: &str| list.replace(", ", &format!(", {prefix}::"));
        let counted = "src/a.rs:1: names 7 of Collective, lists.txt says none";
        for text in [
            format!("use Collective::{{{list}}};"),
            format!("use x::Collective as C; [C::{}]", each("C")),
            format!("use Collective as C; use C::{{{list}}};"),
            format!("use Collective::{{\n{},\n}};", list.replace(", ", ",\n")),
        ] {
            assert_eq!(of(&text), [counted], "{text}");
        }
        let glob = "src/a.rs:2: imports all of Collective: name the few that are meant";
        for text in [
            "\nuse Collective::*;",
            "\n use x::Collective::* ; let x = Collective::ALL;",
            "use Collective as C;\nuse C::*;",
        ] {
            assert_eq!(of(text), [glob], "{text}");
        }
        let others = "use Collective as usize; MyCollective::*; Collective::A * 2; \
            #[cfg(test)]\nmod tests {}";
        assert_eq!(of(others), [""; 0]);
        let tests = "#[cfg(test)]\nmod tests { use Collective::*; }";
        assert_eq!(of(tests), [""; 0]);
    }
}
