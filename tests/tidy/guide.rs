//! The guide says what the sources say: each heading of its FAQ is a sentence of kolo's, figures
//! are those of `benches/results/`, settings are there, and a quick start is one page.

use crate::links::prose;
use crate::source::{Source, strings};
use std::collections::BTreeSet;

/// Where the pages of the guide lie that are no reference.
pub const FOLDER: &str = "docs/guide/";
pub const FAQ: &str = "docs/guide/faq.md";
/// The page whose figures are measured ones.
pub const FIGURES: &str = "docs/guide/faster.md";
/// Where settings and constants stand that pages may name.
pub const KNOWN: [&str; 4] = [
    "docs/settings.md",
    "src/config/option.rs",
    "bindings/c/include/kolo.h",
    "bindings/fortran/kolo_constants.inc",
];

/// Entries of the FAQ, at least and at most.
const ENTRIES: std::ops::RangeInclusive<usize> = 20..=40;
/// Lines of an answer, empty ones included.
const MOST_LINES: usize = 14;
/// Letters of a heading that stand in the sources, at least: fewer are found anywhere.
const LEAST_LETTERS: usize = 16;
/// Lines of a quick start, at most.
const PAGE: usize = 110;
/// Mark that stands in a heading for a value.
const VALUE: char = '…';
/// Mark that stands in a string of the sources for a value, once it is ready to be searched.
const HOLE: char = '\0';

/// A sentence of kolo's in a program, with holes for values.
pub struct Sentence(String);

/// The sentences of what users run: tests say them, too, and do not count.
pub fn sentences(sources: &[Source]) -> Vec<Sentence> {
    let is_said = |source: &&Source| {
        let path = source.path.as_str();
        let is_test = path.contains("/tests/") || path.ends_with("tests.rs");
        let is_ours = ["src/", "bindings/", "slurm/"]
            .iter()
            .any(|top| path.starts_with(top));
        is_ours && !is_test && (source.is_rust() || path.ends_with(".c"))
    };
    let mut found = Vec::new();
    for source in sources.iter().filter(is_said) {
        let text = source.raw.join("\n");
        let code = text.split("#[cfg(test)]\nmod tests {").next();
        let all = strings(code.unwrap_or(&text));
        found.extend(all.iter().map(|one| Sentence(ready(one, source.is_rust()))));
    }
    found
}

/// A string as it is printed: lines joined where the source broke them, a hole for each value.
fn ready(string: &str, is_rust: bool) -> String {
    let mut out = String::new();
    let mut chars = string.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                Some('n' | 't') => out.push(' '),
                other => out.extend(other),
            },
            '}' if is_rust => {
                chars.next_if_eq(&'}');
                out.push('}');
            }
            '{' if is_rust && chars.next_if_eq(&'{').is_some() => out.push('{'),
            '{' if is_rust => {
                for inside in chars.by_ref() {
                    if inside == '}' {
                        break;
                    }
                }
                out.push(HOLE);
            }
            '%' if !is_rust => {
                while chars.next_if(|c| "0123456789.-lz".contains(*c)).is_some() {}
                chars.next();
                out.push(HOLE);
            }
            c => out.push(c),
        }
    }
    out
}

/// Whether the parts of a heading stand in a sentence, in their order.
fn says(sentence: &Sentence, heading: &str) -> bool {
    let mut rest = sentence.0.as_str();
    heading.split(VALUE).all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// Faults of the FAQ: headings that no sentence says, answers that are too long.
pub fn faq(page: &str, text: &str, sentences: &[Sentence]) -> Vec<String> {
    let mut found = Vec::new();
    let mut heads: Vec<(usize, &str)> = Vec::new();
    for (number, line) in prose(text) {
        let Some(heading) = line.strip_prefix("## ") else {
            continue;
        };
        heads.push((number, heading));
        let mut fault = |what: &str| found.push(format!("{page}:{number}: {heading}: {what}"));
        let quoted = heading
            .strip_prefix('`')
            .and_then(|rest| rest.strip_suffix('`'));
        let Some(heading) = quoted else {
            fault("is no sentence of kolo's in backquotes");
            continue;
        };
        let letters = heading.chars().filter(|c| c.is_alphanumeric()).count();
        if letters < LEAST_LETTERS {
            fault("is too short to be found");
        }
        if !sentences.iter().any(|one| says(one, heading)) {
            fault("no program of kolo's says that (any more)");
        }
    }
    if !ENTRIES.contains(&heads.len()) {
        found.push(format!("{page} has {} entries", heads.len()));
    }
    let ends = heads.iter().skip(1).map(|(number, _)| *number);
    let ends = ends.chain([text.lines().count() + 2]);
    for ((number, heading), end) in heads.iter().zip(ends) {
        if end - number > MOST_LINES + 2 {
            found.push(format!(
                "{page}:{number}: {heading}: the answer is too long"
            ));
        }
    }
    found
}

/// Words that begin with `KOLO_`.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(move |c| !is_part(c));
    words.filter(|word| word.starts_with("KOLO_") && !word.ends_with('_'))
}

