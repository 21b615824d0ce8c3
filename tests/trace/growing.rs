//! Tokens that are read while they are written: a reader takes what is there, and no more.

use super::awaited::{Events, data_of_message, message_awaited, rooted_awaited};
use super::{ROOT, SLOT_BYTES, Traced, all, many};
use kolo::base::Result;
use kolo::exec::Waiting;
use kolo::exec::host::Wires;
use kolo::exec::trace::{Event, Tracer};
use kolo::plan::Collective;
use kolo::wire::ports::PortKind;
use kolo::wire::taken::Tokens;
use std::sync::atomic::{AtomicUsize, Ordering};

const COUNT: usize = SLOT_BYTES / 8;
/// Where parts end: within elements, too.
const ENDS: [usize; 5] = [5, 12, 10_003, 10_004, SLOT_BYTES];

/// Counts how often it finds nothing.
struct Counting<'a>(&'a AtomicUsize, Vec<Event>);

impl Tracer for Counting<'_> {
    fn event(&mut self, event: Event) {
        self.1.push(event);
    }
}

impl Events for Counting<'_> {
    fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.1)
    }
}

impl Waiting for Counting<'_> {
    fn pause(&mut self, _: usize) -> Result<()> {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::thread::yield_now();
        Ok(())
    }
}

/// Writes a token for rank 1, and each part only when the reader has waited for it in vain.
fn write(kind: PortKind, data: &[i64], wires: &mut Wires, found_nothing: &AtomicUsize) {
    let peer = match kind {
        PortKind::Cast(_) => wires.me(),
        _ => 1,
    };
    let end = wires.ports.open(kind, true, (peer, 0)).unwrap();
    wires.ports.reserve(end, Tokens::one(SLOT_BYTES)).unwrap();
    let slot = wires.ports.place(end, SLOT_BYTES, 0);
    let from: *const u8 = data.as_ptr().cast();
    let mut written = 0;
    for part_end in ENDS {
        let before = found_nothing.load(Ordering::SeqCst);
        // One look may have begun before the last part was there.
        while found_nothing.load(Ordering::SeqCst) < before + 2 {
            std::thread::yield_now();
        }
        // SAFETY: slot and data hold so many bytes; the reader reads no byte that is not there.
        unsafe {
            slot.add(written)
                .copy_from(from.add(written), part_end - written)
        };
        wires
            .ports
            .publish_part(end, written..part_end, SLOT_BYTES, 5);
        written = part_end;
    }
}

/// Rank 0 writes its `data` so; rank 1 reads them by `read`.
fn growing(
    kind: PortKind,
    data: &[i64],
    read: impl Fn(&mut Wires, &mut Counting) -> Traced + Sync,
) -> Vec<i64> {
    let found_nothing = AtomicUsize::new(0);
    let traced = all(2, |wires| match wires.me() {
        0 => {
            write(kind, data, wires, &found_nothing);
            Default::default()
        }
        _ => read(wires, &mut Counting(&found_nothing, Vec::new())),
    });
    assert_eq!(traced[1].0.len(), 1, "a token");
    traced[1].1.clone()
}

#[test]
fn a_message_is_taken_as_it_grows() {
    let data = data_of_message(0, COUNT);
    for kind in [PortKind::Pair, PortKind::Cast(0)] {
        let to_all = kind == PortKind::Cast(0);
        let read = |wires: &mut Wires, waiting: &mut Counting| {
            message_awaited((COUNT, to_all), wires, waiting)
        };
        assert_eq!(growing(kind, &data, read), data);
    }
}

/// Only whole elements are folded.
#[test]
fn a_contribution_is_folded_as_it_grows() {
    let theirs = many(0, 2, COUNT)[..COUNT].to_vec();
    let sums = growing(PortKind::Pair, &theirs, |wires, waiting| {
        rooted_awaited(Collective::Reduce, COUNT, wires, waiting)
    });
    let mine = many(ROOT, 2, COUNT);
    let expected = theirs.iter().zip(&mine).map(|(a, b)| a + b);
    assert_eq!(sums[..COUNT], expected.collect::<Vec<_>>());
}
