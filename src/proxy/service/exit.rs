//! Last duties of a process that exits: it tells the others, and where its ranks have left, others
//! may need it all the same.

use super::super::patience::{BYE_LIMIT, END_LATE, EXIT_LOCK_LIMIT, lock_at_exit};
use super::super::state::{EndStep, OnEnd, State, exits, posts, proxied};
use super::super::stopped::{STOPPED_LIMIT, Stopped};
use super::Service;
use super::start::SERVICE;
use crate::base::turns;
use crate::base::{Rank, caught, clock};
use crate::transport::segment::Nonce;
use std::sync::{MutexGuard, Once};
use std::time::Duration;

// SAFETY: the declaration is that of glibc, the C library of all systems that kolo is built for.
unsafe extern "C" {
    /// As `atexit`, and tells the status.
    #[link_name = "on_exit"]
    fn libc_on_exit(
        function: extern "C" fn(libc::c_int, *mut libc::c_void),
        argument: *mut libc::c_void,
    ) -> libc::c_int;
}

/// How long the exit of a process waits at most until nothing is in flight, whatever the number of
/// its communicators.
const NOTE_LIMIT: Duration = Duration::from_millis(750);
/// How long it waits in all, also until other nodes have what was sent and know of the end.
const END_LIMIT: Duration = Duration::from_secs(1);
const PART_PAUSE: Duration = Duration::from_micros(100);
/// Between two looks whether the process may exit.
const EXIT_PAUSE: Duration = Duration::from_millis(1);

/// Has the exit of this process look after those whose ranks have left before others. Registered
/// after the network was opened, so it runs before what a plugin has registered.
pub(super) fn heed() {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(register);
}

/// Has the exit of this process told to those who watch it.
pub(super) fn tell() {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(register);
}

fn register() {
    // SAFETY: `on_exit` is a function for the whole life of the process that never unwinds. A
    // refusal only makes an early exit an error for those who need this process.
    unsafe { libc_on_exit(on_exit, std::ptr::null_mut()) };
}

/// Runs when the process exits, perhaps twice. With status 0 a rank that has nothing in flight
/// leaves its communicators so, and what ranks still send for others goes on until those have left
/// too. A process that ends for a failure does not wait. Lookouts say goodbye in any case.
extern "C" fn on_exit(status: libc::c_int, _: *mut libc::c_void) {
    if let Some(service) = SERVICE.get()
        && service.pid == std::process::id()
    {
        turns::none_here();
        if status == 0 {
            end(service);
        }
        // Who waits for this process in the same way need not.
        if let Some(state) = lock(service) {
            exits::announce_exit(&state, status);
        }
        if status == 0 {
            await_senders(service);
        }
        let staying = lock(service).map(|state| posts::staying(&state));
        let (start, pid) = (clock::now(), service.pid);
        for last in staying.iter().flatten() {
            let text = format!(
                "process {pid} on {} ended without koloCommDestroy",
                last.node
            );
            let left = start.left(BYE_LIMIT);
            last.keeper.exit(&last.behind, &text, left);
        }
    }
}

/// State of the service, unless whoever has it does not let go.
fn lock(service: &Service) -> Option<MutexGuard<'_, State>> {
    lock_at_exit(&service.state, EXIT_LOCK_LIMIT)
}

/// Takes a step of the end for all communicators side by side, until `is_over`: one that cannot
/// take it does not keep the others from theirs, nor does the exit wait for each anew.
fn go_through(step: EndStep, ending: &[OnEnd], is_over: impl Fn() -> bool) {
    let mut left: Vec<&OnEnd> = ending.iter().collect();
    loop {
        let is_last = is_over();
        // Without it the end is a death to the others, as ends for a failure are.
        left.retain(|on_end| !caught(|| on_end(step, is_last)).unwrap_or(true));
        if left.is_empty() || is_last {
            return;
        }
        turns::sleep(PART_PAUSE);
    }
}

