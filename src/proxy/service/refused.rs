//! Why a process has no service.

use crate::base::Error;
use std::io;

/// Remedy where a thread cannot be started.
pub const THREADS_SHORT: &str = "this process may not start another thread: raise the limit on \
    processes (`ulimit -u`, or pids.max of the job's control group) or ask for more memory";

pub(super) fn forked_error() -> Error {
    Error::usage(
        "this process was forked from one that already used kolo, and has neither kolo's thread \
         nor its shared memory",
        "create communicators after fork, or start the process by exec (posix_spawn, system, \
         Python's multiprocessing with the \"spawn\" method)",
    )
}

pub(super) fn start_error(source: &io::Error) -> Error {
    let remedy = match source.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => {
            "this process or machine has too many open files: raise the limit (`ulimit -n 65536` \
             in the job script)"
        }
        Some(libc::EAGAIN | libc::ENOMEM) => THREADS_SHORT,
        _ => "allow Unix sockets (AF_UNIX, SOCK_SEQPACKET) in the container's security profile",
    };
    Error::system("could not start kolo's service thread", source, remedy)
}
