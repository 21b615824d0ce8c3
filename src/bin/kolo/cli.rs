//! The command line: what can be asked for, and the exit code.
//!
//! 0: done, and every result right. 1: an error, or a wrong result. 2: a mistake in the options.

use crate::config::{self, ConfigArgs};
use crate::info::{self, InfoArgs};
use crate::perf::picture::{self, PlotArgs};
use crate::topo::{self, TopoArgs};
use crate::{
    doctor, explain, hello, launcher, names, out, pages, perf, ras, sim, softgpu, tune, tune_args,
};
use clap::{CommandFactory, Parser, Subcommand};
use kolo::base::Result;
use std::process::ExitCode;

/// kolo: collective communication for batch HPC jobs
#[derive(Parser, Debug)]
#[command(name = "kolo", version, about, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Measure a collective and check its results
    #[command(after_help = PERF_HELP)]
    Perf(Box<perf::PerfArgs>),
    /// Draw time and bandwidth of several runs of kolo perf into one picture
    #[command(after_help = PLOT_HELP)]
    Plot(PlotArgs),
    /// Show the version, the build, what of MPI was found, and the ways of data between ranks
    #[command(after_help = info::HELP)]
    Info(InfoArgs),
    /// Check, show and compare settings
    Config(ConfigArgs),
    /// Show the machine as kolo sees it, with the rings and trees that fit it
    #[command(after_help = topo::HELP)]
    Topo(TopoArgs),
    /// Measure every algorithm, and write a file from which kolo chooses
    #[command(after_help = TUNE_HELP)]
    Tune(Box<tune_args::TuneArgs>),
    /// Explain which algorithm would run, how long it would take, and why
    #[command(after_help = EXPLAIN_HELP)]
    Explain(Box<explain::ExplainArgs>),
    /// Simulate a collective on a machine that need not be there
    #[command(after_help = SIM_HELP)]
    Sim(Box<sim::SimArgs>),
    /// Let the processes of a launcher meet without MPI, and show where they are
    #[command(after_help = HELLO_HELP)]
    Hello(hello::HelloArgs),
    /// Look for what is wrong on the nodes of a job, and say how to mend it
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::DoctorArgs),
    /// Look into a job that runs: what each rank does, and who holds it up
    #[command(after_help = ras::HELP)]
    Ras(ras::RasArgs),
    /// Run a program on GPUs that are made of software, to test what it does with kolo
    #[command(after_help = softgpu::HELP)]
    Softgpu(softgpu::SoftgpuArgs),
    /// Write manual pages and completions of shells, as installing does
    #[command(hide = true)]
    Pages(pages::PagesArgs),
    /// Show the version
    Version,
    /// Show help on a command, or on the settings
    Help {
        /// A command, or `settings`
        topic: Option<String>,
    },
}

const HELLO_HELP: &str = "\
Examples:
  srun -N 4 -n 16 --mpi=pmix kolo hello
      do the ranks of a job on 4 nodes find each other?
  srun -N 4 -n 16 --mpi=none kolo hello --slurm
      the same by the variables of Slurm alone
  KOLO_RANK=1 KOLO_NRANKS=2 KOLO_COMM_ID=node1:4777 kolo hello
      one of two ranks that are started by hand; rank 0 on node1";

const PLOT_HELP: &str = "\
Examples:
  mpirun -n 4 kolo perf all_reduce -b 8 -e 64M -f 2 --json ring.json
  kolo plot ring.json tree.json -o both.svg
      one curve for each file, named after it";

const TUNE_HELP: &str = "\
Examples:
  mpirun -n 8 kolo tune -o /etc/kolo/tuner.toml
      all collectives from 8 bytes to 16 MiB; run again, it continues where it stopped
  kolo tune --ranks 4 -c all_reduce,broadcast -e 1M -o here.toml
      four threads of one process, two collectives
  mpirun -n 8 kolo tune --mpi -o /etc/kolo/mpi.table
      the MPI of this mpirun beside kolo: libkolo_pmpi.so leaves to it what it does faster

Run it for each arrangement of nodes and ranks that matters, into the same file.";

const EXPLAIN_HELP: &str = "\
Examples:
  kolo explain all_reduce 4M -n 64x8
      64 nodes of 8 ranks, with the settings in force
  KOLO_ALGO=broadcast:^ring kolo explain broadcast 1M -n 8 -r 3
      8 ranks of one node, root 3, without the ring";

const SIM_HELP: &str = "\
Examples:
  kolo sim all_reduce 256M -n 128x8 --nics 8
      what kolo would choose, with 8 network interfaces a node
  kolo sim all_reduce 1K -n 100000x1 -a rd
      recursive doubling among 100,000 nodes
  kolo sim broadcast -n 16x8 --plot broadcast.svg
      time against size for all algorithms";

