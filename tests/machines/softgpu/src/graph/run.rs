//! A launch of a graph: its nodes run when those have ended that they wait for.

use super::Instance;
use crate::state::State;
use crate::stream::Point;
use crate::task::{Failed, Step, Task};
use std::sync::Arc;

/// How far a node is.
#[derive(Clone)]
enum Stage {
    Waits,
    Runs(Box<Task>),
    Ended,
}

/// A launch.
#[derive(Clone)]
pub struct Run {
    instance: Arc<Instance>,
    stages: Vec<Stage>,
}

impl Run {
    pub fn new(instance: Arc<Instance>) -> Run {
        let stages = vec![Stage::Waits; instance.nodes.len()];
        Run { instance, stages }
    }

    /// Goes on with all nodes that can.
    ///
    /// # Errors
    /// One of them failed.
    pub fn step(&mut self, state: &mut State, here: Point) -> Result<Step, Failed> {
        let mut moved = false;
        for (at, node) in self.instance.nodes.iter().enumerate() {
            let has_ended = |at: &usize| matches!(self.stages[*at], Stage::Ended);
            if matches!(self.stages[at], Stage::Waits) && node.after.iter().all(has_ended) {
                self.stages[at] = Stage::Runs(Box::new(node.task.clone()));
                moved = true;
            }
            if let Stage::Runs(task) = &mut self.stages[at] {
                match task.step(state, here)? {
                    Step::Ended => {
                        self.stages[at] = Stage::Ended;
                        moved = true;
                    }
                    Step::Moved => moved = true,
                    Step::Waits => {}
                }
            }
        }
        let is_over = self
            .stages
            .iter()
            .all(|stage| matches!(stage, Stage::Ended));
        Ok(match (is_over, moved) {
            (true, _) => Step::Ended,
            (false, true) => Step::Moved,
            (false, false) => Step::Waits,
        })
    }
}
