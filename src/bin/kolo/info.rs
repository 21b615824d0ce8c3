//! `kolo info` and `kolo version`: what kolo is, and what it sees.

use crate::launcher::{self, Family};
use crate::out;
use clap::Args;
use kolo::base::Result;
use kolo::config::{self, Settings};
use kolo::topo::Machine;
use std::fmt::Write;

/// What `kolo info` shows.
#[derive(Args, Debug)]
pub struct InfoArgs {
    /// Show every setting with the layer and the file or variable it came from
    #[arg(long)]
    pub config: bool,
    /// Show what settings there are
    #[arg(long)]
    pub options: bool,
}

/// `kolo version`.
pub fn version() {
    out::line(&format!("kolo {}", env!("CARGO_PKG_VERSION")));
}

/// `kolo info`.
///
/// # Errors
/// Settings that cannot be read.
pub fn info(args: &InfoArgs) -> Result<()> {
    if args.options {
        out::write(&config::render_help());
    }
    if args.config {
        out::write(&config::render_table(&Settings::load(&[])?));
    }
    if !args.options && !args.config {
        out::write(&about());
    }
    Ok(())
}

/// Facts about this build and this machine, one a line.
fn about() -> String {
    let mut text = String::new();
    let mut fact = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<20}{value}");
    };
    fact("kolo", env!("CARGO_PKG_VERSION"));
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    fact("build", build);
    fact("instruction set", kolo::dtype::isa_name());
    fact("hwloc", &Machine::library_version());
    fact("processor", &processor());
    fact("kernel", &kernel());
    for line in kolo::comm::stores::report() {
        fact("hand-over", &line);
    }
    let prefix = config::install_prefix();
    let prefix = prefix.map_or("not installed".to_string(), |path| {
        path.display().to_string()
    });
    fact("prefix", &prefix);
    for family in Family::ALL {
        let found = launcher::find(family);
        let place = found.map_or("libkolo_mpi.so not found".to_string(), |path| {
            path.display().to_string()
        });
        fact(family.name(), &place);
    }
    let types = kolo::dtype::DataType::ALL
        .map(|dtype| dtype.name())
        .join(" ");
    fact("types", &types);
    let ops = kolo::dtype::ReduceOp::ALL.map(|op| op.name()).join(" ");
    fact("operations", &ops);
    fact(
        "transports",
        "threads of one process, shared memory of one machine",
    );
    text.push_str(
        "\n`kolo info --config` shows the settings in force, `kolo info --options` what there \
         are.\n",
    );
    text
}

/// The name of the processor, as the kernel knows it.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_string())
    });
    name.unwrap_or_else(|| std::env::consts::ARCH.to_string())
}

/// The release of the kernel.
pub fn kernel() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_string()
}
