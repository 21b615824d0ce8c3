//! The ranks of a measurement: how they find each other, and how they agree on numbers.
//!
//! Each rank has two communicators: the one that is measured, and another over which barriers,
//! times and error counts go. So nothing beside the measured calls touches the first one, and its
//! step counts, call numbers and connections are those of the calls alone.

use super::options::PerfArgs;
use crate::launcher::Mpi;
use crate::world::World;
use kolo::base::{Error, Result};
use kolo::bootstrap::{NetSettings, TableBootstrap, ThreadsBootstrap, UniqueId};
use kolo::comm::{CommConfig, CommDevice, Communicator};
use kolo::config::Settings;
use std::sync::Arc;

/// Bytes of a text that ranks exchange.
const TEXT_BYTES: usize = 1024;

/// How one rank gets its communicators.
pub enum Meeting {
    /// Made already: (coordination, measured).
    Made(Communicator, Communicator),
    /// Among the threads of this process.
    Threads(Box<[ThreadsBootstrap; 2]>),
    /// One rank per process under MPI.
    Mpi,
    /// By ids that process 0 has made: several ranks per process under MPI, and without MPI.
    Ids(Box<[UniqueId; 2]>, u32, u32),
}

/// One rank.
pub struct Member {
    /// Barriers and numbers go over this one.
    pub team: Communicator,
    /// Measured.
    pub comm: Communicator,
    /// The group of a split; 0 without.
    pub color: u32,
    /// The GPU that has this rank's buffers, if one has.
    pub device: Option<u32>,
}

/// `device` is where the buffers of the measured calls lie; numbers about them lie on the host.
fn config(args: &PerfArgs, measured: bool, device: Option<u32>) -> CommConfig {
    let mut overrides = Vec::new();
    if args.timeout > 0 {
        overrides.push(("timeout".to_string(), args.timeout.to_string()));
    }
    if !measured {
        // An injected fault is meant for the data, not for the numbers about it.
        overrides.push(("fault_flip".to_string(), format!("{}:0:0", u64::MAX)));
    }
    let device = device.filter(|_| measured);
    CommConfig {
        device: device.map_or(CommDevice::Host, CommDevice::Cuda),
        name: Some(if measured { "perf" } else { "perf-team" }.to_string()),
        overrides,
        ..CommConfig::default()
    }
}

/// Meetings of all ranks of this process, in order.
///
/// # Errors
/// Communicators or ids that cannot be made.
pub fn meetings_in(args: &PerfArgs, world: &World) -> Result<Vec<Meeting>> {
    if let World::Ring(..) = world {
        let (ids, threads) = (world.two_ids()?, args.per_process());
        return Ok(with_ids(ids, threads, (world.process(), world.processes())));
    }
    meetings(args, world.mpi())
}

/// The ranks of process number `process.0` of `process.1`, which meet by ids.
fn with_ids(ids: [UniqueId; 2], threads: u32, process: (u32, u32)) -> Vec<Meeting> {
    let (first, nranks) = (process.0 * threads, process.1 * threads);
    let meeting = |thread| Meeting::Ids(Box::new(ids), first + thread, nranks);
    (0..threads).map(meeting).collect()
}

/// Meetings of all ranks of this process, in order. `mpi` where there is its launcher.
///
/// # Errors
/// Communicators or ids that cannot be made.
fn meetings(args: &PerfArgs, mpi: Option<&Mpi>) -> Result<Vec<Meeting>> {
    let threads = args.per_process();
    match mpi {
        Some(_) if threads == 1 => Ok(vec![Meeting::Mpi]),
        Some(mpi) => {
            let ids = [broadcast_id(mpi)?, broadcast_id(mpi)?];
            Ok(with_ids(ids, threads, (mpi.rank(), mpi.nranks())))
        }
        // Ranks on devices differ, so each makes its communicators itself.
        None if args.parallel_init == 1 || args.on_gpus() => {
            let (team, comm) = (
                ThreadsBootstrap::group(threads),
                ThreadsBootstrap::group(threads),
            );
            let pairs = team.into_iter().zip(comm);
            Ok(pairs
                .map(|(team, comm)| Meeting::Threads(Box::new([team, comm])))
                .collect())
        }
        None => {
            let team = Communicator::init_all(threads, &config(args, false, None))?;
            let comm = Communicator::init_all(threads, &config(args, true, None))?;
            let pairs = team.into_iter().zip(comm);
            Ok(pairs
                .map(|(team, comm)| Meeting::Made(team, comm))
                .collect())
        }
    }
}

