//! Documents that a program can check: the checklist, the README's examples, the top level.

use std::collections::BTreeMap;
use std::path::Path;

/// The mechanisms of the checklist are numbered from 1 to this.
const ROWS: u32 = 117;

/// Entries that the top level may hold; everything else needs a place in a room.
const TOP_LEVEL: &[&str] = &[
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "Makefile",
    "README.md",
    "benches",
    "bindings",
    "config",
    "docs",
    "examples",
    "kernels",
    "slurm",
    "src",
    "tests",
];

/// Names at the top level that are not in the list. Dotfiles configure tools and may stay.
pub fn strangers(names: &[String]) -> Vec<String> {
    let known = |name: &String| name.starts_with('.') || TOP_LEVEL.contains(&name.as_str());
    names.iter().filter(|name| !known(name)).cloned().collect()
}

/// States of a row, and whether it then must name files and tests.
const STATES: &[(&str, bool)] = &[
    // Shown by a test, wherever it applies.
    ("done", true),
    // Shown by a test on host memory and one machine; the network and GPU part comes later.
    ("host", true),
    // Shown by a test on the software GPU.
    ("soft", true),
    // Belongs to a later milestone.
    ("planned", false),
];

/// Faults of the checklist: its heading counts the rows, every row is there once, with a known
/// state, and with files and tests that exist.
/// `read` gives the text of a file below the root, or None.
pub fn checklist(text: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = BTreeMap::new();
    if !text.starts_with(&format!("# Checklist: {ROWS} mechanisms")) {
        found.push(format!("checklist.md: its heading does not say {ROWS}"));
    }
    for (i, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line
            .trim()
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        let Ok(row) = cells[0].parse::<u32>() else {
            continue;
        };
        let mut fault = |what: String| found.push(format!("checklist.md:{}: {what}", i + 1));
        *seen.entry(row).or_insert(0) += 1;
        let [_, mechanism, files, tests, state] = cells[..] else {
            fault(format!("row {row} has {} cells, not 5", cells.len()));
            continue;
        };
        if mechanism.is_empty() {
            fault(format!("row {row} names no mechanism"));
        }
        let Some((_, shown)) = STATES.iter().find(|(name, _)| *name == state) else {
            fault(format!("row {row} has the unknown state `{state}`"));
            continue;
        };
        if *shown && (quoted(files).is_empty() || quoted(tests).is_empty()) {
            fault(format!(
                "row {row} is `{state}` but names no file or no test"
            ));
        }
        for name in quoted(files).into_iter().chain(quoted(tests)) {
            if !exists(name, read) {
                fault(format!("row {row} names `{name}`, which is not there"));
            }
        }
    }
    for row in 1..=ROWS {
        let times = seen.remove(&row).unwrap_or(0);
        if times != 1 {
            found.push(format!("checklist.md: row {row} is there {times} times"));
        }
    }
    found.extend(
        seen.keys()
            .map(|row| format!("checklist.md: there is no row {row}")),
    );
    found
}

/// The words between backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// `path`, or `path::function` for a test inside a Rust file.
fn exists(name: &str, read: &dyn Fn(&str) -> Option<String>) -> bool {
    match name.split_once("::") {
        None => read(name).is_some(),
        Some((path, function)) => {
            let function = function.rsplit("::").next().unwrap_or(function);
            read(path).is_some_and(|text| text.contains(&format!("fn {function}(")))
        }
    }
}

/// Whether `readme` shows `example` as it is, in a fenced block.
pub fn shows(readme: &str, example: &str) -> bool {
    readme.split("```").skip(1).step_by(2).any(|block| {
        block
            .split_once('\n')
            .is_some_and(|(_language, body)| body.trim() == example.trim())
    })
}

/// The text of a file below the root; an empty text for a directory.
pub fn read_below(root: &Path, name: &str) -> Option<String> {
    let path = root.join(name);
    if path.is_dir() {
        Some(String::new())
    } else {
        std::fs::read_to_string(path).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(u32, &str)]) -> String {
        let mut text = format!("# Checklist: {ROWS} mechanisms\n");
        text += "| row | mechanism | file | test | state |\n|---|---|---|---|---|\n";
        for row in 1..=ROWS {
            let line = rows
                .iter()
                .find(|(number, _)| *number == row)
                .map(|(_, line)| *line);
            text += &format!(
                "{}\n",
                line.unwrap_or(&format!("| {row} | m | - | - | planned |"))
            );
        }
        text
    }

    fn read(name: &str) -> Option<String> {
        (name == "src/a.rs").then(|| "fn works() {}".to_owned())
    }

    #[test]
    fn a_complete_checklist_is_good() {
        let done = "| 7 | m | `src/a.rs` | `src/a.rs::tests::works` | done |";
        assert!(checklist(&table(&[(7, done)]), &read).is_empty());
    }

    #[test]
    fn missing_doubled_and_unknown_rows_are_faults() {
        assert_eq!(
            checklist(&table(&[(7, "")]), &read),
            ["checklist.md: row 7 is there 0 times"]
        );
        let twice = table(&[]) + "| 9 | m | - | - | planned |\n| 103 | m | - | - | planned |\n";
        assert_eq!(checklist(&twice, &read).len(), 2);
        let miscounted = table(&[]).replace(&format!("{ROWS} mechanisms"), "12 mechanisms");
        assert_eq!(
            checklist(&miscounted, &read),
            [format!("checklist.md: its heading does not say {ROWS}")]
        );
    }

    #[test]
    fn a_row_must_name_what_exists() {
        let faults = |line| checklist(&table(&[(7, line)]), &read).len();
        assert_eq!(
            faults("| 7 | m | `src/b.rs` | `src/a.rs::works` | done |"),
            1
        );
        assert_eq!(
            faults("| 7 | m | `src/a.rs` | `src/a.rs::fails` | host |"),
            1
        );
        assert_eq!(faults("| 7 | m | `src/a.rs` | - | done |"), 1);
        assert_eq!(faults("| 7 | m | - | - | soon |"), 1);
        assert_eq!(faults("| 7 | m | - | planned |"), 1);
        assert_eq!(faults("| 7 | | - | - | planned |"), 1);
    }

    #[test]
    fn a_stranger_at_the_top_is_named() {
        let names = ["src", ".ci", "notes.txt", "Cargo.toml"].map(str::to_owned);
        assert_eq!(strangers(&names), ["notes.txt"]);
    }

    #[test]
    fn an_example_must_be_shown_as_it_is() {
        let readme = "text\n```c\nint main;\n```\nmore\n```sh\nls\n```\n";
        assert!(shows(readme, "int main;\n"));
        assert!(!shows(readme, "int main2;\n") && !shows(readme, "more"));
    }
}
