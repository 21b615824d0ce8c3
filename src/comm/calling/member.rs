//! A call that waits for the end of its group.

use super::checked::Checked;
use crate::comm::flight::stream::Stream;
use crate::comm::queue::Queue;
use std::sync::Arc;

/// A call of a group, and on what.
pub(in crate::comm) struct Member {
    pub queue: Arc<Queue>,
    pub checked: Checked,
    pub stream: Option<Stream>,
}
