//! A signal that is heard by a thread: the handler rings a bell, on which that thread sleeps.
//!
//! **Problem.** A handler runs in the middle of anything. It must not take a lock or write a
//! sentence; it may run on a small stack, and in a child that shares the memory of this process but
//! has none of its threads.
//!
//! **Idea.** The handler asks whether this is the process that hears ([`SignalBell::is_here`]) and
//! rings (an eventfd); all else is the thread's. A signal is caught only where the program has left
//! it alone, and once: two settings of kolo that want the same one are told so ([`catch`]).

use super::fork::Fd;
use super::own_thread;
use std::any::Any;
use std::io;
use std::os::fd::AsRawFd;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// A bell that a handler rings. It lives as long as the process.
pub struct SignalBell {
    fd: AtomicI32,
    /// The process that hears it.
    owner: AtomicU32,
}

impl SignalBell {
    /// One that nobody hears yet.
    pub const fn unheard() -> SignalBell {
        SignalBell {
            fd: AtomicI32::new(-1),
            owner: AtomicU32::new(0),
        }
    }

    /// Starts the thread `name`, which calls `heard` whenever the bell was rung. A panic in `heard`
    /// is written to the log, and the thread goes on: a handler may ring at any time.
    ///
    /// # Errors
    /// The system has no descriptor or no thread left.
    pub fn hear(&self, name: &str, heard: impl Fn() + Send + 'static) -> io::Result<()> {
        // SAFETY: a plain system call; a new descriptor has no other owner.
        let bell = unsafe { Fd::from_result(libc::eventfd(0, libc::EFD_CLOEXEC)) }?;
        let fd = bell.as_raw_fd();
        let listen = move || {
            let mut rung = 0;
            // SAFETY: a writable number. The thread takes no signals, so nothing interrupts it.
            while unsafe { libc::eventfd_read(bell.as_raw_fd(), &raw mut rung) } == 0 {
                // `heard` is called again as it is: it keeps what it changes behind locks.
                if let Err(cause) = panic::catch_unwind(AssertUnwindSafe(&heard)) {
                    // What the log has been given may panic too, and what a panic carries.
                    let _ = panic::catch_unwind(AssertUnwindSafe(|| {
                        let name = std::thread::current().name().unwrap_or_default().to_owned();
                        tracing::error!("kolo: thread \"{name}\": {}", words_of(&*cause));
                    }));
                    std::mem::forget(cause);
                }
            }
            // Handlers have the number: closed, it might be another file's soon.
            std::mem::forget(bell);
        };
        own_thread::start(std::thread::Builder::new().name(name.into()), listen)?;
        self.fd.store(fd, Ordering::Relaxed);
        self.owner.store(std::process::id(), Ordering::Relaxed);
        Ok(())
    }

    /// Whether this process has the thread: a child has not, even one that shares its memory. For
    /// handlers.
    pub fn is_here(&self) -> bool {
        // SAFETY: takes nothing and cannot fail.
        let own = unsafe { libc::getpid() };
        own as u32 == self.owner.load(Ordering::Relaxed)
    }

    /// Wakes the thread; false where there is none. For handlers, which put the number of the last
    /// error back.
    pub fn ring(&self) -> bool {
        // SAFETY: a plain system call, which a handler may make.
        self.is_here() && unsafe { libc::eventfd_write(self.fd.load(Ordering::Relaxed), 1) == 0 }
    }
}

/// The signal does to this process what it does without kolo: for handlers in a child, for its
/// signals are none of the process that hears.
pub fn pass_on(signal: libc::c_int) {
    // SAFETY: all of these may be called in a handler. The signal that is sent waits until the
    // handler returns, or another thread takes it. (A child that shares this memory has the
    // thread's number wrong, so not by `raise`.)
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
}

/// Words of a panic.
fn words_of(cause: &(dyn Any + Send)) -> &str {
    let owned = || cause.downcast_ref::<String>().map(String::as_str);
    let words = cause.downcast_ref::<&str>().copied().or_else(owned);
    words.unwrap_or("it panicked")
}

/// A function that a signal calls.
pub type Handler = extern "C" fn(libc::c_int);

/// Signals that kolo has caught, by number: the handler of each.
static OURS: [AtomicUsize; 65] = [const { AtomicUsize::new(0) }; 65];

/// A handler as the system takes it.
pub fn word_of(handler: Handler) -> libc::sighandler_t {
    handler as *const () as libc::sighandler_t
}

