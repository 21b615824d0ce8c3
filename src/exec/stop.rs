//! How far an engine got with its work, and why it may have ended early.

use crate::base::Error;
use crate::wire::signature::Signature;

/// How far a lane got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something moved, and now this rank's token or credit is missing.
    Moved(usize),
    /// Nothing moved: this rank's token or credit is missing.
    Blocked(usize),
    /// The lane is finished.
    Done,
}

/// Why a small call ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Another rank called something else.
    Mismatch(Mismatch),
    /// Waiting ended with an error.
    Error(Error),
}

/// A token's signature differs from what this rank called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The rank that published it.
    pub peer: usize,
    /// Its signature.
    pub theirs: Signature,
    /// This rank's.
    pub mine: Signature,
    /// The token is left over from an earlier call.
    pub is_stale: bool,
}

impl From<Mismatch> for Stop {
    fn from(mismatch: Mismatch) -> Stop {
        Stop::Mismatch(mismatch)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}
