//! The answer about buffers that the ranks of a call find while it runs.
//!
//! Whether a plan has a direct form is known beforehand ([`super::analysis::direct`]); whether the
//! buffers of a call can be read where they lie is not. The executor finds it out and the tuner
//! goes on by it, so the answer stands where both may name it.

/// The answer of the cards of a call, by which the ranks say where their buffers lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cards {
    /// None were shown, as those of calls before were in vain.
    NotShown,
    /// Not all ranks can read the buffers of all others.
    Private,
    /// All ranks can.
    Readable,
}
