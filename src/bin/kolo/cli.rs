//! The command line: what can be asked for, and the exit code.
//!
//! 0: done, and every result right. 1: an error, or a wrong result. 2: a mistake in the options.

use crate::info::{self, InfoArgs, TopoArgs};
use crate::{launcher, out, perf};
use clap::{Parser, Subcommand};
use kolo::base::Result;
use std::process::ExitCode;

/// kolo: collective communication for batch HPC jobs
#[derive(Parser, Debug)]
#[command(name = "kolo", version, about, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Measure a collective and check its results
    #[command(after_help = PERF_HELP)]
    Perf(Box<perf::PerfArgs>),
    /// Show the version, the build, and what of MPI was found
    Info(InfoArgs),
    /// Show the machine as kolo sees it
    Topo(TopoArgs),
    /// Show the version
    Version,
    /// Show help on a command, or on the settings
    Help {
        /// A command, or `settings`
        topic: Option<String>,
    },
}

const PERF_HELP: &str = "\
Examples:
  kolo perf all_reduce --ranks 4 -b 8 -e 64M -f 2
      four threads of one process
  mpirun -n 4 kolo perf all_reduce -b 8 -e 64M -f 2 --compare mpi
      four processes, beside the MPI of that mpirun; a ratio above 1 means that kolo is faster
  mpirun -n 2 kolo perf all_reduce -b 8 -e 4K -f 2 -d all -o all --json results.json
      every type and operation, at small sizes

Columns: size and count of the data, time of one call, algbw = size / time, busbw = algbw times a
factor that makes it comparable with the speed of the hardware (2(n-1)/n for all_reduce), and the
number of wrong elements on all ranks; once with separate buffers, once in place.
With --compare, time is the median of five measurements, in turns with the other's, where all calls
find freshly written data; spread% is the distance of the extremes of the ratio.

The exit code is 0 if every result is right, 1 if not, 2 for a mistake in the options.";

/// Runs the program.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let done = |result: Result<()>| match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    };
    match cli.command {
        Command::Perf(args) => measured(perf::run(&args)),
        Command::Info(args) => done(info::info(&args)),
        Command::Topo(args) => done(info::topology(&args)),
        Command::Version => {
            info::version();
            ExitCode::SUCCESS
        }
        Command::Help { topic } => help(topic.as_deref()),
    }
}

fn measured(result: Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if error.operation.as_deref() == Some(perf::USAGE) => {
            // Every rank has found it.
            if launcher::speaks_for_all() {
                eprintln!("{error}");
            }
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn help(topic: Option<&str>) -> ExitCode {
    match topic {
        None => usage_of(&["kolo", "--help"]),
        Some("settings") => {
            out::write(&kolo::config::render_help());
            ExitCode::SUCCESS
        }
        Some(command) => usage_of(&["kolo", command, "--help"]),
    }
}

fn usage_of(words: &[&str]) -> ExitCode {
    match Cli::try_parse_from(words) {
        Err(error) => usage(&error),
        Ok(_) => ExitCode::SUCCESS,
    }
}

/// Prints what the parser has to say: help, or what is wrong.
fn usage(error: &clap::Error) -> ExitCode {
    if launcher::speaks_for_all() {
        // Fails only where nobody reads it.
        let _ = error.print();
    }
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}
