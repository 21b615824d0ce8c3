//! `pmpi_collectives`: which collectives kolo takes, and of which sizes.
//!
//! Words are separated by commas. `allreduce` is all of them; `allreduce:64K-1M` those of 64 KiB
//! and more and less than 1 MiB, where either end may be missing; `^bcast:-512` all but those.
//! Ends are powers of 2, so that a call finds its answer in one word of bits.

use crate::decide::Collective;
use crate::mpi_table::{SIZES, UNKNOWN, sizes_of};

/// Bits of sizes for each collective, as a list has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Calls that it leaves to MPI.
    pub left: [u64; Collective::COUNT],
    /// Calls that it names without `^`: kolo takes them, whoever is faster.
    pub named: [u64; Collective::COUNT],
}

/// Reads a list.
///
/// # Errors
/// A sentence about the word that is wrong.
pub fn read(text: &str) -> Result<Listed, String> {
    let words = || text.split([',', ' ']).filter(|word| !word.is_empty());
    if words().all(|word| word == "all") {
        return Ok(Listed::default());
    }
    let names_some = words().any(|word| !word.starts_with('^'));
    let mut listed = Listed {
        left: [if names_some { u64::MAX } else { 0 }; Collective::COUNT],
        named: [0; Collective::COUNT],
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
        let same = |one: &&Collective| one.name().eq_ignore_ascii_case(name);
        let Some(&collective) = Collective::ALL.iter().find(same) else {
            return Err(format!(
                "'{name}' is no collective; use names such as allreduce"
            ));
        };
        let sizes = match range {
            None => u64::MAX,
            Some(_) if collective.is_of_unknown_size() => {
                return Err(format!(
                    "'{word}': not all ranks know the size of {name}; take it without a range"
                ));
            }
            Some(range) => range_of(range).ok_or_else(|| {
                format!(
                    "'{word}': a range is LOW-HIGH in bytes, powers of 2 as in 64K-1M, and either \
                     end may be missing"
                )
            })?,
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
