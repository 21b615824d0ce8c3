//! MPI gets its turns in every call that waits for a rank.

use super::turn::IdleHook;
use crate::base::alone::alone;
use crate::base::clock;
use crate::bootstrap::ThreadsBootstrap;
use crate::comm::{CommConfig, Communicator};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How late the other rank is.
const LATE: Duration = Duration::from_millis(100);
/// A fifth of the turns that are due meanwhile: the machine may be busy.
const LEAST: u32 = 20;

static TURNS: AtomicU32 = AtomicU32::new(0);

fn turns() -> u32 {
    TURNS.load(Ordering::Relaxed)
}

/// Runs `wait` while `other` is late; what both return.
fn beside<A: Send, B>(
    what: &str,
    other: impl FnOnce() -> A + Send,
    wait: impl FnOnce() -> B,
) -> (A, B) {
    std::thread::scope(|scope| {
        let late = scope.spawn(|| {
            let (start, before) = (clock::now(), turns());
            std::thread::sleep(LATE);
            let (had, waited) = (turns() - before, start.elapsed());
            (other(), had, waited)
        });
        let waited_for = wait();
        let (other, had, time) = late.join().expect("no panic");
        println!("{what}: {had} turns in {time:?}");
        assert!(had >= LEAST, "{what}: {had} turns in {time:?}");
        (other, waited_for)
    })
}

#[test]
fn every_wait_gives_turns() {
    let said = alone("comm::flight::turn_tests::waits_beside_mpi", &[]);
    assert!(said.contains("init: "), "{said}");
}

#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn waits_beside_mpi() {
    let hook: IdleHook = Arc::new(|| {
        TURNS.fetch_add(1, Ordering::Relaxed);
        true
    });
    let config = CommConfig::default();
    let single = ThreadsBootstrap::group(1).remove(0);
    let by_mpi = Communicator::init_bootstrap_with_idle(Box::new(single), &config, Some(hook));
    let by_mpi = by_mpi.expect("a rank alone");
    let id = Communicator::unique_id().expect("an id");
    let join = |rank| Communicator::init_rank(2, &id, rank, &config).expect("init");
    let (late, early) = beside("init", || join(1), || join(0));
    let split = |comm: &Communicator| comm.split(Some(0), 0, &config).expect("split");
    let _ = beside("split", || split(&late), || split(&early));
    let call = |comm: &Communicator| comm.barrier().expect("a call");
    beside("barrier", || call(&late), || call(&early));
    drop((early, late, by_mpi));
}
