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
