//! The table of what MPI does faster: calls of MPI programs that stay with their MPI, though kolo
//! could run them.
//!
//! **Problem.** For some collectives and sizes the MPI of a site is faster than kolo. The drop-in
//! (`libkolo_pmpi`) may not learn that from the times of a program: all ranks must decide alike,
//! and most of such a time is waiting for others. `kolo tune --mpi` measures it once.
//!
//! **Idea.** A text that people can read and edit. A *section* holds for one MPI and one number of
//! ranks on one number of cores; it has a line for each collective:
//!
//! ```text
//! format 1
//!
//! [Open MPI 4.1, 4 ranks, 2 cpus]
//! bcast stays=64K-256K,1M- us=65536:40.1/31.7,131072:80.2/62.9
//! gatherv stays=all
//! barrier stays=none
//! ```
//!
//! `stays` has ranges of bytes between powers of two, as `pmpi_collectives` does; `us` the times
//! that were measured, bytes:kolo/MPI in microseconds, which say how far apart the two are.
//!
//! The drop-in has this file as a part of its own, so it uses nothing of kolo but another such
//! file, `base/mpi_calls.rs`.

use crate::base::mpi_calls::{MpiCollective, sizes_of};
pub use crate::base::mpi_calls::{SIZES, UNKNOWN};
use std::fmt::Write;

/// Files are no larger than this.
pub const MOST_BYTES: usize = 1 << 20;
/// The format that this version writes and reads.
const FORMAT: &str = "format 1";
/// Processes of a job, at most.
const MOST_RANKS: u32 = 1 << 20;

/// MPI's names of the collectives, without "MPI_" and in lower case, in the order of the drop-in.
pub const NAMES: [&str; 16] = [
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "reduce_scatter",
    "reduce_scatter_block",
    "scan",
    "exscan",
];

/// Collectives whose size is that of one rank's block; of the others it is a whole vector.
const BLOCKS: [&str; 7] = [
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "alltoall",
    "alltoallv",
];

/// Whether the size of this one of [`NAMES`] is that of a block for each rank.
pub fn counts_blocks(collective: usize) -> bool {
    BLOCKS.contains(&NAMES[collective])
}

/// Whether all ranks know the size of this one of [`NAMES`].
pub fn is_sized(collective: usize) -> bool {
    !MpiCollective::ALL[collective].is_of_unknown_size()
}

/// Who has the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCores {
    /// The node has so many.
    Exactly(u32),
    /// The ranks have one each.
    Own,
    /// There are more ranks than cores.
    Shared,
}

impl NodeCores {
    fn fits(self, ranks: u32, cpus: u32) -> bool {
        match self {
            NodeCores::Exactly(number) => number == cpus,
            NodeCores::Own => ranks <= cpus,
            NodeCores::Shared => ranks > cpus,
        }
    }

    fn words(self) -> String {
        match self {
            NodeCores::Exactly(number) => format!("{number} cpus"),
            NodeCores::Own => "own cores".to_string(),
            NodeCores::Shared => "shared cores".to_string(),
        }
    }

    fn parse(text: &str) -> Option<NodeCores> {
        match text {
            "own cores" => Some(NodeCores::Own),
            "shared cores" => Some(NodeCores::Shared),
            other => number(other.strip_suffix(" cpus")?).map(NodeCores::Exactly),
        }
    }
}

/// Times of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    /// Bytes, as the drop-in counts them.
    pub bytes: u64,
    /// Microseconds of kolo.
    pub kolo_us: f64,
    /// Microseconds of MPI.
    pub mpi_us: f64,
}

/// One collective of a section.
#[derive(Clone, Debug, PartialEq)]
pub struct StayRow {
    /// Which one of [`NAMES`].
    pub collective: usize,
    /// Bits of the sizes that stay with MPI.
    pub stays: u64,
    /// Sizes ascending; may be empty.
    pub times: Vec<Beside>,
}

/// Where something was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct StaySection {
    /// The MPI and its version, as [`name_of`] has them. A shorter name, without the end of the
    /// version, is for all that begin so.
    pub mpi: String,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// NodeCores of the node.
    pub cores: NodeCores,
    /// At most one for each collective.
    pub rows: Vec<StayRow>,
}

impl StaySection {
    fn is_at_the_place_of(&self, other: &StaySection) -> bool {
        (self.ranks, self.cores, &self.mpi) == (other.ranks, other.cores, &other.mpi)
    }

    fn is_of(&self, mpi: &str) -> bool {
        mpi.strip_prefix(self.mpi.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ' ']))
    }

    fn row(&self, collective: usize) -> Option<&StayRow> {
        self.rows.iter().find(|row| row.collective == collective)
    }
}

/// The job that asks.
#[derive(Clone, Copy, Debug)]
pub struct MpiJob<'a> {
    /// Its MPI, as [`name_of`] has it.
    pub mpi: &'a str,
    /// All of its ranks.
    pub ranks: u32,
    /// NodeCores of a node.
    pub cpus: u32,
}

/// All sections of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StayTable {
    /// No two are for the same.
    pub sections: Vec<StaySection>,
}