/// Settings and constants that a page names and that none of the texts knows.
pub fn unknown_names(page: &str, text: &str, known: &[String]) -> Vec<String> {
    let known: BTreeSet<&str> = known.iter().flat_map(|text| names(text)).collect();
    let named: BTreeSet<&str> = names(text).collect();
    let named = named.difference(&known);
    named
        .map(|name| format!("{page}: there is no {name}"))
        .collect()
}

/// Figures of a page that another one does not have: what stands in a cell of a table or between
/// double asterisks and has a digit.
pub fn figures(page: &str, text: &str, measured: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '.' || c == ',';
    let stands = |figure: &str| {
        measured.match_indices(figure).any(|(at, _)| {
            let before = measured[..at].chars().next_back();
            let mut after = measured[at + figure.len()..].chars();
            // A full stop or a comma ends a sentence, unless a digit follows.
            let next = after.next();
            let ends = match next {
                Some('.' | ',') => !after.next().is_some_and(|c| c.is_ascii_digit()),
                next => !next.is_some_and(is_part),
            };
            ends && !before.is_some_and(is_part)
        })
    };
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let cells = line
            .strip_prefix('|')
            .into_iter()
            .flat_map(|row| row.split('|').skip(1));
        let strong = line.split("**").skip(1).step_by(2);
        for figure in cells.chain(strong).map(str::trim) {
            let has_digit = figure.chars().any(|c| c.is_ascii_digit());
            if has_digit && !stands(figure) {
                found.push(format!("{page}:{number}: nobody has measured `{figure}`"));
            }
        }
    }
    found
}

/// Whether a quick start is longer than a page.
pub fn length(page: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let what = format!("{page} has {lines} lines, and {PAGE} are a page");
    Vec::from_iter((lines > PAGE).then_some(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> Vec<Sentence> {
        let rust = [
            "//! \"said in a comment only, really\"",
            "format!(\"rank {peer} on {} has {{gone}} \\",
            "    away: {why}\");",
            "#[cfg(test)]\nmod tests {",
            "\"said in a test only, really\"",
        ];
        let rust = Source::new("src/comm/a.rs", &rust.join("\n"));
        let test = Source::new("src/comm/a_tests.rs", "\"said by a file of tests\"");
        let c = Source::new(
            "bindings/fortran/a.c",
            "say(\"the argument %s has \"\n  \"%zu parts\");",
        );
        sentences(&[rust, test, c])
    }

    fn faq_of(headings: &[&str]) -> Vec<String> {
        let more = 20 - headings.len();
        let text: String = headings
            .iter()
            .map(|one| format!("## {one}\n\nDo.\n\n"))
            .collect();
        let rest = "## `rank … on … has {gone} away: …`\n\nDo.\n\n".repeat(more);
        faq("faq.md", &format!("# FAQ\n\n{text}{rest}"), &said())
    }

    #[test]
    fn a_heading_is_a_sentence_of_the_sources() {
        assert_eq!(faq_of(&[]), [""; 0]);
        assert_eq!(faq_of(&["`the argument … has … parts`"]), [""; 0]);
        assert_eq!(faq_of(&["`rank … on … has gone away: …`"]).len(), 1);
        assert_eq!(
            faq_of(&["`away: … rank … on …`"]).len(),
            2,
            "order, and letters"
        );
        assert_eq!(faq_of(&["`said in a comment only, really`"]).len(), 1);
        assert_eq!(faq_of(&["`said in a test only, really`"]).len(), 1);
        assert_eq!(faq_of(&["`said by a file of tests`"]).len(), 1);
        assert_eq!(faq_of(&["Why kolo?"]).len(), 1);
    }

    #[test]
    fn an_answer_is_short_and_entries_are_few() {
        let long = format!(
            "`rank … on … has {{gone}} away: …`\n{}",
            "line\n".repeat(15)
        );
        assert_eq!(faq_of(&[&long]).len(), 1);
        assert_eq!(faq("faq.md", "# FAQ\n", &said()).len(), 1);
    }

    #[test]
    fn what_a_page_names_is_known() {
        let known = [
            "`KOLO_NET`".to_owned(),
            "#define KOLO_NO_RANK -1".to_owned(),
        ];
        let told = |text: &str| unknown_names("a.md", text, &known);
        assert!(told("KOLO_NET=mpi, KOLO_NO_RANK, KOLO_*").is_empty());
        assert_eq!(told("`KOLO_NETS=mpi`"), ["a.md: there is no KOLO_NETS"]);
    }

    #[test]
    fn figures_are_measured() {
        let measured = "| 1.09, 1.40 | 1.2 to 5.8 |\nof 0.15 us.\n";
        let told = |line: &str| figures("a.md", line, measured).len();
        assert_eq!(told("| 8 B | 1.2 to 5.8 | 1.09, 1.40 | 0.15 us | all |"), 0);
        assert_eq!(told("| 8 B | 1.2 to 5.9 |"), 1);
        assert_eq!(told("| 8 B | 2 to 5.8 | .40 |"), 2);
        assert_eq!(told("takes **0.15 us** beside **0.16 us**"), 1);
        assert_eq!(told("takes 7 us"), 0);
    }

    #[test]
    fn a_quick_start_is_a_page() {
        assert!(length("a.md", &"x\n".repeat(PAGE)).is_empty());
        assert_eq!(length("a.md", &"x\n".repeat(PAGE + 1)).len(), 1);
    }
}
