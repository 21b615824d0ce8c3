//! Counts of calls: how many kolo took, and why MPI ran the others.

use crate::decide::{Collective, Reason, Size};
use crate::say;
use std::sync::atomic::{AtomicU64, Ordering};

/// By collective.
static TAKEN: [AtomicU64; Collective::COUNT] = [const { AtomicU64::new(0) }; Collective::COUNT];
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
pub fn taken(collective: Collective, size: Size) {
    one(&TAKEN[collective as usize]);
    let bytes = match size {
        Size::Unknown => return,
        Size::Bytes(bytes) => bytes,
        Size::Elements(elements) => elements.count * elements.bytes as u64,
    };
    BYTES.store(BYTES.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
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

/// The lines of a rank, where the settings ask for them.
pub fn tell(rank: i32) {
    let sum = |counters: &mut dyn Iterator<Item = &AtomicU64>| -> u64 {
        counters
            .map(|counter| counter.load(Ordering::Relaxed))
            .sum()
    };
    let taken = sum(&mut TAKEN.iter());
    let passed = sum(&mut PASSED.iter().flatten());
    let left = sum(&mut std::iter::once(&LEFT));
    let mut line = format!(
        "kolo: rank {rank}: {taken} of {} collectives ran on kolo ({} bytes, {} communicators \
         attached)",
        taken + left,
        BYTES.load(Ordering::Relaxed),
        ATTACHED.load(Ordering::Relaxed)
    );
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
