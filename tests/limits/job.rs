//! Jobs of several processes, each a new run of this test binary with one rank.

use kolo::bootstrap::{NetSettings, UniqueId};
use kolo::comm::{CommConfig, Communicator};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// No wait in these tests is longer.
const PATIENCE: Duration = Duration::from_secs(120);
const ORDER: &str = "KOLO_TEST_LIMITS_CHILD";

/// The processes of one job.
pub struct Job(Vec<Child>);

impl Job {
    /// Starts `scenario` on so many processes.
    pub fn start(scenario: &str, nranks: u32) -> Job {
        Job::start_in(scenario, nranks, None)
    }

    /// Starts a job in a control group.
    pub fn start_in(scenario: &str, nranks: u32, group: Option<&Group>) -> Job {
        let id = UniqueId::create(&NetSettings::default()).expect("an id");
        let hex: String = id.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
        let start = |rank: u32| {
            let order = format!("{scenario} {hex} {rank} {nranks}");
            let mut command = Command::new(std::env::current_exe().expect("a name"));
            command
                .args(["--exact", "child", "--nocapture", "--test-threads=1"])
                .env(ORDER, order)
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            if let Some(group) = group {
                command.env("KOLO_TEST_LIMITS_GROUP", group.0.join("cgroup.procs"));
            }
            command.spawn().expect("this binary")
        };
        Job((0..nranks).map(start).collect())
    }

    /// Waits for all to end well.
    pub fn finish(mut self) {
        let begun = Instant::now();
        while !self.0.is_empty() {
            assert!(begun.elapsed() < PATIENCE, "a process does not end");
            self.0.retain_mut(|child| {
                let Some(status) = child.try_wait().expect("a child") else {
                    return true;
                };
                assert!(status.success(), "{status}");
                false
            });
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Facts that a process of a job has.
pub struct Context {
    pub rank: u32,
    pub nranks: u32,
    id: UniqueId,
}

impl Context {
    /// Meets the others as one of several ranks of this process.
    pub fn join_as(&self, rank: u32, nranks: u32, config: &CommConfig) -> Communicator {
        Communicator::init_rank(nranks, &self.id, rank, config).expect("init")
    }

    /// Meets the others.
    pub fn join(&self, overrides: &[(&str, &str)]) -> kolo::base::Result<Communicator> {
        let overrides = overrides.iter();
        let config = CommConfig {
            overrides: overrides
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
            ..CommConfig::default()
        };
        Communicator::init_rank(self.nranks, &self.id, self.rank, &config)
    }
}

/// Runs what this process was started for, if it was.
pub fn run_child(by_name: fn(&str) -> fn(&Context)) {
    let Ok(order) = std::env::var(ORDER) else {
        return;
    };
    if let Ok(file) = std::env::var("KOLO_TEST_LIMITS_GROUP") {
        std::fs::write(file, std::process::id().to_string()).expect("a group");
    }
    let words: Vec<&str> = order.split(' ').collect();
    let digits: Vec<u8> = (0..words[1].len() / 2)
        .map(|at| u8::from_str_radix(&words[1][2 * at..2 * at + 2], 16).expect("hex"))
        .collect();
    let context = Context {
        rank: words[2].parse().expect("a rank"),
        nranks: words[3].parse().expect("a number"),
        id: UniqueId::from_bytes(digits.try_into().expect("an id")).expect("an id"),
    };
    by_name(words[0])(&context);
}

/// A control group with a limit on memory, removed at the end.
pub struct Group(PathBuf);

impl Group {
    /// One with this limit, if this user may make one.
    pub fn of(bytes: u64) -> Option<Group> {
        let name = format!(
            "kolo-limits-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let name = name.replace(['(', ')'], "");
        let kinds = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        kinds.into_iter().find_map(|(above, limit)| {
            let path = Path::new(above).join(&name);
            if !Path::new(above).join("cgroup.procs").exists() {
                return None;
            }
            std::fs::create_dir(&path).ok()?;
            let group = Group(path);
            std::fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes leave it a moment after they were waited for.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
