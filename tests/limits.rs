//! Limits of address space, files, descriptors and memory: what they stand before is a sentence,
//! and nothing is taken that is not used. A limit holds for a whole process, so the ranks of most
//! tests are processes: this binary again.

#[path = "limits/begun.rs"]
mod begun;
#[path = "counting/mod.rs"]
mod counting;
#[path = "limits/job.rs"]
mod job;
#[path = "limits/large.rs"]
mod large;
#[path = "limits/scenarios.rs"]
mod scenarios;
#[path = "skip/mod.rs"]
mod skip;
#[path = "limits/slots.rs"]
mod slots;

use job::{Group, Job};
use kolo::comm::{CommConfig, Communicator};

/// Not a test of its own: what a process of the other tests runs.
#[test]
fn child() {
    job::run_child(scenarios::by_name);
}

#[test]
fn address_space_grows_with_the_connections_that_are_used() {
    Job::start("address_space", 1).finish();
}

#[test]
fn many_communicators_fit_a_limit_of_address_space() {
    Job::start("many_splits", 4).finish();
}

#[test]
fn memory_of_the_program_beyond_the_limit_of_files() {
    Job::start("allocate", 1).finish();
}

#[test]
fn a_connection_beyond_the_limit_of_files() {
    Job::start("files", 2).finish();
}

/// The others count on its call, and hear why it does not come.
#[test]
fn a_connection_beyond_the_limit_of_files_of_one_rank() {
    Job::start("files_of_one", 2).finish();
}

#[test]
fn splits_need_no_descriptors() {
    Job::start("splits_without_descriptors", 4).finish();
}

#[test]
fn live_communicators_need_no_descriptors() {
    Job::start("many_live", 2).finish();
}

#[test]
fn communicators_begun_from_nothing_need_no_descriptors() {
    Job::start("many_begun", 4).finish();
}

#[test]
fn communicators_of_several_nodes_need_no_files_of_their_own() {
    Job::start("many_on_nodes", 4).finish();
}

/// One rank of a node of 2, 8 and 16 takes at most a mebibyte for calls of up to 64 KiB.
#[test]
fn small_calls_take_the_pages_that_their_tokens_touch() {
    for ranks in [2, 8, 16] {
        Job::start("small_calls", ranks).finish();
    }
}

#[test]
fn communicators_beyond_the_bound_give_the_memory_of_slots_back() {
    Job::start("bounded", 2).finish();
}

#[test]
fn threads_give_the_memory_of_slots_back_beside_calls_of_others() {
    Job::start("bounded_threads", 1).finish();
}

#[test]
fn splits_that_come_and_go_leave_nothing() {
    Job::start("again_and_again", 4).finish();
}

#[test]
fn a_child_outlives_its_parent_and_hears_of_deaths() {
    Job::start("orphans", 4).finish();
}

#[test]
fn a_connection_beyond_the_memory_of_the_group() {
    let Some(group) = Group::of(160 << 20) else {
        return skip::skip("control-group", "no control group can be made here");
    };
    Job::start_in("group", 4, Some(&group)).finish();
}

#[test]
fn memory_of_the_program_beyond_the_memory_of_the_group() {
    let Some(group) = Group::of(96 << 20) else {
        return skip::skip("control-group", "no control group can be made here");
    };
    Job::start_in("allocate_in_group", 1, Some(&group)).finish();
}

#[test]
fn ranks_of_one_process_beyond_the_limit_of_threads() {
    Job::start("threads", 1).finish();
}

#[test]
fn threads_need_no_descriptor() {
    let count = || std::fs::read_dir("/proc/self/fd").expect("proc").count();
    let first = Communicator::init_all(2, &CommConfig::default()).expect("init");
    let before = count();
    let others: Vec<_> = (0..20)
        .map(|_| Communicator::init_all(2, &CommConfig::default()).expect("init"))
        .collect();
    // Other tests of this process open some as well.
    assert!(count() < before + 20, "{} and {before}", count());
    drop((first, others));
}

#[test]
fn a_rank_of_a_large_node_keeps_its_budget() {
    for row in large::BUDGET {
        row.is_on_the_page();
        Job::start(&format!("node_of_{}", row.ranks), 2).finish();
    }
}
