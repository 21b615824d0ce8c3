//! Parsers of foreign bytes in this room, for `tests/fuzz`: none may panic, loop, or allocate far
//! more than it was given.

use super::start::{adopted, init, meet, net};

/// Decodes `bytes` as each record that ranks send while they make a communicator.
pub fn records(bytes: &[u8]) -> [(&'static str, bool); 7] {
    let [shown, tried] = net::agreeing::fuzz(bytes);
    [
        meet::fuzz(bytes),
        init::fuzz(bytes),
        adopted::fuzz(bytes),
        net::said::fuzz(bytes),
        net::folding::fuzz(bytes),
        shown,
        tried,
    ]
}
