//! The options of `kolo tune`.

use crate::perf::engine;
use crate::perf::options::{self, PerfArgs};
use clap::{Args, Parser};
use std::path::PathBuf;

/// The measurement that is wanted, and where its times go.
#[derive(Args, Clone, Debug)]
pub struct TuneArgs {
    /// Measure the MPI of this job beside kolo, and write which calls of MPI programs stay with it
    #[arg(long, conflicts_with = "ranks")]
    pub mpi: bool,
    /// The file; one that is there is continued (--mpi: kolo-mpi.table)
    #[arg(
        short = 'o',
        long,
        value_name = "FILE",
        default_value = "kolo-tuner.toml",
        default_value_if("mpi", "true", "kolo-mpi.table")
    )]
    pub output: PathBuf,
    /// Run N ranks as threads of this process, without any launcher
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=4096))]
    pub ranks: Option<u32>,
    /// Least size of the data in bytes
    #[arg(short = 'b', long = "minbytes", value_name = "SIZE", default_value = "8",
          value_parser = options::size)]
    pub min_bytes: u64,
    /// Greatest size of the data in bytes (--mpi: 1M)
    #[arg(short = 'e', long = "maxbytes", value_name = "SIZE", default_value = "16M",
          default_value_if("mpi", "true", "1M"), value_parser = options::size)]
    pub max_bytes: u64,
    /// Next size: multiply by this (--mpi: 2)
    #[arg(short = 'f', long = "stepfactor", value_name = "N", default_value = "4",
          default_value_if("mpi", "true", "2"),
          value_parser = clap::value_parser!(u64).range(2..))]
    pub factor: u64,
    /// Only these collectives, separated by commas
    #[arg(short = 'c', long, value_name = "NAMES", value_delimiter = ',',
          value_parser = crate::names::collective)]
    pub collectives: Vec<&'static engine::Collective>,
    /// Time that each point may take, in milliseconds (--mpi: twice)
    #[arg(short = 't', long, value_name = "MS", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub milliseconds: u32,
    /// Measure everything anew, even what the file has
    #[arg(long)]
    pub restart: bool,
    /// Print what was measured as JSON: times in nanoseconds, sizes in bytes
    #[arg(long)]
    pub json: bool,
}

impl TuneArgs {
    /// Whether a collective is to be measured.
    pub fn wants(&self, row: &engine::Collective) -> bool {
        let listed = &self.collectives;
        listed.is_empty() || listed.iter().any(|wanted| wanted.name == row.name)
    }

    /// The sizes, from the least one on.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        let next = |size: &u64| size.checked_mul(self.factor);
        std::iter::successors(Some(self.min_bytes), next).take_while(|&size| size <= self.max_bytes)
    }
}

/// The options of `kolo perf`, with which ranks meet.
#[derive(Parser)]
pub struct Meet {
    #[command(flatten)]
    pub perf: PerfArgs,
}
