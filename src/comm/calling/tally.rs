//! What a process has called, in a table that rank 0 writes when its process ends
//! (`KOLO_REPORT=1`, `srun --kolo-report`).
//!
//! **Problem.** Whoever runs a job wants to know what it asked of kolo and how long it waited,
//! without a log of every call.
//!
//! **Idea.** Calls are counted by collective and size, in powers of two. What a call that blocks
//! took is added up; a call on a stream or in a group is counted without a time, as nobody waits
//! for it alone. Processes whose calls are not counted pay nothing for it.

use super::call::{Checked, Collective};
use crate::base::clock::{self, Moment};
use crate::comm::logging;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Calls of one collective and size.
#[derive(Default)]
struct Counted {
    calls: u64,
    bytes: u64,
    blocking: Duration,
    longest: Duration,
    /// The route of the first of them.
    way: String,
}

/// By number of the collective, and bits of the bytes of a rank's contribution.
type Rows = BTreeMap<(u8, u32), Counted>;

struct Tally {
    /// The process whose calls these are: a child has a copy.
    process: u32,
    since: Moment,
    rows: Rows,
}

static TALLY: Mutex<Option<Tally>> = Mutex::new(None);

/// From now on calls are counted, and the table is written when the process ends.
pub(in crate::comm) fn begin() {
    let mut tally = TALLY.lock().unwrap_or_else(PoisonError::into_inner);
    if tally.is_none() {
        *tally = Some(Tally {
            process: std::process::id(),
            since: clock::now(),
            rows: Rows::new(),
        });
        // SAFETY: the function lives as long as the process and never unwinds.
        unsafe { libc::atexit(tell) };
    }
}

fn row<'a>(rows: &'a mut Rows, checked: &Checked) -> &'a mut Counted {
    let bits = usize::BITS - checked.bytes.saturating_sub(1).leading_zeros();
    let bits = if checked.bytes == 0 { 0 } else { bits + 1 };
    rows.entry((checked.call.collective as u8, bits))
        .or_default()
}

/// Counts a call; the first of its row says in `words` what ran.
pub(super) fn count(checked: &Checked, words: impl FnOnce() -> String) {
    let mut tally = TALLY.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(tally) = tally.as_mut() else { return };
    let row = row(&mut tally.rows, checked);
    row.calls += 1;
    row.bytes += checked.bytes as u64;
    if row.calls == 1 {
        row.way = words();
    }
}

/// Adds what a call that was counted took.
pub(super) fn took(checked: &Checked, time: Duration) {
    let mut tally = TALLY.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(tally) = tally.as_mut() else { return };
    let row = row(&mut tally.rows, checked);
    row.blocking += time;
    row.longest = row.longest.max(time);
}

extern "C" fn tell() {
    // Whoever holds the lock for ever is a thread that has ended: then there is no table.
    let Ok(tally) = TALLY.try_lock() else { return };
    let own = |tally: &&Tally| tally.process == std::process::id() && logging::speaks();
    if let Some(tally) = tally.as_ref().filter(own) {
        logging::plain(&table(&tally.rows, tally.since.elapsed()));
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
    let calls: u64 = rows.values().map(|row| row.calls).sum();
    let blocking: Duration = rows.values().map(|row| row.blocking).sum();
    let mut text = format!(
        "kolo report: the process of rank 0 has made {calls} calls in {:.1} s, and was {:.3} s in \
         those that block\n",
        lasted.as_secs_f64(),
        blocking.as_secs_f64()
    );
    if rows.is_empty() {
        return text;
    }
    let _ = writeln!(
        text,
        "  {:<16} {:>9} {:>10} {:>12} {:>11} {:>11}  way of the first",
        "call", "up to", "calls", "bytes", "seconds", "longest ms"
    );
    for (&(number, bits), row) in rows {
        let collective = Collective::ALL.iter().find(|it| **it as u8 == number);
        let _ = writeln!(
            text,
            "  {:<16} {:>9} {:>10} {:>12} {:>11.3} {:>11.3}  {}",
            collective.map_or("?", |it| it.name()),
            size(bits),
            row.calls,
            row.bytes,
            row.blocking.as_secs_f64(),
            row.longest.as_secs_f64() * 1e3,
            row.way
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

    #[test]
    fn the_table_adds_up_what_was_called() {
        let row = |calls, ms| Counted {
            calls,
            bytes: 8 * calls,
            blocking: Duration::from_millis(ms),
            longest: Duration::from_millis(2),
            way: "ring, protocol simple".into(),
        };
        let key = |collective: Collective, bits| (collective as u8, bits);
        let rows = Rows::from([
            (key(Collective::AllReduce, 4), row(5, 20)),
            (key(Collective::Barrier, 0), row(2, 10)),
        ]);
        let text = table(&rows, Duration::from_millis(1500));
        assert!(text.contains("7 calls in 1.5 s, and was 0.030 s"), "{text}");
        assert!(text.contains("AllReduce              8 B          5           40       0.020"));
        assert_eq!(text.lines().count(), 4, "{text}");
        assert_eq!(table(&Rows::new(), Duration::ZERO).lines().count(), 1);
    }
}
