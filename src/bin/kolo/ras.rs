//! `kolo ras`: looks into a job that runs.

use crate::out;
use clap::Args;
use kolo::base::Result;
use kolo::ras::gather::{self, Pick};
use kolo::ras::table::JobTable;
use kolo::ras::verdict::verdict;
use kolo::ras::words;
use serde_json::json;
use std::time::Duration;

/// Arguments of `kolo ras`.
#[derive(Args, Debug)]
pub struct RasArgs {
    /// A process of the job on this node; without it, the only job of this user here
    pid: Option<u32>,
    /// The job, as its launcher calls it (`SLURM_JOB_ID`, with `.STEP` or without)
    #[arg(long, value_name = "ID", conflicts_with = "pid")]
    job: Option<String>,
    /// Show a line for each rank, not one for all that do the same
    #[arg(long)]
    all: bool,
    /// Look again every so many seconds, until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2",
          value_parser = clap::value_parser!(u64).range(1..))]
    watch: Option<u64>,
    /// Print JSON in place of text
    #[arg(long)]
    json: bool,
}

/// Text below the help.
pub const HELP: &str = "\
Examples:
  kolo ras
      on any node of a job that hangs: who holds it up, and what each rank does
  kolo ras 4711 --watch
      the job of this process, every two seconds
  kolo ras --job 1234.0 --all --json
      a line for each rank of step 0 of Slurm's job 1234, for programs

It works while ranks start, after deaths, and where all threads of the program are stuck; ranks that
compute do not notice. Only the user whose job it is gets an answer.";

/// `kolo ras`.
///
/// # Errors
/// No job of this user runs here, or several do.
pub fn run(args: &RasArgs) -> Result<()> {
    let pick = match (args.pid, &args.job) {
        (Some(pid), _) => Pick::Process(pid),
        (None, Some(job)) => Pick::Job(job.clone()),
        (None, None) => Pick::Only,
    };
    loop {
        show(args, &pick)?;
        let Some(seconds) = args.watch else {
            return Ok(());
        };
        std::thread::sleep(Duration::from_secs(seconds));
        if !args.json {
            out::line("");
        }
    }
}

fn show(args: &RasArgs, pick: &Pick) -> Result<()> {
    let table = JobTable::of(gather::job(pick)?);
    let verdict = verdict(&table);
    if args.json {
        out::json(&json!({ "verdict": verdict, "table": table }));
    } else {
        out::line(words::whole(&table, &verdict, args.all).trim_end());
    }
    Ok(())
}
