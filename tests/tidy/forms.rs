//! Headings of the FAQ are found by Fortran's users, too: the words of a sentence that they read in
//! another form do not stand in its heading.
//!
//! `bindings/fortran/kolo_fortran_words.c` has the table of these words, which this reads as it is.

use crate::links::prose;

/// The file with the table.
pub const WORDS: &str = "bindings/fortran/kolo_fortran_words.c";
/// How an answer begins to tell the other form where the heading is Fortran's.
const OTHER_FORM: &str = "In C the sentence is";

/// A row of the table.
pub struct Word {
    theirs: String,
    ours: String,
    kind: String,
}

/// The rows of the table.
pub fn words(source: &str) -> Vec<Word> {
    let row = |line: &str| {
        let inside = line.trim().strip_prefix("{\"")?.strip_suffix("},")?;
        let (theirs, rest) = inside.split_once("\", \"")?;
        let (ours, kind) = rest.split_once("\", ")?;
        let [theirs, ours, kind] = [theirs, ours, kind].map(str::to_owned);
        Some(Word { theirs, ours, kind })
    };
    source.lines().filter_map(row).collect()
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether the table replaces `word`, which stands behind `before`. A value may be any number.
fn replaces(row: &Word, before: &str, word: &str) -> bool {
    let is_it = match row.kind.as_str() {
        "CALL" => word.strip_prefix("kolo").unwrap_or(word) == row.theirs,
        _ => word == row.theirs,
    };
    let last = before.strip_suffix(' ').and_then(|it| it.chars().last());
    is_it
        && match row.kind.as_str() {
            "COUNTED" => last.is_some_and(|c| c.is_ascii_digit() || c == '…'),
            "LISTED" => last == Some(','),
            _ => true,
        }
}

/// The row that replaces a word of a heading.
fn replaced<'a>(words: &'a [Word], heading: &str) -> Option<&'a Word> {
    let mut at = 0;
    while let Some(start) = heading[at..].find(is_part).map(|start| at + start) {
        let rest = &heading[start..];
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (before, word) = (&heading[..start], &rest[..length]);
        if let Some(row) = words.iter().find(|row| replaces(row, before, word)) {
            return Some(row);
        }
        at = start + length;
    }
    None
}

/// Headings that the users of one language do not find: those with a word that Fortran has
/// otherwise, and those with Fortran's whose answer does not tell the form of C.
pub fn one_sided(page: &str, text: &str, words: &[Word]) -> Vec<String> {
    let mut found = Vec::new();
    let lines: Vec<(usize, &str)> = prose(text).collect();
    for (at, (number, line)) in lines.iter().enumerate() {
        let Some(heading) = line.strip_prefix("## ") else {
            continue;
        };
        if let Some(row) = replaced(words, heading) {
            found.push(format!(
                "{page}:{number}: {heading}: Fortran programs read {} where it says {}: write … \
                 there",
                row.ours, row.theirs
            ));
        }
        let is_fortran = words.iter().any(|row| {
            let mut parts = heading.split(|c| !is_part(c));
            ["CALL", "NAME"].contains(&row.kind.as_str()) && parts.any(|part| part == row.ours)
        });
        let answer = lines[at + 1..].iter().map(|(_, line)| *line);
        let answer: Vec<&str> = answer.take_while(|line| !line.starts_with("## ")).collect();
        if is_fortran && !answer.join(" ").contains(OTHER_FORM) {
            found.push(format!(
                "{page}:{number}: {heading}: only Fortran programs read this: begin a sentence of \
                 the answer with \"{OTHER_FORM}\""
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(heading: &str, answer: &str) -> usize {
        let table = r#"
            {"Reduce", "kolo_reduce", CALL},
            {"koloSum", "KOLO_SUM", NAME},
            {"byte", "bytes", COUNTED},
            {"sum", "KOLO_SUM", LISTED},
            other"#;
        let words = words(table);
        assert_eq!(words.len(), 4);
        one_sided("faq.md", &format!("## `{heading}`\n\n{answer}\n"), &words).len()
    }

    #[test]
    fn a_word_that_fortran_has_otherwise_is_no_heading() {
        for heading in [
            "koloReduce … gone",
            "rank … called Reduce",
            "koloSum of",
            "of 6 byte",
            "of … byte",
            "…, sum",
        ] {
            assert_eq!(told(heading, "Do."), 1, "{heading}");
        }
        for heading in [
            "Reduced",
            "AllReduce",
            "each byte of",
            "the sum",
            "kolosSum",
            "no ReduceX",
        ] {
            assert_eq!(told(heading, "Do."), 0, "{heading}");
        }
    }

    #[test]
    fn a_heading_of_fortran_tells_the_form_of_c() {
        assert_eq!(told("x (kolo_reduce) is not", "Do."), 1);
        let answer = "Do.\nIn C the sentence is `... no`.";
        assert_eq!(told("x (kolo_reduce) is not", answer), 0);
        assert_eq!(told("x (kolo_reduced) is not", "Do."), 0);
    }
}
