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

mod exit;
mod faults;
mod refused;
mod spare;
#[cfg(test)]
mod tests;
mod through;

pub use refused::THREADS_SHORT;
pub use through::{Caller, Elsewhere};

use super::attended::{self, Attended};
use super::frame::{Frame, ServiceKind};
pub use super::patience::Until;
use super::patience::{LATE, Late, no_room, persist};
pub use super::socket::Address;
use super::socket::{self, Received};
pub use super::state::{Alarm, EndStep, Maker, OnAlarm, OnDeath, OnEnd, Peer, ProxyRank, Staying};
use super::state::{Answer, Death, Offer, STRANGER_LIMIT, State, incoming, leaving};
use crate::base::clock::{self, Moment};
use crate::base::turns;
use crate::base::{Rank, Result, caught, descriptors, own_thread, starts};
use crate::transport::fork::{self, Fd};
use crate::transport::segment::{Key, Nonce};
use refused::{forked_error, start_error};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::thread::JoinHandleExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long no connection is accepted after the process ran out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long, in milliseconds, until what cannot say when it needs attention is tended.
const SOON: libc::c_int = 20;
/// The thread calls nothing that is deep.
const STACK_BYTES: usize = 256 << 10;

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

static SERVICE: OnceLock<Arc<Service>> = OnceLock::new();
static CREATION: Mutex<()> = Mutex::new(());

/// The service of this process, made on the first call.
///
/// # Errors
/// `InvalidUsage` in a process forked from one that had used kolo; `SystemError` when the system
/// has no descriptor or thread left.
pub fn get() -> Result<&'static Service> {
    if fork::in_child_of_user() {
        return Err(forked_error());
    }
    if let Some(service) = SERVICE.get() {
        // A raw `clone` runs no fork handlers, so the process number is compared, too.
        if service.pid != std::process::id() {
            return Err(forked_error());
        }
        return Ok(service);
    }
    let _creating = CREATION.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(service) = SERVICE.get() {
        return Ok(service);
    }
    let service = Service::create().map_err(|source| start_error(&source))?;
    let thread = start_thread(service.clone()).map_err(|source| start_error(&source))?;
    let _ = service.thread.set(thread.as_pthread_t());
    starts::note(starts::Start::Service);
    Ok(SERVICE.get_or_init(|| service))
}

/// A descriptor to hold in reserve: one more of the same.
pub(super) fn like(bell: &Fd) -> io::Result<Fd> {
    Fd::new(descriptors::another(bell.as_raw_fd())?)
}