/// Where the last rank of this process has left a communicator, waits until those who stayed
/// for it have said goodbye, so that nothing is left of it.
pub fn see_off(service: &Service, nonce: Nonce) {
    if service.is_own_thread() {
        return;
    }
    let (start, mut waited) = (clock::now(), false);
    // The lookouts themselves keep the limit; this one only bears a stuck one.
    while !start.past(BYE_LIMIT * 2) {
        let parting = posts::parting(&service.lock(), nonce);
        if parting.is_empty() {
            break;
        }
        waited = true;
        parting.iter().for_each(|keeper| keeper.go_on());
        turns::sleep(PART_PAUSE);
    }
    if waited {
        service.await_turn();
    }
}

/// Has the ranks of this process leave that have nothing in flight.
fn end(service: &Service) {
    let ending = lock(service).map(|state| exits::ending(&state));
    let ending = ending.unwrap_or_default();
    let start = clock::now();
    for (step, limit) in [(EndStep::Note, NOTE_LIMIT), (EndStep::Tell, END_LIMIT)] {
        go_through(step, &ending, || start.past(limit));
    }
}

fn await_senders(service: &Service) {
    let (start, mut warned) = (clock::now(), false);
    let mut stopped = Stopped::new(STOPPED_LIMIT);
    loop {
        // Who cannot be asked may have somebody: it is asked again.
        let Some(left_open) = lock(service).map(|state| proxied::left_open(&state)) else {
            if start.past(END_LATE) {
                tracing::warn!(
                    "kolo: this process exits without knowing whether others still send through \
                     it (setting pxn), as its service thread does not let go: what they have sent \
                     may be lost; let all ranks call koloCommDestroy before any exits",
                );
                return;
            }
            continue;
        };
        let (open, pids): (Vec<Rank>, Vec<u32>) = left_open.into_iter().unzip();
        if open.is_empty() {
            return;
        }
        let names: Vec<String> = open.iter().map(Rank::to_string).collect();
        let names = names.join(", ");
        if stopped.for_too_long(&pids) {
            tracing::warn!(
                "kolo: this process exits though ranks {names} still send through it (setting \
                 pxn): their processes are stopped, by a signal or a debugger, and what they \
                 have sent may be lost",
            );
            return;
        }
        if !warned && start.past(END_LATE) {
            warned = true;
            tracing::warn!(
                "kolo: the exit of this process waits for ranks {names}, which send through it \
                 (setting pxn): let them call koloCommDestroy, too, or end",
            );
        }
        turns::sleep(EXIT_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The bound is one for all: none is waited for alone.
    #[test]
    fn communicators_end_side_by_side() {
        let calls: Arc<Mutex<Vec<(usize, bool)>>> = Arc::default();
        // How many looks each one takes; two never get there, and one panics.
        let ending =
            [0, u32::MAX, 3, 1, u32::MAX].map(|needs| (needs, Arc::new(AtomicU32::new(0))));
        let on_end = |(at, (needs, looks)): (usize, (u32, Arc<AtomicU32>))| -> OnEnd {
            let calls = Arc::clone(&calls);
            Arc::new(move |step, is_last| {
                assert_eq!(step, EndStep::Tell);
                calls.lock().unwrap().push((at, is_last));
                assert_ne!(at, 3, "a fault");
                looks.fetch_add(1, Ordering::Relaxed) >= needs
            })
        };
        let ending: Vec<OnEnd> = ending.into_iter().enumerate().map(on_end).collect();
        let rounds = AtomicU32::new(0);
        go_through(EndStep::Tell, &ending, || {
            rounds.fetch_add(1, Ordering::Relaxed) >= 5
        });
        let calls = std::mem::take(&mut *calls.lock().unwrap());
        let expected = [
            &[0, 1, 2, 3, 4][..],
            &[1, 2, 4],
            &[1, 2, 4],
            &[1, 2, 4],
            &[1, 4],
            &[1, 4],
        ];
        let all = expected.iter().zip(0..);
        let expected: Vec<_> = all
            .flat_map(|(them, round)| them.iter().map(move |&at| (at, round == 5)))
            .collect();
        assert_eq!(calls, expected);
    }
}
