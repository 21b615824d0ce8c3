//! Ranks that fork: the child neither keeps the sockets of its parent open nor shuts them down.

use super::processes::Process;
use super::support::*;
use kolo::base::Rank;
use kolo::bootstrap::{Bootstrap, TcpRing, UniqueId};

/// The process number of a child that lives for a minute, with whatever it inherited.
pub fn forked_sleeper() -> i32 {
    // SAFETY: the child only sleeps and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain system calls.
        unsafe {
            libc::sleep(60);
            libc::_exit(0);
        }
    }
    assert!(child > 0);
    child
}

/// A child that calls the ring of its parent and drops it, and has ended when this returns.
pub fn forked_use_of(member: &TcpRing) {
    // SAFETY: the child has a copy of the ring of its own, drops it once, and leaves by _exit. No
    // other thread of this process holds a lock of the ring.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        let refused = unsafe {
            let copy = std::ptr::read(member);
            let refused = copy
                .barrier()
                .is_err_and(|error| error.what.contains("forked"));
            drop(copy);
            refused
        };
        // SAFETY: leaves without destructors.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = -1;
    // SAFETY: `status` is a live integer; `child` is this process's child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child was not refused");
}

/// Ends a sleeper when the test does.
struct Sleeper(i32);

impl Sleeper {
    fn of(process: &mut Process) -> Sleeper {
        Sleeper(process.line("@child").parse().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // SAFETY: the sleeper of this test, which lives for longer than the test.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}

#[test]
fn a_killed_rank_is_noticed_while_its_child_lives() {
    within(60, || {
        let id = UniqueId::create(&settings()).unwrap();
        let mut victim = Process::start(&id, 1, 2, "fork");
        let own = start(id, 0, 2, settings()).join().unwrap().unwrap();
        check_exchange(&own);
        let _sleeper = Sleeper::of(&mut victim);
        victim.kill();
        let error = own.barrier().unwrap_err();
        assert_eq!(error.peer, Some(Rank(1)), "{error}");
    });
}

#[test]
fn a_killed_root_is_noticed_while_its_child_lives() {
    within(60, || {
        let port = Port::take(HERE);
        let id = UniqueId::create(&named(&port)).unwrap();
        let mut zero = Process::start(&id, 0, 3, "fork_early");
        let told = Told::default();
        let one = start(id, 1, 3, told.by(settings()));
        // The child has a copy of the port, and of the connection to each that has checked in.
        told.wait_for(1);
        zero.go_on();
        let _sleeper = Sleeper::of(&mut zero);
        zero.kill();
        let error = failure(one);
        assert!(error.what.contains("calls the roll"), "{error}");
        let address = id.address();
        let listens = std::net::TcpStream::connect(address).is_ok();
        assert!(!listens, "the child listens");
    });
}

#[test]
fn a_child_that_drops_the_ring_harms_nobody() {
    within(60, || {
        let id = UniqueId::create(&settings()).unwrap();
        let mut forker = Process::start(&id, 1, 2, "fork_drop");
        let own = start(id, 0, 2, settings()).join().unwrap().unwrap();
        check_exchange(&own);
        own.barrier().unwrap();
        forker.line("@passed");
    });
}