impl StayTable {
    /// The line that holds for a collective on communicators of so many ranks as `fits` says. Of
    /// several that one of the most precise MPI, of the ranks of the job, of the most ranks.
    pub fn row(
        &self,
        job: &MpiJob,
        collective: usize,
        fits: impl Fn(u32) -> bool,
    ) -> Option<&StayRow> {
        let here = self.sections.iter().filter(|section| {
            let has_cores = section.cores.fits(section.ranks, job.cpus);
            section.is_of(job.mpi) && has_cores && fits(section.ranks)
        });
        let rows = here.filter_map(|section| Some((section, section.row(collective)?)));
        let near = |section: &StaySection| {
            let is_of_job = section.ranks == job.ranks;
            (section.mpi.len(), is_of_job, section.ranks)
        };
        rows.max_by_key(|(section, _)| near(section))
            .map(|(_, row)| row)
    }

    /// Puts in a section; lines for the same collectives of the same place go.
    pub fn put(&mut self, new: StaySection) {
        let known = self.sections.iter_mut();
        match known
            .into_iter()
            .find(|known| known.is_at_the_place_of(&new))
        {
            Some(known) => {
                let is_new = |row: &StayRow| new.row(row.collective).is_some();
                known.rows.retain(|row| !is_new(row));
                known.rows.extend(new.rows);
                known.rows.sort_by_key(|row| row.collective);
            }
            None => self.sections.push(new),
        }
    }

    /// Whether a text is meant to be such a table.
    pub fn is_one(text: &str) -> bool {
        let first = significant(text).next();
        first.is_some_and(|(_, line)| line.split_whitespace().next() == Some("format"))
    }

