//! The thread that is the hardware: it goes on with the tasks of all streams, and runs the machine.

use crate::state::State;
use kolo_kernels_host::State as Run;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Switches of the machine between two looks at the streams: some 20 microseconds.
const TURN: u64 = 500;
/// Looks in vain with only a yield between them, before the thread sleeps, and before it sleeps
/// again: a schedule may starve for long who could go on.
const LOOKS: u32 = 16;
const LOOKS_AGAIN: u32 = 4;
/// Kernels may wait for another process, which nothing tells of.
const SLEEP: Duration = Duration::from_micros(200);

/// Goes on for as long as the process lives.
pub fn run(state: &Mutex<State>, work: &Condvar, ended: &Condvar) {
    let mut state = state.lock();
    let mut vain = 0;
    let mut landed = 0;
    loop {
        let moved = state.go_on().unwrap_or_else(|failed| {
            state.fail(&failed);
            true
        });
        if moved {
            ended.notify_all();
            vain = 0;
        }
        if state.failed.is_some() {
            // Nothing runs any more.
            work.wait(&mut state);
            continue;
        }
        let run = match state.hardware.has_grids {
            true => state.hardware.machine.run_until_idle(TURN),
            false => Ok(Run::Over),
        };
        match run {
            Err(failure) => {
                state.fail(&failure.into());
                ended.notify_all();
            }
            Ok(Run::Running) => {
                let now = state.hardware.machine.counts().landed;
                if now != landed {
                    (vain, landed) = (0, now);
                }
                MutexGuard::bump(&mut state);
            }
            Ok(Run::Waiting) if vain < LOOKS => {
                vain += 1;
                MutexGuard::unlocked_fair(&mut state, std::thread::yield_now);
            }
            Ok(Run::Waiting) => {
                work.wait_for(&mut state, SLEEP);
                vain = LOOKS - LOOKS_AGAIN;
            }
            // What waited for these grids can begin.
            Ok(Run::Over) if state.hardware.has_grids => state.hardware.has_grids = false,
            Ok(Run::Over) if moved => MutexGuard::bump(&mut state),
            Ok(Run::Over) => work.wait(&mut state),
        }
    }
}
