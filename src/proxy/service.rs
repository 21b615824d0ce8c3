//! The service: one thread per process that serves and watches the machine's other processes.
//!
//! **Problem.** Local ranks must hand memory to each other and notice each other's death, while
//! their own threads compute, sleep in system calls, or wait inside kolo.
//!
//! **Idea.** A thread named "kolo service" sleeps in poll(2) on a listening socket and on one
//! socket per other process with which this one shares a communicator. The kernel closes a dying
//! process's sockets whatever killed it, so the end of a link *is* the death of that process,
//! and it is noticed at once. A rank that leaves in good order says goodbye first.
//!
//! **Cost.** Made on first use and kept until the process ends: one sleeping thread without any
//! periodic work, three descriptors, and one per linked process. Keeping it makes its address a
//! stable identity of the process and leaves no races between an ending and a beginning service.
//!
//! **Trust.** A connection from another user is closed at once. A connection that does not name
//! a communicator of this process by its 128-bit nonce, or a published segment by its key, within
//! five seconds, is closed as well; so is one that sends anything else. None of this is visible to
//! the communicators.
//!
//! **Fork.** A forked child has neither the thread nor (see `transport::fork`) the sockets; there
//! [`get`] returns an error, and dropping what was inherited does nothing.

mod deaths;
mod exit;
mod refused;
mod spare;
mod start;
#[cfg(test)]
mod tests;
mod thread;
mod through;
mod watch;

pub use exit::see_off;
pub use refused::THREADS_SHORT;
pub use start::get;
pub use through::{Caller, Elsewhere};
pub use watch::Watch;

use super::attended::{self, Attended};
use super::frame::{Frame, ServiceKind};
pub use super::patience::Until;
use super::patience::{LATE, Late, no_room, persist};
pub use super::socket::Address;
use super::socket::{self, Received};
pub use super::state::{Alarm, EndStep, Maker, OnAlarm, OnDeath, OnEnd, Peer, ProxyRank, Staying};
use super::state::{Offer, State, posts};
use crate::base::{descriptors, turns};
use crate::transport::fork::Fd;
use crate::transport::segment::{Key, Nonce};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// The service of this process.
pub struct Service {
    address: Address,
    /// The process that made it.
    pid: u32,
    listener: Fd,
    /// An eventfd: makes the thread look at the state again.
    bell: Fd,
    state: Mutex<State>,
    attended: attended::List,
    /// Signalled after every turn of the thread.
    answers: Condvar,
    thread: OnceLock<libc::pthread_t>,
}

/// A descriptor to hold in reserve: one more of the same.
pub(super) fn like(bell: &Fd) -> io::Result<Fd> {
    Fd::new(descriptors::another(bell.as_raw_fd())?)
}

