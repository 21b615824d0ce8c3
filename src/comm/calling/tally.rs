//! Counts the calls of a process, in a table that rank 0 writes when its process ends
//! (`KOLO_REPORT=1`, `srun --kolo-report`).
//!
//! **Problem.** Whoever runs a job wants to know what it asked of kolo and how long it waited,
//! without a log of every call.
//!
//! **Idea.** Calls are counted by collective and size, in powers of two. Every entry that may block
//! ([`waiting`]) adds what it took to a row: a blocking call to its own one; the end of a group, a
//! wait for a request or a stream, the end of a communicator to one of their own, as nobody waits
//! for one call alone there. Only the outermost entry counts. What the other processes have waited
//! stands in [`super::processes`]. Processes whose calls are not counted pay nothing for it.

use super::call::Collective;
use super::checked::Checked;
use super::processes::Processes;
use crate::base::clock::{self, Moment};
use crate::comm::logging;
use crate::transport::segment::Nonce;
use crate::tune::ToldRoute;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Calls of one collective and size, or waits of one kind.
#[derive(Default)]
struct Counted {
    calls: u64,
    bytes: u64,
    blocking: Duration,
    longest: Duration,
    /// The route of the first of them.
    way: String,
}

impl Counted {
    fn took(&mut self, time: Duration) {
        self.blocking += time;
        self.longest = self.longest.max(time);
    }
}

/// Kinds of rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowKey {
    /// Number of the collective, and bits of the bytes of a rank's contribution.
    Calls(u8, u32),
    /// Entries of this name that wait for calls which have begun before.
    Waits(&'static str),
}

/// A split, whose ranks meet by calls that the program has not made.
const SPLIT: RowKey = RowKey::Waits("CommSplit");

type Rows = BTreeMap<RowKey, Counted>;

/// Letters of the column of names, which may be longer in the language of the program.
const LEAST_WIDTH: usize = 17;

struct Tally {
    /// The process whose calls these are: a child has a copy.
    process: u32,
    since: Moment,
    rows: Rows,
    /// The time of all rows.
    blocking: Duration,
    processes: Arc<Processes>,
    /// The others have had their moment to come to their end.
    settled: bool,
}

static TALLY: Mutex<Option<Tally>> = Mutex::new(None);
/// Whether anything is counted.
static COUNTS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The entry, one that is timed, which this thread is inside of.
    static INSIDE: Cell<Option<RowKey>> = const { Cell::new(None) };
}

fn lock() -> MutexGuard<'static, Option<Tally>> {
    TALLY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on calls are counted, and the table is written when the process ends.
pub(in crate::comm) fn begin(processes: impl FnOnce() -> Processes) {
    let mut tally = lock();
    if tally.is_none() {
        let processes = Arc::new(processes());
        processes.tell(Duration::ZERO);
        *tally = Some(Tally {
            process: std::process::id(),
            since: clock::now(),
            rows: Rows::new(),
            blocking: Duration::ZERO,
            processes,
            settled: false,
        });
        COUNTS.store(true, Ordering::Relaxed);
        // SAFETY: the function lives as long as the process and never unwinds.
        unsafe { libc::atexit(tell) };
    }
}

fn of(checked: &Checked) -> RowKey {
    let bits = usize::BITS - checked.bytes.saturating_sub(1).leading_zeros();
    let bits = if checked.bytes == 0 { 0 } else { bits + 1 };
    RowKey::Calls(checked.call.collective as u8, bits)
}

/// Counts a call; the first of its row names the way, and is told which row that is.
pub(super) fn count(checked: &Checked, told: ToldRoute) -> Option<RowKey> {
    if INSIDE.get() == Some(SPLIT) {
        return None;
    }
    let mut tally = lock();
    let (key, tally) = (of(checked), tally.as_mut()?);
    let row = tally.rows.entry(key).or_default();
    row.calls += 1;
    row.bytes += checked.bytes as u64;
    let is_first = row.calls == 1;
    if is_first {
        row.way = told.words();
    }
    is_first.then_some(key)
}

