//! Ranks of one machine, in several processes and threads: memory handed over, deaths noticed.

mod hostile;
mod hub;
mod job;
mod scenarios;
#[path = "../skip/mod.rs"]
mod skip;

use job::Process;

/// Not a test of its own: what the processes of the other tests run.
#[test]
fn child() {
    job::run_child(scenarios::by_name);
}

fn finish_all(processes: Vec<Process>) {
    processes.into_iter().for_each(Process::finish);
}

/// Names in the places where shared memory and temporary files are usually left.
fn left_behind() -> Vec<String> {
    let names = ["/dev/shm", "/tmp"].map(|place| std::fs::read_dir(place).into_iter().flatten());
    let names = names
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names
        .filter(|name| name.starts_with("kolo-") || name.starts_with(".kolo"))
        .collect()
}

#[test]
fn two_processes_of_three_threads_share_one_segment() {
    for processes in [[&[0, 1, 2][..], &[3, 4, 5]], [&[1, 3, 5], &[0, 2, 4]]] {
        let job = job::start("share", &processes);
        for process in &job {
            assert_eq!(process.hear("shared"), "true");
        }
        finish_all(job);
    }
}

#[test]
fn threads_of_one_process_share_plain_memory() {
    let job = job::start("share", &[&[0, 1, 2, 3]]);
    assert_eq!(job[0].hear("shared"), "false");
    finish_all(job);
}

#[test]
fn a_rank_alone() {
    let job = job::start("share", &[&[0]]);
    assert_eq!(job[0].hear("shared"), "false");
    finish_all(job);
}

#[test]
fn many_processes() {
    let job = job::start("share", &[&[0], &[1], &[2], &[3], &[4], &[5], &[6], &[7]]);
    finish_all(job);
}

#[test]
fn a_doorbell_between_processes() {
    finish_all(job::start("doorbell", &[&[0], &[1]]));
}

#[test]
fn a_killed_process_is_named_to_all_others() {
    let before = left_behind();
    let mut job = job::start("watch", &[&[0, 3], &[1, 4], &[2]]);
    for process in &job {
        process.hear("address");
        process.hear("ready");
    }
    let mut killed = job.remove(1);
    killed.kill();
    for (process, nranks) in job.iter().zip([2, 1]) {
        for _ in 0..nranks {
            let expected = format!("process {} on node1 ended (it was killed", killed.pid());
            let text = process.hear("death of 1,4:");
            assert!(text.starts_with(&expected), "{text}");
        }
    }
    finish_all(job);
    assert_eq!(left_behind(), before);
}

#[test]
fn a_goodbye_is_no_death() {
    finish_all(job::start("leave", &[&[0], &[1], &[2]]));
}

#[test]
fn an_exit_without_destroy_is_a_death_with_a_reason() {
    let job = job::start("exit", &[&[0], &[1], &[2]]);
    for process in &job[..2] {
        let text = process.hear("death of 2:");
        assert!(
            text.contains("on node1 ended without koloCommDestroy, in the middle"),
            "{text}"
        );
    }
    finish_all(job);
}

#[test]
fn a_forked_child_is_refused_and_hides_no_death() {
    let mut job = job::start("fork", &[&[0], &[1]]);
    job[0].hear("ready");
    assert_eq!(job[1].hear("refused in the child:"), "1");
    job[1].kill();
    job[0].hear("death of 1:");
    job.remove(0).finish();
}

#[test]
fn a_hundred_communicators_leave_nothing_open() {
    let job = job::start("cycle", &[&[0, 2], &[1, 3]]);
    for process in &job {
        println!("one communicator takes {}", process.hear("cycle"));
    }
    finish_all(job);
}

#[test]
fn an_open_watch_uses_no_processor_time() {
    let job = job::start("idle", &[&[0], &[1]]);
    for process in &job {
        process.hear("idle");
    }
    finish_all(job);
}

#[test]
fn two_communicators_use_one_link() {
    let mut job = job::start("links", &[&[0], &[1]]);
    for process in &job {
        process.hear("ready");
    }
    job[1].kill();
    job[0].hear("death of 1:");
    job.remove(0).finish();
}

#[test]
fn different_network_namespaces_are_an_error_that_says_so() {
    let job = job::start("netns", &[&[0], &[1], &[2]]);
    let lines: Vec<String> = job.iter().map(|process| process.hear("")).collect();
    if lines[2] == "not allowed" {
        skip::skip(
            "shm-namespaces",
            "this user may not make a network namespace",
        );
        return;
    }
    // Which side tries first is the addresses' chance; either way both ranks are named.
    for line in &lines {
        let named = (0..2).any(|rank| {
            line.contains(&format!("rank 2 cannot reach rank {rank} (process "))
                || line.contains(&format!("rank {rank} cannot reach rank 2 (process "))
        });
        assert!(named && line.contains("different containers"), "{line}");
        assert!(line.contains("--network host"), "{line}");
    }
    finish_all(job);
}

#[test]
fn a_disagreement_is_everybodys_error_and_the_next_try_succeeds() {
    let job = job::start("disagree", &[&[0, 1], &[2]]);
    let lines = [
        job[0].hear("kolo:"),
        job[0].hear("kolo:"),
        job[1].hear("kolo:"),
    ];
    for line in lines {
        assert!(line.contains("disagree about the length"), "{line}");
    }
    finish_all(job);
}
