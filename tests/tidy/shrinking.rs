//! Lists that only shrink: what is wrong today and known, one a line.
//!
//! What is found and not listed is a fault, and so is a line of the list that is no longer found. A
//! list may begin with lines of `#`, which say what it is. `KOLO_BLESS=1` leaves out of it what is
//! gone, and puts nothing in.

use std::collections::BTreeSet;

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
}
