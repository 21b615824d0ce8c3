//! Jobs of several processes, each a new run of this test binary with some ranks as threads.
//!
//! A process talks on its standard error in lines that begin with `@ `.

use super::hub::{self, HubClient};
use kolo::base::{Rank, Result};
use kolo::bootstrap::Bootstrap;
use kolo::proxy::{Joined, LocalGroup, OnDeath, join};
use kolo::transport::segment::Nonce;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// No wait in these tests is longer.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Process {
    child: Child,
    lines: Receiver<String>,
}

/// Starts `scenario` on one process for each list of ranks.
pub fn start(scenario: &str, processes: &[&[u32]]) -> Vec<Process> {
    let nranks = processes.iter().map(|ranks| ranks.len()).sum::<usize>() as u32;
    let hub = hub::start(nranks);
    processes
        .iter()
        .map(|ranks| {
            let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "child", "--nocapture", "--test-threads=1"])
                .env("SHM_TEST_SCENARIO", scenario)
                .env("SHM_TEST_HUB", &hub)
                .env("SHM_TEST_RANKS", ranks.join(","))
                .env("SHM_TEST_NRANKS", nranks.to_string())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let (send, lines) = channel();
            let errors = BufReader::new(child.stderr.take().unwrap());
            std::thread::spawn(move || {
                for line in errors.lines().map_while(std::io::Result::ok) {
                    match line.strip_prefix("@ ") {
                        Some(line) => drop(send.send(line.to_owned())),
                        None => eprintln!("{line}"),
                    }
                }
            });
            Process { child, lines }
        })
        .collect()
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The rest of the next line, which must begin with `start`.
    pub fn hear(&self, start: &str) -> String {
        let line = self.lines.recv_timeout(PATIENCE).unwrap();
        let rest = line.strip_prefix(start);
        rest.unwrap_or_else(|| panic!("expected {start:?}, heard {line:?}"))
            .trim()
            .to_owned()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits for the process to end well.
    pub fn finish(mut self) {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let said: Vec<String> = self.lines.iter().collect();
                assert!(status.success(), "{status}, last words {said:?}");
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "a process does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A failed test leaves no process behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Facts that a rank of a scenario has.
pub struct Context {
    pub hub: HubClient,
    pub rank: u32,
    pub nranks: u32,
    /// Whether it is the first rank of its process.
    pub first: bool,
    /// All ranks of its process.
    pub sync: Arc<Barrier>,
}

/// Deaths that a rank heard of.
pub type Deaths = Receiver<(Vec<Rank>, String)>;

fn listener() -> (OnDeath, Deaths) {
    let (send, deaths): (Sender<_>, _) = channel();
    let on_death: OnDeath = Arc::new(move |ranks: &[Rank], text: &str| {
        // The rank may have stopped listening.
        let _ = send.send((ranks.to_vec(), text.to_owned()));
    });
    (on_death, deaths)
}

impl Context {
    pub fn say(&self, text: &str) {
        // One write call a line: several ranks share the stream.
        let line = format!("@ {text}\n");
        std::io::stderr().lock().write_all(line.as_bytes()).unwrap();
    }

    pub fn group(&self) -> LocalGroup {
        LocalGroup {
            my_rank: Rank(self.rank),
            ranks: (0..self.nranks).map(|rank| (Rank(rank), 0)).collect(),
            node: "node1".to_owned(),
        }
    }

    pub fn try_join(&self, nonce: u128, length: usize) -> (Result<Joined>, Deaths) {
        let (on_death, deaths) = listener();
        let group = self.group();
        let joined = join(&self.hub, &group, Nonce(nonce), (length, length), on_death);
        (joined, deaths)
    }

    /// A communicator of all ranks on one node.
    pub fn join(&self, nonce: u128) -> (Joined, Deaths) {
        let (joined, deaths) = self.try_join(nonce, 1 << 20);
        (joined.unwrap(), deaths)
    }

    pub fn barrier(&self) {
        self.hub.barrier().unwrap();
    }
}

/// The child's side of `start`: runs the scenario that the environment names, if any.
pub fn run_child(scenario_of: fn(&str) -> fn(&Context)) {
    let Ok(scenario) = std::env::var("SHM_TEST_SCENARIO") else {
        return;
    };
    let scenario = scenario_of(&scenario);
    let variable = |name: &str| std::env::var(name).unwrap();
    let nranks: u32 = variable("SHM_TEST_NRANKS").parse().unwrap();
    let hub = variable("SHM_TEST_HUB");
    let ranks = variable("SHM_TEST_RANKS");
    let ranks: Vec<u32> = ranks.split(',').map(|rank| rank.parse().unwrap()).collect();
    let sync = Arc::new(Barrier::new(ranks.len()));
    std::thread::scope(|scope| {
        for &rank in &ranks {
            let context = Context {
                hub: HubClient::connect(&hub, rank, nranks),
                rank,
                nranks,
                first: rank == ranks[0],
                sync: sync.clone(),
            };
            scope.spawn(move || scenario(&context));
        }
    });
}
