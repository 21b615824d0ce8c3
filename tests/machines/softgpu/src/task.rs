//! Tasks of a stream: kernels, copies, fills, functions of the host, marks.

use crate::error::Code;
use crate::event::Point;
use crate::graph::run::Run;
use crate::graph::{Executable, Graph};
use crate::hardware::Hardware;
use crate::host_thread::{self, HostCall};
use crate::memory::bytes::{self, Nowhere};
use crate::memory::{Kind, Trouble};
use crate::progress::{Failed, Step};
use kolo_kernels_host::{Grid, Kernel};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Bytes that a copy moves before the worker looks at something else.
const PART: usize = 256 << 10;

/// One piece of work.
#[derive(Clone)]
pub enum Task {
    /// Only what it waits for.
    Mark,
    Record(u64),
    Launch(Launch),
    Copy(Copy),
    Fill(Fill),
    Host(HostCall, Option<Arc<AtomicBool>>),
    /// Memory of a pool is given back.
    Free(u64),
    Graph(Run<Task>),
}

/// A kernel.
#[derive(Clone)]
pub struct Launch {
    pub device: u32,
    pub kernel: Kernel,
    pub blocks: u32,
    pub threads: u32,
    pub bytes: Arc<[u8]>,
    pub grid: Option<Grid>,
}

/// Where a copy comes from.
#[derive(Clone)]
pub enum Source {
    At(u64),
    /// Memory that the caller may change at once: it was copied at the call.
    Kept(Arc<[u8]>),
}

/// A copy.
#[derive(Clone)]
pub struct Copy {
    pub to: u64,
    pub from: Source,
    pub bytes: u64,
    pub done: u64,
}

/// A pattern of 1, 2 or 4 bytes, again and again.
#[derive(Clone)]
pub struct Fill {
    pub to: u64,
    pub pattern: u32,
    pub width: usize,
    pub bytes: u64,
    pub done: u64,
}

fn nowhere(what: &str, Nowhere { at }: Nowhere) -> Failed {
    Failed {
        code: Code::ILLEGAL_ADDRESS,
        text: format!("a {what} uses {at:#x}, where no memory is any more"),
    }
}

/// A graph of tasks, and an instance of it.
pub type TaskGraph = Graph<Task>;
pub type TaskExecutable = Executable<Task>;

impl Task {
    /// `CUgraphNodeType` of a node with it.
    pub fn kind(&self) -> i32 {
        match self {
            Task::Launch(_) => 0,
            Task::Copy(_) => 1,
            Task::Fill(_) => 2,
            Task::Host(..) => 3,
            Task::Graph(_) => 4,
            Task::Mark | Task::Record(_) | Task::Free(_) => 5,
        }
    }

    /// Goes on with it.
    ///
    /// # Errors
    /// What it does is wrong: no device does anything any more.
    pub fn step(&mut self, on: &mut Hardware, here: Point) -> Result<Step, Failed> {
        match self {
            Task::Mark => Ok(Step::Ended),
            Task::Record(event) => {
                let event = on.events.get_mut(*event).ok();
                let record = event.and_then(|event| event.record.as_mut());
                if let Some(record) = record.filter(|record| record.point == here) {
                    record.passed = Some(Instant::now());
                }
                Ok(Step::Ended)
            }
            Task::Launch(launch) => launch.step(on),
            Task::Copy(copy) => copy.step(on),
            Task::Fill(fill) => fill.step(on),
            Task::Host(call, has_ended) => Ok(match has_ended {
                Some(has_ended) if has_ended.load(Ordering::Acquire) => Step::Ended,
                Some(_) => Step::Waits,
                None => {
                    *has_ended = Some(host_thread::call(call.clone()));
                    Step::Moved
                }
            }),
            Task::Graph(run) => run.step(|task| task.step(on, here)),
            Task::Free(base) => {
                let Hardware {
                    memory, machine, ..
                } = on;
                let freed = memory.free(machine, *base, |kind| matches!(kind, Kind::Pooled(_)));
                match freed {
                    Err(Trouble::Failure(failure)) => Err(failure.into()),
                    // Freed twice: its address is looked at when it is submitted.
                    Ok(()) | Err(Trouble::Code(_)) => Ok(Step::Ended),
                }
            }
        }
    }
}

impl Launch {
    fn step(&mut self, on: &mut Hardware) -> Result<Step, Failed> {
        if let Some(grid) = self.grid {
            return Ok(match on.machine.is_over(grid) {
                true => Step::Ended,
                false => Step::Waits,
            });
        }
        if on.faults.hits_launch() {
            return Err(Failed {
                code: Code::LAUNCH_FAILED,
                text: "a launch fails because KOLO_SOFTGPU_FAULT asks for it".into(),
            });
        }
        let (device, blocks, threads) = (self.device, self.blocks, self.threads);
        let grid = on
            .machine
            .launch(device, &self.kernel, blocks, threads, &self.bytes)?;
        self.grid = Some(grid);
        on.has_grids = true;
        Ok(Step::Moved)
    }
}

impl Copy {
    fn step(&mut self, on: &mut Hardware) -> Result<Step, Failed> {
        let Hardware {
            memory, machine, ..
        } = on;
        let part = ((self.bytes - self.done) as usize).min(PART);
        let to = self.to + self.done;
        let written = match &self.from {
            Source::Kept(kept) => {
                let from = self.done as usize;
                bytes::write(&memory.ranges, machine, to, &kept[from..from + part])
            }
            Source::At(from) => {
                let mut moved = vec![0; part];
                let read = bytes::read(&memory.ranges, from + self.done, &mut moved);
                read.and_then(|()| bytes::write(&memory.ranges, machine, to, &moved))
            }
        };
        written.map_err(|place| nowhere("copy", place))?;
        self.done += part as u64;
        Ok(Step::of_part(self.done == self.bytes))
    }
}

impl Fill {
    fn step(&mut self, on: &mut Hardware) -> Result<Step, Failed> {
        let Hardware {
            memory, machine, ..
        } = on;
        let part = ((self.bytes - self.done) as usize).min(PART);
        let pattern = &self.pattern.to_le_bytes()[..self.width];
        let part_bytes = pattern.repeat(part / self.width);
        let written = bytes::write(&memory.ranges, machine, self.to + self.done, &part_bytes);
        written.map_err(|place| nowhere("fill", place))?;
        self.done += part as u64;
        Ok(Step::of_part(self.done == self.bytes))
    }
}
