//! A forked child has copies of the locks that threads of its parent held, and none of the threads.

use crate::comm::{CommConfig, Communicator};
use crate::proxy::progress::Engine;

/// Seconds after which a child that hangs is ended by a signal.
const PATIENCE: u32 = 20;

/// Destroys and drops a communicator in a forked child, which has ended when this returns.
fn destroyed_in_a_child(comm: Communicator) {
    // SAFETY: the child uses what is its own copy, and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: ends this process, which a test waits for, if it hangs.
        unsafe { libc::alarm(PATIENCE) };
        let is_well = comm.destroy().is_ok() && comm.destroy().is_ok();
        drop(comm);
        // SAFETY: leaves without running destructors or exit handlers.
        unsafe { libc::_exit(i32::from(!is_well)) };
    }
    let mut status = -1;
    // SAFETY: `status` is a live integer; `child` is this process's child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child hung, or was refused");
}

fn alone() -> Communicator {
    let comms = Communicator::init_all(1, &CommConfig::default()).unwrap();
    comms.into_iter().next().unwrap()
}

#[test]
fn a_driver_of_the_parent_is_not_waited_for() {
    let comm = alone();
    let driver = comm.inner.exec.driver().expect("nobody else is there");
    destroyed_in_a_child(comm.clone());
    drop(driver);
    comm.barrier().unwrap();
}

#[test]
fn the_list_of_work_in_flight_is_not_locked() {
    let comm = alone();
    let list = Engine::global().list();
    destroyed_in_a_child(comm.clone());
    drop(list);
    comm.barrier().unwrap();
}

#[test]
fn the_lock_of_the_watch_is_not_taken() {
    let comm = alone();
    let watch = comm.inner.watch.lock().unwrap();
    destroyed_in_a_child(comm.clone());
    drop(watch);
    comm.barrier().unwrap();
}
