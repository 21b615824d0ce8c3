//! Names of collectives, as people know them from elsewhere: `bcast`, `MPI_Allreduce`,
//! `ncclAllReduce`, `all_reduce_perf`. Every command that takes a collective reads it here.

use crate::perf::engine::Collective;
use crate::perf::rows::COLLECTIVES;
use kolo::plan;

/// Prefixes that other libraries put before their names.
const PREFIXES: [&str; 4] = ["pmpi", "mpi", "nccl", "kolo"];
/// Suffixes that test programs put behind them; of two that fit the longer one stands first.
const SUFFIXES: [&str; 2] = ["perfmpi", "perf"];
/// Names that differ in more than spelling: (theirs, kolo's), both as [`plain`] writes them.
const OTHERS: [(&str, &str); 5] = [
    ("bcast", "broadcast"),
    ("reducescatterblock", "reducescatter"),
    ("send", "sendrecv"),
    ("recv", "sendrecv"),
    ("sendreceive", "sendrecv"),
];

/// A name without what spelling adds.
fn plain(text: &str) -> String {
    let text = text.trim().to_lowercase().replace(['_', '-', ' '], "");
    text.replace("neighbour", "neighbor")
}

/// The collective with this plain name.
fn known(name: &str) -> Option<&'static Collective> {
    let other = OTHERS.iter().find(|(theirs, _)| *theirs == name);
    let name = other.map_or(name, |(_, own)| own);
    COLLECTIVES.iter().find(|row| plain(row.name) == name)
}

/// A plain name without what another library puts around it.
fn bare(name: &str) -> (&str, bool) {
    let of_library = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    let rest = of_library.unwrap_or(name);
    let end = SUFFIXES.iter().find_map(|suffix| rest.strip_suffix(suffix));
    (end.unwrap_or(rest), of_library.is_some())
}

/// A collective by one of its names.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The row of its table.
    pub row: &'static Collective,
    /// The one message that the name means, where it does not mean a send and a receive at once.
    pub message: Option<plan::Collective>,
}

/// The collective with this name; a name of a message is not that of `sendrecv`, by which
/// `kolo perf` measures messages.
///
/// # Errors
/// A sentence with the nearest name.
pub fn named(text: &str) -> Result<Named, String> {
    let row = collective(text)?;
    let whole = plain(text);
    let (name, of_library) = bare(&whole);
    let name = name
        .strip_prefix('i')
        .filter(|_| of_library)
        .unwrap_or(name);
    let message = match name {
        "send" => Some(plan::Collective::Send),
        "recv" => Some(plan::Collective::Recv),
        _ => None,
    };
    Ok(Named { row, message })
}

/// The names of all collectives.
pub fn all() -> String {
    let names: Vec<&str> = COLLECTIVES.iter().map(|row| row.name).collect();
    names.join(", ")
}

/// The collective with this name, however it is spelt.
///
/// # Errors
/// A sentence with the nearest name.
pub fn collective(text: &str) -> Result<&'static Collective, String> {
    let whole = plain(text);
    let (name, of_library) = bare(&whole);
    // MPI_Iallreduce is the same collective, as a call that does not wait.
    let waits_not = name.strip_prefix('i').filter(|_| of_library);
    let found = known(&whole).or_else(|| known(name));
    found.or_else(|| waits_not.and_then(known)).ok_or_else(|| {
        let near = COLLECTIVES.iter().max_by(|a, b| {
            let near = |row: &Collective| strsim::jaro_winkler(&plain(row.name), name);
            near(a).total_cmp(&near(b))
        });
        let near = near.map_or("", |row| row.name);
        format!("there are {}; did you mean {near}?", all())
    })
}

/// The collective of a program of this file name, as `all_reduce_perf`, and the program's name.
pub fn of_program(path: &str) -> Option<(&'static Collective, &str)> {
    let name = path.rsplit('/').next()?;
    let stem = name.strip_suffix("_mpi").unwrap_or(name);
    let stem = stem.strip_suffix("_perf")?;
    Some((known(&plain(stem))?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_libraries_are_known() {
        for (theirs, own) in [
            ("AllReduce", "all_reduce"),
            ("all-gather", "all_gather"),
            ("sendrecv_perf", "sendrecv"),
            ("all_reduce_perf_mpi", "all_reduce"),
            ("allgatherv", "all_gather_v"),
            ("All_to_All_v", "alltoall_v"),
            ("reduce-scatterv", "reduce_scatter_v"),
            ("neighbour_all_gather", "neighbor_allgather"),
            ("bcast", "broadcast"),
            ("MPI_Bcast", "broadcast"),
            ("mpi_allreduce", "all_reduce"),
            ("PMPI_Allreduce", "all_reduce"),
            ("MPI_Iallreduce", "all_reduce"),
            ("MPI_Ibcast", "broadcast"),
            ("MPI_Reduce_scatter_block", "reduce_scatter"),
            ("MPI_Alltoallv", "alltoall_v"),
            ("MPI_Neighbor_alltoallv", "neighbor_alltoall_v"),
            ("MPI_Sendrecv", "sendrecv"),
            ("MPI_Isend", "sendrecv"),
            ("ncclAllReduce", "all_reduce"),
            ("ncclReduceScatter", "reduce_scatter"),
            ("ncclBroadcast", "broadcast"),
            ("ncclAlltoAll", "alltoall"),
            ("ncclSend", "sendrecv"),
            ("koloExscan", "exscan"),
            ("KOLO_Barrier", "barrier"),
        ] {
            let found = collective(theirs).map(|row| row.name);
            assert_eq!(found, Ok(own), "{theirs}");
        }
        for row in COLLECTIVES {
            assert_eq!(collective(row.name).map(|row| row.name), Ok(row.name));
        }
    }

    #[test]
    fn a_message_is_not_an_exchange() {
        use plan::Collective::{Recv, Send};
        for (name, message) in [
            ("send", Some(Send)),
            ("MPI_Isend", Some(Send)),
            ("koloRecv", Some(Recv)),
            ("mpi_irecv", Some(Recv)),
            ("sendrecv", None),
            ("MPI_Sendrecv", None),
            ("MPI_Iscatter", None),
        ] {
            let named = named(name).expect(name);
            assert_eq!(named.message, message, "{name}");
            assert_eq!(named.row.name == "sendrecv", name != "MPI_Iscatter");
        }
        assert!(named("isend").is_err() && named("sent").is_err());
    }

    #[test]
    fn what_is_none_gets_the_nearest_name() {
        for (wrong, near) in [
            ("all_reduse", "all_reduce"),
            ("MPI_Allredce", "all_reduce"),
            ("brodcast", "broadcast"),
        ] {
            let error = collective(wrong).map(|row| row.name).unwrap_err();
            assert!(error.ends_with(&format!("did you mean {near}?")), "{error}");
        }
        // Only a call of another library may begin so.
        assert!(collective("ibcast").is_err());
    }

    #[test]
    fn programs_are_known_by_their_file_names() {
        let of = |path: &'static str| of_program(path).map(|(row, name)| (row.name, name));
        assert_eq!(
            of("/usr/bin/all_reduce_perf"),
            Some(("all_reduce", "all_reduce_perf"))
        );
        assert_eq!(
            of("./alltoallv_perf"),
            Some(("alltoall_v", "alltoallv_perf"))
        );
        assert_eq!(of("gather_perf_mpi"), Some(("gather", "gather_perf_mpi")));
        for other in ["kolo", "/bin/perf", "_perf", "all_reduce", "io_perf", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
