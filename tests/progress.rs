//! Calls on streams end whatever the program does meanwhile, and what that costs. Ranks are
//! processes, this binary again: a rank that waits inside kolo drives all ranks of its process.

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "cma/job.rs"]
mod job;
#[path = "progress/scenarios.rs"]
mod scenarios;

use job::Job;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Not a test of its own: what a process of the other tests runs.
#[test]
fn child() {
    job::run_child(scenarios::by_name);
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let pairs = digits.map(|pair| std::str::from_utf8(pair).expect("hex"));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("hex"))
        .collect()
}

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a scenario on one process per rank.
fn run(scenario: &str, nranks: usize, settings: &[(&str, &str)]) {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let folder = format!("kolo-progress-{}-{number}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(folder));
    std::fs::create_dir(&folder.0).expect("a folder");
    let mut settings = settings.to_vec();
    settings.push((scenarios::PLACE, folder.0.to_str().expect("plain letters")));
    Job::start(scenario, &vec![1; nranks], &settings).finish();
}

/// Two ranks share one core, and one of them waits outside of kolo for what the other does after
/// its call has ended.
#[test]
fn a_call_ends_while_a_rank_waits_elsewhere() {
    run("awaited", 2, &[(scenarios::ONE_CORE, "1")]);
    run("awaited", 3, &[]);
}

/// The progress thread alone moves the call of every rank to its end.
#[test]
fn a_call_ends_while_no_rank_is_inside() {
    run("looked_at", 2, &[]);
    run("looked_at", 3, &[(scenarios::ONE_CORE, "1")]);
    run("looked_at", 2, &[(scenarios::NODES, "1")]);
}

#[test]
fn the_same_between_nodes() {
    let nodes = (scenarios::NODES, "1");
    run("awaited", 2, &[(scenarios::ONE_CORE, "1"), nodes]);
    run("awaited", 4, &[nodes]);
}

#[test]
fn streams_over_several_communicators_go_on() {
    run("several", 2, &[(scenarios::ONE_CORE, "1")]);
}

#[test]
fn functions_of_the_program_run_on_its_threads() {
    run("functions", 2, &[("KOLO_PROGRESS", "thread")]);
}

#[test]
fn inline_has_no_thread() {
    run("inline", 2, &[("KOLO_PROGRESS", "inline")]);
}

#[test]
fn blocking_calls_wake_nobody() {
    run("blocking", 2, &[]);
}

#[test]
fn the_thread_sleeps_while_work_is_blocked_and_when_there_is_none() {
    run("asleep", 2, &[]);
    run("asleep", 2, &[(scenarios::ONE_CORE, "1")]);
}
