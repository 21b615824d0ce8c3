//! The one command line of kolo: `kolo perf`, `kolo plot`, `kolo info`, `kolo config`, `kolo topo`,
//! `kolo explain`, `kolo sim`, `kolo tune`, `kolo hello`, `kolo doctor`, `kolo softgpu`,
//! `kolo version`. Started by a name such as `all_reduce_perf` it is that program of nccl-tests.

#[path = "kolo/algorithms.rs"]
mod algorithms;
#[path = "kolo/chart.rs"]
mod chart;
#[path = "kolo/cli.rs"]
mod cli;
#[path = "kolo/config.rs"]
mod config;
#[path = "kolo/deciding.rs"]
mod deciding;
#[path = "kolo/doctor/mod.rs"]
mod doctor;
#[path = "kolo/drawing/mod.rs"]
mod drawing;
#[path = "kolo/explain.rs"]
mod explain;
#[path = "kolo/explain_device.rs"]
mod explain_device;
#[path = "kolo/facts.rs"]
mod facts;
#[path = "kolo/gpus.rs"]
mod gpus;
#[path = "kolo/hello.rs"]
mod hello;
#[path = "kolo/info.rs"]
mod info;
#[path = "kolo/kernels_file.rs"]
mod kernels_file;
#[path = "kolo/launcher.rs"]
mod launcher;
#[path = "kolo/names.rs"]
mod names;
#[path = "kolo/object.rs"]
mod object;
#[path = "kolo/out.rs"]
mod out;
#[path = "kolo/pages/mod.rs"]
mod pages;
#[path = "kolo/perf/mod.rs"]
mod perf;
#[path = "kolo/plot.rs"]
mod plot;
#[path = "kolo/question.rs"]
mod question;
#[path = "kolo/routes.rs"]
mod routes;
#[path = "kolo/sim.rs"]
mod sim;
#[path = "kolo/softgpu.rs"]
mod softgpu;
#[path = "kolo/topo.rs"]
mod topo;
#[path = "kolo/tune.rs"]
mod tune;
#[path = "kolo/tune_args.rs"]
mod tune_args;
#[path = "kolo/tune_mpi/mod.rs"]
mod tune_mpi;
#[path = "kolo/tuned.rs"]
mod tuned;
#[path = "kolo/world.rs"]
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
