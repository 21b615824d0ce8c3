//! The verdict on a job that hangs.

use serde::Serialize;

/// Who holds the job up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobVerdict {
    /// Sentence that names it.
    pub sentence: String,
    /// Advice, where there is one.
    pub advice: Option<String>,
    /// Ranks that it names: name of the communicator, and rank.
    pub ranks: Vec<(String, u32)>,
}
