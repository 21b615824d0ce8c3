//! Ranks as processes: this binary again, told by the environment to be a rank.

use super::forks::{forked_sleeper, forked_use_of};
use super::stopped::large;
use super::strays::has_unread_data;
use super::support::*;
use kolo::base::{Code, Rank};
use kolo::bootstrap::{Bootstrap, NetSettings, TcpRing, UniqueId};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const CHILD: &str = "KOLO_TEST_BOOTSTRAP_CHILD";

pub struct Process {
    pub child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    pub fn start(id: &UniqueId, rank: u32, nranks: u32, script: &str) -> Process {
        let hex = to_hex(id);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "processes::child_rank",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CHILD, format!("{hex} {rank} {nranks} {script}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Process {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Lets a child go on that waits for it.
    pub fn go_on(&mut self) {
        self.input.write_all(b"\n").unwrap();
    }

    /// The rest of the first line that contains `mark`; the test harness prints on the same lines.
    pub fn line(&mut self, mark: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.output.read_line(&mut line).unwrap(),
                0,
                "no \"{mark}\" from child"
            );
            if let Some((_, rest)) = line.split_once(mark) {
                return rest.trim().to_string();
            }
        }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test of its own: what a rank in a process does.
#[test]
fn child_rank() {
    let Ok(order) = std::env::var(CHILD) else {
        return;
    };
    let words: Vec<&str> = order.split(' ').collect();
    let id = from_hex(words[0]);
    match words[3] {
        "frail" => default_sigpipe(),
        "fork_early" => drop(std::thread::spawn(|| {
            wait_for_word();
            println!("@child {}", forked_sleeper());
        })),
        _ => {}
    }
    let patience = (words[3] == "hasty").then_some(Duration::from_secs(4));
    let settings = NetSettings {
        meet_limit: patience,
        warn: Arc::new(|text| println!("@told {text}")),
        ..talkative()
    };
    let (rank, nranks) = (words[1].parse().unwrap(), words[2].parse().unwrap());
    let member = match TcpRing::connect(&id, rank, nranks, &settings) {
        Ok(member) => member,
        Err(error) => {
            println!("@failed {error}");
            // SAFETY: ends the process at once, with all threads that it has.
            unsafe { libc::_exit(0) };
        }
    };
    check_exchange(&member);
    println!("@ready");
    match words[3] {
        "sleep" => pause(60_000),
        "fork" => {
            println!("@child {}", forked_sleeper());
            pause(60_000);
        }
        "large" => {
            pause(500);
            match member.all_gather(&large(member.rank().0)) {
                Ok(all) if all[0] == large(0) => println!("@passed"),
                result => println!("@failed {:?}", result.map(|_| "other data")),
            }
        }
        "fork_drop" => {
            forked_use_of(&member);
            end(&member);
        }
        "frail" => {
            wait_for_word();
            end(&member);
        }
        "barrier" => end(&member),
        _ => {}
    }
}

/// Until the test lets this process go on.
fn wait_for_word() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn end(member: &TcpRing) {
    match member.barrier() {
        Ok(()) => println!("@passed"),
        Err(error) => println!("@failed {error}"),
    }
}

/// As programs in C and Fortran have it; Rust's own ignore the signal.
fn default_sigpipe() {
    // SAFETY: the default action is always valid.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

#[test]
fn ranks_as_processes() {
    within(60, || {
        let id = UniqueId::create(&settings()).unwrap();
        let mut ranks: Vec<_> = (1..4)
            .map(|r| Process::start(&id, r, 4, "barrier"))
            .collect();
        let own = start(id, 0, 4, settings()).join().unwrap().unwrap();
        check_exchange(&own);
        own.barrier().unwrap();
        for rank in &mut ranks {
            rank.line("@passed");
        }
    });
}

#[test]
fn a_killed_process_is_named_by_every_rank() {
    within(60, || {
        let id = UniqueId::create(&settings()).unwrap();
        let mut ranks: Vec<_> = (1..5)
            .map(|rank| {
                let script = if rank == 3 { "sleep" } else { "barrier" };
                Process::start(&id, rank, 5, script)
            })
            .collect();
        let own = start(id, 0, 5, settings()).join().unwrap().unwrap();
        check_exchange(&own);
        for rank in &mut ranks {
            rank.line("@ready");
        }
        let waiting = std::thread::spawn(move || own.barrier().unwrap_err());
        pause(200);
        ranks[2].kill();
        let error = waiting.join().unwrap();
        assert_eq!(
            (error.peer, error.code),
            (Some(Rank(3)), Code::RemoteError),
            "{error}"
        );
        for index in [0, 1, 3] {
            let words = ranks[index].line("@failed");
            assert!(words.contains("[peer 3] rank 3 was lost"), "{words}");
        }
    });
}

/// The words of a failure go to a neighbour that was killed with data unread, by a process that
/// does nothing about SIGPIPE.
#[test]
fn a_lost_peer_does_not_end_a_program_in_c() {
    within(60, || {
        let id = UniqueId::create(&settings()).unwrap();
        let mut ranks = [(0, "sleep"), (1, "frail"), (2, "sleep")]
            .map(|(rank, script)| Process::start(&id, rank, 3, script));
        for rank in &mut ranks {
            rank.line("@ready");
        }
        // Before that rank 2 could take in more than it has asked for.
        ranks[1].go_on();
        while !has_unread_data(ranks[2].child.id()) {
            pause(5);
        }
        ranks[2].kill();
        let words = ranks[1].line("@failed");
        assert!(words.contains("[peer 2] rank 2 was lost"), "{words}");
    });
}

#[test]
fn a_process_killed_before_all_are_there_is_named() {
    within(60, || {
        let id = UniqueId::create(&talkative()).unwrap();
        let zero = start(id, 0, 4, settings());
        let mut victim = Process::start(&id, 2, 4, "sleep");
        let mut other = Process::start(&id, 1, 4, "sleep");
        victim.line("@told kolo: rank 2 of 4 has waited");
        other.line("@told kolo: rank 1 of 4 has waited");
        victim.kill();
        let error = failure(zero);
        assert_eq!(error.peer, Some(Rank(2)), "{error}");
        let words = other.line("@failed");
        assert!(
            words.contains("rank 2 at 127.0.0.1 checked in and then was lost"),
            "{words}"
        );
        let late = failure(start(id, 3, 4, settings()));
        assert_eq!(late.peer, Some(Rank(2)), "{late}");
    });
}

#[test]
fn the_death_of_the_root_is_told() {
    within(60, || {
        let port = Port::take(HERE);
        let id = UniqueId::create(&named(&port)).unwrap();
        let mut zero = Process::start(&id, 0, 3, "sleep");
        let told = Told::default();
        let one = start(id, 1, 3, told.by(settings()));
        // Rank 0's process has the root.
        told.wait_for(1);
        zero.kill();
        let error = failure(one);
        assert!(error.what.contains("calls the roll"), "{error}");
    });
}
