//! Jobs of several processes, each a new run of this test binary with some ranks as threads.
//!
//! A process talks on its standard error in lines that begin with `@ `; what else it writes there
//! is kept as its log. All processes share one pipe, so that what one says after it has heard of
//! another comes after what that one has said before.

use kolo::bootstrap::{NetSettings, UniqueId};
use kolo::comm::{CommConfig, Communicator};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// No wait in these tests is longer.
const PATIENCE: Duration = Duration::from_secs(60);
const ORDER: &str = "KOLO_TEST_CMA_CHILD";

/// The processes of one job.
pub struct Job {
    children: Vec<Child>,
    lines: Receiver<String>,
    log: Arc<Mutex<String>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Job {
    /// Starts `scenario` on one process for each entry, which says how many ranks it has.
    pub fn start(scenario: &str, processes: &[usize], settings: &[(&str, &str)]) -> Job {
        Job::start_with(scenario, processes, settings, false)
    }

    /// Starts a job in processes whose memory begins at the same addresses, where the system allows
    /// it.
    pub fn start_unrandomised(
        scenario: &str,
        processes: &[usize],
        settings: &[(&str, &str)],
    ) -> Job {
        Job::start_with(scenario, processes, settings, true)
    }

    fn start_with(
        scenario: &str,
        processes: &[usize],
        settings: &[(&str, &str)],
        unrandomised: bool,
    ) -> Job {
        let id = UniqueId::create(&NetSettings::default()).expect("an id");
        let hex: String = id
            .as_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let nranks: usize = processes.iter().sum();
        let (send, lines) = channel();
        let mut job = Job {
            children: Vec::new(),
            lines,
            log: Arc::default(),
            reader: None,
        };
        let (errors, words) = std::io::pipe().expect("a pipe");
        let mut first = 0;
        for ranks in processes {
            let mut command = Command::new(std::env::current_exe().expect("a name"));
            command
                .args(["--exact", "child", "--nocapture", "--test-threads=1"])
                .env(ORDER, format!("{scenario} {hex} {first} {ranks} {nranks}"))
                // A rank without privileges could not look into the user's home.
                .env("HOME", "/nonexistent")
                .env_remove("XDG_CONFIG_HOME")
                // With yama, children of one process may read each other only so.
                .env("KOLO_CMA_PTRACER", "launcher")
                .envs(settings.iter().copied())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(words.try_clone().expect("a descriptor"));
            if unrandomised {
                let ask = || {
                    // SAFETY: a plain system call; a refusal changes nothing.
                    unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
                    Ok(())
                };
                // SAFETY: the closure makes one system call, which is safe after fork.
                unsafe { command.pre_exec(ask) };
            }
            job.children.push(command.spawn().expect("this binary"));
            first += ranks;
        }
        // The pipe ends with the last of them.
        drop(words);
        let log = Arc::clone(&job.log);
        job.reader = Some(std::thread::spawn(move || {
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                match line.strip_prefix("@ ") {
                    Some(line) => drop(send.send(line.to_owned())),
                    None => log.lock().expect("whole").push_str(&(line + "\n")),
                }
            }
        }));
        job
    }

    pub fn pid(&self, process: usize) -> u32 {
        self.children[process].id()
    }

    /// The rest of the next line, which must begin with `start`.
    pub fn hear(&mut self, start: &str) -> String {
        let line = self.lines.recv_timeout(PATIENCE);
        let line = line.unwrap_or_else(|_| panic!("{start:?} was not said: {}", self.log()));
        let rest = line.strip_prefix(start);
        rest.unwrap_or_else(|| panic!("expected {start:?}, heard {line:?}"))
            .to_owned()
    }

    fn log(&self) -> String {
        self.log.lock().expect("whole").clone()
    }

    pub fn kill(&mut self, process: usize) {
        self.children[process].kill().expect("it runs");
        self.children[process].wait().expect("it ends");
    }

    /// Waits until a process has ended.
    pub fn await_end(&mut self, process: usize) {
        self.children[process].wait().expect("a child");
    }

    /// Waits for all to end well; what they wrote.
    pub fn finish(self) -> String {
        self.finish_but(usize::MAX)
    }

    /// Waits for all to end, and all but one well; what they wrote.
    pub fn finish_but(mut self, victim: usize) -> String {
        let begun = Instant::now();
        for process in 0..self.children.len() {
            let status = loop {
                if let Some(status) = self.children[process].try_wait().expect("a child") {
                    break status;
                }
                assert!(
                    begun.elapsed() < PATIENCE,
                    "{process} does not end: {}",
                    self.log()
                );
                std::thread::sleep(Duration::from_millis(5));
            };
            assert_eq!(
                status.success(),
                process != victim,
                "{process}: {}",
                self.log()
            );
        }
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader does not panic");
        }
        self.log()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // A failed test leaves no process behind.
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Bytes as an order spells them.
pub fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let pairs = digits.map(|pair| std::str::from_utf8(pair).expect("hex"));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("hex"))
        .collect()
}

/// Facts that a rank of a scenario has.
pub struct Context {
    pub id: UniqueId,
    pub rank: u32,
    pub nranks: u32,
}

impl Context {
    /// The communicator of all ranks.
    pub fn join(&self) -> Communicator {
        let config = CommConfig::default();
        Communicator::init_rank(self.nranks, &self.id, self.rank, &config).expect("init")
    }
}

/// Says something to the test.
pub fn say(text: &str) {
    use std::io::Write;
    // One write call a line: several processes share the stream.
    let line = format!("@ {text}\n");
    std::io::stderr()
        .lock()
        .write_all(line.as_bytes())
        .expect("stderr");
}

/// The child's side of `start`: runs the scenario that the environment names, if any.
pub fn run_child(scenario_of: fn(&str) -> fn(&Context)) {
    let Ok(order) = std::env::var(ORDER) else {
        return;
    };
    let words: Vec<&str> = order.split(' ').collect();
    let number = |at: usize| words[at].parse::<u32>().expect("a number");
    let bytes: Vec<u8> = bytes_of(words[1]);
    let id = UniqueId::from_bytes(bytes.try_into().expect("128 bytes")).expect("an id");
    let (first, ranks, nranks) = (number(2), number(3), number(4));
    let scenario = scenario_of(words[0]);
    std::thread::scope(|scope| {
        for rank in first..first + ranks {
            scope.spawn(move || scenario(&Context { id, rank, nranks }));
        }
    });
}