/// The call that names the way of a row has come to know more of its own.
pub(super) fn settle(key: RowKey, told: ToldRoute) {
    let mut tally = lock();
    if let Some(row) = tally.as_mut().and_then(|tally| tally.rows.get_mut(&key)) {
        row.way = told.words();
    }
}

/// An entry that may block, until it is dropped.
pub(in crate::comm) struct Timed {
    of: RowKey,
    begun: Moment,
}

/// This thread enters something that may wait for other ranks; `None` where nothing is counted, or
/// the time counts for another entry that it is inside of.
#[inline]
pub(in crate::comm) fn waiting(name: &'static str) -> Option<Timed> {
    match COUNTS.load(Ordering::Relaxed) {
        false => None,
        true => timed(RowKey::Waits(name)),
    }
}

/// This thread begins a call that blocks.
#[cold]
pub(super) fn blocking(checked: &Checked) -> Option<Timed> {
    match COUNTS.load(Ordering::Relaxed) {
        false => None,
        true => timed(of(checked)),
    }
}

/// This thread, which kolo has started, works for an entry of another one, which may wait for it.
pub(in crate::comm) fn counts_elsewhere() {
    INSIDE.set(Some(RowKey::Waits("an entry of another thread")));
}

#[cold]
fn timed(of: RowKey) -> Option<Timed> {
    let begun = clock::now();
    // Not `then_some`: what that drops again would count.
    INSIDE.get().is_none().then(|| {
        INSIDE.set(Some(of));
        Timed { of, begun }
    })
}

impl Drop for Timed {
    fn drop(&mut self) {
        INSIDE.set(None);
        let time = self.begun.elapsed();
        let mut tally = lock();
        let Some(tally) = tally.as_mut() else { return };
        let row = tally.rows.entry(self.of).or_default();
        row.took(time);
        if let RowKey::Waits(_) = self.of {
            row.calls += 1;
        }
        tally.blocking += time;
        if tally.process == std::process::id() {
            tally.processes.tell(tally.blocking);
        }
    }
}

/// This process is about to leave the communicator with that nonce: where it will write the table,
/// the others have a moment to tell what they have waited.
pub(in crate::comm) fn leaving(nonce: Nonce) {
    let mut tally = lock();
    let mut unsettled = tally
        .as_mut()
        .filter(|tally| logging::speaks() && tally.processes.part_with(nonce) && !tally.settled);
    let settling = unsettled.as_mut().map(|tally| {
        tally.settled = true;
        Arc::clone(&tally.processes)
    });
    // Other threads of the process go on meanwhile.
    drop(tally);
    if let Some(processes) = settling {
        processes.settle();
    }
}

extern "C" fn tell() {
    // Whoever holds the lock for ever is a thread that has ended: then there is no table.
    let Ok(tally) = TALLY.try_lock() else { return };
    let own = |tally: &&Tally| tally.process == std::process::id() && logging::speaks();
    if let Some(tally) = tally.as_ref().filter(own) {
        if !tally.settled {
            tally.processes.settle();
        }
        let text = table(&tally.rows, tally.since.elapsed());
        logging::plain(&(text + &tally.processes.words()));
    }
}

/// Up to how many bytes the contributions of a row have.
fn size(bits: u32) -> String {
    match bits {
        0 => "none".into(),
        1..=10 => format!("{} B", 1_u64 << (bits - 1)),
        11..=20 => format!("{} KiB", 1_u64 << (bits - 11)),
        21..=30 => format!("{} MiB", 1_u64 << (bits - 21)),
        _ => format!("{} GiB", 1_u64 << (bits - 31)),
    }
}