fn start_thread(service: Arc<Service>) -> io::Result<JoinHandle<()>> {
    let builder = std::thread::Builder::new()
        .name("kolo service".to_owned())
        .stack_size(STACK_BYTES);
    own_thread::start(builder, move || service.run())
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

    /// Begins to watch a communicator for `rank` of this process: from now on other processes may
    /// introduce their ranks, and `on_death` is called for each process that ends before its ranks
    /// said goodbye. `node` is this machine's name, for messages.
    pub fn watch(&'static self, nonce: Nonce, rank: Rank, node: &str, on_death: OnDeath) -> Watch {
        let id = self.lock().watch(nonce, rank, node, on_death);
        Watch {
            service: self,
            nonce,
            rank,
            id,
        }
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

    /// Tells every process that takes part in a communicator to look at it, this one too.
    pub fn alarm(&self, nonce: Nonce, why: Alarm) {
        let alarms = self.lock().alarm(nonce, why);
        alarms.iter().for_each(|on_alarm| on_alarm(why));
    }

    // ---- the thread ----

    fn run(&self) {
        let mut entries = Vec::new();
        let mut links = Vec::new();
        let mut places = attended::Places::default();
        loop {
            let mut faults = Vec::new();
            let mut limit = self.poll_list(&mut entries, &mut links);
            let sleeps = self.attended.watch(&mut entries, &mut places, &mut faults);
            if !sleeps && !(0..=SOON).contains(&limit) {
                limit = SOON;
            }
            if !faults.is_empty() {
                limit = 0;
            }
            // SAFETY: `entries` is a live array of that many entries.
            let ready =
                unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, limit) };
            if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                // The kernel has no memory at the moment: rest instead of spinning.
                turns::sleep(ACCEPT_PAUSE);
            }
            if ready >= 0 {
                let all = ready == 0 || entries[0].revents != 0;
                let mut deaths = Vec::new();
                let turned = caught(|| self.turn(&entries, &links, &mut deaths));
                faults.extend(turned.err());
                places.tend(&entries, all, &self.attended, &mut faults);
                faults.extend(caught(|| self.send_for_others()).err());
                self.report(deaths, &mut faults);
            }
            if !faults.is_empty() {
                self.broken(&faults);
            }
        }
    }

    /// Fills the list for poll, the links' numbers beside it, and says how long poll may sleep:
    /// without limit unless a stranger or a pause is to end.
    fn poll_list(&self, entries: &mut Vec<libc::pollfd>, links: &mut Vec<u64>) -> libc::c_int {
        entries.clear();
        links.clear();
        let mut state = self.lock();
        state.sweep();
        let mut limit: Option<Duration> = None;
        let mut due = |since: Moment, after: Duration| {
            let left = since.left(after).min(clock::LOOK);
            limit = Some(limit.map_or(left, |limit| limit.min(left)));
        };
        if let Some(since) = state.accept_paused {
            if since.past(ACCEPT_PAUSE) {
                state.accept_paused = None;
            } else {
                due(since, ACCEPT_PAUSE);
            }
        }
        let entry = |fd: &Fd, events| libc::pollfd {
            fd: fd.as_raw_fd(),
            events,
            revents: 0,
        };
        let accepting = if state.accept_paused.is_none() {
            libc::POLLIN
        } else {
            0
        };
        if !state.unfinished.is_empty() {
            // Looked at again after the millisecond that every limit has.
            due(clock::now(), Duration::ZERO);
        }
        entries.push(entry(&self.bell, libc::POLLIN));
        entries.push(entry(&self.listener, accepting));
        for (id, link) in &state.links {
            entries.push(entry(&link.fd, link.events()));
            links.push(*id);
            if let Some(since) = link.stranger_since() {
                due(since, STRANGER_LIMIT);
            }
        }
        // One millisecond more, so that what is due is past when poll returns.
        limit.map_or(-1, |limit| limit.as_millis() as libc::c_int + 1)
    }

    /// Handles everything that poll found.
    fn turn(&self, entries: &[libc::pollfd], links: &[u64], deaths: &mut Vec<Death>) {
        if entries[0].revents != 0 {
            let mut count = [0_u8; 8];
            // SAFETY: eight writable bytes; the descriptor does not block.
            unsafe {
                libc::read(
                    self.bell.as_raw_fd(),
                    count.as_mut_ptr().cast(),
                    count.len(),
                )
            };
        }
        let mut state = self.lock();
        for (entry, &id) in entries[2..].iter().zip(links) {
            if entry.revents & libc::POLLOUT != 0 {
                state.writable(id);
            }
            if entry.revents & !libc::POLLOUT != 0 {
                incoming::readable(&mut state, id, deaths);
            }
        }
        if entries[1].revents != 0 {
            self.accept(&mut state);
        }
        let alarms = std::mem::take(&mut state.alarms);
        drop(state);
        self.answers.notify_all();
        alarms.iter().for_each(|(on_alarm, why)| on_alarm(*why));
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

/// One rank's watch over its communicator. Dropping it says goodbye: the end of this process is
/// no longer a death for that communicator, and no callback begins any more (one that has already
/// begun may still be running on the service thread).
///
/// Dropping it in a forked child does nothing.
#[derive(Debug)]
pub struct Watch {
    service: &'static Service,
    nonce: Nonce,
    rank: Rank,
    id: u64,
}

impl Watch {
    /// Calls `on_alarm` on the service thread whenever a rank of this machine raises an alarm
    /// about the communicator. It must not block.
    pub fn heed(&self, on_alarm: OnAlarm) {
        self.service.lock().heed(self.nonce, self.id, on_alarm);
    }

    /// Has `on_end` called when this process exits with status 0: what it leaves so is no death.
    pub fn at_end(&self, on_end: OnEnd) {
        self.service.lock().at_end(self.nonce, self.id, on_end);
    }

    /// Tells all processes of this machine that take part, this one too.
    pub fn alarm(&self, why: Alarm) {
        self.service.alarm(self.nonce, why);
    }

    /// Makes sure that this process and `peer` are linked and know each other as members of the
    /// communicator, as far as it is this side's part: of two processes, the one with the larger
    /// address does it. The other must have called [`Service::watch`] before.
    ///
    /// Errors and waiting are those of [`Service::fetch_until`].
    pub fn link(&self, peer: &Peer, until: Until) -> io::Result<()> {
        if self.service.address <= peer.address {
            return Ok(());
        }
        let mut late = Late::new("makes a communicator with this one", until);
        persist(&mut late, |late| {
            let (nonce, service) = (self.nonce, self.service);
            let mut state = service.lock();
            let operation = state.hello(nonce, self.rank, service.pid, peer)?;
            service.wake();
            loop {
                drop(state);
                let rest = late.rest();
                state = service.lock();
                match state.answer(operation) {
                    Some(Answer::Welcome) => return Ok(()),
                    Some(Answer::NoRoom(limit)) => {
                        service.wake();
                        return Err(no_room(limit));
                    }
                    Some(Answer::Refused | Answer::Lost) => {
                        service.wake();
                        return Err(io::ErrorKind::ConnectionReset.into());
                    }
                    None => {}
                }
                let waited = service.answers.wait_timeout(state, rest);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                if let Err(error) = late.check() {
                    state.forget(operation);
                    service.wake();
                    return Err(error);
                }
            }
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.service.pid == std::process::id() {
            leaving::unwatch(&mut self.service.lock(), self.nonce, self.id);
            self.service.wake();
        }
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Service({}, process {})", self.address, self.pid)
    }
}
