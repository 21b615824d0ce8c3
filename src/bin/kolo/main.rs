//! The one command line of kolo: `kolo perf`, `kolo plot`, `kolo info`, `kolo config`, `kolo topo`,
//! `kolo explain`, `kolo sim`, `kolo tune`, `kolo hello`, `kolo doctor`, `kolo ras`,
//! `kolo softgpu`, `kolo version`. Started by a name such as `all_reduce_perf` it is that program
//! of nccl-tests.

mod algorithms;
mod arrangement;
mod canvas;
mod chart;
mod cli;
mod config;
mod deciding;
mod doctor;
mod drawing;
mod explain;
mod explain_device;
mod facts;
mod gpus;
mod hello;
mod info;
mod kernels_file;
mod launcher;
mod names;
mod object;
mod out;
mod pages;
mod perf;
mod plot;
mod question;
mod ras;
mod routes;
mod sim;
mod softgpu;
mod topo;
mod tune;
mod tune_args;
mod tune_mpi;
mod tuned;
mod ways;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
