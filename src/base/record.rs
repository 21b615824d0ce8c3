//! Records: what ranks tell each other while a communicator is made.
//!
//! **Problem.** A dozen kinds of facts travel between ranks before the first call: places, graphs,
//! addresses, errors. Bytes from another process are an allegation. They may be cut short, or
//! belong to another version of kolo.
//!
//! **Idea.** A type that travels derives `Serialize` and `Deserialize` and is a [`Record`]: it has
//! a name for messages and a bound on its length. [`encode`] and [`decode`] do the rest, in the
//! form of postcard: numbers take 7 bits a byte, lists stand behind their length. Whoever decodes
//! gets the value or an [`Unreadable`], never a panic, and never holds more than a constant times
//! the bytes that came.
//!
//! Records do not describe themselves, so the version is compared before the first one: by the
//! preamble of a socket (`src/trust/proof.rs`), or by the text in front of the first exchange.
//! Messages of a call (headers, tokens, trailers) are no records: their layout is fixed.
//!
//! Reference: the postcard wire format, <https://postcard.jamesmunns.com/wire-format>.

use super::{Error, Rank};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// A record that one rank may tell another.
pub trait Record: Serialize + DeserializeOwned {
    /// Name of the record for messages: "the description of a rank".
    const NAME: &'static str;
    /// Longer ones are not read.
    const MOST_BYTES: usize = 1 << 20;
}

/// Why bytes are not the record that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// More bytes than any such record has.
    TooLong(usize),
    /// The record ends behind the last byte.
    Cut,
    /// So many bytes stand behind its end.
    Behind(usize),
    /// A number, a text or a choice in it cannot be.
    Impossible,
}

/// Bytes that are not the record that they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Name of the record that they should be.
    pub name: &'static str,
    /// How many there are.
    pub bytes: usize,
    /// Flaw that was found.
    pub flaw: Flaw,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unreadable { name, bytes, flaw } = self;
        write!(f, "{name} ({bytes} bytes) cannot be read: {flaw}")
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::TooLong(most) => write!(f, "at most {most} are allowed"),
            Flaw::Cut => write!(f, "it ends too early"),
            Flaw::Behind(count) => write!(f, "{count} bytes too many at its end"),
            Flaw::Impossible => write!(f, "it holds what no rank says"),
        }
    }
}

impl From<Unreadable> for Error {
    fn from(fault: Unreadable) -> Error {
        Error::usage(
            fault.to_string(),
            "let all ranks load the same libkolo (check LD_LIBRARY_PATH and modules per node)",
        )
    }
}

/// The bytes of a record.
pub fn encode<R: Record>(record: &R) -> Vec<u8> {
    postcard::to_stdvec(record).expect("memory takes every record")
}

/// Reads what [`encode`] wrote.
///
/// # Errors
/// Anything else, down to a byte too many.
pub fn decode<R: Record>(bytes: &[u8]) -> Result<R, Unreadable> {
    let refuse = |flaw| Unreadable {
        name: R::NAME,
        bytes: bytes.len(),
        flaw,
    };
    if bytes.len() > R::MOST_BYTES {
        return Err(refuse(Flaw::TooLong(R::MOST_BYTES)));
    }
    match postcard::take_from_bytes(bytes) {
        Ok((record, [])) => Ok(record),
        Ok((_, rest)) => Err(refuse(Flaw::Behind(rest.len()))),
        Err(postcard::Error::DeserializeUnexpectedEnd) => Err(refuse(Flaw::Cut)),
        Err(_) => Err(refuse(Flaw::Impossible)),
    }
}

/// Reads what each rank told, in order of ranks; an error names the rank.
pub fn decode_all<R: Record>(told: &[Vec<u8>]) -> super::Result<Vec<R>> {
    let one = |(rank, bytes): (u32, &Vec<u8>)| {
        decode(bytes).map_err(|fault| Error::from(fault).with_peer(Rank(rank)))
    };
    (0..).zip(told).map(one).collect()
}

/// Decodes bytes as this record, for `tests/fuzz`: a record that was read can be told on. Returns
/// the name of the record, and whether the bytes are one.
pub fn fuzz<R: Record + PartialEq>(bytes: &[u8]) -> (&'static str, bool) {
    let record = decode::<R>(bytes);
    if let Ok(record) = &record {
        let again = decode::<R>(&encode(record));
        assert!(again.is_ok_and(|again| again == *record), "{}", R::NAME);
    }
    (R::NAME, record.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        rank: Rank,
        names: Vec<String>,
        choice: Option<u64>,
    }

    impl Record for Sample {
        const NAME: &'static str = "the sample of a rank";
        const MOST_BYTES: usize = 64;
    }

    fn sample() -> Sample {
        Sample {
            rank: Rank(70_000),
            names: vec!["n\u{f6}de7".into(), String::new()],
            choice: Some(u64::MAX),
        }
    }

    #[test]
    fn records_round_trip_and_every_other_length_is_refused() {
        let bytes = encode(&sample());
        assert_eq!(decode(&bytes), Ok(sample()));
        let flaw = |bytes: &[u8]| decode::<Sample>(bytes).unwrap_err().flaw;
        for length in 0..bytes.len() {
            assert_eq!(flaw(&bytes[..length]), Flaw::Cut, "{length}");
        }
        assert_eq!(flaw(&[&bytes[..], &[0; 3]].concat()), Flaw::Behind(3));
        let long = Sample {
            names: vec!["x".repeat(64)],
            ..sample()
        };
        assert_eq!(flaw(&encode(&long)), Flaw::TooLong(64));
    }

    #[test]
    fn what_cannot_be_is_refused_in_a_sentence() {
        let mut bytes = encode(&sample());
        // The second byte of a letter of two.
        let at = bytes.iter().position(|&byte| byte == 0xb6).unwrap();
        bytes[at] = b'x';
        let error = Error::from(decode::<Sample>(&bytes).unwrap_err());
        let what = format!(
            "the sample of a rank ({} bytes) cannot be read: it holds what no rank says",
            bytes.len()
        );
        assert_eq!(error.what, what);
        let error = decode_all::<Sample>(&[encode(&sample()), vec![1]]).unwrap_err();
        assert_eq!(error.peer, Some(Rank(1)));
    }

    /// A list that claims to be long takes no memory before its parts have come.
    #[test]
    fn a_length_alone_takes_no_memory() {
        #[derive(Serialize, Deserialize)]
        struct Long(Vec<[u64; 32]>);
        impl Record for Long {
            const NAME: &'static str = "a list";
        }
        let claims = postcard::to_stdvec(&(u64::MAX / 4096)).unwrap();
        assert_eq!(decode::<Long>(&claims).err().unwrap().flaw, Flaw::Cut);
    }
}
