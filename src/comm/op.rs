//! A call in flight: its launches, their lanes, and whoever waits for it.

use super::call::Checked;
use super::state::Exec;
use crate::base::{Error, Result};
use crate::exec::wires::Mismatch;
use crate::exec::{Kernel, LaneRun, Launch, Progress};
use crate::plan::{Algorithm, Collective};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// Tells when a call on a stream has ended, and how.
#[derive(Debug, Default)]
pub(super) struct Completion {
    done: AtomicU32,
    error: OnceLock<Error>,
}

impl Completion {
    pub fn finish(&self, result: Result<()>) {
        if let Err(error) = result {
            let _ = self.error.set(error);
        }
        self.done.store(1, Ordering::Release);
    }

    /// `None` while it runs.
    pub fn result(&self) -> Option<Result<()>> {
        let done = self.done.load(Ordering::Acquire) == 1;
        done.then(|| self.error.get().map_or(Ok(()), |error| Err(error.clone())))
    }
}

/// Lanes that share one connection end and so run one after the other.
struct Queue {
    lanes: VecDeque<(usize, LaneRun)>,
}

/// One call, or a bundle of point-to-point calls, in flight.
pub(super) struct Op {
    launches: Vec<Launch>,
    queues: Vec<Queue>,
    /// Fans were used: an epoch ends with the call.
    eager: bool,
    /// Nothing of this op moves before these have ended.
    pub after: Vec<Arc<Completion>>,
    pub completion: Arc<Completion>,
    pub collective: Collective,
}

/// What a pass over an op did.
pub(super) enum Step {
    Moved,
    /// The missing local rank.
    Blocked(usize),
    Done,
}

impl Op {
    /// An op without lanes, which ends at once.
    pub fn new(collective: Collective) -> Op {
        Op {
            launches: Vec::new(),
            queues: Vec::new(),
            eager: false,
            after: Vec::new(),
            completion: Arc::default(),
            collective,
        }
    }

    /// Adds a collective (or its check) whose lanes all run at once.
    pub fn collective(
        exec: &mut Exec,
        checked: &Checked,
        kernel: Kernel,
        choice: crate::tune::Choice,
    ) -> Result<Op> {
        let mut op = Op::new(checked.call.collective);
        op.eager = choice.algorithm == Algorithm::OneShot;
        let launch = exec.launch(checked, kernel, choice)?;
        let collective = checked.call.collective;
        let blocks = (
            collective.input_blocks(exec.nranks),
            collective.output_blocks(exec.nranks),
        );
        for lane in 0..launch.plan.lanes.len() {
            let window = launch.window(lane, checked.call.count, blocks);
            exec.steps_planned += launch.plan.lane_steps_per_round(lane) * window.rounds();
            let run = LaneRun::new(lane, window);
            op.queues.push(Queue {
                lanes: VecDeque::from([(0, run)]),
            });
        }
        op.launches.push(launch);
        Ok(op)
    }

    /// Adds one message of a point-to-point bundle; messages with the same end follow each other.
    pub fn message(&mut self, exec: &mut Exec, checked: &Checked, kernel: Kernel) -> Result<()> {
        let choice = crate::tune::Choice {
            algorithm: Algorithm::Bundle,
            channels: 1,
        };
        let launch = exec.launch(checked, kernel, choice)?;
        let window = launch.window(0, checked.call.count, (1, 1));
        exec.steps_planned += launch.plan.lane_steps_per_round(0) * window.rounds();
        let run = LaneRun::new(0, window);
        let index = self.launches.len();
        let end = launch.ends.first().copied();
        let same = self.queues.iter_mut().find(|queue| {
            end.is_some()
                && queue
                    .lanes
                    .front()
                    .and_then(|(l, _)| self.launches[*l].ends.first().copied())
                    == end
        });
        match same {
            Some(queue) => queue.lanes.push_back((index, run)),
            None => self.queues.push(Queue {
                lanes: VecDeque::from([(index, run)]),
            }),
        }
        self.launches.push(launch);
        Ok(())
    }

    /// Moves what can move.
    pub fn pass(&mut self, exec: &mut Exec) -> std::result::Result<Step, Mismatch> {
        let mut moved = false;
        let mut missing = None;
        for queue in &mut self.queues {
            while let Some((launch, run)) = queue.lanes.front_mut() {
                let launch = &self.launches[*launch];
                // SAFETY: the buffers belong to the call until it completes, and the owner lock
                // makes us the only driver.
                match unsafe { run.progress(launch, &mut exec.wires, &mut ())? } {
                    Progress::Done => {
                        moved = true;
                        queue.lanes.pop_front();
                    }
                    Progress::Moved(_) => {
                        moved = true;
                        break;
                    }
                    Progress::Blocked(peer) => {
                        missing.get_or_insert(peer);
                        break;
                    }
                }
            }
        }
        self.queues.retain(|queue| !queue.lanes.is_empty());
        if self.queues.is_empty() {
            if self.eager {
                exec.wires.complete_eager();
                self.eager = false;
            }
            return Ok(Step::Done);
        }
        Ok(match (moved, missing) {
            (false, Some(peer)) => Step::Blocked(peer),
            _ => Step::Moved,
        })
    }
}
