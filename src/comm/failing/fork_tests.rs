//! A forked child has copies of the locks that threads of its parent held, and none of the threads.

use crate::base::alone::alone as in_a_process;
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
#[ignore = "the body of a test that needs a process of its own"]
fn alone_counts_and_forks() {
    let config = CommConfig {
        overrides: vec![("report".into(), "1".into())],
        ..CommConfig::default()
    };
    let comms = Communicator::init_all(1, &config).unwrap();
    comms[0].barrier().unwrap();
    // SAFETY: the child ends at once; its exit handlers are what is tested.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends this process.
        unsafe { libc::exit(0) };
    }
    let mut status = -1;
    // SAFETY: `status` is a live integer; `child` is this process's child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}

#[test]
fn a_child_that_ends_does_not_write_the_table_of_its_parent() {
    let text = in_a_process("comm::failing::fork_tests::alone_counts_and_forks", &[]);
    let tables = text.matches("kolo report: the process of rank 0").count();
    assert_eq!(tables, 1, "{text}");
}

#[test]
fn a_driver_of_the_parent_is_not_waited_for() {
    let comm = alone();
    let driver = comm.queue.exec.driver().expect("nobody else is there");
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
    let watch = comm.queue.watch.lock().unwrap();
    destroyed_in_a_child(comm.clone());
    drop(watch);
    comm.barrier().unwrap();
}
