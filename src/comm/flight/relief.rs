//! Memory of slots is given back where the process has more than its bound
//! ([`crate::transport::slots`]).

use crate::base::own_thread;
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::transport::slots::{self, Holder};
use crate::wire::ports::Ports;
use std::sync::{Arc, Weak};
use std::thread::Builder;

impl Holder for Queue {
    fn while_idle(&self, see: &mut dyn FnMut(&mut Ports)) {
        // After a stop somebody who is late may still be reading.
        if self.is_stopped() {
            return;
        }
        // As a visitor: a call of the user that comes now waits, and is no mistake, also where an
        // operation of the program makes it.
        if let Some(mut exec) = self.exec.visitor()
            && exec.in_flight.is_empty()
        {
            see(exec.engine.ports());
        }
    }

    fn let_go(self: Arc<Self>) {
        let Some(last) = Arc::into_inner(self) else {
            return;
        };
        // Where there is no thread for it, its end comes here after all.
        let builder = Builder::new().name("kolo end".into());
        let _ = own_thread::start(builder, move || drop(last));
    }
}

/// Other communicators may have its connections give memory back while nothing is in flight.
pub(in crate::comm) fn show(queue: &Arc<Queue>) {
    let holder: Weak<Queue> = Arc::downgrade(queue);
    slots::show(holder);
}

/// Before a call while nothing is in flight: gives memory back where there is too much.
#[inline]
pub(in crate::comm) fn relieve(queue: &Queue, exec: &mut Exec) {
    if slots::is_short() {
        relieve_now(queue, exec);
    }
}

#[cold]
fn relieve_now(queue: &Queue, exec: &mut Exec) {
    let of_rank = queue.settings.slot_memory() as usize;
    slots::relieve(of_rank, Some(exec.engine.ports()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::{CommConfig, Communicator, RedOp};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, mpsc};
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    /// Says on which thread it ends.
    struct EndsOn(mpsc::Sender<ThreadId>);

    impl Drop for EndsOn {
        fn drop(&mut self) {
            let _ = self.0.send(thread::current().id());
        }
    }

    #[test]
    fn a_communicator_that_was_looked_at_does_not_end_in_the_call_of_another() {
        let (tell, told) = mpsc::channel();
        for is_last in [false, true] {
            let mut comms = Communicator::init_all(1, &CommConfig::default()).unwrap();
            let comm = comms.remove(0);
            let ends = EndsOn(tell.clone());
            let sum = move |_: &[i64], _: &mut [i64]| {
                let _ = &ends;
            };
            comm.user_op(true, sum).unwrap();
            let looked_at = Arc::clone(&comm.queue);
            let kept = (!is_last).then_some(comm);
            looked_at.let_go();
            match kept {
                Some(comm) => {
                    assert!(told.try_recv().is_err(), "its user still has it");
                    drop(comm);
                    assert_eq!(told.recv().unwrap(), thread::current().id());
                }
                None => {
                    let ended = told.recv_timeout(Duration::from_secs(60)).unwrap();
                    assert_ne!(ended, thread::current().id());
                }
            }
        }
    }

    /// The other communicator gives back when the operation calls: that is no mistake of the
    /// program.
    #[test]
    fn an_operation_may_use_a_communicator_that_gives_back() {
        let comms = Communicator::init_all(2, &CommConfig::default()).unwrap();
        let alone = Communicator::init_all(1, &CommConfig::default()).unwrap();
        let (is_held, has_begun) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
        let outcome = Arc::new(Mutex::new(None));
        let queue = Arc::clone(&alone[0].queue);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                queue.while_idle(&mut |_| {
                    is_held.store(true, Ordering::Release);
                    while !has_begun.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    std::thread::sleep(Duration::from_millis(20));
                });
            });
            while !is_held.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            for comm in &comms {
                let (other, begun) = (alone[0].clone(), Arc::clone(&has_begun));
                let (outcome, rank) = (Arc::clone(&outcome), comm.rank());
                scope.spawn(move || {
                    let sum = move |one: &[i64], two: &mut [i64]| {
                        if rank == 0 {
                            begun.store(true, Ordering::Release);
                            let called = other.all_reduce_in_place(&mut [1_i64], RedOp::SUM);
                            *outcome.lock().unwrap() = Some(called);
                        }
                        two.iter_mut().zip(one).for_each(|(to, from)| *to += from);
                    };
                    let op = comm.user_op(true, sum).unwrap();
                    let mut data = [1_i64];
                    comm.all_reduce_in_place(&mut data, op).unwrap();
                    assert_eq!(data, [2]);
                });
            }
        });
        let called = outcome.lock().unwrap().take().expect("rank 0 has folded");
        called.expect("no mistake");
        assert!(alone[0].async_error().is_ok());
    }
}
