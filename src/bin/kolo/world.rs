//! The processes that were started together, and what they tell each other before there are
//! communicators.
//!
//! Processes of `mpirun` meet by its MPI, which is known by its variables ([`crate::launcher`]).
//! Those of `srun` meet as `kolo hello` does, by Slurm's server of PMIx or PMI or by its variables,
//! for an MPI that fits none of these dies or believes that it is alone. There MPI starts only
//! where somebody asks for it. Others meet by `KOLO_RANK`.

use crate::launcher::{self, Mpi};
use kolo::base::{Error, Rank, Result};
use kolo::bootstrap::{Bootstrap, NetSettings, TableBootstrap, UniqueId, launch};
use kolo::config::{Net, Settings};
use std::sync::Arc;

/// How this process reaches the others.
pub enum World {
    /// There are none.
    Alone,
    /// By MPI.
    Mpi(Mpi),
    /// By a ring of sockets.
    Ring(Box<dyn Bootstrap>, Box<NetSettings>),
}

/// Why the processes have not met.
pub struct NotStarted {
    /// Error of this process.
    pub error: Error,
    /// Whether every process has found it.
    pub everywhere: bool,
}

impl From<Error> for NotStarted {
    fn from(error: Error) -> NotStarted {
        NotStarted {
            error,
            everywhere: false,
        }
    }
}

impl World {
    /// Meets the processes that were started together with this one; by MPI if it `compares` with
    /// that, or is to use it as a network. Without settings, which could not be read, processes
    /// meet by MPI or not at all.
    ///
    /// # Errors
    /// MPI that cannot be loaded or was started wrongly; processes that do not meet.
    pub fn start(
        settings: Option<&Settings>,
        compares: bool,
    ) -> std::result::Result<World, NotStarted> {
        let families = launcher::of_variables();
        let asked = compares || settings.is_some_and(|all| all.net() == Net::Mpi);
        if !families.is_empty() && (asked || !launcher::by_slurm()) {
            let mpi = Mpi::start(&families)?.among_all();
            return mpi.map(World::Mpi).map_err(|error| NotStarted {
                error,
                everywhere: true,
            });
        }
        // A server knows how many there are: `SLURM_STEP_NUM_TASKS` is of a part of the job.
        let served = !families.is_empty();
        let several = served || launcher::several_without_mpi();
        let apart = |all: &Settings| !served && all.allow_singletons();
        let Some(settings) = settings.filter(|all| several && !apart(all)) else {
            return match several && settings.is_none() {
                true => Err(NotStarted {
                    error: Error::internal("processes that do not know how to meet"),
                    everywhere: true,
                }),
                false => Ok(World::Alone),
            };
        };
        let net = NetSettings {
            warn: Arc::new(|sentence| eprintln!("{sentence}")),
            ..NetSettings::from(settings)
        };
        let launch = launch::from_environment(&net)?;
        let ring = launch.connect(&net)?;
        Ok(match ring.nranks() {
            1 => World::Alone,
            _ => World::Ring(ring, Box::new(net)),
        })
    }

    /// MPI, if it is what has started the processes.
    pub fn mpi(&self) -> Option<&Mpi> {
        match self {
            World::Mpi(mpi) => Some(mpi),
            World::Alone | World::Ring(..) => None,
        }
    }

    /// This process.
    pub fn process(&self) -> u32 {
        match self {
            World::Alone => 0,
            World::Mpi(mpi) => mpi.rank(),
            World::Ring(ring, _) => ring.rank().0,
        }
    }

    /// All processes.
    pub fn processes(&self) -> u32 {
        match self {
            World::Alone => 1,
            World::Mpi(mpi) => mpi.nranks(),
            World::Ring(ring, _) => ring.nranks(),
        }
    }

    /// The last thing that every process does after a success, or after a mistake that all know.
    pub fn end(&self) {
        match self {
            World::Mpi(mpi) => mpi.finalize(),
            // A launcher may end all processes as soon as one has left with an error.
            World::Ring(ring, _) => drop(ring.barrier()),
            World::Alone => (),
        }
    }

    /// Ends all processes where only this one may know of an error.
    pub fn abort(&self) {
        if let World::Mpi(mpi) = self {
            mpi.abort();
        }
    }

    fn over<R>(&self, act: impl FnOnce(&dyn Bootstrap) -> Result<R>) -> Result<Option<R>> {
        match self {
            World::Alone => Ok(None),
            World::Ring(ring, _) => act(&**ring).map(Some),
            World::Mpi(mpi) => {
                let table = mpi.table()?;
                // SAFETY: the table is that of libkolo_mpi, whose functions work until MPI is
                // finalised; only this thread calls, and the bootstrap ends here.
                let bootstrap = unsafe { TableBootstrap::from_raw(&table) }?;
                act(&bootstrap).map(Some)
            }
        }
    }

    /// Gathers the words of each process, in their order. All call it.
    ///
    /// # Errors
    /// A process that has ended.
    pub fn all_say(&self, mine: &str) -> Result<Vec<String>> {
        let all = self.over(|bootstrap| bootstrap.all_gather(mine.as_bytes()))?;
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        Ok(match all {
            Some(all) => all.iter().map(text).collect(),
            None => vec![mine.to_string()],
        })
    }

    /// Ids of two communicators of all ranks, made by process 0. All call it.
    ///
    /// # Errors
    /// Process 0 has no network to listen on; a process that has ended.
    pub fn two_ids(&self) -> Result<[UniqueId; 2]> {
        let net = match self {
            // The named address is where the ring has met.
            World::Ring(_, net) => NetSettings {
                comm_id: None,
                ..(**net).clone()
            },
            World::Alone | World::Mpi(_) => NetSettings::from(&Settings::load(&[])?),
        };
        let mut bytes = Vec::new();
        if self.process() == 0 {
            for _ in 0..2 {
                bytes.extend(UniqueId::create(&net)?.as_bytes());
            }
        }
        self.over(|bootstrap| bootstrap.broadcast(Rank(0), &mut bytes))?;
        let id = |at: usize| {
            let part = bytes.get(at * ID_BYTES..(at + 1) * ID_BYTES);
            let part = part.and_then(|part| <[u8; ID_BYTES]>::try_from(part).ok());
            UniqueId::from_bytes(part.ok_or_else(|| Error::internal("process 0 sent no ids"))?)
        };
        Ok([id(0)?, id(1)?])
    }
}

const ID_BYTES: usize = 128;
