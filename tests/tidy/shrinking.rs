//! Lists that only shrink: what is wrong today and known, one a line.
//!
//! A thing that is found and not listed is a fault, and so is a line of what is no longer found. A
//! list may begin with lines of `#`, which say what it is. `KOLO_BLESS=1` leaves out of it what is
//! gone, and puts nothing in.

use std::collections::{BTreeMap, BTreeSet};

const BLESS: &str = "run KOLO_BLESS=1 cargo test --test tidy";

fn is_head(line: &&str) -> bool {
    line.starts_with('#') || line.is_empty()
}

fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.lines().map(str::trim).filter(|line| !is_head(line))
}

/// The first lines of a list, which say what it is.
pub fn head(list: &str) -> String {
    let lines = list.lines().take_while(is_head);
    lines.map(|line| format!("{line}\n")).collect()
}

/// A list of lines: those that are new, after `what`, and those that are gone.
pub fn faults(name: &str, what: &str, found: &BTreeSet<String>, list: &str) -> Vec<String> {
    let listed: BTreeSet<&str> = entries(list).collect();
    let new = found.iter().filter(|line| !listed.contains(line.as_str()));
    let gone = listed.iter().filter(|line| !found.contains(**line));
    let new = new.map(|line| format!("{what}: {line}"));
    let gone = gone.map(|line| format!("{name}: this is no longer there: {line}: {BLESS}"));
    new.chain(gone).collect()
}

/// A list of lines without those that are gone.
pub fn shrunk(found: &BTreeSet<String>, list: &str) -> String {
    let left = entries(list).filter(|line| found.contains(*line));
    head(list) + &left.map(|line| format!("{line}\n")).collect::<String>()
}

/// The numbers of a list: each line is a name and its number.
fn numbers(list: &str) -> BTreeMap<&str, usize> {
    let lines = entries(list).filter_map(|line| line.rsplit_once(' '));
    lines
        .map(|(name, number)| (name, number.parse().unwrap_or(0)))
        .collect()
}

/// A list of numbers: names that have more than the list says, or fewer.
pub fn number_faults(name: &str, found: &BTreeMap<String, usize>, list: &str) -> Vec<String> {
    let listed = numbers(list);
    let mut faults = Vec::new();
    for (what, &has) in found {
        let allowed = listed.get(what.as_str()).copied().unwrap_or(0);
        if has > allowed {
            faults.push(format!("{what} has {has}, and {name} allows {allowed}"));
        } else if has < allowed {
            faults.push(format!("{name}: {what} has {has}, not {allowed}: {BLESS}"));
        }
    }
    let gone = listed.keys().filter(|what| !found.contains_key(**what));
    faults.extend(gone.map(|what| format!("{name}: {what} has none: {BLESS}")));
    faults
}

/// A list of numbers without what is gone.
pub fn shrunk_numbers(found: &BTreeMap<String, usize>, list: &str) -> String {
    let left = numbers(list).into_iter().filter_map(|(what, allowed)| {
        let has = allowed.min(*found.get(what)?);
        (has > 0).then(|| format!("{what} {has}\n"))
    });
    head(list) + &left.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_only_go() {
        let found = BTreeSet::from(["a b".to_owned(), "c d".to_owned()]);
        let told = |list: &str| faults("a.txt", "is wrong", &found, list);
        assert_eq!(told("# Why.\n\na b\nc d\n"), [""; 0]);
        assert_eq!(told("a b\n"), ["is wrong: c d"]);
        let gone = told("a b\nc d\ne f\n");
        assert_eq!(gone.len(), 1);
        assert!(
            gone[0].starts_with("a.txt: this is no longer there: e f"),
            "{gone:?}"
        );
        assert_eq!(shrunk(&found, "# Why.\n\na b\ne f\n"), "# Why.\n\na b\n");
    }

    #[test]
    fn numbers_only_fall() {
        let found = BTreeMap::from([("a b".to_owned(), 2), ("c d".to_owned(), 1)]);
        let told = |list: &str| number_faults("a.txt", &found, list);
        assert_eq!(told("# Why.\na b 2\nc d 1\n"), [""; 0]);
        assert_eq!(told("a b 1\nc d 1\n"), ["a b has 2, and a.txt allows 1"]);
        assert_eq!(told("a b 2\n"), ["c d has 1, and a.txt allows 0"]);
        assert_eq!(told("a b 3\nc d 1\n").len(), 1);
        assert_eq!(told("a b 2\nc d 1\ne f 1\n").len(), 1);
        let list = "# Why.\na b 1\nc d 4\ne f 1\n";
        assert_eq!(shrunk_numbers(&found, list), "# Why.\na b 1\nc d 1\n");
    }
}
