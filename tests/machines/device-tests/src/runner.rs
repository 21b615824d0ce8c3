//! Runs steps, each in a process of its own, so that a kernel which hangs or a fault of the device
//! ends one step and no other. A step that takes too long is killed, with all that it started.

use crate::checker::tail;
use crate::report::{self, Failure};
use crate::step::Step;
use crate::world::QUEUES;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long all steps of a run may take.
pub const RUN_LIMIT: Duration = Duration::from_secs(530);

/// Runs steps one after the other. Whether none has failed.
pub struct Runner {
    pub is_small: bool,
    /// For every step, in place of its own.
    pub limit: Option<Duration>,
    /// Where lines are written to, beside standard output.
    pub results: Option<File>,
}

/// The file for results in the folder that `OUT` names.
///
/// # Errors
/// It cannot be opened.
pub fn results() -> std::io::Result<Option<File>> {
    let Some(folder) = std::env::var_os("OUT").filter(|folder| !folder.is_empty()) else {
        return Ok(None);
    };
    let file = Path::new(&folder).join("results.jsonl");
    File::options()
        .create(true)
        .append(true)
        .open(file)
        .map(Some)
}

impl Runner {
    /// Runs them; whether none has failed.
    pub fn run(&mut self, steps: &[Step]) -> bool {
        let begin = Instant::now();
        let mut is_good = true;
        for step in steps {
            let left = RUN_LIMIT.saturating_sub(begin.elapsed());
            let line = match left.is_zero() {
                true => report::line(&step.name, &Err(Failure("no time was left for it".into()))),
                false => self.step(step, left),
            };
            is_good &= line["ok"] != json!(false);
            self.write(&line);
        }
        is_good
    }

    fn write(&mut self, line: &Value) {
        let text = format!("{line}\n");
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
        if let Some(results) = &mut self.results {
            let _ = results.write_all(text.as_bytes());
        }
    }

    fn step(&self, step: &Step, left: Duration) -> Value {
        let limit = self.limit.unwrap_or(step.limit).min(left);
        let begin = Instant::now();
        let mut line = self.in_process(step, limit).unwrap_or_else(|error| {
            let why = format!("its process cannot be started: {error}");
            report::line(&step.name, &Err(Failure(why)))
        });
        let seconds = begin.elapsed().as_secs_f64();
        line["seconds"] = json!((seconds * 100.0).round() / 100.0);
        line
    }

    fn in_process(&self, step: &Step, limit: Duration) -> std::io::Result<Value> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(self.is_small.then_some("--small"));
        command.args(["step", &step.name]);
        match step.has_usual_queues {
            true => command.env_remove(QUEUES),
            false if std::env::var_os(QUEUES).is_none() => command.env(QUEUES, "32"),
            false => &mut command,
        };
        command.envs(step.variables.iter().map(|(name, value)| (name, value)));
        if let Some(kernels) = kernels_beside() {
            command.env("KOLO_KERNELS_FILE", kernels);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn()?;
        let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
        let read = |pipe: Option<&mut dyn Read>| {
            let mut bytes = Vec::new();
            if let Some(pipe) = pipe {
                let _ = pipe.read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        };
        // The pipes are small, so somebody reads them meanwhile.
        let (status, said, notes) = std::thread::scope(|scope| {
            let out = scope.spawn(|| read(out.as_mut().map(|pipe| pipe as &mut dyn Read)));
            let err = scope.spawn(|| read(err.as_mut().map(|pipe| pipe as &mut dyn Read)));
            let status = wait(&mut child, limit);
            let text = |thread: std::thread::ScopedJoinHandle<'_, String>| {
                thread.join().unwrap_or_default()
            };
            (status, text(out), text(err))
        });
        let said = said.lines().rev().find_map(|line| {
            let value: Value = serde_json::from_str(line).ok()?;
            (value["step"] == json!(step.name)).then_some(value)
        });
        Ok(match (said, status?) {
            (Some(mut line), Some(_)) => {
                if line["ok"] == json!(false) && !notes.trim().is_empty() {
                    line["notes"] = json!(tail(&notes));
                }
                line
            }
            (_, None) => {
                let why = format!("it did not end within {} s", limit.as_secs_f64());
                report::line(&step.name, &Err(Failure(with_notes(why, &notes))))
            }
            (None, Some(status)) => {
                let why = format!("its process ended without a result: {}", how(status));
                report::line(&step.name, &Err(Failure(with_notes(why, &notes))))
            }
        })
    }
}

/// Until the process has ended, or the time is over: then it is killed with its children, and there
/// is no status.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    let mut status = child.try_wait()?;
    while status.is_none() && begin.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(5));
        status = child.try_wait()?;
    }
    // SAFETY: sends a signal to the group that the child began; whoever of it is left ends.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    if status.is_none() {
        child.wait()?;
    }
    Ok(status)
}

fn how(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("killed by signal {signal}"),
        None => status.to_string(),
    }
}

fn with_notes(why: String, notes: &str) -> String {
    match notes.trim().is_empty() {
        true => why,
        false => format!("{why}; it said last: {}", tail(notes)),
    }
}

/// The kernels beside this program, unless others are named.
fn kernels_beside() -> Option<PathBuf> {
    if std::env::var_os("KOLO_KERNELS_FILE").is_some() {
        return None;
    }
    let program = std::env::current_exe().ok()?;
    let file = program.with_file_name("kolo_kernels.fatbin");
    file.is_file().then_some(file)
}
