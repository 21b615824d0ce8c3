//! Sizes that fit on a screen: columns, lines of a file, lines of a function, and how a file opens.
//!
//! An exception is listed with the size it may have. It must be needed: once the file or function
//! fits, the entry is a fault, and so the list can only shrink.

use crate::source::Source;

const COLUMNS: usize = 100;
const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 70;

/// A file or function that may be longer. `function` is empty for a whole file.
pub struct Exception {
    pub path: &'static str,
    pub function: &'static str,
    pub lines: usize,
}

/// Today's exceptions. Make this list shorter, never longer.
pub const EXCEPTIONS: &[Exception] = &[];

/// Files of data that a program wrote: size and columns do not matter there.
pub const DATA: &[&str] = &["bindings/c/include/kolo.h"];

pub fn columns(source: &Source) -> Vec<String> {
    let too_wide = |line: &&(usize, &String)| line.1.chars().count() > COLUMNS;
    let lines: Vec<_> = source.raw.iter().enumerate().collect();
    lines
        .iter()
        .filter(too_wide)
        .map(|(i, line)| source.fault(*i, &format!("{} columns", line.chars().count())))
        .collect()
}

/// Lengths of the file and of its functions, against the limits and the exceptions.
pub fn lengths(source: &Source, exceptions: &[Exception]) -> Vec<String> {
    let mut sizes = vec![(String::new(), 0, source.raw.len(), FILE_LINES)];
    if source.is_rust() {
        let named = functions(&source.code.join("\n"));
        sizes.extend(
            named
                .into_iter()
                .map(|(name, line, n)| (name, line, n, FUNCTION_LINES)),
        );
    }
    let mut found = Vec::new();
    for (name, line, lines, limit) in &sizes {
        let listed = exceptions
            .iter()
            .find(|e| e.path == source.path && e.function == name);
        let allowed = listed.map_or(*limit, |e| e.lines.max(*limit));
        if *lines > allowed {
            let what = if name.is_empty() {
                "this file".into()
            } else {
                format!("`{name}`")
            };
            found.push(source.fault(*line, &format!("{what} has {lines} lines, not {allowed}")));
        }
    }
    for exception in exceptions.iter().filter(|e| e.path == source.path) {
        let needed = sizes
            .iter()
            .any(|(name, _, lines, limit)| name == exception.function && lines > limit);
        if !needed {
            let what = format!("the exception for `{}` is not needed", exception.function);
            found.push(source.fault(0, &what));
        }
    }
    found
}

/// Name, first line (from 0) and number of lines of every function that has a body.
fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let starts_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let rest = &code[at + 3..];
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        if !starts_word || end == 0 {
            continue;
        }
        if let Some(length) = body_end(rest) {
            let first = code[..at].matches('\n').count();
            let lines = rest[..length].matches('\n').count() + 1;
            found.push((rest[..end].to_owned(), first, lines));
        }
    }
    found
}

/// Where the body that follows a signature ends; None for a declaration without one.
fn body_end(signature: &str) -> Option<usize> {
    let mut nested = 0_i32;
    let mut braces = 0_i32;
    for (i, c) in signature.char_indices() {
        match c {
            '(' | '[' => nested += 1,
            ')' | ']' => nested -= 1,
            ';' if nested == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces == 0 && nested == 0 {
                    return Some(i + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Every file opens by saying what it is for.
pub fn opening(source: &Source) -> Vec<String> {
    let marks: &[&str] = match source.path.rsplit('.').next() {
        Some("rs") => &["//!"],
        Some("f90" | "F90") => &["!"],
        Some("c" | "h" | "cu") => &["/*", "//"],
        _ => &["#", "\"\"\""],
    };
    let first = source.raw.iter().find(|line| !line.starts_with("#!/"));
    if first.is_some_and(|line| marks.iter().any(|mark| line.starts_with(mark))) {
        Vec::new()
    } else {
        let what = format!("the file must open with what it is for, after {}", marks[0]);
        vec![source.fault(0, &what)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_lines(n: usize) -> Source {
        Source::new(
            "src/a/b.rs",
            &format!("fn long() {{\n{}}}\n", "    x;\n".repeat(n - 2)),
        )
    }

    #[test]
    fn a_wide_line_is_a_fault() {
        let wide = format!("{}\n{}\n", "x".repeat(100), "é".repeat(101));
        assert_eq!(
            columns(&Source::new("src/a.rs", &wide)),
            ["src/a.rs:2: 101 columns"]
        );
    }

    #[test]
    fn long_functions_and_files_are_faults() {
        assert!(lengths(&with_lines(70), &[]).is_empty());
        assert_eq!(
            lengths(&with_lines(71), &[]),
            ["src/a/b.rs:1: `long` has 71 lines, not 70"]
        );
        assert_eq!(lengths(&with_lines(501), &[]).len(), 2);
    }

    #[test]
    fn an_exception_must_be_needed_and_kept() {
        let listed = [Exception {
            path: "src/a/b.rs",
            function: "long",
            lines: 80,
        }];
        assert!(lengths(&with_lines(80), &listed).is_empty());
        assert_eq!(lengths(&with_lines(81), &listed).len(), 1);
        let found = lengths(&with_lines(60), &listed);
        assert_eq!(
            found,
            ["src/a/b.rs:1: the exception for `long` is not needed"]
        );
    }

    #[test]
    fn functions_are_found_whole() {
        let code =
            "trait T { fn a(x: [u8; 3]); fn b() -> u8 { 1 } }\npub fn c(\n) {\n if x {}\n}\n";
        let names = functions(code);
        assert_eq!(names, [("b".to_owned(), 0, 1), ("c".to_owned(), 1, 4)]);
        assert!(functions("type F = unsafe fn (u8); let often = 1;").is_empty());
    }

    #[test]
    fn a_file_must_open_with_its_purpose() {
        assert!(opening(&Source::new("src/a.rs", "//! Purpose.\n")).is_empty());
        assert_eq!(opening(&Source::new("src/a.rs", "use x;\n")).len(), 1);
        assert_eq!(opening(&Source::new("src/a.rs", "")).len(), 1);
        assert!(opening(&Source::new("a.sh", "#!/bin/sh\n# Purpose.\n")).is_empty());
        assert_eq!(opening(&Source::new("a.f90", "module m\n")).len(), 1);
    }
}
