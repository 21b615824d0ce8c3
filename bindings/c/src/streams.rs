//! All streams and requests of the process by their handles. A request is a stream of its own.

use crate::handle::Registry;
use kolo_core::comm::Stream;

/// All live streams of this process.
pub(crate) static STREAMS: Registry<Stream> = Registry::new(0x9d17_6ae8_33c4_b05e, "stream");

/// All live requests of this process.
pub(crate) static REQUESTS: Registry<Stream> = Registry::new(0xb7e1_5162_8aed_2a6b, "request");

/// Whether a number is a live request.
pub(crate) fn is_request(handle: usize) -> bool {
    REQUESTS.find(handle).is_some()
}
