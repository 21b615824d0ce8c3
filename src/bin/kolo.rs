//! The one command line of kolo: `kolo perf`, `kolo info`, `kolo topo`, `kolo version`.

#[path = "kolo/cli.rs"]
mod cli;
#[path = "kolo/info.rs"]
mod info;
#[path = "kolo/launcher.rs"]
mod launcher;
#[path = "kolo/out.rs"]
mod out;
#[path = "kolo/perf/mod.rs"]
mod perf;
#[path = "kolo/topo.rs"]
mod topo;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
