//! Counts of calls: how many kolo took, and why MPI ran the others.

use crate::decide::{Collective, Left, RANKS, Reason, Size};
use crate::say;
use crate::table::Saved;
use std::sync::atomic::{AtomicU64, Ordering};

/// By size.
type Counts = [AtomicU64; u64::BITS as usize];
/// By collective, place of the number of ranks, and size.
static TAKEN: [[Counts; RANKS]; Collective::COUNT] =
    [const { [const { [const { AtomicU64::new(0) }; u64::BITS as usize] }; RANKS] };
        Collective::COUNT];
static BYTES: AtomicU64 = AtomicU64::new(0);
static PASSED: [[AtomicU64; Reason::COUNT]; Collective::COUNT] =
    [const { [const { AtomicU64::new(0) }; Reason::COUNT] }; Collective::COUNT];
/// All calls that MPI ran, also those that kolo did not look at further.
static LEFT: AtomicU64 = AtomicU64::new(0);
static ATTACHED: AtomicU64 = AtomicU64::new(0);
static NOT_ATTACHED: AtomicU64 = AtomicU64::new(0);
static SPANNING: AtomicU64 = AtomicU64::new(0);
static NO_MEMORY: AtomicU64 = AtomicU64::new(0);

fn one(counter: &AtomicU64) {
    // Two threads that count at once may lose a call: a locked addition would cost each call more.
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

#[inline]
pub fn taken(collective: Collective, nranks: u32, size: Size) {
    let of_ranks = &TAKEN[collective as usize][Left::place(nranks)];
    one(&of_ranks[Left::bit(size) as usize]);
    let bytes = match size {
        Size::Unknown => return,
        Size::Bytes(bytes) => bytes,
        Size::Elements(elements) => elements.count * elements.bytes as u64,
    };
    BYTES.store(BYTES.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
}

/// Calls that kolo ran, of a place of [`Left`] and one of its bits.
pub fn ran(collective: Collective, place: usize, bit: u32) -> u64 {
    TAKEN[collective as usize][place][bit as usize].load(Ordering::Relaxed)
}

#[inline]
pub fn passed(collective: Collective, reason: Reason) {
    one(&PASSED[collective as usize][reason as usize]);
}

/// MPI runs a call. Why was told by [`passed`], unless its arguments are such that MPI is to judge
/// them.
pub fn left() {
    one(&LEFT);
}

pub fn attached() {
    one(&ATTACHED);
}

pub fn not_attached() {
    one(&NOT_ATTACHED);
}

/// One of several nodes was attached.
pub fn spans_nodes() {
    one(&SPANNING);
}

pub fn no_memory() {
    one(&NO_MEMORY);
}

/// The reasons, as a line has them.
const REASONS: [&str; Reason::COUNT] = [
    "before their communicator was attached",
    "of communicators that stay with MPI",
    "reductions of derived types",
    "reductions of elements of odd sizes",
    "sums of floats",
    "that the settings leave to it",
    "because it is faster",
    "of communicators on several nodes",
];

/// The lines of a rank, where the settings ask for them. `saved`: by the times of a table.
pub fn tell(rank: i32, saved: Option<&Saved>) {
    let sum = |counters: &mut dyn Iterator<Item = &AtomicU64>| -> u64 {
        counters
            .map(|counter| counter.load(Ordering::Relaxed))
            .sum()
    };
    let taken = sum(&mut TAKEN.iter().flatten().flatten());
    let passed = sum(&mut PASSED.iter().flatten());
    let left = sum(&mut std::iter::once(&LEFT));
    let mut line = format!(
        "kolo: rank {rank}: {taken} of {} collectives ran on kolo ({} bytes, {} communicators \
         attached)",
        taken + left,
        BYTES.load(Ordering::Relaxed),
        ATTACHED.load(Ordering::Relaxed)
    );
    if let Some(saved) = saved {
        line.push_str(&format!(
            "; {:.3} s saved on {} of them, by the times of pmpi_table",
            saved.seconds, saved.calls
        ));
    }
    for (communicators, words) in [
        (&SPANNING, "on several nodes"),
        (&NOT_ATTACHED, "that could not be attached"),
        (&NO_MEMORY, "for which kolo may take no more memory"),
    ] {
        let number = communicators.load(Ordering::Relaxed);
        if number > 0 {
            line.push_str(&format!("; {number} communicators {words}"));
        }
    }
    for (reason, words) in REASONS.iter().enumerate() {
        let calls = sum(&mut PASSED.iter().map(|by_reason| &by_reason[reason]));
        if calls > 0 {
            line.push_str(&format!("; MPI ran {calls} {words}"));
        }
    }
    if left > passed {
        line.push_str(&format!(
            "; MPI ran {} with arguments that it is to judge",
            left - passed
        ));
    }
    say(&line);
}
