//! A descriptor by which one thread of a process ends the sleep of others.

use super::net;
use crate::base::fork::Fd;
use crate::base::{Error, Result};
use std::os::fd::AsRawFd;

/// It can be read once it has rung, for as long as it is there.
#[derive(Debug)]
pub(super) struct StartBell(Fd);

impl StartBell {
    /// One that has not rung.
    ///
    /// # Errors
    /// `SystemError` without a descriptor.
    pub fn new() -> Result<StartBell> {
        // SAFETY: eventfd takes two numbers and returns a new descriptor or -1.
        let bell = unsafe { Fd::from_result(libc::eventfd(0, libc::EFD_CLOEXEC)) };
        bell.map(StartBell).map_err(|error| {
            let remedy = "raise the limit on open files (`ulimit -n 65536` in the job script)";
            Error::system("cannot join the ranks of this process", &error, remedy)
        })
    }

    /// Ends the sleep of all who watch it, now and later.
    pub fn ring(&self) {
        // SAFETY: the descriptor is an eventfd. The call fails only when its counter is full, and
        // then it has been rung.
        unsafe { libc::eventfd_write(self.0.as_raw_fd(), 1) };
    }

    /// The entry for a poll set.
    pub fn watch(&self) -> libc::pollfd {
        net::watch(&self.0, false)
    }
}
