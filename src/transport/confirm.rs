//! The proof that ranks which believe themselves local see one segment.
//!
//! Equal host names and boot ids are only a hint: cloned machines share both, containers share the
//! boot id. So every local rank writes a value derived from the communicator's nonce and its rank
//! into its *confirmation line* at the segment's start; after a barrier everyone reads all lines.
//! Whoever mapped another piece of memory finds lines that were never written.

use super::segment::{LINE_BYTES, Nonce, Segment};
use crate::base::sync::Ordering;
use crate::base::{Code, Error, Rank, Result, hash};

/// The value that `rank` writes; never zero, which is what an unwritten line holds.
fn value(nonce: Nonce, rank: Rank) -> u64 {
    let mut text = [0_u8; 20];
    text[..16].copy_from_slice(&nonce.0.to_le_bytes());
    text[16..].copy_from_slice(&rank.0.to_le_bytes());
    hash::fnv1a(&text) | 1
}

/// Writes the line of `rank`, which is number `local_index` among the node's ranks.
pub fn write(segment: &Segment, nonce: Nonce, local_index: usize, rank: Rank) {
    segment
        .word(local_index * LINE_BYTES)
        .store(value(nonce, rank), Ordering::Release);
}

/// Checks the lines of all local ranks, in the order of their local indices. Call it after a
/// barrier that follows everybody's `write`. The error names the ranks whose lines are wrong.
pub fn check(segment: &Segment, nonce: Nonce, ranks: &[Rank]) -> Result<()> {
    let wrong: Vec<String> = ranks
        .iter()
        .enumerate()
        .filter(|&(index, &rank)| {
            segment.word(index * LINE_BYTES).load(Ordering::Acquire) != value(nonce, rank)
        })
        .map(|(_, rank)| rank.to_string())
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        Code::SystemError,
        format!(
            "ranks that report the same host and boot id do not see the same shared memory: the \
             confirmation of rank {} is missing",
            wrong.join(", ")
        ),
        super::SAME_CONTAINER,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_or_the_missing_ranks() {
        let (first, fd) = Segment::create((8192, 8192), 0, 1).unwrap();
        let (pool, region) = first.region().expect("a pool");
        let second = Segment::open(fd, &pool.place(region), (8192, 8192)).unwrap();
        let elsewhere = Segment::anonymous(8192).unwrap();
        let nonce = Nonce(99);
        let ranks = [Rank(4), Rank(6), Rank(9)];
        write(&first, nonce, 0, ranks[0]);
        write(&second, nonce, 1, ranks[1]);
        write(&elsewhere, nonce, 2, ranks[2]);
        let error = check(&first, nonce, &ranks).unwrap_err();
        assert!(error.what.contains("of rank 9 is missing"), "{error}");
        let error = check(&elsewhere, nonce, &ranks).unwrap_err();
        assert!(error.what.contains("of rank 4, 6 is missing"), "{error}");
        write(&second, nonce, 2, ranks[2]);
        check(&first, nonce, &ranks).unwrap();
        assert!(check(&first, Nonce(98), &ranks).is_err());
    }

    #[test]
    fn values_are_never_zero_and_differ() {
        assert_ne!(value(Nonce(0), Rank(0)), 0);
        assert_ne!(value(Nonce(5), Rank(0)), value(Nonce(5), Rank(1)));
    }
}
