//! A last look before a rank leaves: have all called the same?
//!
//! A rank that only hands data out, as the root of a broadcast or the sender of a message, has its
//! call behind it before anybody has taken them. It does not wait for the others: what they have
//! not taken lies in memory of the node, which stays as long as one of them has it, and who comes
//! later finds out itself whether its call fits. So of ranks that have called different things at
//! least one hears of it: whoever comes last finds the boards of all. Of two that come at the same
//! time each writes on its own board first and reads the other's afterwards, with a fence between
//! (Dekker's order), so one of them at least finds what the other has written.
//!
//! Memory of a device goes with the rank that has it. There ranks of the node that are behind are
//! waited for a little.

use super::fault;
use crate::base::clock;
use crate::base::{Code, Error, Result};
use crate::comm::flight::turn;
use crate::comm::queue::Queue;
use crate::exec::CommDevice;
use crate::proxy::progress::Engine;
use crate::transport::fork;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// How long others are waited for that may still have to ask for memory of this rank's device: a
/// rank that leaves must not be held up for long.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks, after the first ones.
const NAP: Duration = Duration::from_micros(200);
/// Looks without a nap.
const QUICK_LOOKS: u32 = 100;

/// Result of one look.
enum LastLook {
    Told(Error),
    Stopped,
    AllCame,
    Wait,
}

/// One look. Whoever stops the communicator says why before it stops it and leaves, so that is
/// asked last: it may have happened while this rank asked for the rest.
fn look(
    is_stopped: bool,
    is_awaited: impl FnOnce() -> bool,
    untold: impl FnOnce() -> Option<Error>,
) -> LastLook {
    let is_awaited = !is_stopped && is_awaited();
    match untold() {
        Some(error) => LastLook::Told(error),
        None if is_stopped => LastLook::Stopped,
        None if is_awaited => LastLook::Wait,
        None => LastLook::AllCame,
    }
}

/// Compares what all have called, as far as they have.
///
/// # Errors
/// What ranks disagree about, whoever has found it.
pub(in crate::comm) fn farewell(queue: &Queue) -> Result<()> {
    let start = clock::now();
    let mut looks = 0;
    loop {
        // A thread that ends by a panic has no use for the answer.
        let is_asked = queue.device != CommDevice::Host && !std::thread::panicking();
        let is_awaited = || is_asked && !start.past(PATIENCE) && someone_is_behind(queue);
        match look(queue.is_stopped(), is_awaited, || untold(queue)) {
            LastLook::Told(error) => return Err(error),
            LastLook::Stopped => return Ok(()),
            LastLook::AllCame => break,
            LastLook::Wait => {}
        }
        looks += 1;
        if Engine::global().drive() {
            continue;
        }
        match looks < QUICK_LOOKS {
            true => std::thread::yield_now(),
            false => turn::nap(queue.idle.as_ref(), NAP),
        }
    }
    // What this rank has called is on its board before it reads those of the others.
    fence(Ordering::SeqCst);
    let calls = queue.node.board(queue.rank as usize).calls();
    fault::compare_recent(&(&queue.health).into(), calls).map_err(|error| {
        queue.stop(&error);
        // Of the communicator nothing is left that could be used in another way.
        error.with_code(Code::RemoteError)
    })
}

/// Notes that this rank leaves, and then looks whether another one has called without it.
///
/// # Errors
/// That another rank has called without this one, or has left without a call of it; none where
/// the communicator has stopped.
pub(in crate::comm) fn take_leave(queue: &Queue) -> Result<()> {
    let board = queue.node.board(queue.rank as usize);
    board.leave(std::thread::panicking());
    fence(Ordering::SeqCst);
    match queue.is_stopped() {
        true => Ok(()),
        false => fault::compare_counts(queue, board.calls()),
    }
}

/// That ranks disagree, if another one has found it and no call of this rank has said it.
pub(in crate::comm) fn untold(queue: &Queue) -> Option<Error> {
    // A forked child has nothing to say, and none of the memory.
    if fork::in_child_of_user() || queue.ending.told.load(Ordering::Relaxed) {
        return None;
    }
    let found = queue.node.abort_record().get()?;
    (found.code == Code::InvalidUsage as u32).then(|| queue.stop_error())
}

/// Whether a rank of this node that has not left has not begun all collectives of this one, or
/// not taken all of its messages.
pub(in crate::comm) fn someone_is_behind(queue: &Queue) -> bool {
    let calls = queue.node.board(queue.rank as usize).calls();
    let is_gone = |rank: u32| {
        let board = queue.node.board(rank as usize);
        board.has_left() || board.has_ended()
    };
    let here = |rank: u32| queue.is_mate(rank) && !is_gone(rank);
    if (0..queue.nranks).any(|rank| here(rank) && queue.node.board(rank as usize).calls() < calls) {
        return true;
    }
    if !queue.has_sent.load(Ordering::Relaxed) {
        return false;
    }
    let Ok(mut exec) = queue.user() else {
        return false;
    };
    exec.engine.ports().is_awaited(|peer| here(peer as u32))
}

