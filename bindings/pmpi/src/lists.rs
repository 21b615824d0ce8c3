//! `pmpi_collectives`: which collectives kolo takes, and of which sizes.
//!
//! Words are separated by commas. `allreduce` is all of them; `allreduce:64K-1M` those of 64 KiB
//! and more and less than 1 MiB, where either end may be missing; `^bcast:-512` all but those.
//! Ends are powers of 2, so that a call finds its answer in one word of bits.

use crate::decide::{Collective, Left, SIZES, UNKNOWN};

/// Reads a list: the calls that it leaves to MPI.
///
/// # Errors
/// A sentence about the word that is wrong.
pub fn left(text: &str) -> Result<Left, String> {
    let words = || text.split([',', ' ']).filter(|word| !word.is_empty());
    if words().all(|word| word == "all") {
        return Ok(Left::default());
    }
    let names_some = words().any(|word| !word.starts_with('^'));
    let mut bits = [if names_some { u64::MAX } else { 0 }; Collective::COUNT];
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
            Some(range) => sizes_of(range).ok_or_else(|| {
                format!(
                    "'{word}': a range is LOW-HIGH in bytes, powers of 2 as in 64K-1M, and either \
                     end may be missing"
                )
            })?,
        };
        let bits = &mut bits[collective as usize];
        *bits = if leave { *bits | sizes } else { *bits & !sizes };
    }
    Ok(Left::of_all_ranks(bits))
}

/// The bits of a range.
fn sizes_of(range: &str) -> Option<u64> {
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
    let unknown = if high == SIZES && low == 0 {
        1 << UNKNOWN
    } else {
        0
    };
    (low < high).then(|| (below(high) & !below(low)) | unknown)
}

/// A number of bytes as settings have it, such as 64K.
pub fn bytes(text: &str) -> Option<u64> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let found = units.into_iter().find_map(|(unit, bits)| {
        Some((text.strip_suffix([unit, unit.to_ascii_lowercase()])?, bits))
    });
    let (digits, bits) = found.unwrap_or((text, 0));
    digits.parse::<u64>().ok()?.checked_shl(bits)
}
