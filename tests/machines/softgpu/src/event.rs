//! Events: marks in streams.

use crate::stream::Point;
use std::time::Instant;

/// A mark that can be moved.
pub struct Event {
    pub context: u64,
    pub has_times: bool,
    /// Where it was recorded last.
    pub record: Option<Record>,
    /// In which capture, and behind which nodes, if that was in one.
    pub captured: Option<(u64, Vec<usize>)>,
}

pub struct Record {
    pub point: Point,
    /// When the stream came there.
    pub passed: Option<Instant>,
}

/// `CU_EVENT_DISABLE_TIMING` and `CU_EVENT_INTERPROCESS`.
pub const WITHOUT_TIMES: u32 = 2;
pub const BETWEEN_PROCESSES: u32 = 4;
/// All flags that there are.
pub const FLAGS: u32 = 1 | WITHOUT_TIMES | BETWEEN_PROCESSES;
