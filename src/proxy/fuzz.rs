//! Parsers of foreign bytes in this room, for `tests/fuzz`: none may panic, loop, or allocate far
//! more than it was given.

use super::frame::Frame;
use super::{join, lookout};

/// A packet for the service thread.
pub fn frame(bytes: &[u8]) {
    if let Some(frame) = Frame::decode(bytes) {
        assert_eq!(Frame::decode(&frame.encode()), Some(frame));
    }
}

/// A message between lookouts.
pub fn message(bytes: &[u8]) {
    lookout::fuzz(bytes);
}

/// Decodes `bytes` as each record that ranks send while they come to share memory.
pub fn records(bytes: &[u8]) -> (&'static str, bool) {
    join::fuzz(bytes)
}