#[cfg(test)]
mod tests {
    use super::{LastLook, look, someone_is_behind};
    use crate::base::Error;
    use crate::comm::{CommConfig, Communicator, RedOp};
    use std::sync::atomic::Ordering;

    /// The other rank tells why, stops and leaves between any two questions of this one.
    #[test]
    fn what_is_said_during_a_look_is_heard() {
        let said = std::cell::Cell::new(false);
        let untold = || said.get().then(|| Error::usage("told", ""));
        let leaves = || {
            said.set(true);
            false
        };
        assert!(matches!(look(false, leaves, untold), LastLook::Told(_)));
        assert!(matches!(look(true, || false, untold), LastLook::Told(_)));
        said.set(false);
        assert!(matches!(look(true, || true, untold), LastLook::Stopped));
        assert!(matches!(look(false, || true, untold), LastLook::Wait));
        assert!(matches!(look(false, || false, untold), LastLook::AllCame));
    }

    /// The root hands its data out to nobody, and both leave at any distance of time.
    #[test]
    fn one_of_two_that_leave_at_the_same_time_hears_of_a_call_of_one() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut spins = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % 1000
        };
        for round in 0..2000 {
            let comms = Communicator::init_all(2, &CommConfig::default()).unwrap();
            let start = std::sync::Barrier::new(2);
            let leave = |comm: &Communicator, spins: u64| {
                start.wait();
                (0..spins).for_each(|_| std::hint::spin_loop());
                let called = match comm.rank() {
                    0 => comm.broadcast(&mut [1_u32; 4], 0),
                    _ => Ok(()),
                };
                called.and_then(|()| comm.destroy())
            };
            let spins = [spins(), spins()];
            let told: Vec<_> = std::thread::scope(|scope| {
                let each = comms.iter().zip(spins);
                let each = each.map(|(comm, spins)| scope.spawn(move || leave(comm, spins)));
                let each: Vec<_> = each.collect();
                each.into_iter().map(|it| it.join().unwrap()).collect()
            });
            assert!(
                told.iter().any(Result::is_err),
                "round {round}, {spins:?}: nobody was told"
            );
        }
    }

    /// The sentence speaks of the other rank by its number, and of the one that says it as "this".
    #[test]
    fn a_rank_that_leaves_speaks_of_itself_as_this_one() {
        let both = Communicator::init_all(2, &CommConfig::default()).unwrap();
        both[0].broadcast(&mut [1_u32; 4], 0).unwrap();
        let error = both[1].destroy().unwrap_err().to_string();
        assert!(error.starts_with("kolo: rank 1: "), "{error}");
        assert!(error.contains(": rank 0 on "), "{error}");
        assert!(
            error.contains(", but this rank has let go of the communicator"),
            "{error}"
        );
    }

    /// A root's tokens may lie untaken for as long as another rank has no core.
    #[test]
    fn only_calls_that_others_have_not_made_and_messages_are_waited_for() {
        let comms = Communicator::init_all(2, &CommConfig::default()).unwrap();
        let behind = || [0, 1].map(|rank| someone_is_behind(&comms[rank].queue));
        std::thread::scope(|scope| {
            for comm in &comms {
                scope.spawn(|| comm.broadcast(&mut vec![comm.rank(); 1 << 16], 0).unwrap());
            }
        });
        assert_eq!(behind(), [false; 2]);
        // The root hands its data out and returns.
        comms[0].broadcast(&mut [1_u32; 4], 0).unwrap();
        assert_eq!(behind(), [true, false]);
        comms[1].broadcast(&mut [0_u32; 4], 0).unwrap();
        assert_eq!(behind(), [false; 2]);
        comms[0].send(&[7_u32; 4], 1).unwrap();
        assert_eq!(behind(), [true, false]);
        let mut found = [0_u32; 4];
        comms[1].recv(&mut found, 0).unwrap();
        assert_eq!((found, behind()), ([7; 4], [false; 2]));
        assert!(comms[0].queue.has_sent.load(Ordering::Relaxed));
        assert!(!comms[1].queue.has_sent.load(Ordering::Relaxed));
        let mut sum = [1_u32];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                comms[1]
                    .all_reduce_in_place(&mut [1_u32], RedOp::SUM)
                    .unwrap()
            });
            comms[0].all_reduce_in_place(&mut sum, RedOp::SUM).unwrap();
        });
        assert_eq!((sum, behind()), ([2], [false; 2]));
    }
}
