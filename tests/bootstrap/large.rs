//! Many ranks: they meet in seconds, one after the other, and with as many files as that needs.

use super::support::*;
use kolo::bootstrap::{Bootstrap, NetSettings, TcpRing, UniqueId};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CHILD: &str = "KOLO_TEST_BOOTSTRAP_MANY";

const PROCESSES: u32 = 8;
const THREADS: u32 = 64;

/// Runs this binary again for one of its tests, told what to do by a variable.
fn child(test: &str, order: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, order)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn order() -> Option<String> {
    std::env::var(CHILD).ok()
}

/// Ranks first..first + THREADS as threads of this process: all meet and exchange.
fn ranks(id: UniqueId, first: u32) {
    let nranks = PROCESSES * THREADS;
    std::thread::scope(|scope| {
        for rank in first..first + THREADS {
            let body = move || {
                let settings = NetSettings {
                    connect_limit: Duration::from_secs(60),
                    process_of: None,
                    ..settings()
                };
                let member = TcpRing::connect(&id, rank, nranks, &settings).unwrap();
                let all = member.all_gather(&rank.to_be_bytes()).unwrap();
                let right = (0..nranks).map(|rank| rank.to_be_bytes().to_vec());
                assert!(all.iter().cloned().eq(right), "rank {rank}");
                member.barrier().unwrap();
            };
            let builder = std::thread::Builder::new().stack_size(256 << 10);
            builder.spawn_scoped(scope, body).unwrap();
        }
    });
}

/// Not a test of its own: what a process of ranks does.
#[test]
fn child_of_many_ranks() {
    let Some(order) = order() else {
        return;
    };
    let (hex, first) = order.split_once(' ').unwrap();
    ranks(from_hex(hex), first.parse().unwrap());
}

#[test]
fn five_hundred_and_twelve_ranks_meet_in_seconds() {
    let took = within(120, || {
        let begin = Instant::now();
        let id = UniqueId::create(&settings()).unwrap();
        let hex = to_hex(&id);
        let mut children: Vec<Child> = (1..PROCESSES)
            .map(|process| {
                let first = process * THREADS;
                child("large::child_of_many_ranks", &format!("{hex} {first}"))
            })
            .collect();
        ranks(id, 0);
        let took = begin.elapsed();
        for child in &mut children {
            assert!(child.wait().unwrap().success());
        }
        took
    });
    println!("512 ranks: {took:?}");
}

#[test]
fn ranks_of_a_large_job_come_one_after_the_other() {
    within(30, || {
        let staggered = NetSettings {
            stagger_threshold: 4,
            stagger_rate: 10,
            ..settings()
        };
        let begin = Instant::now();
        ring(5, &staggered);
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(400), "{took:?}");
        // As many as the threshold are not many yet; else the last one would come after 40 s.
        let few = NetSettings {
            stagger_threshold: 41,
            stagger_rate: 1,
            ..settings()
        };
        ring(41, &few);
    });
}

fn file_limit() -> libc::rlimit {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: there is room for the two numbers.
    let status = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    assert_eq!(status, 0);
    limit
}

/// Not a test of its own: a process that may open few files has many ranks.
#[test]
fn child_with_few_files() {
    if order().is_none() {
        return;
    }
    let mut limit = file_limit();
    limit.rlim_cur = 40;
    // SAFETY: the two numbers are set.
    let status = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    assert_eq!(status, 0);
    let members = ring(32, &settings());
    each(&members, check_exchange);
    let wanted = limit.rlim_max.min(65_536);
    assert!(file_limit().rlim_cur >= wanted, "{}", file_limit().rlim_cur);
}

#[test]
fn the_limit_of_open_files_is_raised() {
    within(60, || {
        let mut child = child("large::child_with_few_files", "few");
        assert!(child.wait().unwrap().success());
    });
}