fn table(rows: &Rows, lasted: Duration) -> String {
    let is_of_calls = |(of, _): &(&RowKey, &Counted)| matches!(of, RowKey::Calls(..));
    let calls: u64 = { rows.iter() }
        .filter(is_of_calls)
        .map(|(_, row)| row.calls)
        .sum();
    let blocking: Duration = rows.values().map(|row| row.blocking).sum();
    let mut text = format!(
        "kolo report: the process of rank 0 has made {calls} {} in {:.1} s, and was {:.3} s in \
         those that block\n",
        if calls == 1 { "call" } else { "calls" },
        lasted.as_secs_f64(),
        blocking.as_secs_f64()
    );
    if rows.is_empty() {
        return text;
    }
    let name = |of: &RowKey| match *of {
        RowKey::Calls(number, _) => {
            let collective = Collective::ALL.iter().find(|it| **it as u8 == number);
            logging::in_words(collective.map_or("?", |it| it.name()))
        }
        RowKey::Waits(name) => logging::in_words(name),
    };
    let widest = rows.keys().map(|of| name(of).len()).max();
    let width = widest.unwrap_or(0).max(LEAST_WIDTH);
    let _ = writeln!(
        text,
        "  {:<width$} {:>8} {:>10} {:>12} {:>11} {:>11}  way of the first (kolo explain has more)",
        "call", "up to", "calls", "bytes", "seconds", "longest ms"
    );
    let mut waits = false;
    for (of, row) in rows {
        let size = match *of {
            RowKey::Calls(_, bits) => size(bits),
            RowKey::Waits(_) => "-".into(),
        };
        if matches!(of, RowKey::Waits(_)) && !std::mem::replace(&mut waits, true) {
            let _ = writeln!(text, "  calls whose data stand above, or that only wait:");
        }
        let _ = writeln!(
            text,
            "{}",
            format!(
                "  {:<width$} {:>8} {:>10} {:>12} {:>11.3} {:>11.3}  {}",
                name(of),
                size,
                row.calls,
                row.bytes,
                row.blocking.as_secs_f64(),
                row.longest.as_secs_f64() * 1e3,
                logging::in_words(&row.way)
            )
            .trim_end()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_next_power_of_two() {
        let sizes = [0, 1, 4, 11, 12, 21, 31].map(size);
        let expected = ["none", "1 B", "8 B", "1 KiB", "2 KiB", "1 MiB", "1 GiB"];
        assert_eq!(sizes, expected);
    }

    /// An entry inside of another one has no row, and does not end that it is inside.
    #[test]
    fn only_the_outermost_entry_counts() {
        let outer = timed(RowKey::Waits("one"));
        assert!(outer.is_some());
        assert!(
            timed(RowKey::Waits("another")).is_none() && timed(RowKey::Waits("a third")).is_none()
        );
        drop(outer);
        assert!(timed(RowKey::Waits("a fourth")).is_some());
    }

    #[test]
    fn the_table_adds_up_what_was_called() {
        let row = |calls, ms| Counted {
            calls,
            bytes: 8 * calls,
            blocking: Duration::from_millis(ms),
            longest: Duration::from_millis(2),
            way: "ring, protocol simple".into(),
        };
        let key = |collective: Collective, bits| RowKey::Calls(collective as u8, bits);
        let rows = Rows::from([
            (key(Collective::AllReduce, 4), row(5, 20)),
            (key(Collective::Barrier, 0), row(2, 10)),
            (RowKey::Waits("GroupEnd"), row(3, 70)),
        ]);
        let text = table(&rows, Duration::from_millis(1500));
        assert!(text.contains("7 calls in 1.5 s, and was 0.100 s"), "{text}");
        assert!(text.contains("AllReduce              8 B          5           40       0.020"));
        assert_eq!(text.lines().count(), 6, "{text}");
        let heads = text.find("\n  calls whose data stand").unwrap();
        assert!(
            text.find("\n  Barrier").unwrap() < heads && heads < text.find("\n  GroupEnd").unwrap()
        );
        assert_eq!(table(&Rows::new(), Duration::ZERO).lines().count(), 1);
    }
}
