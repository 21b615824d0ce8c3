//! A rank that is stopped, as by a debugger or a batch system that suspends the job, is not dead.

use super::processes::Process;
use super::support::*;
use kolo::bootstrap::{Bootstrap, UniqueId};

/// Longer than it takes to notice that a host is gone.
const STOPPED_MS: u64 = 36_000;

fn signal(process: &Process, number: i32) {
    // SAFETY: a child of this process that has not been waited for.
    assert_eq!(unsafe { libc::kill(process.child.id() as i32, number) }, 0);
}

/// More than the buffers of the system hold waits for the stopped rank.
#[test]
fn a_stopped_rank_may_go_on() {
    within(120, || {
        let id = UniqueId::create(&settings()).unwrap();
        let mut one = Process::start(&id, 1, 2, "large");
        let own = start(id, 0, 2, settings()).join().unwrap().unwrap();
        check_exchange(&own);
        one.line("@ready");
        signal(&one, libc::SIGSTOP);
        let waiting = std::thread::spawn(move || {
            let all = own.all_gather(&large(0));
            all.map(|all| assert!(all[0] == large(0) && all[1] == large(1)))
        });
        pause(STOPPED_MS);
        signal(&one, libc::SIGCONT);
        waiting.join().unwrap().unwrap();
        one.line("@passed");
    });
}

/// Contribution of a rank: 32 MiB of its own.
pub fn large(rank: u32) -> Vec<u8> {
    (0..32 << 20_u32)
        .map(|at| (at * 7 + rank * 101) as u8)
        .collect()
}
