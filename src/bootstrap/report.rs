//! How a rank tells the others why it cannot go on: its words in a message of fixed length, sent in
//! the place of what it should have contributed. So nobody waits for a rank that has given up.

use crate::base::{Error, Rank};

/// Bytes of an encoded report.
pub const REPORT_BYTES: usize = 1024;

/// What happened and what to do, cut to [`REPORT_BYTES`].
pub fn encode(error: &Error) -> Vec<u8> {
    let mut bytes = encode_short(error, REPORT_BYTES);
    bytes.resize(REPORT_BYTES, 0);
    bytes
}

/// The same in at most `most` bytes; longer accounts of what happened are cut, so that the remedy
/// still fits.
pub fn encode_short(error: &Error, most: usize) -> Vec<u8> {
    let what = error.what.as_bytes();
    let what = &what[..what.len().min(most / 4 * 3)];
    let mut bytes = [what, &[0], error.remedy.as_bytes()].concat();
    bytes.truncate(most - 1);
    bytes.push(0);
    bytes
}

/// The error of another rank as this one reports it; `place`, such as ` on node7`, follows the
/// number of the rank.
pub fn decode(rank: Rank, place: &str, bytes: &[u8]) -> Error {
    let mut parts = bytes.split(|&byte| byte == 0);
    let mut part = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let (what, remedy) = (part(), part());
    Error::remote(
        rank,
        format!("rank {rank}{place} could not join: {what}"),
        remedy,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_keep_the_sentence() {
        let mut error = Error::usage("x".repeat(3000), "remedy");
        let bytes = encode(&error);
        assert_eq!(bytes.len(), REPORT_BYTES);
        let cut = decode(Rank(2), "", &bytes);
        assert!(cut.what.starts_with("rank 2 could not join: xxx"));
        assert_eq!(cut.remedy, "remedy", "what happened does not push it out");
        error = Error::usage("what ä", "remedy");
        let told = decode(Rank(3), " on node7", &encode(&error));
        assert_eq!(told.what, "rank 3 on node7 could not join: what ä");
        assert_eq!((told.remedy.as_ref(), told.peer), ("remedy", Some(Rank(3))));
    }
}
