//! How ranks meet where nobody hands them a unique id: no MPI, only whoever started them.
//!
//! Problem: a process that `srun`, an `mpirun` or a script has started must learn which rank it is,
//! how many there are, and where they meet. Each launcher tells it in another way.
//!
//! Idea: the ways are tried in a fixed order ([`from_environment`]), and each ends in the same
//! three things: rank, number of ranks, and a [`UniqueId`].
//!
//! 1. *Variables*: `KOLO_RANK`, `KOLO_NRANKS` and `KOLO_COMM_ID`, set by hand or by a script.
//! 2. *PMIx* ([`pmix`]): a server of the launcher hands rank 0's id to the others (`srun
//!    --mpi=pmix`, `mpirun` of Open MPI).
//! 3. *PMI* ([`pmi`]): the same over an open file (`srun --mpi=pmi2`, `mpirun` of MPICH).
//! 4. *Slurm* ([`slurm`]): the variables of a job step alone; the ranks compute where they meet.
//! 5. None of these: one rank alone, unless a launcher says that there are more.
//!
//! [`mistake`] recognises an MPI whose processes do not know of each other.
//!
//! Terms: *step*, what one `srun` started; *round*, how many communicators of this kind the process
//! has made before.

mod exchange;
pub(super) use exchange::fuzz as fuzz_shared;
pub(super) use pmi::fuzz as fuzz_pmi;
mod handed;
pub mod host_list;
mod job;
pub mod mistake;
mod pmi;
mod pmix;
mod process;
mod slurm;
mod variables;

use super::UniqueId;
use super::settings::NetSettings;
use crate::base::{Error, Rank, Result, privilege};
pub use job::job;
pub use process::{Launch, Launcher};
pub(super) use variables::of_process;
use variables::{Get, number};

/// Switches above this node, by Slurm's variables: its address, and the pattern of the address.
pub fn switches() -> Option<(String, String)> {
    let get: Get = &variables::of_process;
    Some((
        get("SLURM_TOPOLOGY_ADDR")?,
        get("SLURM_TOPOLOGY_ADDR_PATTERN")?,
    ))
}

/// Finds out who started this process, in the order of the module's list. Where a server hands ids
/// over, every rank must call it, as often as the others and one thread at a time.
///
/// # Errors
/// Variables that contradict each other, a server that fails, no usable network interface, or
/// several ranks without a way to meet.
pub fn from_environment(settings: &NetSettings) -> Result<Launch> {
    if privilege::is_raised() {
        return without_trust(&variables::any);
    }
    let get: Get = &variables::of_process;
    if let Some((rank, nranks)) = by_hand(get)? {
        return named(rank, nranks, settings);
    }
    let mut failures = Vec::new();
    if pmix::is_offered(get) {
        match pmix::Session::start() {
            Ok(client) => return exchange::meet(client, Launcher::Pmix, settings),
            Err(error) => failures.push(error),
        }
    }
    if let Some(server) = pmi::Server::find(get)? {
        let client = pmi::Client::start(server)?;
        return exchange::meet(client, Launcher::Pmi, settings);
    }
    if mpirun(get).is_none()
        && let Some(step) = slurm::Step::find(get)?
    {
        for error in &failures {
            tracing::info!("{error}; the ranks meet by Slurm variables");
        }
        return step.launch(settings);
    }
    match mpirun(get) {
        Some(ranks) if ranks > 1 => Err(lost(ranks, failures)),
        _ => failures
            .pop()
            .map_or(Ok(Launch::alone(Launcher::Nobody)), Err),
    }
}

/// Finds this process in its Slurm step by the variables of the step alone, whatever `--mpi` says.
///
/// # Errors
/// This is no process of a step, or the variables do not say enough.
pub fn from_slurm(settings: &NetSettings) -> Result<Launch> {
    if privilege::is_raised() {
        return Err(not_believed("SLURM_STEP_ID"));
    }
    let get: Get = &variables::of_process;
    if mpirun(get).is_some() && !slurm::agrees_with_pmi(get) {
        return Err(Error::usage(
            "an mpirun started this process, so the Slurm variables describe the daemons of that \
             mpirun and not the ranks",
            "start the program with srun, or use koloCommInitEnv or koloCommInitMPI",
        ));
    }
    match slurm::Step::find(get)? {
        Some(step) => step.launch(settings),
        None => Err(Error::usage(
            "this process was not started by srun: SLURM_STEP_ID and SLURM_STEP_NUM_TASKS are not \
             set",
            "start the program with srun (inside a batch script too), or use koloCommInitEnv",
        )),
    }
}

/// Where a program has more rights than its user: what the variables say is not believed, and that
/// there are several ranks is said instead of starting each alone.
fn without_trust(get: Get) -> Result<Launch> {
    let names = [
        "KOLO_NRANKS",
        "OMPI_COMM_WORLD_SIZE",
        "PMI_SIZE",
        "SLURM_STEP_NUM_TASKS",
    ];
    let several = |name: &&str| get(name).is_some_and(|text| text.trim() != "1");
    match names.iter().find(|name| several(name)) {
        None => Ok(Launch::alone(Launcher::Nobody)),
        Some(name) => Err(not_believed(name)),
    }
}

fn not_believed(name: &str) -> Error {
    Error::usage(
        format!(
            "this program has more rights than its user (set-user-ID, set-group-ID or file \
             capabilities), so kolo does not believe the environment, which says how the ranks \
             meet ({name})"
        ),
        "use koloCommInitMPI or koloCommInitRank, or start the program without those rights",
    )
}