/// Action of the process at a signal now.
///
/// # Errors
/// There is no such signal.
pub fn action(signal: i32) -> io::Result<libc::sighandler_t> {
    // SAFETY: all-zero bytes are a valid `sigaction`, which the call fills.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        match libc::sigaction(signal, std::ptr::null(), &raw mut now) {
            0 => Ok(now.sa_sigaction),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Sets what the process does at a signal: `SIG_DFL`, `SIG_IGN` or the word of a handler that calls
/// only what a handler may.
///
/// # Errors
/// There is no such signal, or nobody may catch it.
pub fn set(signal: i32, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `sigaction` with an empty mask; the handler is as said,
    // and a function lives as long as the process.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        // A thread of the program may have a small stack, and another one for signals.
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        match libc::sigaction(signal, &raw const action, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Whether a signal may be caught: it is left alone.
///
/// # Errors
/// Who has it.
pub fn is_free(signal: i32) -> Result<(), String> {
    match action(signal).map_err(|error| error.to_string())? {
        libc::SIG_DFL => Ok(()),
        libc::SIG_IGN => Err("the program ignores it".into()),
        now if ours(signal).is_some_and(|it| it.load(Ordering::Relaxed) == now) => {
            Err("another setting of kolo has it: on_signal and dump_signal want one each".into())
        }
        _ => Err("the program handles it".into()),
    }
}

/// Catches a signal that is left alone.
///
/// # Errors
/// Who has it, or why it cannot be caught.
pub fn catch(signal: i32, handler: Handler) -> Result<(), String> {
    is_free(signal)?;
    set(signal, word_of(handler)).map_err(|error| error.to_string())?;
    if let Some(ours) = ours(signal) {
        ours.store(word_of(handler), Ordering::Relaxed);
    }
    Ok(())
}

fn ours(signal: i32) -> Option<&'static AtomicUsize> {
    OURS.get(usize::try_from(signal).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    static BELL: SignalBell = SignalBell::unheard();

    extern "C" fn rings(_: libc::c_int) {
        BELL.ring();
    }

    extern "C" fn other(_: libc::c_int) {}

    /// Those that the system's threads use come first, and no other test sends these.
    fn unused(number: i32) -> i32 {
        libc::SIGRTMIN() + 7 + number
    }

    #[test]
    fn a_signal_wakes_the_thread() {
        let (tell, told) = mpsc::channel();
        BELL.hear("a test", move || tell.send(()).unwrap()).unwrap();
        catch(unused(0), rings).unwrap();
        for _ in 0..3 {
            // SAFETY: a signal that is caught.
            unsafe { libc::raise(unused(0)) };
            told.recv_timeout(Duration::from_secs(60)).unwrap();
        }
    }

    #[test]
    fn a_panic_in_what_is_heard_leaves_the_bell_in_order() {
        static OWN: SignalBell = SignalBell::unheard();
        let (tell, told) = mpsc::channel();
        let heard = move || {
            tell.send(()).unwrap();
            panic!("a panic of this test");
        };
        OWN.hear("a test of panics", heard).unwrap();
        for _ in 0..3 {
            assert!(OWN.ring(), "somebody still hears it");
            told.recv_timeout(Duration::from_secs(60)).unwrap();
        }
    }

    #[test]
    fn a_handler_runs_on_the_stack_that_a_thread_has_for_signals() {
        catch(unused(1), other).unwrap();
        // SAFETY: all-zero bytes are a valid `sigaction`, which the call fills.
        let flags = unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            libc::sigaction(unused(1), std::ptr::null(), &raw mut now);
            now.sa_flags
        };
        assert_eq!(flags & libc::SA_ONSTACK, libc::SA_ONSTACK);
    }

    #[test]
    fn who_has_a_signal_is_said() {
        let (signal, ours) = (unused(2), "another setting of kolo has it");
        catch(signal, other).unwrap();
        assert!(catch(signal, rings).unwrap_err().starts_with(ours));
        set(signal, word_of(rings)).unwrap();
        assert_eq!(catch(signal, other).unwrap_err(), "the program handles it");
        set(signal, libc::SIG_IGN).unwrap();
        assert_eq!(catch(signal, other).unwrap_err(), "the program ignores it");
        assert!(catch(0, other).is_err() && catch(4711, other).is_err());
    }
}
