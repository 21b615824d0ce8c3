//! `kolo hello`: the processes that a launcher started meet without MPI, and say where they are.

use crate::out;
use clap::Args;
use kolo::base::{Error, Rank, Result, clock};
use kolo::bootstrap::{Bootstrap, NetSettings, launch};
use kolo::comm::logging;
use kolo::config::Settings;
use kolo::topo;
use std::fmt::Write;
use std::sync::Arc;

/// How they meet.
#[derive(Args, Debug)]
pub struct HelloArgs {
    /// Look at the variables of the Slurm step only
    #[arg(long)]
    slurm: bool,
    /// Meet so often, as a program that makes several communicators does
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: u32,
    /// Bytes that every rank tells all others, beside its name
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    bytes: usize,
}

/// Runs the command.
///
/// # Errors
/// What keeps the ranks from meeting, and bytes that did not arrive as they were sent.
pub fn run(args: &HelloArgs) -> Result<()> {
    let all = Settings::load(&[])?;
    let settings = NetSettings {
        warn: Arc::new(|sentence| eprintln!("{sentence}")),
        ..NetSettings::from(&all)
    };
    for round in 0..args.rounds {
        let start = clock::now();
        let launch = if args.slurm {
            launch::from_slurm(&settings)?
        } else {
            launch::from_environment(&settings)?
        };
        logging::install(&all, &topo::host_name(), Rank(launch.rank));
        let ring = launch.connect(&settings)?;
        let met = start.elapsed();
        let names = exchange(&*ring, args.bytes)?;
        let start = clock::now();
        ring.barrier()?;
        let barrier = start.elapsed();
        if launch.rank == 0 && round + 1 == args.rounds {
            let mut text = String::new();
            for (rank, name) in names.iter().enumerate() {
                let _ = writeln!(text, "{rank:>6}  {name}");
            }
            let _ = writeln!(
                text,
                "{} {} met by {} in {:.3} s; a barrier takes {:.6} s",
                launch.nranks,
                if launch.nranks == 1 { "rank" } else { "ranks" },
                launch.by,
                met.as_secs_f64(),
                barrier.as_secs_f64()
            );
            out::write(&text);
        }
    }
    Ok(())
}

/// The name of every rank, after bytes of all ranks have been compared with what they must be.
fn exchange(ring: &dyn Bootstrap, bytes: usize) -> Result<Vec<String>> {
    let content = |rank: u32| (0..bytes).map(move |at| (rank as usize * 31 + at * 7) as u8);
    let me = ring.rank();
    let name = format!("{} (pid {})", topo::host_name(), std::process::id());
    let mut mine: Vec<u8> = content(me.0).collect();
    mine.extend(name.as_bytes());
    let all = ring.all_gather(&mine)?;
    let mut names = Vec::with_capacity(all.len());
    for (rank, said) in (0..).map(Rank).zip(all.iter()) {
        let Some((sent, name)) = said.split_at_checked(bytes) else {
            return Err(Error::internal("a rank told too little").with_peer(rank));
        };
        if !content(rank.0).eq(sent.iter().copied()) {
            return Err(Error::internal("bytes arrived otherwise than sent").with_peer(rank));
        }
        names.push(String::from_utf8_lossy(name).into_owned());
    }
    Ok(names)
}
