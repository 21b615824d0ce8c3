//! Pictures of what is under way, for somebody who asks from outside: by a signal, in a job that
//! hangs.
//!
//! **Problem.** The threads of a job that hangs are inside calls, and cannot be asked.
//!
//! **Idea.** If the setting `dump_signal` names a signal, its handler does no more than ring a
//! bell ([`signal_bell`]), on which a thread named "kolo pictures" sleeps. That thread looks at all
//! engines of the process that are there, and writes what it sees to the log. Without the setting
//! there is neither.
//!
//! A signal that the program handles or ignores is left alone, and so is one in a forked child: the
//! thread is not there, and the signal does what it does without kolo.

use super::net::live::{self, Picture};
use super::net::{Links, ProxiedSenders};
use crate::base::signal_bell::{self, SignalBell};
use std::sync::{Mutex, Once, PoisonError, Weak};

/// The engines of a communicator.
struct Shown {
    name: String,
    links: Weak<Links>,
    proxied: Weak<ProxiedSenders>,
}

static SHOWN: Mutex<Vec<Shown>> = Mutex::new(Vec::new());
/// Bell that the handler rings.
static BELL: SignalBell = SignalBell::unheard();

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

/// Pictures of the engines of this process, with the names of their communicators.
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
        let of_links = links.iter().map(|links| live::picture(links));
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

extern "C" fn on_signal(signal: libc::c_int) {
    // SAFETY: these may be called in a handler; the number of the last error is put back.
    unsafe {
        let error = libc::__errno_location();
        let before = *error;
        match BELL.is_here() {
            true => _ = BELL.ring(),
            false => signal_bell::pass_on(signal),
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
    // Whoever has the signal is told without a thread having been started for it.
    signal_bell::is_free(signal)?;
    let heard = BELL.hear("kolo pictures", tell);
    heard.map_err(|error| error.to_string())?;
    signal_bell::catch(signal, on_signal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::alone::alone;

    #[test]
    #[ignore = "started by the test beside it, as the signal is that of the process"]
    fn forks() {
        install(libc::SIGUSR2).expect("nobody else has it");
        let mut status = 0;
        // SAFETY: the child makes system calls only.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::kill(libc::getpid(), libc::SIGUSR2);
                libc::_exit(0);
            }
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            // Here it asks, and ends nothing.
            libc::kill(libc::getpid(), libc::SIGUSR2);
        }
        assert!(libc::WIFSIGNALED(status), "the child lives on: {status}");
        assert_eq!(libc::WTERMSIG(status), libc::SIGUSR2);
    }

    #[test]
    fn the_signal_of_a_forked_child_ends_the_child() {
        alone("proxy::asked::tests::forks", &[]);
    }
}
