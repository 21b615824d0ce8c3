//! Contributions to an exchange on their way from one process to another.

use super::frame::MAX_BUNDLE;
use crate::base::Rank;
use crate::base::record::Record;
use serde::{Deserialize, Serialize};

/// Contributions of the ranks of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ProcessParts {
    /// Of a broadcast.
    pub root: Option<Rank>,
    pub parts: Vec<(Rank, Bytes)>,
}

impl Record for ProcessParts {
    const NAME: &'static str = "what the ranks of a process give to an exchange";
    const MOST_BYTES: usize = MAX_BUNDLE;
}

/// Bytes that travel as they are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
        }
        from.deserialize_bytes(Visitor)
    }
}
