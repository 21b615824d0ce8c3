//! Division of a message into parts, which both ends of a connection do alike.

use crate::base::{Code, Error, Result};

/// The parts, as place and length, of a message of `bytes` bytes for a buffer of `capacity` bytes,
/// at most `most` each: their number follows from the capacity alone, and there is at least one.
pub(super) fn pieces(
    bytes: usize,
    capacity: usize,
    most: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let count = capacity.div_ceil(most).max(1);
    (0..count).map(move |at| {
        let begin = (at * most).min(bytes);
        (begin, (bytes - begin).min(most))
    })
}

/// Keeps the first error of a connection; a mistaken call does no harm to it.
pub(super) fn keep<T>(failed: &mut Option<Error>, result: Result<T>) -> Result<T> {
    match &result {
        Err(error) if error.code != Code::InvalidArgument => {
            failed.get_or_insert_with(|| error.clone());
        }
        _ => {}
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_from_the_capacity() {
        let parts = |bytes, capacity| pieces(bytes, capacity, 10).collect::<Vec<_>>();
        assert_eq!(parts(0, 0), [(0, 0)]);
        assert_eq!(parts(7, 10), [(0, 7)]);
        assert_eq!(parts(7, 11), [(0, 7), (7, 0)]);
        assert_eq!(parts(25, 30), [(0, 10), (10, 10), (20, 5)]);
        assert_eq!(parts(30, 30), [(0, 10), (10, 10), (20, 10)]);
    }
}
