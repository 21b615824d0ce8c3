//! Private buffers that other processes read by system calls: ranks are processes, this binary
//! again, so that nothing but the system lets one read another.
//!
//! The wrapper alone first, then communicators: right data of every type, around the threshold,
//! with buffers of both kinds; agreement where one rank is refused; ranks that die or lie, or are
//! stopped for a while, in all kinds of calls.

#[path = "cma/calls.rs"]
mod calls;
#[path = "cma/deaths.rs"]
mod deaths;
#[path = "cma/job.rs"]
mod job;
#[path = "cma/registered.rs"]
mod registered;
#[path = "cma/scenarios.rs"]
mod scenarios;
#[path = "skip/mod.rs"]
mod skip;

use job::Job;
use kolo::base::{Code, Rank};
use kolo::transport::cma::{MarkCard, Peer, yama};

/// Not a test of its own: what a process of the other tests runs.
#[test]
fn child() {
    job::run_child(scenarios::by_name);
}

/// Whether the system lets processes of one user read each other at all.
fn is_allowed() -> bool {
    let allowed = yama::scope() <= 1;
    if !allowed {
        skip::skip("cma", "kernel.yama.ptrace_scope is above 1");
    }
    allowed
}

#[test]
fn another_process_is_read_until_it_ends() {
    if !is_allowed() {
        return;
    }
    let mut job = Job::start("shown", &[1], &[]);
    let said = job.hear("shown ");
    let mut words = said.split(' ');
    let mut number = || words.next()?.parse::<u128>().ok();
    let card = MarkCard {
        address: number().expect("the address of the mark") as u64,
        word: number().expect("the mark"),
    };
    let address = number().expect("an address") as usize;
    let address: *const u8 = std::ptr::without_provenance(address);
    let peer = Peer::new(Rank(7), "here", job.pid(0), card);
    peer.probe().expect("a child may be read");
    let mut got = vec![0_u8; 3_000_000];
    // SAFETY: the vector holds so many bytes.
    unsafe { peer.read(address, got.as_mut_ptr(), got.len()) }.expect("readable");
    assert!(
        got.iter()
            .enumerate()
            .all(|(i, &byte)| byte == (i % 251) as u8)
    );

    // SAFETY: as above.
    let error = unsafe { peer.read(std::ptr::without_provenance(16), got.as_mut_ptr(), 10) };
    let error = error.expect_err("nothing is there");
    assert!(
        error.what.contains("rank 7") && error.what.contains("0x10"),
        "{error}"
    );
    assert_eq!((error.code, error.peer), (Code::RemoteError, Some(Rank(7))));

    let stranger = Peer::new(Rank(7), "here", std::process::id(), card);
    let error = stranger
        .probe()
        .expect_err("this process has not that mark");
    assert!(error.what.contains("another process"), "{error}");

    job.kill(0);
    // SAFETY: as above.
    let error = unsafe { peer.read(address, got.as_mut_ptr(), got.len()) };
    let error = error.expect_err("it has ended");
    assert!(
        error.what.contains("rank 7") && error.what.contains("ended"),
        "{error}"
    );
    assert_eq!((error.code, error.peer), (Code::RemoteError, Some(Rank(7))));
}

/// Equal addresses in all processes mean nothing: these processes are not randomised.
#[test]
fn right_around_the_threshold_in_place_and_not() {
    for ranks in [2, 3, 4] {
        let settings = [("KOLO_CMA", "on"), ("KOLO_CMA_FROM", "128K")];
        Job::start_unrandomised("around", &vec![1; ranks], &settings).finish();
    }
}

#[test]
fn right_for_every_type_and_operation() {
    Job::start("types", &[1, 1, 1], &[("KOLO_CMA", "on")]).finish();
}

#[test]
fn private_and_mapped_buffers_and_threads_in_one_call() {
    let settings = [("KOLO_CMA", "on"), ("KOLO_CMA_FROM", "64K")];
    Job::start("mixed", &[1, 1, 1], &settings).finish();
    Job::start("mixed", &[2, 1, 2], &settings).finish();
}

/// Steps of one large call, with these settings.
fn steps(settings: &[(&str, &str)], scenario: &str) -> (Vec<String>, String) {
    let mut job = Job::start(scenario, &[1, 1, 1], settings);
    let steps = (0..3).map(|_| job.hear("steps ")).collect();
    (steps, job.finish())
}

#[test]
fn one_refused_rank_means_slots_for_all() {
    if !is_allowed() {
        return;
    }
    let info = ("KOLO_DEBUG", "info");
    let (with, log) = steps(&[("KOLO_CMA", "on"), info], "counted");
    assert!(log.contains("read by process_vm_readv"), "{log}");
    let (without, log) = steps(&[("KOLO_CMA", "off"), info], "counted");
    assert!(!log.contains("CMA is") && !log.contains("CMA:"), "{log}");
    assert_ne!(with, without, "the plans differ");
    let (default, log) = steps(&[info], "counted");
    assert_eq!(default, without);
    assert!(
        log.contains("CMA is not used: set KOLO_CMA_FROM=SIZE"),
        "{log}"
    );
    let (asked_for, _) = steps(&[("KOLO_CMA_FROM", "64K")], "counted");
    assert_eq!(asked_for, with);
    let (refused, log) = steps(&[("KOLO_CMA", "on")], "refused");
    assert_eq!(refused, without);
    let why = "CMA is not used, private buffers go through slots: rank 0 cannot read the memory of \
               rank 1";
    assert!(log.contains(why), "{log}");
    assert!(log.contains("KOLO_CMA=off"), "{log}");
}

#[test]
fn a_rank_that_dies_in_the_middle_is_named() {
    Job::start("killed", &[1, 1, 1], &[("KOLO_CMA", "on")]).finish_but(1);
}

#[test]
fn a_buffer_that_is_not_there_is_an_error_of_its_reader() {
    if !is_allowed() {
        return;
    }
    Job::start("hole", &[1, 1], &[("KOLO_CMA", "on")]).finish();
}

#[test]
fn what_a_stopped_reader_folds_after_an_abort_is_no_result() {
    let mut jobs = vec![Job::start("stopped_mapped", &[1, 1], &[])];
    if is_allowed() {
        jobs.push(Job::start("stopped", &[1, 1], &[("KOLO_CMA", "on")]));
    }
    if is_allowed() {
        let mut left = Job::start("stopped_left", &[1, 1], &[("KOLO_CMA", "on")]);
        left.await_end(0);
        scenarios::wake(left.pid(1));
        jobs.push(left);
    }
    for mut job in jobs {
        let error = job.hear("ended ");
        assert!(error.contains("rank 0 called CommAbort"), "{error}");
        job.finish();
    }
}
