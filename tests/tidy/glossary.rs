//! `docs/glossary.md` defines each word once: in one row, or between asterisks and before a colon
//! inside of one. Rows are sorted within their section, and no cell is empty. Words that
//! `docs/ARCHITECTURE.md` begins with are in it.

use std::collections::BTreeMap;

/// The page.
pub const PAGE: &str = "docs/glossary.md";
/// The page that introduces the first words, in bold letters.
pub const FIRST: &str = "docs/ARCHITECTURE.md";
/// The section where it does.
const SECTION: &str = "## Words\n";

/// A row: its line from 1, its words, and what they mean.
struct Row<'a> {
    line: usize,
    words: Vec<&'a str>,
    meaning: &'a str,
}

/// The rows of all tables, by sections; heads of tables are none.
fn sections(text: &str) -> Vec<Vec<Row<'_>>> {
    let mut found = vec![Vec::new()];
    for (line, number) in text.lines().zip(1..) {
        if line.starts_with('#') {
            found.push(Vec::new());
        }
        let cells = line.strip_prefix("| ").and_then(|row| row.split_once('|'));
        let Some((words, meaning)) = cells.filter(|(words, _)| words.trim() != "word") else {
            continue;
        };
        found.last_mut().expect("a section").push(Row {
            line: number,
            words: words.split(',').map(str::trim).collect(),
            meaning: meaning.trim_end_matches('|').trim(),
        });
    }
    found
}

/// Words that a text defines between asterisks, one or several with commas between, before a colon.
fn inside(meaning: &str) -> Vec<&str> {
    let parts: Vec<&str> = meaning.split('*').collect();
    let mut found = Vec::new();
    let mut goes_on = false;
    for pair in parts.get(1..).unwrap_or_default().rchunks(2) {
        let [word, behind] = pair else {
            continue;
        };
        goes_on = behind.starts_with(':') || (goes_on && *behind == ", ");
        if goes_on {
            found.push(*word);
        }
    }
    found
}

/// Words that are defined twice, rows that are not in order, and cells that are empty.
pub fn faults(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for rows in sections(text) {
        let mut last = String::new();
        for row in rows {
            let line = row.line;
            let mut fault = |what: String| found.push(format!("{PAGE}:{line}: {what}"));
            if !row.meaning.ends_with('.') {
                fault(format!("{}: no sentence says what it is", row.words[0]));
            }
            let first = row.words[0].to_lowercase();
            if first <= last {
                fault(format!("`{first}` stands behind `{last}`"));
            }
            last = first;
            for word in row.words.into_iter().chain(inside(row.meaning)) {
                if word.is_empty() {
                    fault("a word is empty".to_owned());
                } else if let Some(other) = lines.insert(word.to_lowercase(), line) {
                    fault(format!("`{word}` is defined in line {other} too"));
                }
            }
        }
    }
    found
}

/// Words in bold letters of the section [`SECTION`] of `first` that have no row in `text`.
pub fn lacking(text: &str, first: &str) -> Vec<String> {
    let section = first.split_once(SECTION).map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or(section);
    let rows: Vec<String> = sections(text)
        .iter()
        .flatten()
        .flat_map(|row| row.words.iter().map(|word| word.to_lowercase()))
        .collect();
    let bold: Vec<&str> = section.split("**").skip(1).step_by(2).collect();
    let mut found = Vec::from_iter(bold.is_empty().then(|| format!("{FIRST} has no words")));
    for word in bold {
        let word = word.to_lowercase();
        let one = word.strip_suffix('s').unwrap_or(&word);
        if !rows.iter().any(|row| *row == word || row == one) {
            found.push(format!("{PAGE} has no row for `{word}` of {FIRST}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# G\n\n## A\n\n| word | meaning |\n|---|---|\n\
                        | head, tail | Counts. *Pair*: one reader. |\n| rank | A member. |\n\n\
                        ## B\n\n| word | meaning |\n|---|---|\n| card | *X*, *Y*: no *rank*. |\n";

    fn told(old: &str, new: &str) -> usize {
        assert!(GOOD.contains(old), "{old}");
        faults(&GOOD.replace(old, new)).len()
    }

    #[test]
    fn a_word_is_defined_once() {
        assert_eq!(faults(GOOD), [""; 0]);
        assert_eq!(told("| card |", "| Rank |"), 1);
        assert_eq!(told("| card |", "| card, tail |"), 1);
        assert_eq!(told("| card |", "| pair |"), 1);
        assert_eq!(told("*X*, *Y*: no", "*Head*, *Y*: no"), 1);
        assert_eq!(told("*Y*: no", "*X*: no"), 1);
        assert_eq!(told("one reader.", "one reader. *Pair*: no."), 1);
    }

    #[test]
    fn rows_are_sorted_and_whole() {
        assert_eq!(told("| rank |", "| fan |"), 1);
        assert_eq!(told("A member.", ""), 1);
        assert_eq!(told("head, tail", "head, "), 1);
    }

    #[test]
    fn first_words_have_rows() {
        let first = "**no**\n## Words\n\n- **Rank**: a. **Tails**: b\n\n## Rooms\n**no**\n";
        assert_eq!(lacking(GOOD, first), [""; 0]);
        assert_eq!(lacking(GOOD, &first.replace("Rank", "Mate")).len(), 1);
        assert_eq!(lacking(GOOD, "no words").len(), 1);
    }
}
