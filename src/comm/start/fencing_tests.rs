//! Who fences before the bells of a node is agreed on, and nobody who sleeps is forgotten.

use crate::base::clock;
use crate::comm::{CommConfig, Communicator, RedOp};
use crate::transport::futex::lets_others_fence;
use crate::wire::doorbell::Fencing;
use std::time::Duration;

/// Rounds in which one rank is late and the other sleeps.
const ROUNDS: u64 = 30;
/// Longer than a rank that may sleep looks around.
const LATE: Duration = Duration::from_millis(3);

fn wanting(membarrier: &str) -> CommConfig {
    let said = [("membarrier", membarrier), ("wait", "sleep")];
    CommConfig {
        overrides: said.map(|(key, value)| (key.into(), value.into())).into(),
        ..CommConfig::default()
    }
}

/// Splits a part from `comm` and sums over it, where the two ranks are late in turn. Returns who
/// passes the fence on each of the two communicators.
fn found(comm: &Communicator, config: &CommConfig) -> [Fencing; 2] {
    let part = comm.split(Some(0), 0, config).unwrap().unwrap();
    let me = u64::from(comm.rank());
    for round in 0..ROUNDS {
        if round % 2 == me {
            std::thread::sleep(LATE);
        }
        let mut sum = [0];
        part.all_reduce(&[7 * round + me], &mut sum, RedOp::SUM)
            .unwrap();
        assert_eq!(sum, [14 * round + 1]);
    }
    [comm, &part].map(|it| it.queue.node.fencing())
}

#[test]
fn a_rank_that_does_without_decides_for_its_node() {
    let possible = match lets_others_fence() {
        true => Fencing::Sleeper,
        false => Fencing::Publisher,
    };
    for (wishes, expected) in [
        (["true", "true"], possible),
        (["true", "false"], Fencing::Publisher),
        (["false", "true"], Fencing::Publisher),
    ] {
        let id = Communicator::unique_id().unwrap();
        let begun = clock::now();
        std::thread::scope(|scope| {
            for (rank, wish) in (0..).zip(wishes) {
                let id = &id;
                scope.spawn(move || {
                    let config = wanting(wish);
                    let comm = Communicator::init_rank(2, id, rank, &config).unwrap();
                    assert_eq!(found(&comm, &config), [expected; 2], "{wishes:?}");
                });
            }
        });
        // A lost wake-up costs a nap of up to 20 ms, and these would be many.
        let most = Duration::from_secs(20);
        assert!(begun.elapsed() < most, "{wishes:?}: {:?}", begun.elapsed());
    }
}
