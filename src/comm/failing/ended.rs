//! Ranks whose process has ended with status 0 without `CommDestroy`, and nothing of them in
//! flight: they have *ended*. That is no error by itself. A call that needs such a rank fails.
//!
//! **Problem.** A program that has done its work may end without a word to kolo, and the others may
//! still work without it. But whoever counts on it must not wait for ever, and a process that
//! breaks off in the middle of something is a death.
//!
//! **Idea.** As the process exits, it asks each communicator whether anything is in flight, and
//! notes the end on the rank's board ([`crate::wire::board`]), which lookouts tell other nodes.
//! The end of its socket is no death then ([`super::deaths`]). Whoever waits for a rank looks at
//! its board: where nothing has come for [`GRACE`] since the end was seen, the call fails. (Behind
//! the note, exit handlers of the program may still make calls, and from another node data may come
//! later than the news.)

use super::still_there::{grace, needed};
use crate::base::{Error, Rank};
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::exec::CommDevice;
use crate::proxy::progress::Pass;
use crate::proxy::service::{Alarm, EndStep};

/// Passes over the network between two looks at the kernels, and in one look of an exit.
const PASSES: u32 = 256;

/// Whether anything of a rank is in flight, at a look of its exit.
enum LeftToDo {
    Nothing,
    /// Only what the network has yet to take.
    OnItsWay,
    /// A call, or what others send through it.
    Inside,
    /// Nobody can tell: another thread is inside, with a look at what is under way or with a call,
    /// or this very one is.
    Unseen,
}

/// The process of this rank exits with status 0: the rank leaves so, if nothing is in flight.
/// Goes on with a step, and says whether it is done.
pub(super) fn end(queue: &Queue, step: EndStep, is_last: bool) -> bool {
    let board = queue.node.board(queue.rank as usize);
    if board.has_left() || queue.is_stopped() {
        return true;
    }
    match (step, board.has_ended()) {
        (EndStep::Note, false) => match left_to_do(queue) {
            LeftToDo::Nothing => {
                board.end();
                queue.node.wake_others();
                true
            }
            LeftToDo::OnItsWay | LeftToDo::Unseen => false,
            LeftToDo::Inside => true,
        },
        (EndStep::Tell, true) => queue.network.as_ref().is_none_or(|it| it.end(is_last)),
        _ => true,
    }
}

/// One look at what is in flight.
fn left_to_do(queue: &Queue) -> LeftToDo {
    let Some(mut exec) = queue.exec.driver() else {
        return LeftToDo::Unseen;
    };
    let device = exec.device.as_deref_mut();
    let is_quiet = device.is_none_or(|on| matches!(on.engine.is_quiet(), Ok(true)));
    if !exec.in_flight.is_empty() || !is_quiet {
        return LeftToDo::Inside;
    }
    let Some(network) = &queue.network else {
        return LeftToDo::Nothing;
    };
    let moves = |_: &u32| network.links.is_busy() && network.links.pass() == Pass::Moved;
    (0..PASSES).take_while(moves).for_each(drop);
    match () {
        () if network.links.is_busy() => LeftToDo::OnItsWay,
        // Others count on this process for what they send.
        () if network.sends_for_others() => LeftToDo::Inside,
        () => LeftToDo::Nothing,
    }
}

/// There are no processes of these ranks any more, which have ended.
pub(super) fn have_vanished(queue: &Queue, ranks: &[Rank]) {
    let boards = ranks.iter().map(|rank| queue.node.board(rank.index()));
    boards.for_each(|board| board.vanish());
    queue.node.wake_others();
    if ranks.iter().any(|rank| queue.is_mate(rank.0)) {
        // The other nodes hear what this one knows.
        queue.alarm(Alarm::Ask);
    }
    // Whoever is inside waits, and looks.
    if queue.device != CommDevice::Host
        && let Some(mut exec) = queue.exec.driver()
        && let Some(error) = kernels_wait(queue, &mut exec)
    {
        queue.fail(&mut exec, error);
    }
}

