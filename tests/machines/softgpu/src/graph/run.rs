//! A launch of a graph: its nodes run when those have ended that they wait for.

use super::Instance;
use crate::progress::{Failed, Step};
use std::sync::Arc;

/// How far a node is.
#[derive(Clone)]
enum Stage<T> {
    Waits,
    Runs(Box<T>),
    Ended,
}

/// A launch.
#[derive(Clone)]
pub struct Run<T> {
    instance: Arc<Instance<T>>,
    stages: Vec<Stage<T>>,
}

impl<T: Clone> Run<T> {
    pub fn new(instance: Arc<Instance<T>>) -> Run<T> {
        let stages = vec![Stage::Waits; instance.nodes.len()];
        Run { instance, stages }
    }

    /// Goes on with all nodes that can: `step` goes on with the task of one.
    ///
    /// # Errors
    /// One of them failed.
    pub fn step(
        &mut self,
        mut step: impl FnMut(&mut T) -> Result<Step, Failed>,
    ) -> Result<Step, Failed> {
        let mut moved = false;
        for (at, node) in self.instance.nodes.iter().enumerate() {
            let has_ended = |at: &usize| matches!(self.stages[*at], Stage::Ended);
            if matches!(self.stages[at], Stage::Waits) && node.after.iter().all(has_ended) {
                self.stages[at] = Stage::Runs(Box::new(node.task.clone()));
                moved = true;
            }
            if let Stage::Runs(task) = &mut self.stages[at] {
                match step(task)? {
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
