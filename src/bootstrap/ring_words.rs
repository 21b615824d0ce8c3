//! Words of a rank of the ring when its neighbours do not do as they should.

use super::frame::{Frame, FrameKind};
use crate::base::{Error, Rank};

/// The call that sends such frames.
pub(super) fn operation_name(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Broadcast => "broadcast",
        _ => "all_gather",
    }
}

/// A forked child has no ring.
pub(super) fn inherited() -> Error {
    Error::usage(
        "this process was forked from one that is a rank, and is none itself",
        "create communicators after fork, in the process that uses them",
    )
}

/// The failure that another rank has told.
pub(super) fn passed_on(frame: &Frame) -> Error {
    frame
        .reported()
        .unwrap_or_else(|| Error::internal("word of a failure arrived that cannot be read"))
}

/// A neighbour has said farewell while it is needed.
pub(super) fn left(peer: Rank) -> Error {
    Error::remote(
        peer,
        format!("rank {peer} has left (it destroyed its communicator or failed to start)"),
        "look into the output of that rank for its own error",
    )
}

/// A neighbour speaks something else.
pub(super) fn garbage(peer: Rank) -> Error {
    Error::internal(format!(
        "what arrives from rank {peer} is no message of kolo's"
    ))
    .with_peer(peer)
}
