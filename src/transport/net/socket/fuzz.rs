//! Parsers of foreign bytes in this room, for `tests/fuzz`: none may panic, loop, or allocate far
//! more than it was given.

use super::frame;
use crate::base::record;
use crate::transport::net::Handle;

/// The header of a frame, with its own checksum and with the right one.
pub fn header(bytes: &[u8]) {
    let Some(first) = bytes.first_chunk::<{ frame::HEADER_BYTES }>() else {
        return;
    };
    let mut sealed = *first;
    frame::seal(&mut sealed);
    for bytes in [first, &sealed] {
        if let Some(header) = frame::Header::decode(bytes) {
            assert_eq!(frame::Header::decode(&header.encode()), Some(header));
        }
    }
}

/// The answer of a receiver, and the handle of a listener.
pub fn meeting(bytes: &[u8]) {
    if let Some(welcome) = bytes.first_chunk::<{ frame::WELCOME_BYTES }>() {
        let mut sealed = *welcome;
        frame::seal(&mut sealed);
        let _ = (
            frame::decode_welcome(welcome),
            frame::decode_welcome(&sealed),
        );
    }
    let mut sealed = bytes.to_vec();
    if sealed.len() > 8 {
        frame::seal(&mut sealed);
    }
    for bytes in [bytes, &sealed] {
        if let Ok(handle) = Handle::new(bytes) {
            let _ = frame::decode_handle(&handle);
        }
    }
}

/// Decodes `bytes` as the greeting of a sender.
pub fn records(bytes: &[u8]) -> (&'static str, bool) {
    record::fuzz::<frame::Hello>(bytes)
}
