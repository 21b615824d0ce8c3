//! Calls on streams end whatever the program does meanwhile, and what that costs. Ranks are
//! processes, this binary again: a rank that waits inside kolo drives all ranks of its process.

#[allow(dead_code, reason = "other tests use more of it")]
#[path = "cma/job.rs"]
mod job;
#[path = "progress/scenarios.rs"]
mod scenarios;
#[path = "progress/threads.rs"]
mod threads;

use job::Job;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Not a test of its own: what a process of the other tests runs.
#[test]
fn child() {
    job::run_child(scenarios::by_name);
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
    run_on(scenario, &vec![1; nranks], settings);
}

/// Runs a scenario on processes with so many ranks each.
fn run_on(scenario: &str, processes: &[usize], settings: &[(&str, &str)]) {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let folder = format!("kolo-progress-{}-{number}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(folder));
    std::fs::create_dir(&folder.0).expect("a folder");
    let mut settings = settings.to_vec();
    settings.push((scenarios::PLACE, folder.0.to_str().expect("plain letters")));
    Job::start(scenario, processes, &settings).finish();
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

/// As the system sees it: away from the one core of the ranks.
#[test]
fn the_threads_of_a_process_are_named_and_pinned() {
    run("placed", 2, &[(scenarios::ONE_CORE, "1")]);
}

/// Where the ranks of one process are bound, each to its own core.
#[test]
fn several_ranks_of_a_process_place_its_threads() {
    run_on("placed", &[2], &[(threads::APART, "1")]);
    run_on("placed", &[2, 1], &[(threads::APART, "1")]);
}

#[test]
fn threads_stay_where_they_are_if_that_is_wished() {
    let alone = [(scenarios::ONE_CORE, "1"), ("KOLO_AFFINITY", "none")];
    run("left_alone", 2, &alone);
}

#[test]
fn children_use_the_threads_and_connections_of_their_parent() {
    run("shared", 3, &[]);
}

#[test]
fn children_between_nodes_use_the_threads_of_their_parent() {
    run("shared", 4, &[(scenarios::NODES, "1")]);
}
