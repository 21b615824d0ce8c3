//! MPI gets its turns in every call that waits for a rank.

use super::turn::{self, IdleHook};
use crate::base::Result;
use crate::base::alone::alone;
use crate::base::clock;
use crate::bootstrap::{ThreadsBootstrap, UniqueId};
use crate::comm::RawCalls;
use crate::comm::start::together::{self, Init};
use crate::comm::{CommConfig, Communicator};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// The other rank is late until MPI has had so many turns. How often it has them is asked by
/// tests/mpi/turns.sh.
const TURNS_WANTED: u32 = 50;
/// Far longer than they take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

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
            while turns() - before < TURNS_WANTED && !start.past(LIMIT) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let (had, time) = (turns() - before, start.elapsed());
            (other(), had, time)
        });
        let waited_for = wait();
        let (other, had, time) = late.join().expect("no panic");
        println!("{what}: {had} turns in {time:?}");
        assert!(had >= TURNS_WANTED, "{what}: {had} turns in {time:?}");
        (other, waited_for)
    })
}

fn join_by(id: &UniqueId, rank: u32) -> Result<Communicator> {
    Communicator::init_rank(2, id, rank, &CommConfig::default())
}

#[test]
fn every_wait_gives_turns() {
    let said = alone("comm::flight::turn_tests::waits_beside_mpi", &[]);
    assert!(said.contains("init: "), "{said}");
}

#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn waits_beside_mpi() {
    let program = std::thread::current().id();
    // As an MPI that only one thread may call.
    let hook: IdleHook = Arc::new(move || {
        let may = std::thread::current().id() == program;
        TURNS.fetch_add(u32::from(may), Ordering::Relaxed);
        may
    });
    let config = CommConfig::default();
    let single = ThreadsBootstrap::group(1).remove(0);
    let by_mpi = Communicator::init_bootstrap_with_idle(Box::new(single), &config, Some(hook));
    let by_mpi = by_mpi.expect("a rank alone");
    let id = Communicator::unique_id().expect("an id");
    let join = |rank| join_by(&id, rank).expect("init");
    let (late, early) = beside("init", || join(1), || join(0));
    let split = |comm: &Communicator| comm.split(Some(0), 0, &config).expect("split");
    let _ = beside("split", || split(&late), || split(&early));
    let call = |comm: &Communicator| comm.barrier().expect("a call");
    beside("barrier", || call(&late), || call(&early));
    let mut members = ThreadsBootstrap::group(2);
    let (other, own) = (members.pop().expect("rank 1"), members.remove(0));
    let join = |member| Communicator::init_bootstrap(Box::new(member), &config).expect("init");
    beside("threads", || join(other), || join(own));
    let id = Communicator::unique_id().expect("an id");
    let begin = |rank| Communicator::begin(2, &id, rank, &config).expect("a start");
    let start = |rank| begin(rank).wait().expect("a communicator");
    beside("a start begun before", || start(1), || start(0));
    let id = Communicator::unique_id().expect("an id");
    let init = |rank| Box::new(move || join_by(&id, rank).map(drop)) as Init;
    let group = |rank| together::run(vec![(None, init(rank))]).expect("a group");
    beside("a group", || group(1), || group(0));
    drop((early, late, by_mpi));
    turns_that_lose_their_core();
}

/// A turn that is away for 3 ms has done no more than others: who waits sleeps behind it.
fn turns_that_lose_their_core() {
    const WORK: Duration = Duration::from_micros(100);
    static PAUSED: AtomicBool = AtomicBool::new(false);
    let hook = |away: Duration| -> IdleHook {
        Arc::new(move || {
            let begin = clock::busy();
            while clock::busy() - begin < WORK {
                std::thread::yield_now();
            }
            // A pause of a virtual machine counts as time of whoever had the core.
            PAUSED.store(clock::busy() - begin > WORK * 3 / 2, Ordering::Relaxed);
            std::thread::sleep(away);
            true
        })
    };
    let (usual, away) = (hook(Duration::ZERO), hook(Duration::from_millis(3)));
    // Turns of before are forgotten then.
    for _ in 0..2 * turn::LOOKED_BACK {
        std::thread::sleep(2 * WORK);
        turn::waiting(&usual);
    }
    for number in 0..20 {
        std::thread::sleep(turn::LONGEST);
        turn::waiting(&away);
        assert!(
            turn::rest().is_some() || PAUSED.load(Ordering::Relaxed),
            "turn {number} is said to have moved data"
        );
    }
}
