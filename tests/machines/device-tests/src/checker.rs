//! NVIDIA's checker of memory accesses (compute-sanitizer) around a small step.

use crate::report::{Failure, Outcome, Verdict};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

const CHECKER: &str = "compute-sanitizer";
/// Where it is installed beside those folders that the shell knows.
const TOOLKIT: &str = "/usr/local/cuda/bin";
/// Steps that it is run around: one kernel by itself, and two that wait for each other (a checker
/// that lets kernels run one after the other only has the second one wait for ever).
pub const STEPS: [&str; 2] = ["fold", "pairs-2-ll"];
/// Its exit status when it has found something.
const FOUND: i32 = 86;

/// Runs a small step below the checker, where there is one.
pub fn run(around: &str) -> Outcome {
    let Some(checker) = installed() else {
        return Ok(Verdict::NotRun(format!("{CHECKER} is not installed")));
    };
    let said = Command::new(&checker)
        .args(["--tool", "memcheck", "--error-exitcode", &FOUND.to_string()])
        .arg(std::env::current_exe()?)
        .args(["--small", "step", around])
        .output()?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    match said.status.code() {
        Some(0) => Ok(Verdict::Passed(
            json!({"checker": checker, "around": around}),
        )),
        Some(FOUND) => Err(Failure(format!("{CHECKER} has found: {}", tail(&text)))),
        _ => Err(Failure(format!(
            "{around} below {CHECKER}: {}: {}",
            said.status,
            tail(&(text + &String::from_utf8_lossy(&said.stderr)))
        ))),
    }
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let known = std::env::split_paths(&path).chain([Path::new(TOOLKIT).to_path_buf()]);
    let candidates = known.map(|folder| folder.join(CHECKER));
    candidates.into_iter().find(|file| file.is_file())
}

/// The end of a text.
pub fn tail(text: &str) -> &str {
    const BYTES: usize = 2000;
    let text = text.trim_end();
    let begin = text.len().saturating_sub(BYTES);
    let begin = (begin..text.len()).find(|&at| text.is_char_boundary(at));
    &text[begin.unwrap_or(0)..]
}
