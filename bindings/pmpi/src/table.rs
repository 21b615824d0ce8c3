//! Calls that stay with MPI because it does them faster: as `kolo tune --mpi` has measured on this
//! arrangement of ranks, and else as is built in.
//!
//! A measured line holds for its collective, so it may take back what is built in. World rank 0
//! reads it, and all agree on the bits. This file knows no MPI, so that a test can draw tables
//! (tests/dropin.rs).

use crate::decide::{Collective, Left, RANKS, Size};
use crate::mpi_table::{MOST_BYTES, MpiJob, StayTable, UNKNOWN};

/// The value of `pmpi_table` that names the one below.
const USUAL: &str = "built-in";
/// The value of `pmpi_table` that names no table.
const NONE: &str = "none";

/// Few lines, for it holds on machines unlike those where they were found.
pub const BUILT_IN: &str = include_str!("built_in.table");

/// The calls that MPI does faster in this job, where `setting` is the value of `pmpi_table`.
///
/// # Errors
/// A sentence about the file.
pub fn faster(setting: &str, job: &MpiJob) -> Result<Left, String> {
    let built_in = StayTable::parse(BUILT_IN)?;
    match setting {
        NONE => Ok(Left::NONE),
        USUAL => Ok(of_tables(&[&built_in], job)),
        path => {
            let wrong = |why| {
                format!("{path}: {why}; write the file anew with `kolo tune --mpi`, or set none")
            };
            let measured = StayTable::parse(&read(path).map_err(wrong)?).map_err(wrong)?;
            Ok(of_tables(&[&measured, &built_in], job))
        }
    }
}

/// The calls that stay by the first table that has a line for them.
pub fn of_tables(tables: &[&StayTable], job: &MpiJob) -> Left {
    let mut faster = Left::NONE;
    for place in 0..RANKS {
        for collective in Collective::ALL {
            let fits = |nranks| Left::place(nranks) == place;
            let row = |table: &&StayTable| {
                let row = table.row(job, collective as usize, fits);
                row.map(|row| row.stays)
            };
            let stays = tables.iter().find_map(row).unwrap_or(0);
            faster.0[collective as usize][place] = stays;
        }
    }
    faster
}

/// Time that kolo saved, as far as a table knows how long its calls take on MPI.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Saved {
    pub seconds: f64,
    /// So many of the calls that kolo ran.
    pub calls: u64,
}

/// Time that kolo saved by the times of the file that `setting` names, where `ran` counts the calls
/// of a collective, a place of [`Left`] and a bit. None: this arrangement was not measured.
pub fn saved(
    setting: &str,
    job: &MpiJob,
    ran: impl Fn(Collective, usize, u32) -> u64,
) -> Option<Saved> {
    if [NONE, USUAL].contains(&setting) {
        return None;
    }
    let measured = StayTable::parse(&read(setting).ok()?).ok()?;
    let mut saved = Saved::default();
    for place in 0..RANKS {
        let fits = |nranks| Left::place(nranks) == place;
        for collective in Collective::ALL {
            let row = measured.row(job, collective as usize, fits);
            let bit = |bytes| {
                if collective.is_of_unknown_size() {
                    UNKNOWN
                } else {
                    Left::bit(Size::Bytes(bytes))
                }
            };
            // Of calls of unknown size only barriers, which have no bytes, take a known time.
            let is_known = |bytes| !collective.is_of_unknown_size() || bytes == 0;
            let times = row.into_iter().flat_map(|row| &row.times);
            for one in times.filter(|one| is_known(one.bytes)) {
                let calls = ran(collective, place, bit(one.bytes));
                saved.calls += calls;
                saved.seconds += calls as f64 * (one.mpi_us - one.kolo_us) * 1e-6;
            }
        }
    }
    (saved.calls > 0).then_some(saved)
}

/// The text of a regular file, which is not too long.
fn read(path: &str) -> Result<String, String> {
    let said = |error: std::io::Error| error.to_string();
    let is = std::fs::metadata(path).map_err(said)?;
    if !is.is_file() {
        return Err("it is no file".to_string());
    }
    if is.len() > MOST_BYTES as u64 {
        return Err(format!("it has more than {MOST_BYTES} bytes"));
    }
    std::fs::read_to_string(path).map_err(said)
}
