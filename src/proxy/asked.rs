//! What is under way, when somebody asks for it from outside: by a signal, in a job that hangs.
//!
//! **Problem.** The threads of a job that hangs are inside calls, and cannot be asked.
//!
//! **Idea.** If the setting `dump_signal` names a signal, its handler does no more than ring a
//! bell, on which a thread named "kolo pictures" sleeps. That thread looks at all engines of the
//! process that are there, and writes what it sees to the log. Without the setting there is
//! neither.
//!
//! A signal that the program handles or ignores is left alone.

use super::net::live::Picture;
use super::net::{Links, ProxiedSenders};
use crate::base::own_thread;
use crate::transport::fork::Fd;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError, Weak};

/// The engines of a communicator.
struct Shown {
    name: String,
    links: Weak<Links>,
    proxied: Weak<ProxiedSenders>,
}

static SHOWN: Mutex<Vec<Shown>> = Mutex::new(Vec::new());
/// The descriptor that the handler writes to, and the process that it belongs to.
static BELL: AtomicI32 = AtomicI32::new(-1);
static OWNER: AtomicU32 = AtomicU32::new(0);

/// From now on the engines of the communicator `name` are shown to who asks.
pub fn show(name: &str, links: Weak<Links>, proxied: Weak<ProxiedSenders>) {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    shown.retain(|it| it.links.strong_count() > 0);
    shown.push(Shown {
        name: name.to_string(),
        links,
        proxied,
    });
}

/// What is under way in this process: communicators, and their engines.
pub fn pictures() -> Vec<(String, Picture)> {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let alive: Vec<_> = shown
        .iter()
        .map(|it| (it.name.clone(), it.links.upgrade(), it.proxied.upgrade()))
        .collect();
    // Engines may end here, and those who end them may wait for the lock.
    drop(shown);
    let mut pictures = Vec::new();
    for (name, links, proxied) in alive {
        let of_links = links.iter().map(|links| links.picture());
        let of_others = proxied.iter().flat_map(|proxied| proxied.pictures());
        let named = of_links.chain(of_others).map(|it| (name.clone(), it));
        pictures.extend(named);
    }
    pictures
}

/// Writes what is under way to the log.
fn tell() {
    let pictures = pictures();
    if pictures.is_empty() {
        tracing::warn!("kolo: this process has no connections between nodes");
    }
    for (name, picture) in pictures {
        tracing::warn!("kolo: communicator {name}, {picture}");
    }
}

extern "C" fn on_signal(_: libc::c_int) {
    // SAFETY: these may be called in a handler; the number of the last error is put back, and the
    // eight bytes are readable.
    unsafe {
        let error = libc::__errno_location();
        let before = *error;
        if libc::getpid() as u32 == OWNER.load(Ordering::Relaxed) {
            let one = 1_u64.to_ne_bytes();
            libc::write(BELL.load(Ordering::Relaxed), one.as_ptr().cast(), one.len());
        }
        *error = before;
    }
}

/// From now on this signal asks; once a process, and only where the program leaves it alone.
pub fn on(signal: u32) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Err(why) = install(signal as libc::c_int) {
            tracing::warn!(
                "kolo: signal {signal} (setting dump_signal) shows nothing: {why}; choose another \
                 one, such as 12 (SIGUSR2)"
            );
        }
    });
}

fn install(signal: libc::c_int) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    // SAFETY: all-zero bytes are a valid `sigaction`, which the call fills.
    let before = unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        match libc::sigaction(signal, std::ptr::null(), &raw mut before) {
            0 => before,
            _ => return Err(failed(io::Error::last_os_error())),
        }
    };
    if before.sa_sigaction != libc::SIG_DFL {
        return Err("the program handles or ignores it".into());
    }
    // SAFETY: a plain system call; a new descriptor has no other owner.
    let bell = unsafe { Fd::from_result(libc::eventfd(0, libc::EFD_CLOEXEC)) };
    let bell = bell.map_err(failed)?;
    BELL.store(bell.as_raw_fd(), Ordering::Relaxed);
    OWNER.store(std::process::id(), Ordering::Relaxed);
    let builder = std::thread::Builder::new().name("kolo pictures".into());
    own_thread::start(builder, move || wait(&bell)).map_err(failed)?;
    // SAFETY: all-zero bytes are a valid `sigaction` with an empty mask; the handler is a function
    // for the whole life of the process, and calls only what a handler may.
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int) = on_signal;
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    match installed {
        0 => Ok(()),
        _ => Err(failed(io::Error::last_os_error())),
    }
}

/// Sleeps until somebody asks, and tells them.
fn wait(bell: &Fd) {
    let mut count = [0_u8; 8];
    loop {
        // SAFETY: eight writable bytes. The thread takes no signals, so nothing interrupts it.
        let got = unsafe { libc::read(bell.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        if got != count.len() as isize {
            return;
        }
        tell();
    }
}