    /// The text of a file.
    pub fn print(&self) -> String {
        let mut text = String::from(
            "# Calls of MPI programs that stay with their MPI, which was faster than kolo, written \
             by\n# `kolo tune --mpi`; docs/tuning.md says more. us: bytes:kolo/MPI, in \
             microseconds.\n",
        );
        let _ = writeln!(text, "{FORMAT}");
        for section in &self.sections {
            let (ranks, cores) = (section.ranks, section.cores.words());
            let _ = write!(text, "\n[{}, {ranks} ranks, {cores}]\n", section.mpi);
            for row in &section.rows {
                let name = NAMES[row.collective];
                let _ = write!(text, "{name} stays={}", words(row.collective, row.stays));
                let times = row.times.iter();
                let times: Vec<String> = times
                    .map(|one| format!("{}:{:?}/{:?}", one.bytes, one.kolo_us, one.mpi_us))
                    .collect();
                if !times.is_empty() {
                    let _ = write!(text, " us={}", times.join(","));
                }
                text.push('\n');
            }
        }
        text
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// A sentence about the line that cannot be used.
    pub fn parse(text: &str) -> Result<StayTable, String> {
        if text.len() > MOST_BYTES {
            return Err(format!("it has more than {MOST_BYTES} bytes"));
        }
        let mut lines = significant(text);
        match lines.next() {
            Some((_, FORMAT)) => (),
            Some((number, line)) => {
                return Err(format!(
                    "line {number} is '{line}', expected was '{FORMAT}'"
                ));
            }
            None => return Err(format!("it is empty, expected was '{FORMAT}'")),
        }
        let mut table = StayTable::default();
        for (number, line) in lines {
            let at = |why: String| format!("line {number}: {why}");
            if line.starts_with('[') {
                let section = head(line).ok_or_else(|| {
                    let form = "[MPI, RANKS ranks, NUMBER cpus]";
                    at(format!("'{line}' is no head of a section; write {form}"))
                })?;
                let mut known = table.sections.iter();
                if known.any(|known| known.is_at_the_place_of(&section)) {
                    return Err(at(format!("{line} is there twice")));
                }
                table.sections.push(section);
                continue;
            }
            let row = row(line).map_err(at)?;
            let Some(section) = table.sections.last_mut() else {
                return Err(at("no section has begun".to_string()));
            };
            if section.row(row.collective).is_some() {
                let name = NAMES[row.collective];
                return Err(at(format!("{name} is there twice in its section")));
            }
            section.rows.push(row);
        }
        Ok(table)
    }
}

/// Lines that say something, with their numbers.
fn significant(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate();
    let lines = lines.map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn number(text: &str) -> Option<u32> {
    let number = text.trim().parse().ok()?;
    (1..=MOST_RANKS).contains(&number).then_some(number)
}

fn head(line: &str) -> Option<StaySection> {
    let inner = line.strip_prefix('[')?.strip_suffix(']')?;
    let (rest, cores) = inner.rsplit_once(',')?;
    let (mpi, ranks) = rest.rsplit_once(',')?;
    let ranks = number(ranks.trim().strip_suffix(" ranks")?)?;
    let mpi = mpi.trim();
    Some(StaySection {
        mpi: (!mpi.is_empty()).then(|| mpi.to_string())?,
        ranks: (ranks > 1).then_some(ranks)?,
        cores: NodeCores::parse(cores.trim())?,
        rows: Vec::new(),
    })
}

fn row(line: &str) -> Result<StayRow, String> {
    let mut parts = line.split_whitespace();
    let name = parts.next().unwrap_or_default();
    let collective = NAMES.iter().position(|known| *known == name);
    let collective = collective
        .ok_or_else(|| format!("'{name}' is no collective; use names such as allreduce"))?;
    let (mut stays, mut times) = (None, Vec::new());
    for part in parts {
        match part.split_once('=') {
            Some(("stays", value)) => stays = Some(sizes(collective, value)?),
            Some(("us", value)) => times = measured(value)?,
            _ => return Err(format!("'{part}' is neither stays=... nor us=...")),
        }
    }
    let missing = || format!("{name} lacks stays=none, stays=all or stays=LOW-HIGH");
    Ok(StayRow {
        collective,
        stays: stays.ok_or_else(missing)?,
        times,
    })
}

/// Bits of `none`, `all`, or ranges.
fn sizes(collective: usize, text: &str) -> Result<u64, String> {
    match text {
        "none" => return Ok(0),
        "all" => return Ok(every(collective)),
        _ if !is_sized(collective) => {
            let name = NAMES[collective];
            return Err(format!(
                "not all ranks know the size of {name}; write stays=all or stays=none"
            ));
        }
        _ => (),
    }
    let mut bits = 0;
    for range in text.split(',') {
        bits |= sizes_of(range).ok_or_else(|| {
            format!("'{range}' is no range LOW-HIGH in bytes, powers of 2 as in 64K-1M")
        })?;
    }
    Ok(bits)
}

/// Bits of all calls of a collective.
pub fn every(collective: usize) -> u64 {
    match is_sized(collective) {
        true => below(SIZES),
        false => 1 << UNKNOWN,
    }
}

fn below(bit: u32) -> u64 {
    (1 << bit) - 1
}

/// Bits as a file has them.
pub fn words(collective: usize, bits: u64) -> String {
    let bits = bits & every(collective);
    match bits {
        0 => return "none".to_string(),
        bits if bits == every(collective) => return "all".to_string(),
        _ => (),
    }
    let mut ranges = Vec::new();
    let mut from = 0;
    while from < SIZES && bits >> from != 0 {
        let low = from + (bits >> from).trailing_zeros();
        let high = low + (bits >> low).trailing_ones();
        let end = |bit: u32, open: u32| match bit {
            bit if bit == open => String::new(),
            bit => size_word(bit),
        };
        ranges.push(format!("{}-{}", end(low, 0), end(high, SIZES)));
        from = high;
    }
    ranges.join(",")
}

/// A power of two as settings have it.
fn size_word(bit: u32) -> String {
    let unit = [(40, "T"), (30, "G"), (20, "M"), (10, "K"), (0, "")];
    let found = unit.into_iter().find(|&(shift, _)| bit >= shift);
    let (shift, name) = found.unwrap_or((0, ""));
    format!("{}{name}", 1u64 << (bit - shift))
}

fn measured(text: &str) -> Result<Vec<Beside>, String> {
    let mut times: Vec<Beside> = Vec::new();
    for part in text.split(',') {
        let wrong = || format!("'{part}' is no BYTES:KOLO/MPI with times in microseconds");
        let (bytes, both) = part.split_once(':').ok_or_else(wrong)?;
        let (kolo, mpi) = both.split_once('/').ok_or_else(wrong)?;
        let time = |text: &str| {
            let time: Option<f64> = text.parse().ok();
            time.filter(|time| (1e-6..1e12).contains(time))
        };
        let one = Beside {
            bytes: bytes.parse().ok().ok_or_else(wrong)?,
            kolo_us: time(kolo).ok_or_else(wrong)?,
            mpi_us: time(mpi).ok_or_else(wrong)?,
        };
        if times.last().is_some_and(|last| last.bytes >= one.bytes) {
            return Err(format!(
                "the size {bytes} does not exceed the one before it"
            ));
        }
        times.push(one);
    }
    Ok(times)
}

/// A short name of an MPI, with the first two numbers of its version, out of what it says of itself
/// (`MPI_Get_library_version`).
pub fn name_of(library: &str) -> String {
    let line = library.lines().next().unwrap_or_default();
    let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | ':' | '[' | ']' | '#');
    let mut words: Vec<String> = Vec::new();
    for word in line.split(is_end).filter(|word| !word.is_empty()) {
        let version = word.trim_start_matches(['v', 'V']);
        if version.starts_with(|c: char| c.is_ascii_digit()) {
            let numbers = version.split(|c: char| !c.is_ascii_digit());
            let numbers: Vec<&str> = numbers.filter(|n| !n.is_empty()).take(2).collect();
            words.push(numbers.join("."));
            break;
        }
        if !word.eq_ignore_ascii_case("version") {
            words.push(word.to_string());
        }
    }
    match words.is_empty() {
        true => "unknown".to_string(),
        false => words.join(" "),
    }
}

#[cfg(test)]
#[path = "mpi_table_tests.rs"]
mod tests;
