//! `pmpi_collectives`: which collectives kolo takes of an MPI program, and of which sizes.
//!
//! Words are separated by commas. `allreduce` is all of them; `allreduce:64K-1M` those of 64 KiB
//! and more and less than 1 MiB, where either end may be missing; `^bcast:-512` all but those.
//! Ends are powers of 2, so that a call finds its answer in one word of bits.
//!
//! `libkolo_pmpi` compiles this file too, as it is built for each MPI, without the library. So the
//! file uses nothing of kolo, and what a file of settings may say is what the calls follow.

use std::fmt;

/// The collectives of MPI, without their two forms of counts. The order is that of
/// `bindings/pmpi/front/names.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum MpiCollective {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    ReduceScatter,
    ReduceScatterBlock,
    Scan,
    Exscan,
}

impl MpiCollective {
    /// How many there are.
    pub const COUNT: usize = 16;

    /// All of them.
    pub const ALL: [MpiCollective; MpiCollective::COUNT] = [
        MpiCollective::Barrier,
        MpiCollective::Bcast,
        MpiCollective::Reduce,
        MpiCollective::Allreduce,
        MpiCollective::Gather,
        MpiCollective::Gatherv,
        MpiCollective::Scatter,
        MpiCollective::Scatterv,
        MpiCollective::Allgather,
        MpiCollective::Allgatherv,
        MpiCollective::Alltoall,
        MpiCollective::Alltoallv,
        MpiCollective::ReduceScatter,
        MpiCollective::ReduceScatterBlock,
        MpiCollective::Scan,
        MpiCollective::Exscan,
    ];

    /// Whether some rank knows only its own part of it.
    pub const fn is_of_unknown_size(self) -> bool {
        use MpiCollective::{Alltoallv, Barrier, Gatherv, Scatterv};
        matches!(self, Barrier | Gatherv | Scatterv | Alltoallv)
    }

    /// As MPI writes it, without "MPI_".
    pub const fn name(self) -> &'static str {
        match self {
            MpiCollective::Barrier => "Barrier",
            MpiCollective::Bcast => "Bcast",
            MpiCollective::Reduce => "Reduce",
            MpiCollective::Allreduce => "Allreduce",
            MpiCollective::Gather => "Gather",
            MpiCollective::Gatherv => "Gatherv",
            MpiCollective::Scatter => "Scatter",
            MpiCollective::Scatterv => "Scatterv",
            MpiCollective::Allgather => "Allgather",
            MpiCollective::Allgatherv => "Allgatherv",
            MpiCollective::Alltoall => "Alltoall",
            MpiCollective::Alltoallv => "Alltoallv",
            MpiCollective::ReduceScatter => "Reduce_scatter",
            MpiCollective::ReduceScatterBlock => "Reduce_scatter_block",
            MpiCollective::Scan => "Scan",
            MpiCollective::Exscan => "Exscan",
        }
    }
}

/// The bit of calls whose size not all ranks know.
pub const UNKNOWN: u32 = 63;
/// The other bits: bit b is for calls of 2^b bytes and more and less than twice that, bit 0 for
/// those of no byte too.
pub const SIZES: u32 = 63;

/// The sizes of each collective that stay with MPI, as bits.
pub type LeftSizes = [u64; MpiCollective::COUNT];

/// The word that stands alone for all collectives.
const ALL: &str = "all";

/// A word of a list that means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrongCall {
    /// No collective has this name.
    Name(String),
    /// `all` stands beside others.
    All,
    /// The word has a range, and not all ranks know the size of its collective.
    Sizeless(String),
    /// The word has another range than can be.
    Range(String),
}

impl fmt::Display for WrongCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WrongCall::Name(name) => write!(f, "`{name}` is not a collective of MPI"),
            WrongCall::All => write!(f, "`{ALL}` is not to be listed with others"),
            WrongCall::Sizeless(word) => write!(
                f,
                "`{word}` has a range, though not all ranks know the size of that collective"
            ),
            WrongCall::Range(word) => write!(
                f,
                "`{word}` is not followed by a range LOW-HIGH of bytes, powers of 2 as in 64K-1M, \
                 of which either end may be missing"
            ),
        }
    }
}

/// A list of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListedCalls {
    /// Calls that it leaves to MPI.
    pub left: LeftSizes,
    /// Calls that it names without `^`: kolo takes them, whoever is faster.
    pub named: LeftSizes,
}

/// Reads a list.
///
/// # Errors
/// The word that is wrong.
pub fn read(text: &str) -> Result<ListedCalls, WrongCall> {
    let words = || text.split([',', ' ']).filter(|word| !word.is_empty());
    let is_all = |word: &str| word.eq_ignore_ascii_case(ALL);
    if words().all(is_all) {
        return Ok(ListedCalls::default());
    }
    let names_some = words().any(|word| !word.starts_with('^'));
    let mut listed = ListedCalls {
        left: [if names_some { u64::MAX } else { 0 }; MpiCollective::COUNT],
        ..ListedCalls::default()
    };
    for word in words() {
        let (leave, rest) = match word.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let (name, range) = match rest.split_once(':') {
            Some((name, range)) => (name, Some(range)),
            None => (rest, None),
        };
        let same = |one: &&MpiCollective| one.name().eq_ignore_ascii_case(name);
        let Some(&collective) = MpiCollective::ALL.iter().find(same) else {
            return Err(match is_all(name) {
                true => WrongCall::All,
                false => WrongCall::Name(name.to_owned()),
            });
        };
        let sizes = match range {
            None => u64::MAX,
            Some(_) if collective.is_of_unknown_size() => {
                return Err(WrongCall::Sizeless(word.to_owned()));
            }
            Some(range) => range_of(range).ok_or_else(|| WrongCall::Range(word.to_owned()))?,
        };
        let place = collective as usize;
        let (left, named) = (&mut listed.left[place], &mut listed.named[place]);
        match leave {
            true => (*left, *named) = (*left | sizes, *named & !sizes),
            false => (*left, *named) = (*left & !sizes, *named | sizes),
        }
    }
    Ok(listed)
}

/// The bits of a range. One without ends is whatever there is.
fn range_of(range: &str) -> Option<u64> {
    let bits = sizes_of(range)?;
    let is_whole = bits.count_ones() == SIZES;
    Some(bits | u64::from(is_whole) << UNKNOWN)
}

/// Bits of a range of bytes LOW-HIGH, of which either end may be missing; [`UNKNOWN`] is none of
/// them.
pub fn sizes_of(range: &str) -> Option<u64> {
    let (low, high) = range.split_once('-')?;
    let end = |text: &str, otherwise: u32| match text {
        "" => Some(otherwise),
        text => bytes(text)
            .filter(|bytes| bytes.is_power_of_two())
            .map(u64::trailing_zeros)
            .filter(|&bit| bit < SIZES),
    };
    let (low, high) = (end(low, 0)?, end(high, SIZES)?);
    let below = |bit: u32| (1u64 << bit) - 1;
    (low < high).then(|| below(high) & !below(low))
}

/// A number of bytes as all settings have it: `64K`, `1MiB`, `4096`. Suffixes are powers of 1024.
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let shift = match suffix.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}
