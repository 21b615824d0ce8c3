//! The steps, by name: what each does, and how long it may take.

use crate::report::Outcome;
use crate::world::{QUEUES, Setup};
use crate::{
    checker, copies, facts, frames, host_path, litmus, pairs, peers, queues, streams, sums,
};
use clap::ValueEnum;
use std::time::Duration;

/// Part of the steps: those that belong together are run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Whether results are right.
    Correctness,
    /// How long it takes.
    Timing,
}

/// A step: a process of its own.
pub struct Step {
    pub name: String,
    pub part: Part,
    /// It is killed after this.
    pub limit: Duration,
    /// Variables of its process.
    pub variables: Vec<(String, String)>,
    /// Its process has as many queues to the device as the driver gives where nobody asks for more.
    pub has_usual_queues: bool,
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
        variables: Vec::new(),
        has_usual_queues: false,
        run: Box::new(run),
    }
}

/// All steps, in their order.
pub fn all() -> Vec<Step> {
    let mut steps = Vec::new();
    correctness(&mut steps);
    timing(&mut steps);
    steps
}

fn timing(steps: &mut Vec<Step>) {
    let part = Part::Timing;
    steps.push(step(part, "copy", 60, copies::copies));
    steps.push(step(part, "fold", 60, copies::folds));
    steps.push(step(part, "frames", 60, frames::run));
    for queues in ["1", "8", "32"] {
        steps.push(Step {
            variables: vec![(QUEUES.into(), queues.into())],
            ..step(part, format!("queues-{queues}"), 30, queues::run)
        });
    }
    for nranks in [1, 2] {
        steps.push(step(
            part,
            format!("host-path-{nranks}"),
            30,
            move |setup| host_path::run(setup, nranks),
        ));
    }
    for nranks in pairs::RANKS {
        let mut sums = step(part, format!("all-reduce-{nranks}"), 120, move |setup| {
            sums::run(setup, nranks)
        });
        sums.variables = sums::settings(nranks);
        steps.push(sums);
    }
}

fn correctness(steps: &mut Vec<Step>) {
    let part = Part::Correctness;
    steps.push(step(part, "facts", 60, |_| facts::run()));
    steps.push(step(part, "litmus-lines", 60, litmus::lines));
    steps.push(step(part, "litmus-answers", 30, litmus::answers));
    steps.push(step(part, "litmus-grids", 60, litmus::grids));
    steps.push(Step {
        has_usual_queues: true,
        ..step(part, "litmus-usual-grids", 60, litmus::usual_grids)
    });
    steps.push(step(part, "litmus-processes", 60, peers::answers));
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
    steps.push(step(part, "processes", 60, peers::communicator));
    for around in checker::STEPS {
        let name = format!("checker-{around}");
        steps.push(step(part, name, 90, move |_| checker::run(around)));
    }
}
