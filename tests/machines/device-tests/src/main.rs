//! Tests and times kolo on a real GPU: one program, which a bundle takes to a machine that has
//! neither a network nor a compiler.
//!
//! **Problem.** A GPU is lent for minutes. A kernel that hangs must not cost the rest of them, and
//! what was seen must be kept in a form that a program can read.
//!
//! **Idea.** The program is a list of steps ([`step`]). Each runs in a process of its own
//! ([`runner`]), has a limit, and gives one line of JSON ([`report`]).
//!
//! | file | what it has |
//! |---|---|
//! | [`facts`] | driver, devices, kernels |
//! | [`litmus`] | what the protocols take for granted, tried |
//! | [`world`], [`case`] | ranks as threads; a call that every rank checks |
//! | [`pairs`], [`streams`] | every algorithm, protocol, type, operation; graphs, abort |
//! | [`peers`] | the same between two processes |
//! | [`copies`], [`local`], [`sums`] | how fast: copies, folds, all-reduces |
//! | [`frames`], [`host_path`], [`queues`] | what a frame and a launch cost; streams that wait |
//! | [`clock`], [`nccl`] | medians; the library that is timed beside kolo |
//! | [`checker`] | compute-sanitizer around a small step |
//!
//! `docs/gpu.md` says how to use it.

mod case;
mod checker;
mod clock;
mod copies;
mod facts;
mod frames;
mod host_path;
mod litmus;
mod local;
mod nccl;
mod pairs;
mod peers;
mod queues;
mod report;
mod runner;
mod step;
mod streams;
mod sums;
mod world;

use clap::{Parser, Subcommand};
use report::Failure;
use runner::Runner;
use std::process::ExitCode;
use std::time::Duration;
use step::Part;
use world::Setup;

/// Tests and times kolo's GPU part: one line of JSON for each step.
#[derive(Parser)]
struct Arguments {
    /// Small calls and a selection, as a GPU made of software needs it
    #[arg(long)]
    small: bool,
    /// Seconds that each step may take, in place of its own limit
    #[arg(long, value_name = "SECONDS")]
    limit: Option<f64>,
    /// Only steps whose names begin with one of these words, with commas
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    only: Vec<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Names the steps
    List,
    /// Runs all steps of a part, each in a process of its own
    Run { part: Part },
    /// Runs one step in this process
    Step { name: String },
    /// The second process of a step
    #[command(hide = true)]
    Peer {
        #[command(subcommand)]
        work: peers::PeerWork,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut steps = step::all();
    if !arguments.only.is_empty() {
        let is_it = |name: &str| arguments.only.iter().any(|word| name.starts_with(word));
        steps.retain(|step| is_it(&step.name));
    }
    if steps.is_empty() {
        return fail("no step has such a name: `list` names them");
    }
    match &arguments.command {
        Command::List => {
            for step in &steps {
                println!(
                    "{:<24} {:?}, {} s",
                    step.name,
                    step.part,
                    step.limit.as_secs()
                );
            }
            ExitCode::SUCCESS
        }
        Command::Run { part } => {
            steps.retain(|step| step.part == *part);
            run(&arguments, &steps)
        }
        Command::Peer { work } => match peers::work(work) {
            Ok(()) => ExitCode::SUCCESS,
            Err(Failure(why)) => fail(&why),
        },
        Command::Step { name } => match steps.iter().find(|step| step.name == *name) {
            Some(step) => in_this_process(step, arguments.small),
            None => fail(&format!("there is no step {name}: `list` names them")),
        },
    }
}

fn run(arguments: &Arguments, steps: &[step::Step]) -> ExitCode {
    let results = match runner::results() {
        Ok(results) => results,
        Err(error) => return fail(&format!("the results cannot be written into $OUT: {error}")),
    };
    let mut runner = Runner {
        is_small: arguments.small,
        limit: arguments.limit.map(Duration::from_secs_f64),
        results,
    };
    ExitCode::from(u8::from(!runner.run(steps)))
}

/// Runs a step and ends the process, with what a panic says in place of an outcome.
fn in_this_process(step: &step::Step, is_small: bool) -> ! {
    let name = step.name.clone();
    std::panic::set_hook(Box::new(move |panic| {
        report::end(&name, &Err(Failure(panic.to_string())));
    }));
    let setup = Setup {
        step: step.name.clone(),
        is_small,
    };
    report::end(&step.name, &step.run(&setup))
}

fn fail(why: &str) -> ExitCode {
    eprintln!("kolo-device-tests: {why}");
    ExitCode::from(2)
}
