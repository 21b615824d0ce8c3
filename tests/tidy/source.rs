//! A source file as the rules see it.
//!
//! The rules look for words, and a word in a comment or in a string is not code. So every file is
//! kept twice: `raw` as it is, and `code` with comments, strings and characters blanked out, line
//! by line and column by column the same.

use std::path::{Path, PathBuf};

/// A file below the repository root.
pub struct Source {
    /// Path relative to the root, with `/`.
    pub path: String,
    /// The lines as they are.
    pub raw: Vec<String>,
    /// The lines without comments and strings. For files that are not Rust: the same as `raw`.
    pub code: Vec<String>,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        let raw: Vec<String> = text.lines().map(str::to_owned).collect();
        let code = if path.ends_with(".rs") {
            blank(text).lines().map(str::to_owned).collect()
        } else {
            raw.clone()
        };
        Source {
            path: path.to_owned(),
            raw,
            code,
        }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether this file is part of kolo itself, and not of its tests, benchmarks or examples.
    pub fn is_product(&self) -> bool {
        self.is_rust() && (self.path.starts_with("src/") || self.path.starts_with("bindings/"))
    }

    /// Whether this file is part of the library: neither of the command, nor a program that builds,
    /// nor a file of tests.
    pub fn is_library(&self) -> bool {
        let path = self.path.as_str();
        let is_other = path.starts_with("src/bin/") || path.ends_with("build.rs");
        let is_test = path.contains("/tests/") || path.ends_with("tests.rs");
        self.is_product() && !is_other && !is_test
    }

    /// The code before the tests.
    pub fn before_tests(&self) -> &[String] {
        let mut lines = self.code.iter();
        let tests = lines.position(|line| line.contains("#[cfg(test)]"));
        &self.code[..tests.unwrap_or(self.code.len())]
    }

    /// The room below `src/`, or None for `src/lib.rs` and files elsewhere.
    pub fn room(&self) -> Option<&str> {
        let (room, rest) = self.path.strip_prefix("src/")?.split_once('/')?;
        (!rest.is_empty()).then_some(room)
    }

    /// "path:line: what", with lines counted from 1 as editors do.
    pub fn fault(&self, line_index: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path, line_index + 1)
    }
}

/// Every source file of the project, sorted by path.
pub fn all(root: &Path) -> Vec<Source> {
    const KINDS: [&str; 8] = ["rs", "c", "h", "f90", "F90", "sh", "py", "cu"];
    let mut found = Vec::new();
    for top in [
        "src", "bindings", "tests", "benches", "examples", "kernels", "slurm", "config",
    ] {
        walk(&root.join(top), &mut found);
    }
    found.retain(|path| {
        path.extension()
            .is_some_and(|e| KINDS.iter().any(|k| e == *k))
    });
    found.sort();
    let read = |path: &PathBuf| {
        let name = path
            .strip_prefix(root)
            .expect("below the root")
            .to_string_lossy();
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{name}: {e}"));
        Source::new(&name.replace('\\', "/"), &String::from_utf8_lossy(&bytes))
    };
    found.iter().map(read).collect()
}

fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.map(|e| e.expect("a directory entry")) {
        let path = entry.path();
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("target") || name == "build" || name == "__pycache__"
        {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// `text` with everything that is not code replaced by spaces; line breaks stay.
pub fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = end_of_non_code(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(
                chars[at..end]
                    .iter()
                    .map(|&c| if c == '\n' { '\n' } else { ' ' }),
            );
            at = end;
        }
    }
    out
}

/// The strings of a file in Rust or C, as they stand between their quotes. Those that only blanks
/// separate are one, as in C.
pub fn strings(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut found: Vec<String> = Vec::new();
    let (mut at, mut goes_on) = (0, false);
    while at < chars.len() {
        let end = end_of_non_code(&chars, at);
        let piece: String = chars[at..end].iter().collect();
        let inner = piece.split_once('"').map(|(_, inner)| inner);
        match inner.and_then(|inner| inner.trim_end_matches('#').strip_suffix('"')) {
            Some(inner) if !piece.starts_with('/') => {
                match found.last_mut().filter(|_| goes_on) {
                    Some(last) => last.push_str(inner),
                    None => found.push(inner.to_owned()),
                }
                goes_on = true;
            }
            _ if end == at => goes_on &= chars[at].is_whitespace(),
            _ => {}
        }
        at = end.max(at + 1);
    }
    found
}

