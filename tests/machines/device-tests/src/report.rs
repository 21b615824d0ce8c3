//! Report of a step when it has ended: one line of JSON.

use serde_json::{Value, json};
use std::io::Write;

/// Why a step has failed.
#[derive(Debug)]
pub struct Failure(pub String);

impl From<kolo::base::Error> for Failure {
    fn from(error: kolo::base::Error) -> Failure {
        Failure(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure(error.to_string())
    }
}

/// A failure unless something holds.
pub fn hold(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failure> {
    match holds {
        true => Ok(()),
        false => Err(Failure(otherwise())),
    }
}

/// How a step ended well.
#[derive(Debug)]
pub enum Verdict {
    /// All that it asks for holds; what it has seen.
    Passed(Value),
    /// It could not run here, and why.
    NotRun(String),
}

/// Outcome of a step.
pub type Outcome = Result<Verdict, Failure>;

/// The line of a step. `ok` is null where it was not run.
pub fn line(step: &str, outcome: &Outcome) -> Value {
    match outcome {
        Ok(Verdict::Passed(figures)) => json!({"step": step, "ok": true, "figures": figures}),
        Ok(Verdict::NotRun(why)) => json!({"step": step, "ok": null, "not run": why}),
        Err(Failure(why)) => json!({"step": step, "ok": false, "error": why}),
    }
}

/// Writes the line of this process's step and ends the process: threads that wait for what has
/// failed would never end, and a driver that waits for kernels at the end would not either.
pub fn end(step: &str, outcome: &Outcome) -> ! {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", line(step, outcome));
    let _ = out.flush();
    // SAFETY: ends the process; nothing of it is needed any more. The lock is held, so no other
    // thread writes a second line.
    unsafe { libc::_exit(i32::from(outcome.is_err())) }
}

/// Where a step is, for whoever reads why it did not end.
pub fn note(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
