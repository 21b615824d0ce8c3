//! Notices that arrive at an endpoint, for all connections that send over it.
//!
//! Providers bear a bounded number of posted receives, so there are as many places for notices as
//! an endpoint pays for, not some for each connection. What arrives is kept for the connection that
//! it names, at most one notice for each request of a ring; what names none is dropped: that
//! connection has been closed.

use crate::libfabric::{Mapped, Span};
use crate::notice::{self, NOTICE_BYTES, Notice};
use crate::operation::Operations;
use kolo_plugin::fabric::RING;
use std::collections::HashMap;

/// Places for notices.
pub const PLACES: usize = 128;

/// Notices of an endpoint.
pub struct Inbox {
    /// Registration of the places.
    pub mapped: Option<Mapped>,
    /// The receives into them.
    pub arriving: Operations,
    places: Box<[notice::Bytes; PLACES]>,
    kept: HashMap<u32, [Option<Notice>; RING]>,
}

impl Inbox {
    /// No places are posted yet.
    pub fn new() -> Inbox {
        Inbox {
            mapped: None,
            arriving: Operations::new(PLACES),
            places: Box::new([[0; NOTICE_BYTES]; PLACES]),
            kept: HashMap::new(),
        }
    }

    /// Memory of all places: address and size.
    pub fn memory(&self) -> (usize, usize) {
        let bytes = size_of::<[notice::Bytes; PLACES]>();
        ((&raw const *self.places) as usize, bytes)
    }

    /// Memory of one place.
    pub fn span(&mut self, place: usize) -> Span {
        let mapped = self.mapped.as_ref();
        Span {
            data: (&raw mut self.places[place]) as usize,
            bytes: NOTICE_BYTES,
            description: mapped.map_or(std::ptr::null_mut(), |mapped| mapped.description),
        }
    }

    /// Begins to keep notices for the end with this number.
    pub fn enter(&mut self, end: u32) {
        self.kept.insert(end, [None; RING]);
    }

    /// Keeps none for it any more.
    pub fn leave(&mut self, end: u32) {
        self.kept.remove(&end);
    }

    /// Takes what has arrived; the places are idle then.
    pub fn sort(&mut self) {
        for place in 0..PLACES {
            let bytes = match self.arriving.ended(place) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                Err(_) => 0,
            };
            self.arriving.forget(place);
            let whole = bytes == NOTICE_BYTES;
            let notice = Notice::read(&self.places[place]).filter(|_| whole);
            let known = notice.and_then(|notice| Some((notice, self.kept.get_mut(&notice.to)?)));
            if let Some((notice, ring)) = known {
                ring[notice.sequence as usize % RING] = Some(notice);
            }
        }
    }

    /// The notice of a request, once.
    pub fn take(&mut self, end: u32, sequence: u64) -> Option<Notice> {
        let kept = &mut self.kept.get_mut(&end)?[sequence as usize % RING];
        let right = kept.is_some_and(|notice| notice.sequence == sequence);
        kept.take_if(|_| right)
    }
}
