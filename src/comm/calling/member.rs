//! A call that waits for the end of its group.

use super::call::Checked;
use crate::comm::Communicator;
use crate::comm::flight::stream::Stream;

/// A call of a group, and on what.
pub(in crate::comm) struct Member {
    pub comm: Communicator,
    pub checked: Checked,
    pub stream: Option<Stream>,
}
