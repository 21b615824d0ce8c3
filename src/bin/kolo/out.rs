//! Writing to standard output. A reader that goes away (`kolo topo | head`) ends the printing, not
//! the program: the other ranks still count on this one.

use std::io::Write;

/// Writes `text` to standard output, at once.
pub fn write(text: &str) {
    let mut stdout = std::io::stdout().lock();
    // The one error to expect is a closed pipe, and then there is nobody left to tell.
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

/// Writes one line.
pub fn line(text: &str) {
    write(&format!("{text}\n"));
}