const PERF_HELP: &str = "\
Examples:
  kolo perf all_reduce --ranks 4 -b 8 -e 64M -f 2
      four threads of one process
  mpirun -n 4 kolo perf all_reduce -b 8 -e 64M -f 2 --compare mpi
      four processes, beside the MPI of that mpirun; a ratio above 1 means that kolo is faster
  mpirun -n 2 kolo perf all_reduce -b 8 -e 4K -f 2 -d all -o all --json results.json
      every type and operation, at small sizes
  mpirun -n 3 kolo perf alltoall_v -b 8 -e 64K -f 2
      blocks of different sizes, some of them empty, with gaps between them; so do all_gather_v,
      gather_v, scatter_v and reduce_scatter_v
  mpirun -n 4 kolo perf all_reduce -d double -o exactsum
      correctly rounded sums of terms that cancel
  srun -N 2 -n 8 --mpi=none kolo perf MPI_Bcast -b 8 -e 1M -f 2 --plot bcast.svg
      without MPI, over two nodes; names of MPI and NCCL are understood
  kolo perf all_reduce --device cuda -g 8 -b 8 -e 1G -f 2
      on the memory of eight GPUs of one process; `kolo softgpu -n 8 --` before it where none is
  all_reduce_perf -b 8 -e 128M -f 2 -g 2
      as nccl-tests; so are all_gather_perf, reduce_scatter_perf, broadcast_perf, reduce_perf,
      alltoall_perf, alltoallv_perf, gather_perf, scatter_perf, sendrecv_perf and hypercube_perf

neighbor_* exchange with the ranks below and above on a ring of all ranks.

Columns: size and count of the data, time of one call, algbw = size / time, busbw = algbw times a
factor that makes it comparable with the speed of the hardware (2(n-1)/n for all_reduce), and the
number of wrong elements on all ranks; once with separate buffers, once in place. --wide adds for
both the time that half of the calls (p50) and 99 of 100 (p99) do not exceed, taken from as many
calls more, and the algorithm that did the work; `direct` is that of buffers that are read where
they lie. With --compare, the times of MPI stand where bandwidths would (--wide has both), and time
is the median of five measurements, in turns with the other's, where all calls find freshly written
data; spread% is the distance of the extremes of the ratio.

The exit code is 0 if every result is right, 1 if not, 2 for a mistake in the options.";

/// Runs the program.
pub fn run() -> ExitCode {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if let Some(exit) = words.first().and_then(|path| tool(path, &words)) {
        return exit;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Every process of a job finds the same mistake, and one says it.
        Err(error) if words.get(1).is_some_and(|word| word == "perf") => {
            return perf::main(Err(error));
        }
        Err(error) => return usage(&error),
    };
    let done = |result: Result<()>| match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out::complain(&error);
            ExitCode::FAILURE
        }
    };
    match cli.command {
        Command::Perf(args) => perf::main(Ok(*args)),
        Command::Plot(args) => done(picture::run(&args)),
        Command::Info(args) => done(info::info(&args)),
        Command::Config(args) => done(config::run(&args)),
        Command::Topo(args) => done(topo::run(&args)),
        Command::Tune(args) => done(tune::run(&args)),
        Command::Explain(args) => done(explain::run(&args)),
        Command::Sim(args) => done(sim::run(&args)),
        Command::Hello(args) => done(hello::run(&args)),
        Command::Doctor(args) => doctor::run(&args),
        Command::Ras(args) => done(ras::run(&args)),
        Command::Softgpu(args) => done(softgpu::run(&args)),
        Command::Pages(args) => done(pages::run(&args, Cli::command())),
        Command::Version => {
            info::version();
            ExitCode::SUCCESS
        }
        Command::Help { topic } => help(topic.as_deref()),
    }
}

/// Runs as a program of nccl-tests, where this one was started by such a name.
fn tool(path: &str, words: &[String]) -> Option<ExitCode> {
    let (row, name) = names::of_program(path)?;
    // One name, which lasts as long as the process.
    let name: &'static str = Box::leak(name.to_string().into_boxed_str());
    let args = perf::tool::parse(name, row, words[1..].iter().cloned());
    Some(perf::main(args))
}

fn help(topic: Option<&str>) -> ExitCode {
    match topic {
        None => usage_of(&["kolo", "--help"]),
        Some("settings") => {
            out::write(&kolo::config::render_help());
            ExitCode::SUCCESS
        }
        Some(topic) => match option_named(topic) {
            Some(option) => {
                out::write(&kolo::config::render_help_of(option));
                ExitCode::SUCCESS
            }
            None => usage_of(&["kolo", topic, "--help"]),
        },
    }
}

/// The option of this name, or of this variable.
fn option_named(topic: &str) -> Option<&'static kolo::config::Opt> {
    let key = topic.to_ascii_lowercase();
    kolo::config::find(key.strip_prefix("kolo_").unwrap_or(&key))
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
