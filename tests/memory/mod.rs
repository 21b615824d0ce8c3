//! Ranks of one node as threads: memory between them, and an end for all when one fails.

use kolo::exec::host::Wires;
use kolo::transport::node::NodeMemory;
use kolo::transport::segment::Segment;
use kolo::wire::layout::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The wires of every rank of a fresh node, with slots of so many bytes.
pub fn wires(ranks: usize, channels: usize, slot_bytes: usize) -> Vec<Wires> {
    let layout = Layout {
        ranks,
        channels,
        slot_bytes,
        eager_bytes: slot_bytes,
    };
    let segment = Arc::new(Segment::anonymous(layout.total()).expect("memory"));
    (0..ranks)
        .map(|me| {
            let owner = Arc::clone(&segment);
            // SAFETY: an anonymous segment of this size is zero and page-aligned.
            let node = unsafe { NodeMemory::new(segment.as_ptr(), layout, me, owner) };
            let (source, bell) = (Box::new(node.clone()), Box::new(node.clone()));
            Wires::new((me, ranks, channels), node.fans(), source, bell)
        })
        .collect()
}

/// A thread that fails must not leave the others waiting.
pub struct StopOnPanic<'a>(pub &'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
