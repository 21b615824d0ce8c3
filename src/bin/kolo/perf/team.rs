//! The ranks of a measurement: how they find each other, and how they agree on numbers.
//!
//! Each rank has two communicators: the one that is measured, and another over which barriers,
//! times and error counts go. So nothing beside the measured calls touches the first one, and its
//! step counts, call numbers and connections are those of the calls alone.

use super::options::PerfArgs;
use crate::launcher::Mpi;
use crate::world::World;
use kolo::base::{Code, Error, Result};
use kolo::bootstrap::{NetSettings, TableBootstrap, ThreadsBootstrap, UniqueId};
use kolo::comm::RawCalls;
use kolo::comm::{CommConfig, CommDevice, Communicator, group};
use kolo::config::Settings;
use std::sync::{Arc, Mutex, PoisonError};

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
        // Of a whole that is split, its parts are measured.
        is_inner: !measured || args.groups().is_some(),
        ..CommConfig::default()
    }
}

/// Meetings of all ranks of this process, in order; `devices` are those of the ranks that have one.
///
/// # Errors
/// Communicators or ids that cannot be made.
pub fn meetings_in(
    args: &PerfArgs,
    world: &World,
    devices: &[Option<u32>],
) -> Result<Vec<Meeting>> {
    let meetings = match world {
        World::Ring(..) => {
            let (ids, threads) = (world.two_ids()?, args.per_process());
            with_ids(ids, threads, (world.process(), world.processes()))
        }
        World::Alone | World::Mpi(_) => meetings(args, world.mpi())?,
    };
    match args.parallel_init {
        0 => made_by_one(args, meetings, devices),
        _ => Ok(meetings),
    }
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
        None => {
            let (team, comm) = (
                ThreadsBootstrap::group(threads),
                ThreadsBootstrap::group(threads),
            );
            let pairs = team.into_iter().zip(comm);
            Ok(pairs
                .map(|(team, comm)| Meeting::Threads(Box::new([team, comm])))
                .collect())
        }
    }
}

/// Makes the communicators of one rank of a group.
type RankInit = Box<dyn FnOnce() -> Result<Communicator> + Send>;

/// The communicators of all ranks of this process, made by the calling thread: GroupStart, an
/// initialisation for each rank, GroupEnd. Over MPI there is one rank, which that thread has.
fn made_by_one(
    args: &PerfArgs,
    meetings: Vec<Meeting>,
    devices: &[Option<u32>],
) -> Result<Vec<Meeting>> {
    let (mut teams, mut comms): (Vec<RankInit>, Vec<RankInit>) = Default::default();
    for (at, meeting) in meetings.into_iter().enumerate() {
        let device = devices.get(at).copied().flatten();
        let configs = [false, true].map(|measured| config(args, measured, device));
        let [of_team, of_comm] = configs;
        match meeting {
            Meeting::Threads(pair) => {
                let [team, comm] = *pair;
                let join = Communicator::init_bootstrap;
                teams.push(Box::new(move || join(Box::new(team), &of_team)));
                comms.push(Box::new(move || join(Box::new(comm), &of_comm)));
            }
            Meeting::Ids(ids, rank, nranks) => {
                let [team, comm] = *ids;
                let join = Communicator::init_rank;
                teams.push(Box::new(move || join(nranks, &team, rank, &of_team)));
                comms.push(Box::new(move || join(nranks, &comm, rank, &of_comm)));
            }
            already => return Ok(vec![already]),
        }
    }
    let teams = in_a_group(teams)?;
    let pairs = teams.into_iter().zip(in_a_group(comms)?);
    Ok(pairs
        .map(|(team, comm)| Meeting::Made(team, comm))
        .collect())
}

/// Each of them in one group, in order. The first error counts, unless it is only heard of.
fn in_a_group(all: Vec<RankInit>) -> Result<Vec<Communicator>> {
    let made: Arc<Mutex<Vec<_>>> = Arc::new(Mutex::new(all.iter().map(|_| None).collect()));
    group::start();
    for (rank, join) in all.into_iter().enumerate() {
        let made = Arc::clone(&made);
        let init = move || {
            let result = join();
            made.lock().unwrap_or_else(PoisonError::into_inner)[rank] = Some(result);
            Ok(())
        };
        group::defer_init(None, Box::new(init));
    }
    group::end()?;
    let made = std::mem::take(&mut *made.lock().unwrap_or_else(PoisonError::into_inner));
    let missing = || Err(Error::internal("an initialisation of a group did not run"));
    let (mut good, mut failed) = (Vec::new(), None::<Error>);
    for result in made {
        match (result.unwrap_or_else(missing), &failed) {
            (Ok(comm), _) => good.push(comm),
            (Err(error), Some(known)) if known.code != Code::RemoteError => drop(error),
            (Err(error), _) => failed = Some(error),
        }
    }
    match failed {
        None => Ok(good),
        Some(error) => Err(error),
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
        let Some(groups) = args.groups() else {
            return Ok(Member {
                team,
                comm: whole,
                color: 0,
                device,
            });
        };
        let color = groups.color(whole.rank(), args.per_process());
        let key = whole.rank() as i32;
        let of_part = CommConfig {
            is_inner: false,
            ..config(true)
        };
        let comm = whole.split(Some(color), key, &of_part)?;
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
    pub fn of_all<T: kolo::dtype::Element + Default>(&self, mine: T) -> Result<Vec<T>> {
        let mut all = vec![T::default(); self.team.nranks() as usize];
        self.team.all_gather(&[mine], &mut all)?;
        Ok(all)
    }

    /// The sum over all ranks.
    ///
    /// # Errors
    /// kolo's.
    pub fn sum(&self, mine: u64) -> Result<u64> {
        Ok(self.of_all(mine)?.iter().sum())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;
    use crate::perf::tool;

    /// How the ranks of this process meet, with these options.
    fn of(words: &str) -> Vec<Meeting> {
        let row = names::collective("all_reduce").unwrap();
        let words = words.split(' ').map(str::to_string);
        let args = tool::parse("all_reduce_perf", row, words).unwrap_or_else(|e| panic!("{e}"));
        meetings_in(&args, &World::Alone, &[]).unwrap()
    }

    #[test]
    fn one_thread_makes_all_communicators_unless_each_is_to_make_its_own() {
        for words in ["-t 3", "-t 3 -p 0"] {
            let made = of(words);
            for (rank, meeting) in made.iter().enumerate() {
                let Meeting::Made(team, comm) = meeting else {
                    panic!("{words}: rank {rank} has still to make its communicators");
                };
                assert_eq!((team.rank(), comm.rank()), (rank as u32, rank as u32));
                assert_eq!((team.nranks(), comm.nranks()), (3, 3));
            }
            assert_eq!(made.len(), 3);
        }
        let own = of("-t 3 -p 1");
        assert_eq!(own.len(), 3);
        assert!(
            own.iter()
                .all(|meeting| matches!(meeting, Meeting::Threads(_)))
        );
    }

    #[test]
    fn the_cause_is_told_of_several_that_fail() {
        let failing = |error: fn() -> Error| -> RankInit { Box::new(move || Err(error())) };
        let heard = || Error::remote(kolo::base::Rank(1), "it aborted", "see rank 1");
        let cause = || Error::usage("no kernel", "take another type");
        for order in [[heard as fn() -> Error, cause], [cause, heard]] {
            let told = in_a_group(order.map(failing).into());
            assert_eq!(
                told.err().map(|error| error.what.clone()).as_deref(),
                Some("no kernel")
            );
        }
    }
}
