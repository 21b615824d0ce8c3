//! Events: marks in streams.

use std::time::Instant;

/// The end of a task: the number `ticket` of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub stream: u64,
    pub ticket: u64,
}

/// A mark that can be moved.
pub struct Event {
    pub context: u64,
    pub has_times: bool,
    /// Where it was recorded last.
    pub record: Option<Record>,
    /// Where it was recorded, if that was in a capture.
    pub captured: Option<CapturedPlace>,
}

/// A place in a capture: behind these nodes.
#[derive(Clone)]
pub struct CapturedPlace {
    pub capture: u64,
    pub after: Vec<usize>,
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