/// Where the comment, string or character that begins at `at` ends; `at` when none begins there.
fn end_of_non_code(chars: &[char], at: usize) -> usize {
    let starts = |word: &str| {
        word.chars()
            .enumerate()
            .all(|(i, c)| chars.get(at + i) == Some(&c))
    };
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    if starts("//") {
        chars[at..]
            .iter()
            .position(|&c| c == '\n')
            .map_or(chars.len(), |n| at + n)
    } else if starts("/*") {
        end_of_block_comment(chars, at)
    } else if chars[at] == '"' {
        end_of_quoted(chars, at, '"')
    } else if !in_word && (starts("b\"") || starts("c\"")) {
        end_of_quoted(chars, at + 1, '"')
    } else if !in_word && (starts("r\"") || starts("r#")) {
        end_of_raw_string(chars, at, at + 1)
    } else if !in_word && (starts("br\"") || starts("br#") || starts("cr\"") || starts("cr#")) {
        end_of_raw_string(chars, at, at + 2)
    } else if chars[at] == '\''
        && (chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\''))
    {
        end_of_quoted(chars, at, '\'')
    } else {
        at
    }
}

fn end_of_block_comment(chars: &[char], at: usize) -> usize {
    let mut depth = 0_u32;
    let mut i = at;
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                i += 1;
                continue;
            }
        }
        i += 2;
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

/// `open` is the position of the opening quote.
fn end_of_quoted(chars: &[char], open: usize, quote: char) -> usize {
    let mut i = open + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            c if c == quote => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// `hashes` is the position after the `r`; a raw identifier (`r#type`) is code and ends at `at`.
fn end_of_raw_string(chars: &[char], at: usize, hashes: usize) -> usize {
    let count = chars[hashes..].iter().take_while(|&&c| c == '#').count();
    if chars.get(hashes + count) != Some(&'"') {
        return at;
    }
    let mut i = hashes + count + 1;
    while i < chars.len() {
        let closes = chars[i] == '"' && (1..=count).all(|k| chars.get(i + k) == Some(&'#'));
        if closes {
            return i + 1 + count;
        }
        i += 1;
    }
    chars.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squeezed(text: &str) -> String {
        blank(text).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_strings_are_blanked() {
        assert_eq!(squeezed("a(\"x // y\", b); // c \"d\"\ne"), "a( , b); e");
        assert_eq!(squeezed("a /* b /* c */ d */ e"), "a e");
        assert_eq!(
            squeezed(r####"f(r#"a " b"#, br"\", '"', '\'', b"\"")"####),
            "f( , , , , )"
        );
        assert_eq!(
            squeezed("fn f<'a>(x: &'a str) {}"),
            "fn f<'a>(x: &'a str) {}"
        );
        assert_eq!(squeezed("let r#type = for_r\"s\";"), "let r#type = for_r ;");
    }

    #[test]
    fn strings_are_found_without_comments_and_characters() {
        let text = "f(\"a \\\" b\", r#\"c\"d\"#); // \"e\"\n/* \"f\" */ g('\"', \"h\"\n  \"i\")";
        assert_eq!(strings(text), ["a \\\" b", "c\"d", "hi"]);
    }

    #[test]
    fn columns_and_lines_are_kept() {
        let text = "let a = \"é\nb\"; // c\n'x' d";
        let blanked = blank(text);
        assert_eq!(blanked.chars().count(), text.chars().count());
        assert_eq!(blanked.lines().count(), text.lines().count());
        assert_eq!(blanked.lines().last(), Some("    d"));
    }
}
