//! Letting others in, and telling them when there is no descriptor left to do so.
//!
//! **Problem.** A process without a free descriptor cannot accept, not even to say so: whoever
//! wants in would wait without knowing for what, and with it all ranks of its communicator.
//!
//! **Idea.** The service holds one descriptor in reserve. It is given up for the moment in which
//! somebody is let in, told, and shown out again; the connection's own number then becomes the
//! reserve, so that nobody can come between. Between giving up and accepting another thread may
//! take the number: then the service rests, and has a reserve again when there is one.

use super::super::frame::{Frame, ServiceKind};
use super::super::socket;
use super::super::state::State;
use super::{Service, like};
use crate::base::clock;
use crate::base::shortage::{self, is_shortage};
use std::io;
use std::os::fd::AsRawFd;

/// How many connections are accepted before the links get their turn.
const ACCEPT_COUNT: usize = 64;

/// Lets in who waits at the listener.
pub(super) fn accept(service: &Service, state: &mut State) {
    if state.spare.is_none() {
        state.spare = like(&service.bell).ok();
    }
    for _ in 0..ACCEPT_COUNT {
        let error = match socket::accept(&service.listener) {
            Ok(fd) => {
                state.accepted(fd);
                continue;
            }
            Err(error) => error,
        };
        let more = match error.raw_os_error() {
            // Another user, or one who left again: the next, please.
            None | Some(libc::ECONNABORTED | libc::EINTR) => true,
            Some(libc::EAGAIN) => return,
            _ => is_shortage(&error) && show_out(service, state, &error),
        };
        if !more {
            // The listener stays readable, so polling it now would spin.
            state.accept_paused = Some(clock::now());
            return;
        }
    }
}

/// Tells the next one who wants in that there is no room; false where that was not possible,
/// or nobody was there.
#[cold]
fn show_out(service: &Service, state: &mut State, why: &io::Error) -> bool {
    if state.spare.take().is_none() {
        shortage::tell(why);
        return false;
    }
    let guest = socket::accept(&service.listener);
    let Ok(guest) = guest else {
        state.spare = like(&service.bell).ok();
        return guest.is_err_and(|error| error.raw_os_error().is_none());
    };
    shortage::tell(why);
    let mut frame = Frame::new(ServiceKind::NoRoom, 0, 0);
    // 0 says that it is another shortage than that of this process's descriptors.
    frame.slots = match why.raw_os_error() {
        Some(libc::EMFILE) => shortage::limit(),
        _ => 0,
    };
    // Who has left meanwhile need not hear it.
    let _ = socket::send(&guest, &frame, None);
    // SAFETY: both are open descriptors of this service. The old meaning of the second, the
    // connection, ends here, and its owner goes on to own the new one.
    let kept =
        unsafe { libc::dup3(service.bell.as_raw_fd(), guest.as_raw_fd(), libc::O_CLOEXEC) >= 0 };
    state.spare = kept.then_some(guest);
    true
}