/// That calls of the device are under way which a rank has not begun that has ended, or
/// messages with it: their kernels leave when the communicator stops.
pub(in crate::comm) fn kernels_wait(queue: &Queue, exec: &mut Exec) -> Option<Error> {
    let calls = exec.counts.calls;
    let ended = |rank: &u32| *rank != queue.rank && queue.node.board(*rank as usize).has_ended();
    let ended = || (0..queue.nranks).filter(ended);
    ended().next()?;
    let device = exec.device.as_deref_mut()?;
    if !matches!(device.engine.is_quiet(), Ok(false)) {
        return None;
    }
    let is_behind = |rank: &u32| queue.node.board(*rank as usize).calls() < calls;
    let mut has_stalled = |rank: &u32| match device.engine.waits_for(*rank) {
        Ok(Some(count)) => {
            let since = device.stalled.since(*rank, count);
            let grace = grace(queue, *rank);
            grace.is_zero() || since.is_some_and(|since| since.past(grace))
        }
        _ => false,
    };
    let missing = ended().find(is_behind);
    let rank = missing.or_else(|| ended().find(|rank| has_stalled(rank)))?;
    Some(needed(
        queue,
        "a call on a stream of the device",
        rank as usize,
    ))
}

/// An end, for whoever passes again and again: looks only now and then.
pub(in crate::comm) fn kernels_wait_by_now(queue: &Queue, exec: &mut Exec) -> Option<Error> {
    let device = exec.device.as_deref_mut()?;
    device.passes = device.passes.wrapping_add(1);
    match device.passes.is_multiple_of(PASSES) {
        true => kernels_wait(queue, exec),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::base::{Result, clock};
    use crate::bootstrap::ThreadsBootstrap;
    use crate::comm::RawCalls;
    use crate::comm::{Call, Collective, CommConfig, Communicator, RedOp, Stream};
    use crate::dtype::DataType;
    use crate::proxy::service::EndStep;
    use std::time::Duration;

    /// Two ranks, each on a node of its own.
    fn apart() -> Vec<Communicator> {
        let members = ThreadsBootstrap::group(2).into_iter().enumerate();
        std::thread::scope(|scope| {
            let join = |(rank, member): (usize, ThreadsBootstrap)| {
                scope.spawn(move || {
                    let words = [
                        ("hostid", format!("node{rank}")),
                        ("socket_ifname", "=lo".into()),
                    ];
                    let overrides = words.map(|(name, value)| (name.to_string(), value));
                    let config = CommConfig {
                        overrides: overrides.to_vec(),
                        ..CommConfig::default()
                    };
                    Communicator::init_bootstrap(Box::new(member), &config)
                })
            };
            let joining: Vec<_> = members.map(join).collect();
            let joined = joining.into_iter().map(|it| it.join().expect("no panic"));
            joined.collect::<Result<_>>().expect("communicators")
        })
    }

    /// Whoever is inside may be there for a moment only: the exit looks again.
    #[test]
    fn an_exit_looks_again_while_a_thread_is_inside() {
        let comms = Communicator::init_all(1, &CommConfig::default()).unwrap();
        let (queue, looks) = (&comms[0].queue, |is_last| {
            super::end(&comms[0].queue, EndStep::Note, is_last)
        });
        let inside = queue.exec.driver().expect("nobody is inside");
        assert!(!looks(false) && !looks(true));
        assert!(
            !queue.node.board(0).has_ended(),
            "nobody knows what is in flight"
        );
        drop(inside);
        assert!(looks(false) && queue.node.board(0).has_ended());
    }

    /// Nothing but the news comes: no connection ends, and nobody waits in a call.
    #[test]
    fn whoever_only_asks_hears_of_an_end_elsewhere() {
        let comms = apart();
        let mut byte = [0_u8];
        let call = Call {
            collective: Collective::Recv,
            send: std::ptr::null(),
            recv: byte.as_mut_ptr(),
            count: 1,
            dtype: DataType::Uint8,
            op: RedOp::SUM,
            peer: 1,
        };
        let stream = Stream::for_one_call().unwrap();
        // SAFETY: the byte stays until the call has ended.
        unsafe { comms[0].enqueue(&call, Some(&stream)) }.unwrap();
        assert_eq!(stream.query(), Ok(false));
        // As the lookout of this node writes it down.
        comms[0].queue.node.board(1).end();
        let start = clock::now();
        let error = loop {
            match stream.query() {
                Ok(is_over) => assert!(!is_over && !start.past(Duration::from_secs(20))),
                Err(error) => break error.to_string(),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(
            error.contains("rank 1 on ") && error.contains("has ended"),
            "{error}"
        );
    }
}
