//! A job that is suspended for longer than its limits, and then goes on: nobody has waited.

use crate::ports::Port;
use kolo::base::Code;
use kolo::comm::{CommConfig, Communicator, RedOp};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const TASK: &str = "TEST_SUSPENDED_TASK";
/// Longer than the limit of a call and of a start, which are 2 s here.
const STOPPED: Duration = Duration::from_secs(3);

/// Parent and rank say one word a line to each other.
fn hear() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim().to_string()
}

fn say(word: &str) {
    println!("{word}");
    std::io::stdout().flush().unwrap();
}

#[test]
#[ignore = "started by the tests below"]
fn rank_of_a_suspended_job() {
    let rank: i64 = std::env::var("KOLO_RANK").unwrap().parse().unwrap();
    let task = std::env::var(TASK).unwrap();
    if task == "start" && rank == 1 {
        say("ready");
        assert_eq!(hear(), "go");
    }
    if task == "start" && rank == 0 {
        say("ready");
    }
    let comm = Communicator::init_env(&CommConfig::default()).unwrap();
    if task != "start" {
        // Both are there, and the connections are made.
        comm.barrier().unwrap();
        say("ready");
        if rank == 1 && hear() == "late" {
            return;
        }
    }
    let mut sum = vec![0_i64; 1000];
    let sent: Vec<i64> = (0..1000).map(|at| at * (rank + 1)).collect();
    match comm.all_reduce(&sent, &mut sum, RedOp::SUM) {
        Ok(()) if (0..1000).all(|at| sum[at as usize] == 3 * at) => say("right"),
        Ok(()) => say("wrong"),
        Err(error) if error.code == Code::Timeout => say("timeout"),
        Err(error) => say(&error.to_string().replace('\n', " ")),
    }
    if rank == 0 {
        hear();
    }
}

struct Rank {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Rank {
    fn start(rank: u32, task: &str, port: &Port, nodes: bool) -> Rank {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["suspended::rank_of_a_suspended_job", "--exact", "--ignored"])
            .arg("--nocapture")
            .env(TASK, task)
            .env("KOLO_RANK", rank.to_string())
            .env("KOLO_NRANKS", "2")
            .env("KOLO_COMM_ID", format!("127.0.0.1:{}", port.number()))
            .env("KOLO_SOCKET_IFNAME", "=lo")
            .env("KOLO_TIMEOUT", "2")
            .env("KOLO_START_TIMEOUT", "2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if nodes {
            command.env("KOLO_HOSTID", format!("node{rank}"));
            command.env("KOLO_NET", "socket");
        }
        let mut process = command.spawn().unwrap();
        Rank {
            to: process.stdin.take().unwrap(),
            from: BufReader::new(process.stdout.take().unwrap()),
            process,
        }
    }

    fn says(&mut self, wanted: &str) {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            if self.from.read_line(&mut line).unwrap() == 0 {
                panic!("no \"{wanted}\" in: {all}");
            }
            if line.trim().ends_with(wanted) {
                return;
            }
            all += &line;
            let ended = ["right", "wrong", "timeout"].iter();
            let ended = ended.clone().any(|word| line.trim() == *word) || line.contains("Remedy");
            assert!(!ended, "no \"{wanted}\", but: {line}");
        }
    }

    fn tell(&mut self, word: &str) {
        self.to.write_all(format!("{word}\n").as_bytes()).unwrap();
    }

    fn signal(&self, number: i32) {
        // SAFETY: a child of this process that was not waited for.
        assert_eq!(unsafe { libc::kill(self.process.id() as i32, number) }, 0);
    }

    fn ends(mut self) {
        // Who has nothing more to hear may have ended.
        let _ = self.to.write_all(b"end\n");
        assert!(self.process.wait().unwrap().success());
    }
}

/// Rank 0 waits in a call or in its start for rank 1, and both are stopped for 3 s.
fn suspended(task: &str, nodes: bool) {
    let port = Port::take([127, 0, 0, 1]);
    let mut ranks = [0, 1].map(|rank| Rank::start(rank, task, &port, nodes));
    ranks.iter_mut().for_each(|rank| rank.says("ready"));
    // Rank 0 is in its call, or on its way into it: either way it waits afterwards.
    std::thread::sleep(Duration::from_millis(100));
    ranks.iter().for_each(|rank| rank.signal(libc::SIGSTOP));
    std::thread::sleep(STOPPED);
    ranks.iter().for_each(|rank| rank.signal(libc::SIGCONT));
    std::thread::sleep(Duration::from_millis(100));
    ranks[1].tell("go");
    ranks.iter_mut().for_each(|rank| rank.says("right"));
    ranks.into_iter().for_each(Rank::ends);
}

#[test]
fn a_suspended_job_goes_on_in_a_call() {
    suspended("call", false);
}

#[test]
fn a_suspended_job_of_two_nodes_goes_on_in_a_call() {
    suspended("call", true);
}

#[test]
fn a_suspended_job_goes_on_in_its_start() {
    suspended("start", false);
}

/// Nobody is stopped, and a rank does not come.
#[test]
fn a_limit_is_found_within_its_bound() {
    let port = Port::take([127, 0, 0, 1]);
    let mut ranks = [0, 1].map(|rank| Rank::start(rank, "call", &port, false));
    ranks.iter_mut().for_each(|rank| rank.says("ready"));
    let start = Instant::now();
    ranks[0].says("timeout");
    let took = start.elapsed();
    let bounds = Duration::from_millis(1500)..Duration::from_secs(20);
    assert!(bounds.contains(&took), "{took:?}");
    ranks[1].tell("late");
    ranks.into_iter().for_each(Rank::ends);
}
