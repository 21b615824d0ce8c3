//! Initialisations of one group, which go on side by side, for they may wait for each other.

use crate::base::{Error, Result, turns};
use crate::comm::calling::tally;
use crate::proxy::service;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;

/// An initialisation that waits for the end of the group.
pub type Init = Box<dyn FnOnce() -> Result<()> + Send>;

/// Runs the initialisations of a group; those of one parent one after the other, in order.
///
/// # Errors
/// The first one of them; `SystemError` without threads enough.
pub(in crate::comm) fn run(inits: Vec<(Option<usize>, Init)>) -> Result<()> {
    let mut queues: Vec<(Option<usize>, Vec<Init>)> = Vec::new();
    for (parent, init) in inits {
        let same = queues
            .iter_mut()
            .find(|(known, _)| parent.is_some() && *known == parent);
        match same {
            Some((_, queue)) => queue.push(init),
            None => queues.push((parent, vec![init])),
        }
    }
    let queues = queues.into_iter().map(|(_, queue)| queue).collect();
    run_side_by_side(queues, |work| std::thread::Builder::new().spawn(work))
}

/// Runs queues of initialisations, each in a thread that `start` starts: all of them, or none where
/// there are not threads enough, for those of one group may wait for each other.
fn run_side_by_side(
    queues: Vec<Vec<Init>>,
    mut start: impl FnMut(Init) -> io::Result<JoinHandle<Result<()>>>,
) -> Result<()> {
    let count = queues.len();
    let may_run = Arc::new(RwLock::new(false));
    let mut closed = may_run.write().unwrap_or_else(PoisonError::into_inner);
    let mut threads = Vec::with_capacity(count);
    let mut first = Ok(());
    for queue in queues {
        let gate = Arc::clone(&may_run);
        let work = move || {
            turns::none_here();
            tally::counts_elsewhere();
            let mut first = Ok(());
            if *gate.read().unwrap_or_else(PoisonError::into_inner) {
                // All of them run, for the other ranks count on it; the first error counts.
                for init in queue {
                    first = first.and(init());
                }
            }
            first
        };
        match start(Box::new(work)) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                let what = format!("could not start {count} threads, in which communicators begin");
                first = Err(Error::system(what, &error, service::THREADS_SHORT));
                break;
            }
        }
    }
    *closed = first.is_ok();
    drop(closed);
    for thread in threads {
        let result = turns::join(thread)
            .unwrap_or_else(|_| Err(Error::internal("initialising a communicator panicked")));
        first = first.and(result);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn without_threads_for_all_no_initialisation_begins() {
        for limit in [0, 1, 3, 4] {
            let ran = Arc::new(AtomicU32::new(0));
            let queue = |number: u32| -> Vec<Init> {
                let ran = Arc::clone(&ran);
                vec![Box::new(move || {
                    ran.fetch_add(1 << (8 * number), Ordering::Relaxed);
                    Ok(())
                })]
            };
            let mut started = 0;
            let ended = run_side_by_side((0..4).map(queue).collect(), |work| {
                started += 1;
                match started > limit {
                    true => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
                    false => std::thread::Builder::new().spawn(work),
                }
            });
            let all = ran.load(Ordering::Relaxed);
            match limit {
                4 => assert_eq!((ended, all), (Ok(()), 0x0101_0101)),
                _ => {
                    let error = ended.unwrap_err();
                    assert!(error.what.contains("4 threads"), "{error}");
                    assert!(error.remedy.contains("ulimit -u"), "{error}");
                    assert_eq!(all, 0, "{limit} threads");
                }
            }
        }
    }
}
