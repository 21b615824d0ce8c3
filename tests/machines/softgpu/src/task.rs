//! Tasks of a stream: kernels, copies, fills, functions of the host, marks.

use crate::error::Code;
use crate::graph::run::Run;
use crate::host_thread::{self, HostCall};
use crate::memory::bytes::Nowhere;
use crate::memory::{Kind, Trouble};
use crate::state::State;
use crate::stream::Point;
use kolo_kernels_host::{Grid, Kernel};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Bytes that a copy moves before the worker looks at something else.
const PART: usize = 256 << 10;

/// Progress of a task when it was its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Ended,
    /// It did a part.
    Moved,
    /// It goes on by itself, or waits.
    Waits,
}

impl Step {
    fn of_part(has_ended: bool) -> Step {
        match has_ended {
            true => Step::Ended,
            false => Step::Moved,
        }
    }
}

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
    Graph(Run),
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

/// Failure that ends the work of all devices.
#[derive(Debug)]
pub struct Failed {
    pub code: Code,
    pub text: String,
}

impl From<kolo_kernels_host::Failure> for Failed {
    fn from(failure: kolo_kernels_host::Failure) -> Failed {
        Failed {
            code: match failure.is_access {
                true => Code::ILLEGAL_ADDRESS,
                false => Code::LAUNCH_FAILED,
            },
            text: failure.to_string(),
        }
    }
}

fn nowhere(what: &str, Nowhere { at }: Nowhere) -> Failed {
    Failed {
        code: Code::ILLEGAL_ADDRESS,
        text: format!("a {what} uses {at:#x}, where no memory is any more"),
    }
}

impl Task {
    /// Goes on with it.
    ///
    /// # Errors
    /// What it does is wrong: no device does anything any more.
    pub fn step(&mut self, state: &mut State, here: Point) -> Result<Step, Failed> {
        match self {
            Task::Mark => Ok(Step::Ended),
            Task::Record(event) => {
                let event = state.events.get_mut(*event).ok();
                let record = event.and_then(|event| event.record.as_mut());
                if let Some(record) = record.filter(|record| record.point == here) {
                    record.passed = Some(Instant::now());
                }
                Ok(Step::Ended)
            }
            Task::Launch(launch) => launch.step(state),
            Task::Copy(copy) => copy.step(state),
            Task::Fill(fill) => fill.step(state),
            Task::Host(call, has_ended) => Ok(match has_ended {
                Some(has_ended) if has_ended.load(Ordering::Acquire) => Step::Ended,
                Some(_) => Step::Waits,
                None => {
                    *has_ended = Some(host_thread::call(call.clone()));
                    Step::Moved
                }
            }),
            Task::Graph(run) => run.step(state, here),
            Task::Free(base) => {
                let State {
                    memory, machine, ..
                } = state;
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
    fn step(&mut self, state: &mut State) -> Result<Step, Failed> {
        if let Some(grid) = self.grid {
            return Ok(match state.machine.is_over(grid) {
                true => Step::Ended,
                false => Step::Waits,
            });
        }
        if state.faults.hits_launch() {
            return Err(Failed {
                code: Code::LAUNCH_FAILED,
                text: "a launch fails because KOLO_SOFTGPU_FAULT asks for it".into(),
            });
        }
        let (device, blocks, threads) = (self.device, self.blocks, self.threads);
        let grid = state
            .machine
            .launch(device, &self.kernel, blocks, threads, &self.bytes)?;
        self.grid = Some(grid);
        state.has_grids = true;
        Ok(Step::Moved)
    }
}

impl Copy {
    fn step(&mut self, state: &mut State) -> Result<Step, Failed> {
        let State {
            memory, machine, ..
        } = state;
        let part = ((self.bytes - self.done) as usize).min(PART);
        let to = self.to + self.done;
        let written = match &self.from {
            Source::Kept(kept) => {
                let from = self.done as usize;
                memory.write(machine, to, &kept[from..from + part])
            }
            Source::At(from) => {
                let mut bytes = vec![0; part];
                let read = memory.read(from + self.done, &mut bytes);
                read.and_then(|()| memory.write(machine, to, &bytes))
            }
        };
        written.map_err(|place| nowhere("copy", place))?;
        self.done += part as u64;
        Ok(Step::of_part(self.done == self.bytes))
    }
}

impl Fill {
    fn step(&mut self, state: &mut State) -> Result<Step, Failed> {
        let State {
            memory, machine, ..
        } = state;
        let part = ((self.bytes - self.done) as usize).min(PART);
        let pattern = &self.pattern.to_le_bytes()[..self.width];
        let bytes = pattern.repeat(part / self.width);
        let written = memory.write(machine, self.to + self.done, &bytes);
        written.map_err(|place| nowhere("fill", place))?;
        self.done += part as u64;
        Ok(Step::of_part(self.done == self.bytes))
    }
}
