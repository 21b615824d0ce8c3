//! Ranks that send before they receive: the warning of each names all sends that wait.

use super::{RANKS, job};
use kolo::comm::Communicator;

/// Bytes that each rank sends.
const BYTES: &str = "TEST_LOG_BYTES";

/// Each rank sends to the next one, around the ring, and nobody receives.
pub fn sends_first(comm: &Communicator, rank: u32) {
    let bytes: usize = std::env::var(BYTES).expect(BYTES).parse().expect("a size");
    let mine = vec![rank as u8 + 1; bytes];
    comm.barrier().unwrap();
    // The first one whose limit is over says why; the others hear that, or that it has ended.
    comm.send(&mine, (rank + 1) % RANKS).unwrap_err();
}

fn is_told(bytes: &'static str, check: &'static str, nodes: bool) {
    let settings = [
        (BYTES, bytes),
        ("KOLO_CHECK", check),
        ("KOLO_WARN_AFTER", "2"),
        ("KOLO_TIMEOUT", "6"),
    ];
    for (rank, lines) in job("sends first", &settings, nodes).iter().enumerate() {
        let warned = |line: &&String| line.contains(" WARN ") && line.contains(" has waited 2 s ");
        let warnings: Vec<_> = lines.iter().filter(warned).collect();
        let [warning] = warnings[..] else {
            panic!("{bytes} bytes, check {check}, {nodes}: rank {rank}: {lines:#?}");
        };
        let next = (rank + 1) % 3;
        let begin =
            format!(" rank {rank}: Send on communicator whole has waited 2 s for rank {next} on ");
        assert!(warning.contains(&begin), "{warning}");
        for from in 0..3 {
            let to = (from + 1) % 3;
            let message = format!("rank {from} sends {bytes} bytes to rank {to}");
            assert!(warning.contains(&message), "{message}: {warning}");
        }
        let remedy = ". Remedy: put the Send and the Recv of each rank into one group ";
        assert!(warning.contains(remedy), "{warning}");
    }
}

#[test]
fn each_rank_of_a_circle_of_sends_names_all_of_them() {
    std::thread::scope(|scope| {
        for nodes in [false, true] {
            scope.spawn(move || is_told("3200000", "0", nodes));
            scope.spawn(move || is_told("8", "1", nodes));
        }
    });
}
