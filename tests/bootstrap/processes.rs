//! Ranks as processes: this binary again, told by the environment to be a rank.

use super::support::*;
use kolo::base::{Code, Rank};
use kolo::bootstrap::{Bootstrap, NetSettings, TcpRing, UniqueId};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const CHILD: &str = "KOLO_TEST_BOOTSTRAP_CHILD";

struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(id: &UniqueId, rank: u32, nranks: u32, script: &str) -> Process {
        let hex = to_hex(id);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "processes::child_rank",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CHILD, format!("{hex} {rank} {nranks} {script}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Process { child, output }
    }

    /// The rest of the first line that contains `mark`; the test harness prints on the same lines.
    fn line(&mut self, mark: &str) -> String {
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

    fn kill(&mut self) {
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
    println!("@starting");
    let member = match TcpRing::connect(
        &id,
        words[1].parse().unwrap(),
        words[2].parse().unwrap(),
        &settings(),
    ) {
        Ok(member) => member,
        Err(error) => return println!("@failed {error}"),
    };
    check_exchange(&member);
    println!("@ready");
    match words[3] {
        "sleep" => pause(60_000),
        "barrier" => match member.barrier() {
            Ok(()) => println!("@passed"),
            Err(error) => println!("@failed {error}"),
        },
        _ => {}
    }
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
fn a_killed_process_is_named_by_every_rank_within_two_seconds() {
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
        let begin = Instant::now();
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
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
}

#[test]
fn a_process_killed_before_all_are_there_is_named() {
    within(60, || {
        let id = UniqueId::create(&settings()).unwrap();
        let zero = start(id, 0, 4, settings());
        let mut victim = Process::start(&id, 2, 4, "sleep");
        let mut other = Process::start(&id, 1, 4, "sleep");
        victim.line("@starting");
        other.line("@starting");
        pause(500);
        let begin = Instant::now();
        victim.kill();
        let error = failure(zero);
        assert_eq!(error.peer, Some(Rank(2)), "{error}");
        let words = other.line("@failed");
        assert!(
            words.contains("rank 2 at 127.0.0.1 checked in and then was lost"),
            "{words}"
        );
        assert!(begin.elapsed() < Duration::from_secs(2));
        let late = failure(start(id, 3, 4, settings()));
        assert_eq!(late.peer, Some(Rank(2)), "{late}");
    });
}

#[test]
fn the_death_of_the_root_is_told() {
    within(60, || {
        let named = NetSettings {
            comm_id: Some(format!("127.0.0.1:{}", free_port())),
            ..settings()
        };
        let id = UniqueId::create(&named).unwrap();
        let mut zero = Process::start(&id, 0, 3, "sleep");
        zero.line("@starting");
        let one = start(id, 1, 3, settings());
        pause(500);
        let begin = Instant::now();
        zero.kill();
        let error = failure(one);
        assert!(error.what.contains("calls the roll"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(2));
    });
}
