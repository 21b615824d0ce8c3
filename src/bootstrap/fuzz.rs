//! Parsers of foreign bytes in this room, for `tests/fuzz`: none may panic, loop, or allocate far
//! more than it was given.

use super::bundle::ProcessParts;
use super::frame;
use super::launch;
use super::report::Reported;
use super::unique_id::{ID_BYTES, UniqueId};
use crate::base::{Rank, record};

/// The header of a frame.
pub fn frame(bytes: &[u8]) {
    if let Some(header) = bytes.first_chunk::<{ frame::HEADER_BYTES }>() {
        let _ = frame::Frame::decode_header(header);
    }
}

/// Decodes `bytes` as each record that ranks send to the root and to each other.
pub fn records(bytes: &[u8]) -> [(&'static str, bool); 5] {
    if let Ok(why) = record::decode::<Reported>(bytes) {
        let _ = (why.by(Rank(0), ""), why.error());
    }
    [
        record::fuzz::<frame::Hello>(bytes),
        record::fuzz::<frame::Go>(bytes),
        record::fuzz::<Reported>(bytes),
        record::fuzz::<ProcessParts>(bytes),
        launch::fuzz_shared(bytes),
    ]
}

/// The 128 bytes of an id.
pub fn unique_id(bytes: &[u8]) {
    if let Some(bytes) = bytes.first_chunk::<ID_BYTES>()
        && let Ok(id) = UniqueId::from_bytes(*bytes)
    {
        let _ = (id.address(), id.is_named(), format!("{id:?}"));
    }
}

/// A list of hosts as Slurm writes it.
pub fn host_list(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = launch::host_list::expand(&text);
}

/// Reads `bytes` as answers of a PMI server.
pub fn pmi(bytes: &[u8]) {
    launch::fuzz_pmi(bytes);
}
