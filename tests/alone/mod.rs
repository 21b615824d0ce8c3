//! A test in a process of its own, where no other test changes what it counts.

use std::ffi::OsStr;
use std::process::Command;

/// Runs an ignored test of this binary, by its path, in a process with these variables; what it
/// has said.
///
/// # Panics
/// It has not passed.
#[track_caller]
pub fn alone(test: &str, variables: &[(&str, &OsStr)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let passed = output.status.success() && text.contains("1 passed");
    assert!(passed, "{test}, {variables:?}: {text}");
    text
}