/// Rank and number of ranks as a script has set them.
fn by_hand(get: Get) -> Result<Option<(u32, u32)>> {
    let (rank, nranks) = (number(get, "KOLO_RANK")?, number(get, "KOLO_NRANKS")?);
    match (rank, nranks) {
        (None, None) => Ok(None),
        (Some(rank), Some(nranks)) if rank < nranks => Ok(Some((rank, nranks))),
        (Some(rank), Some(nranks)) => Err(Error::argument(
            format!("KOLO_RANK is {rank} and KOLO_NRANKS is {nranks}"),
            "ranks count from 0 to KOLO_NRANKS - 1",
        )),
        _ => Err(Error::argument(
            "only one of KOLO_RANK and KOLO_NRANKS is set",
            "set both, and KOLO_COMM_ID, or neither",
        )),
    }
}

/// Ranks that meet at `KOLO_COMM_ID`.
fn named(rank: u32, nranks: u32, settings: &NetSettings) -> Result<Launch> {
    if nranks == 1 {
        return Ok(Launch::alone(Launcher::Variables));
    }
    if settings.comm_id.is_none() {
        return Err(Error::argument(
            format!("KOLO_NRANKS is {nranks}, but nothing says where the ranks meet"),
            "set KOLO_COMM_ID to host:port of rank 0, the same on every rank",
        )
        .at(Rank(rank)));
    }
    Ok(Launch {
        rank,
        nranks,
        by: Launcher::Variables,
        id: Some(UniqueId::create(settings)?),
    })
}

/// How many ranks an `mpirun` says that it started; `None` where it was none.
fn mpirun(get: Get) -> Option<u32> {
    let names = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
    let text = names.iter().find_map(|name| get(name))?;
    text.trim().parse().ok()
}

fn lost(ranks: u32, mut failures: Vec<Error>) -> Error {
    let what = format!(
        "a launcher started {ranks} ranks, but offers no way to meet that kolo knows (PMIx through \
         libpmix.so.2, or PMI through PMI_FD)"
    );
    let remedy = "use koloCommInitMPI in a program with MPI, install libpmix.so.2, or set \
                  KOLO_RANK, KOLO_NRANKS and KOLO_COMM_ID for every rank";
    match failures.pop() {
        Some(failure) => Error::usage(format!("{what}; {}", failure.what), remedy),
        None => Error::usage(what, remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_trust_a_rank_is_alone_or_told_that_it_is_not() {
        let read = |set: &[(&str, &str)]| without_trust(&variables::fixed(set));
        for alone in [&[][..], &[("PMI_SIZE", "1")], &[("KOLO_RANK", "1")]] {
            let launch = read(alone).unwrap();
            assert_eq!((launch.rank, launch.nranks), (0, 1), "{alone:?}");
        }
        for name in ["KOLO_NRANKS", "SLURM_STEP_NUM_TASKS"] {
            let error = read(&[(name, "2")]).unwrap_err();
            assert!(error.what.contains(name), "{error}");
        }
    }

    #[test]
    fn by_hand_needs_both_numbers() {
        let read = |set: &[(&str, &str)]| by_hand(&variables::fixed(set));
        assert_eq!(read(&[]).unwrap(), None);
        let good = [("KOLO_RANK", "2"), ("KOLO_NRANKS", " 3 ")];
        assert_eq!(read(&good).unwrap(), Some((2, 3)));
        for (bad, word) in [
            (&[("KOLO_RANK", "2")][..], "only one"),
            (&[("KOLO_NRANKS", "2")], "only one"),
            (
                &[("KOLO_RANK", "3"), ("KOLO_NRANKS", "3")],
                "KOLO_RANK is 3",
            ),
            (
                &[("KOLO_RANK", "0"), ("KOLO_NRANKS", "0")],
                "KOLO_NRANKS is 0",
            ),
            (&[("KOLO_RANK", "x"), ("KOLO_NRANKS", "3")], "\"x\""),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.what.contains(word), "{bad:?}: {error}");
        }
    }

    #[test]
    fn ranks_by_hand_need_a_meeting_point() {
        let settings = NetSettings::default();
        assert!(named(0, 1, &settings).unwrap().id.is_none());
        let error = named(1, 2, &settings).unwrap_err();
        assert!(error.remedy.contains("KOLO_COMM_ID"), "{error}");
        let settings = NetSettings {
            comm_id: Some("127.0.0.1:4711".into()),
            ..settings
        };
        let launch = named(1, 2, &settings).unwrap();
        assert!(launch.id.unwrap().is_named() && launch.by == Launcher::Variables);
    }

    #[test]
    fn one_rank_alone_needs_no_network() {
        let settings = NetSettings {
            socket_ifname: Some("=no_such_interface".into()),
            ..NetSettings::default()
        };
        let ring = Launch::alone(Launcher::Nobody).connect(&settings).unwrap();
        assert_eq!(ring.all_gather(b"x").unwrap().to_vec(), [b"x".to_vec()]);
    }

    #[test]
    fn a_launcher_without_a_way_to_meet_is_named() {
        let get = variables::fixed(&[("OMPI_COMM_WORLD_SIZE", "4")]);
        assert_eq!(mpirun(&get), Some(4));
        let error = lost(4, vec![Error::usage("libpmix.so.2 is not there", "")]);
        assert!(error.what.contains("4 ranks") && error.what.contains("is not there"));
    }
}
