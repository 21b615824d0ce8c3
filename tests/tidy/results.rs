//! The figures: `benches/results/` has all of them, and `docs/performance.md` is the short page
//! that users read. The folder's index names each of its pages, a page of it is as short as a
//! source file, and each shortfall stands on both sides under one title.

use crate::links::{Page, prose};

/// Where figures stand with their machines and commands.
pub const FOLDER: &str = "benches/results/";
/// The page that names all others of the folder.
const INDEX: &str = "benches/results/README.md";
/// The long form of each shortfall.
pub const REASONS: &str = "benches/results/shortfalls.md";
/// The page for users.
pub const SHORT: &str = "docs/performance.md";
/// Where the short lines begin on it.
const HEADING: &str = "## Shortfalls";
/// Most words of the page for users, tables included, as `wc -w` counts them.
pub const MOST_WORDS: usize = 2100;
/// Most lines of a page of the folder.
const MOST_LINES: usize = 500;

/// All figures in one text, with a blank where a line ends.
pub fn measured(pages: &[Page]) -> String {
    let texts = pages.iter().filter(|page| page.path.starts_with(FOLDER));
    let words: Vec<&str> = texts
        .flat_map(|page| page.text.split_whitespace())
        .collect();
    words.join(" ")
}

/// Pages of the folder that are too long, and those that the table of the index does not name once.
pub fn folder(pages: &[Page]) -> Vec<String> {
    let inside = |page: &&Page| page.path.starts_with(FOLDER);
    let index = pages.iter().find(|page| page.path == INDEX);
    let index = index.map_or("", |page| page.text.as_str());
    let rows: Vec<&str> = prose(index)
        .filter_map(|(_, line)| {
            line.strip_prefix("| [")?
                .split_once("](")?
                .1
                .split(')')
                .next()
        })
        .collect();
    let mut found = Vec::new();
    for page in pages.iter().filter(inside) {
        let lines = page.text.lines().count();
        if lines > MOST_LINES {
            let path = &page.path;
            found.push(format!("{path} has {lines} lines, not {MOST_LINES}"));
        }
        let name = &page.path[FOLDER.len()..];
        let times = rows.iter().filter(|row| **row == name).count();
        if page.path != INDEX && times != 1 {
            found.push(format!("{INDEX} has {times} rows of {name}"));
        }
    }
    found
}

/// A shortfall: its title and what is said of it.
struct Item {
    title: String,
    text: String,
}

/// The items of a list whose titles stand between double asterisks; the others by their line.
fn items(lines: &str) -> Vec<Result<Item, String>> {
    let mut found: Vec<Result<Item, String>> = Vec::new();
    for (_, line) in prose(lines) {
        if let Some(rest) = line.strip_prefix("- ") {
            let titled = rest
                .strip_prefix("**")
                .and_then(|rest| rest.split_once("**: "));
            found.push(
                titled
                    .ok_or_else(|| line.to_owned())
                    .map(|(title, text)| Item {
                        title: title.to_owned(),
                        text: text.to_owned(),
                    }),
            );
        } else if let (Some(more), Some(Ok(item))) = (line.strip_prefix("  "), found.last_mut()) {
            item.text = format!("{} {more}", item.text);
        }
    }
    found
}

/// The numbers of a text, without signs of the sentence around them.
fn numbers(text: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let words = text.split(move |c| !is_part(c));
    words
        .map(|word| word.trim_matches(['.', ',']))
        .filter(|word| !word.is_empty())
        .collect()
}

/// Where the two lists of shortfalls differ: titles of one that the other has not in this place,
/// and numbers of a short line that its long form lacks.
pub fn shortfalls(short: &str, long: &str) -> Vec<String> {
    let lines = short.split_once(HEADING).map_or("", |(_, rest)| rest);
    let mut found = Vec::new();
    let mut list = |page: &str, lines: &str| {
        let mut good = Vec::new();
        for item in items(lines) {
            match item {
                Ok(item) => good.push(item),
                Err(line) => found.push(format!("{page}: a shortfall without a title: {line}")),
            }
        }
        good
    };
    let (short, long) = (list(SHORT, lines), list(REASONS, long));
    for place in 0..short.len().max(long.len()) {
        let (Some(one), Some(other)) = (short.get(place), long.get(place)) else {
            let (ours, theirs) = (short.len(), long.len());
            found.push(format!("{SHORT} has {ours} shortfalls, {REASONS} {theirs}"));
            break;
        };
        if one.title != other.title {
            let (ours, theirs) = (&one.title, &other.title);
            found.push(format!(
                "{SHORT}: `{ours}` stands where {REASONS} has `{theirs}`"
            ));
            break;
        }
        let known = numbers(&other.text);
        for number in numbers(&one.text) {
            if !known.contains(&number) && !numbers(&one.title).contains(&number) {
                let title = &one.title;
                found.push(format!(
                    "{SHORT}: {title}: {REASONS} does not say {number} there"
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Page {
        Page {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn each_page_of_figures_is_short_and_has_a_row() {
        let told = |index: &str, lines: usize| {
            let pages = [
                page(INDEX, index),
                page("benches/results/a.md", &"x\n".repeat(lines)),
                page("docs/b.md", ""),
            ];
            folder(&pages).len()
        };
        let index = "| [a.md](a.md) | a |\n\nand [a](a.md)\n";
        assert_eq!(told(index, MOST_LINES), 0);
        assert_eq!(told(index, MOST_LINES + 1), 1);
        assert_eq!(told("see [a](a.md)\n", 1), 1);
        assert_eq!(told("| [a.md](a.md) | a |\n| [a.md](a.md) | b |\n", 1), 1);
    }

    #[test]
    fn figures_are_those_of_the_folder() {
        let figure = page("benches/results/a.md", "1.5 us\n  beside 2");
        assert_eq!(
            measured(&[figure, page("docs/b.md", "3")]),
            "1.5 us beside 2"
        );
    }

    #[test]
    fn a_shortfall_has_one_title_and_its_numbers_have_reasons() {
        let short = "- **No**: 7 is no shortfall\n## Shortfalls\n\n\
                     - **Of 8 ranks**: 8 take 1.4 us,\n  aim 1.\n- **B**: no.\n";
        let long = "- **Of 8 ranks**: 1.4 us and 2,\n  where the aim is 1. Why.\n- **B**: no.\n";
        let told = |short: &str, long: &str| shortfalls(short, long).len();
        assert_eq!(shortfalls(short, long), [""; 0]);
        assert_eq!(told(&short.replace("1.4", "1.5"), long), 1);
        assert_eq!(told(&short.replace("aim 1.", "aim 3."), long), 1);
        assert_eq!(told(&short.replace("**B**", "**C**"), long), 1);
        assert_eq!(told(&short.replace("- **B**: no.\n", ""), long), 1);
        assert_eq!(told(short, &long.replace("- **B**: no.\n", "")), 1);
        assert_eq!(told(&short.replace("**B**: ", ""), long), 2);
    }
}
