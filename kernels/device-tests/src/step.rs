//! The steps, by name: what each does, and how long it may take.

use crate::report::Outcome;
use crate::world::Setup;
use crate::{checker, facts, pairs, streams};
use clap::ValueEnum;
use std::time::Duration;

/// What belongs together, and is run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Whether results are right.
    Correctness,
}

/// A step: a process of its own.
pub struct Step {
    pub name: String,
    pub part: Part,
    /// It is killed after this.
    pub limit: Duration,
    run: Box<dyn Fn(&Setup) -> Outcome>,
}

impl Step {
    /// Runs it in this process.
    ///
    /// # Errors
    /// Why it has failed.
    pub fn run(&self, setup: &Setup) -> Outcome {
        (self.run)(setup)
    }
}

fn step(
    part: Part,
    name: impl Into<String>,
    seconds: u64,
    run: impl Fn(&Setup) -> Outcome + 'static,
) -> Step {
    Step {
        name: name.into(),
        part,
        limit: Duration::from_secs(seconds),
        run: Box::new(run),
    }
}

/// All steps, in their order.
pub fn all() -> Vec<Step> {
    let mut steps = Vec::new();
    correctness(&mut steps);
    steps
}

fn correctness(steps: &mut Vec<Step>) {
    let part = Part::Correctness;
    steps.push(step(part, "facts", 60, |_| facts::run()));
    for nranks in pairs::RANKS {
        for protocol in pairs::PROTOCOLS {
            let name = format!("pairs-{nranks}-{protocol}");
            steps.push(step(part, name, 90, move |setup| {
                pairs::run(setup, nranks, protocol)
            }));
        }
    }
    steps.push(step(part, "graphs", 60, streams::graphs));
    steps.push(step(part, "abort", 30, streams::abort));
    steps.push(step(part, "checker", 90, checker::run));
}