fn broadcast_id(mpi: &Mpi) -> Result<UniqueId> {
    let mut bytes = [0; 128];
    if mpi.rank() == 0 {
        let net = NetSettings::from(&Settings::load(&[])?);
        bytes = *UniqueId::create(&net)?.as_bytes();
    }
    mpi.broadcast(&mut bytes)?;
    UniqueId::from_bytes(bytes)
}

impl Member {
    /// Meets the other ranks. Every rank calls it.
    ///
    /// # Errors
    /// Those of making a communicator.
    pub fn join(
        meeting: Meeting,
        device: Option<u32>,
        args: &PerfArgs,
        mpi: Option<&Mpi>,
    ) -> Result<Member> {
        let config = |measured| config(args, measured, device);
        let (team, whole) = match meeting {
            Meeting::Made(team, comm) => (team, comm),
            Meeting::Threads(pair) => {
                let [team, comm] = *pair;
                let team = Communicator::init_bootstrap(Box::new(team), &config(false))?;
                let comm = Communicator::init_bootstrap(Box::new(comm), &config(true))?;
                (team, comm)
            }
            Meeting::Mpi => {
                let mpi = mpi.ok_or_else(|| Error::internal("a meeting over no MPI"))?;
                let team = over_mpi(mpi, &config(false))?;
                (team, over_mpi(mpi, &config(true))?)
            }
            Meeting::Ids(ids, rank, nranks) => {
                let init =
                    |id, measured| Communicator::init_rank(nranks, id, rank, &config(measured));
                (init(&ids[0], false)?, init(&ids[1], true)?)
            }
        };
        let Some(split) = args.split() else {
            return Ok(Member {
                team,
                comm: whole,
                color: 0,
                device,
            });
        };
        let color = split.color(whole.rank());
        let key = whole.rank() as i32;
        let comm = whole.split(Some(color), key, &config(true))?;
        whole.destroy()?;
        let comm = comm.ok_or_else(|| Error::internal("a split with a color gave nothing"))?;
        Ok(Member {
            team,
            comm,
            color,
            device,
        })
    }

    /// Returns when all ranks are here.
    ///
    /// # Errors
    /// kolo's.
    pub fn barrier(&self) -> Result<()> {
        self.team.barrier()
    }

    /// The numbers of all ranks, in rank order.
    ///
    /// # Errors
    /// kolo's.
    pub fn gather<T: kolo::dtype::Element + Default>(&self, mine: T) -> Result<Vec<T>> {
        let mut all = vec![T::default(); self.team.nranks() as usize];
        self.team.all_gather(&[mine], &mut all)?;
        Ok(all)
    }

    /// The sum over all ranks.
    ///
    /// # Errors
    /// kolo's.
    pub fn sum(&self, mine: u64) -> Result<u64> {
        Ok(self.gather(mine)?.iter().sum())
    }

    /// The texts of all ranks, in rank order; long ones are cut.
    ///
    /// # Errors
    /// kolo's.
    pub fn gather_text(&self, mine: &str) -> Result<Vec<String>> {
        let mut padded = [0u8; TEXT_BYTES];
        let length = mine.len().min(TEXT_BYTES);
        padded[..length].copy_from_slice(&mine.as_bytes()[..length]);
        let mut all = vec![0u8; TEXT_BYTES * self.team.nranks() as usize];
        self.team.all_gather(&padded, &mut all)?;
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            text.trim_end_matches('\0').to_string()
        };
        Ok(all.chunks_exact(TEXT_BYTES).map(text).collect())
    }

    /// Stops all ranks: their calls return errors.
    pub fn abort(&self) {
        let _ = self.comm.abort();
        let _ = self.team.abort();
    }
}

fn over_mpi(mpi: &Mpi, config: &CommConfig) -> Result<Communicator> {
    let table = mpi.table()?;
    // SAFETY: the table is that of libkolo_mpi, whose functions work until MPI is finalised, which
    // is after the communicators are gone; only this thread calls.
    let bootstrap = unsafe { TableBootstrap::from_raw(&table) }?;
    let hook = bootstrap.idle_hook();
    let idle = Arc::new(move || hook.call());
    Communicator::init_bootstrap_with_idle(Box::new(bootstrap), config, Some(idle))
}
