//! Writing to standard output. A reader that goes away (`kolo topo | head`) ends the printing, not
//! the program: the other ranks still count on this one.

use kolo::base::Error;
use serde_json::Value;
use std::io::Write;

/// Writes `text` to standard output, at once.
pub fn write(text: &str) {
    let mut stdout = std::io::stdout().lock();
    // The one error to expect is a closed pipe, and then there is nobody left to tell.
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

/// Writes a JSON document, for `--json`.
pub fn json(value: &Value) {
    // Of a value that is there nothing can fail but memory.
    let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    line(&text);
}

/// Writes an error to standard error, unless another process of the job writes the same.
pub fn complain(error: &Error) {
    if !error.told {
        report(error);
    }
}

/// Writes one line to standard error at once: where a launcher ends a job it may take only what it
/// has got so far, and half a sentence helps nobody.
pub fn report(what: &impl std::fmt::Display) {
    let line = format!("{what}\n");
    eprint!("{line}");
}

/// Writes one line.
pub fn line(text: &str) {
    write(&format!("{text}\n"));
}

/// `1 rank`, `3 ranks`.
pub fn counted<N: std::fmt::Display + PartialEq + From<u8>>(count: N, word: &str) -> String {
    if count == N::from(1) {
        format!("1 {word}")
    } else {
        format!("{count} {word}s")
    }
}

/// `64 KiB`, `1.5 GiB`.
pub fn amount(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            let digits = usize::from(value.fract() != 0.0);
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} PiB")
}

/// Names in one line, of many the first.
pub fn list<T: AsRef<str>>(names: &[T]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_for_people() {
        assert_eq!(amount(512), "512 bytes");
        assert_eq!(amount(64 << 10), "64 KiB");
        assert_eq!(amount(3 << 29), "1.5 GiB");
    }
}
