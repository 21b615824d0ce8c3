//! Communicators of threads, and data that differ by rank, element and iteration.

use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{CommConfig, Communicator};

/// Whether this is `tests/nodes.rs`, where the ranks are on several nodes.
pub fn on_nodes() -> bool {
    module_path!().starts_with("nodes::")
}

/// The node of a rank: an even number of ranks alternates between two nodes; of an odd number the
/// first is alone, the next two share a node, the next four, and so on.
pub fn node_of(rank: u32, nranks: u32) -> u32 {
    match nranks % 2 {
        0 => rank % 2,
        _ => (rank + 1).ilog2(),
    }
}

/// A communicator of threads.
pub fn made(nranks: u32, overrides: &[(&str, &str)]) -> Vec<Communicator> {
    made_on(nranks, overrides, |rank| node_of(rank, nranks))
}

/// A communicator of threads, on these nodes if on several at all.
pub fn made_on(
    nranks: u32,
    overrides: &[(&str, &str)],
    node_of: impl Fn(u32) -> u32,
) -> Vec<Communicator> {
    let config = |rank: u32| {
        let owned = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
        let mut overrides: Vec<_> = overrides.iter().map(owned).collect();
        if on_nodes() {
            let node = format!("node{}", node_of(rank));
            overrides.push(("hostid".to_string(), node));
        }
        CommConfig {
            overrides,
            ..CommConfig::default()
        }
    };
    let members = kolo::bootstrap::ThreadsBootstrap::group(nranks);
    std::thread::scope(|scope| {
        let made = members.into_iter().zip(0..).map(|(member, rank)| {
            let config = config(rank);
            scope.spawn(move || Communicator::init_bootstrap(Box::new(member), &config))
        });
        let made: Vec<_> = made.collect();
        let joined = made
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        joined.map(|made| made.expect("init")).collect()
    })
}

/// Runs `body` on `nranks` threads, one communicator each.
pub fn ranks(nranks: u32, overrides: &[(&str, &str)], body: impl Fn(&Communicator) + Sync) {
    ranks_of(&made(nranks, overrides), body);
}

/// Runs `body` on a thread for each of these communicators, and destroys them.
pub fn ranks_of(comms: &[Communicator], body: impl Fn(&Communicator) + Sync) {
    std::thread::scope(|scope| {
        for comm in comms {
            scope.spawn(|| {
                let _guard = AbortOnPanic(comm);
                body(comm);
            });
        }
    });
    for comm in comms {
        let (executed, planned) = comm.step_counts().expect("alive");
        assert_eq!(executed, planned, "there is no path beside the plan");
    }
    // Each waits for a moment until the others know.
    std::thread::scope(|scope| {
        for comm in comms {
            scope.spawn(|| comm.destroy().expect("destroy"));
        }
    });
}

/// A rank that fails an assertion must not leave the others waiting.
pub struct AbortOnPanic<'a>(pub &'a Communicator);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.abort();
        }
    }
}

/// The value of an element before it is sent.
pub fn value(rank: usize, element: usize, iteration: usize) -> i64 {
    ((rank * 31 + element * 7 + iteration * 13) % 101) as i64 - 50
}

pub const POISON: i64 = 0x5a5a_5a5a_5a5a_5a5a;

pub fn input(rank: usize, count: usize, iteration: usize) -> Vec<i64> {
    (0..count)
        .map(|element| value(rank, element, iteration))
        .collect()
}

pub fn sum(nranks: usize, element: usize, iteration: usize) -> i64 {
    (0..nranks)
        .map(|rank| value(rank, element, iteration))
        .sum()
}

pub const COUNTS: &[usize] = &[0, 1, 5, 6, 64, 1000, 4096, 4097, 70_000, 300_001];
pub const SIZES: &[u32] = &[1, 2, 3, 4, 5, 8];

/// Each collective with a small buffer, so that several rounds are needed.
pub const SMALL_BUFFER: &[(&str, &str)] = &[("buffsize", "64K")];