impl Service {
    fn create() -> io::Result<Arc<Service>> {
        let address = Address::random()?;
        let listener = socket::listen(&address)?;
        // SAFETY: plain system call; a new descriptor has no other owner.
        let bell =
            unsafe { Fd::from_result(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }?;
        let mut state = State::default();
        state.spare = Some(like(&bell)?);
        Ok(Arc::new(Service {
            address,
            pid: std::process::id(),
            listener,
            state: Mutex::new(state),
            bell,
            attended: attended::List::default(),
            answers: Condvar::new(),
            thread: OnceLock::new(),
        }))
    }

    /// Its thread, which lives as long as the process, for whoever decides where it runs.
    pub fn thread(&self) -> Option<libc::pthread_t> {
        self.thread.get().copied()
    }

    /// Where it listens, which also tells processes apart.
    pub fn address(&self) -> Address {
        self.address
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state's methods do not panic half-way; a lost callback is no reason to stop.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the thread look at the state again.
    fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: eight readable bytes. It fails only when the counter is full, and then the
        // thread is about to wake anyway.
        unsafe { libc::write(self.bell.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Lets other processes fetch `fd` by its key until the result is dropped.
    pub fn publish(&'static self, key: Key, fd: Arc<Fd>) -> Published {
        self.lock().publish(key, Offer::There(fd));
        Published { service: self, key }
    }

    /// Lets other processes fetch memory that is made, on a thread of its own, when somebody asks
    /// for it. An asker is refused if the maker has no answer.
    pub fn promise(&'static self, key: Key, maker: Maker) -> Published {
        self.lock().publish(key, Offer::Promised(maker));
        Published { service: self, key }
    }

    /// Fetches the memory that the service at `from` has published under `key`.
    ///
    /// Ends with an error when that process has ended (`ConnectionRefused`: nobody listens there,
    /// at least not in this network namespace) or does not want to (`ConnectionReset`). Waits for
    /// one that is only stopped, with a warning each minute.
    pub fn fetch(&self, from: &Address, key: Key) -> io::Result<Fd> {
        self.fetch_until(from, key, Until::default())
    }

    /// Fetches it as [`Service::fetch`] does, but not beyond `until`: then it fails with
    /// `TimedOut`, or with `ConnectionAborted` for a start that was called off.
    pub fn fetch_until(&self, from: &Address, key: Key, until: Until) -> io::Result<Fd> {
        let mut late = Late::new("makes a communicator with this one", until);
        let operation = self.lock().number();
        let request = Frame::new(ServiceKind::GetFd, operation, key.0);
        persist(&mut late, |late| {
            let fd = socket::connect(from)?;
            let sent = socket::send(&fd, &request, None);
            while sent.is_ok() && !socket::wait_readable(&fd, late.rest())? {
                late.check()?;
            }
            // Whoever is turned away reads why, though what it sent or wanted to send was not read.
            let is_reset = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
            let got = match socket::receive(&fd, true) {
                Err(error) if is_reset(&error) => socket::receive(&fd, true),
                got => got,
            };
            match got? {
                Received::Frame(frame, Some(passed))
                    if frame.kind == ServiceKind::TakeFd && frame.operation == operation =>
                {
                    Ok(passed)
                }
                Received::Frame(frame, _) if frame.kind == ServiceKind::NoRoom => {
                    Err(no_room(frame.slots))
                }
                _ => Err(io::ErrorKind::ConnectionReset.into()),
            }
        })
    }

    fn is_own_thread(&self) -> bool {
        // SAFETY: takes nothing.
        self.thread() == Some(unsafe { libc::pthread_self() })
    }

    /// Looks after `attended` from now on.
    pub fn attend(&self, attended: Arc<dyn Attended>) {
        self.attended.add(attended);
        self.wake();
    }

    /// Has the thread sleep on what there is to sleep on now.
    pub fn look_again(&self) {
        if !self.is_own_thread() {
            self.wake();
        }
    }

    /// Ends that. When it returns, the thread has let go: it makes no call any more, nor will it be
    /// the one that drops it.
    pub fn dismiss(&self, attended: &Arc<dyn Attended>) {
        if !self.attended.remove(attended) || self.is_own_thread() {
            return;
        }
        self.await_turn();
    }

    /// Waits until the thread has let go of what it had in hand.
    fn await_turn(&self) {
        let mut state = self.lock();
        let turn = state.turns;
        // Only now: there will be one more turn that ends.
        self.wake();
        while state.turns == turn {
            let place = (&self.state, &self.answers);
            state = turns::wait_while(place, state, LATE, |state| state.turns == turn);
        }
    }

    /// A lookout that stayed has said goodbye.
    pub fn parted(&self, nonce: Nonce, keeper: &Arc<dyn Staying>) {
        posts::parted(&mut self.lock(), nonce, keeper);
    }

    /// Tells every process that takes part in a communicator to look at it, this one too.
    pub fn alarm(&self, nonce: Nonce, why: Alarm) {
        let alarms = self.lock().alarm(nonce, why);
        alarms.iter().for_each(|on_alarm| on_alarm(why));
    }
}

/// A published segment; withdrawn on drop.
#[derive(Debug)]
pub struct Published {
    service: &'static Service,
    key: Key,
}

impl Drop for Published {
    fn drop(&mut self) {
        if self.service.pid == std::process::id() {
            self.service.lock().unpublish(self.key);
        }
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Service({}, process {})", self.address, self.pid)
    }
}
