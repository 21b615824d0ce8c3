//! Words before the end: a signal that ends the process is caught, a thread of kolo's tells what
//! there is to tell, and then the signal does what it does without kolo.
//!
//! **Problem.** A time limit ends a job by a signal. Then nobody can ask any more what it was
//! doing, and a handler may do hardly anything: it must not take a lock or write a sentence.
//!
//! **Idea.** The handler counts the signal and rings a bell (an eventfd), on which a thread named
//! "kolo words" sleeps. That thread tells, gives the signal its default action back, and sends it
//! to the process once more.
//!
//! A signal that the program handles or ignores is left alone. Launchers may send one several
//! times; the [`PATIENCE`]th of its kind ends the process at once, as one in a forked child does,
//! where the thread is not.

use super::fork::Fd;
use super::own_thread;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// The bell that the handler rings, and the process that hears it.
static BELL: AtomicI32 = AtomicI32::new(-1);
static OWNER: AtomicU32 = AtomicU32::new(0);
/// How often each signal has come since it was told of last.
static COMING: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];
/// So many of one kind are too many to wait for the words any longer.
const PATIENCE: u32 = 5;

/// From now on `tell` is called with the number of the signal, on a thread of kolo's, before one of
/// these ends the process. Once a process; the first caller's `tell` counts.
///
/// Returns for each signal that is left alone, or all of them, why; only the first caller hears it.
pub fn before(signals: &[i32], tell: fn(i32)) -> Vec<String> {
    static ONCE: Once = Once::new();
    let mut left = Vec::new();
    ONCE.call_once(|| {
        if let Err(error) = start(tell) {
            left.push(format!("there is no thread or bell for it: {error}"));
            return;
        }
        let caught = |&signal: &i32| {
            let why = catch(signal).err()?;
            Some(format!("{}: {why}", name(signal)))
        };
        left.extend(signals.iter().filter_map(caught));
    });
    left
}

/// The name of a signal, as `kill -l` lists it.
pub fn name(signal: i32) -> String {
    match signal {
        libc::SIGTERM => "SIGTERM".into(),
        libc::SIGUSR1 => "SIGUSR1".into(),
        other => format!("signal {other}"),
    }
}

fn start(tell: fn(i32)) -> io::Result<()> {
    // SAFETY: a plain system call; a new descriptor has no other owner.
    let bell = unsafe { Fd::from_result(libc::eventfd(0, libc::EFD_CLOEXEC)) }?;
    BELL.store(bell.as_raw_fd(), Ordering::Relaxed);
    OWNER.store(std::process::id(), Ordering::Relaxed);
    let listen = move || {
        let mut rung = 0;
        // SAFETY: a writable number. The thread takes no signals, so nothing interrupts it.
        while unsafe { libc::eventfd_read(bell.as_raw_fd(), &raw mut rung) } == 0 {
            let came = |signal: &i32| coming(*signal).load(Ordering::Relaxed) > 0;
            for signal in (0..COMING.len() as i32).filter(came) {
                tell(signal);
                coming(signal).store(0, Ordering::Relaxed);
                give_back(signal);
            }
        }
    };
    let builder = std::thread::Builder::new().name("kolo words".into());
    own_thread::start(builder, listen).map(|_| ())
}

fn coming(signal: i32) -> &'static AtomicU32 {
    &COMING[signal as usize % COMING.len()]
}

fn handler() -> libc::sighandler_t {
    let handler: extern "C" fn(libc::c_int) = on_signal;
    handler as *const () as libc::sighandler_t
}

/// What the process does at a signal now.
fn action(signal: i32) -> io::Result<libc::sighandler_t> {
    // SAFETY: all-zero bytes are a valid `sigaction`, which the call fills.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        match libc::sigaction(signal, std::ptr::null(), &raw mut now) {
            0 => Ok(now.sa_sigaction),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn set(signal: i32, handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `sigaction` with an empty mask; the handler is the default
    // or a function for the whole life of the process, which calls only what a handler may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        match libc::sigaction(signal, &raw const action, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn catch(signal: i32) -> Result<(), String> {
    match action(signal).map_err(|error| error.to_string())? {
        libc::SIG_DFL => set(signal, handler()).map_err(|error| error.to_string()),
        libc::SIG_IGN => Err("the program ignores it".into()),
        _ => Err("the program handles it".into()),
    }
}

/// The signal does what it does without kolo, unless the program has a handler by now (which may
/// have called this one): then it has had its signal.
fn give_back(signal: i32) {
    if action(signal).is_ok_and(|now| now == handler()) && set(signal, libc::SIG_DFL).is_ok() {
        // SAFETY: plain system calls. This thread takes no signals; another one of the process
        // does.
        unsafe { libc::kill(libc::getpid(), signal) };
    }
}

extern "C" fn on_signal(signal: libc::c_int) {
    // SAFETY: all of these may be called in a handler; the number of the last error is put back.
    // The signal that is raised waits until the handler returns.
    unsafe {
        let error = libc::__errno_location();
        let before = *error;
        let earlier = coming(signal).fetch_add(1, Ordering::Relaxed);
        let is_here = libc::getpid() as u32 == OWNER.load(Ordering::Relaxed);
        let is_told = is_here
            && match earlier {
                0 => libc::eventfd_write(BELL.load(Ordering::Relaxed), 1) == 0,
                _ => earlier < PATIENCE - 1,
            };
        if !is_told {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        *error = before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output};
    use std::time::Duration;

    /// Longer than any of these processes lives.
    const LONG: Duration = Duration::from_secs(600);

    /// What becomes of the process of a test below.
    fn other_process(body: &str) -> Output {
        let body = format!("base::last_words::tests::{body}");
        Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", &body])
            .output()
            .unwrap()
    }

    fn words(output: &Output) -> usize {
        let text = String::from_utf8_lossy(&output.stdout);
        text.matches("last words of SIGTERM").count()
    }

    fn tell(signal: i32) {
        println!("last words of {}", name(signal));
    }

    extern "C" fn own(_: libc::c_int) {
        std::process::exit(7);
    }

    fn own_handler() -> libc::sighandler_t {
        let handler: extern "C" fn(libc::c_int) = own;
        handler as *const () as libc::sighandler_t
    }

    fn get_signals(times: usize) {
        for _ in 0..times {
            // To this thread, so that each comes before the next one: they would count as one else.
            // SAFETY: a plain system call.
            unsafe { libc::raise(libc::SIGTERM) };
        }
    }

    #[test]
    #[ignore = "started by the tests beside it, and ended by a signal"]
    fn leaves_it_alone() {
        assert!(before(&[libc::SIGTERM], tell).is_empty());
        // Launchers send it more than once.
        get_signals(3);
        std::thread::sleep(LONG);
    }

    #[test]
    #[ignore = "started by the tests beside it, and ended by a handler"]
    fn handles_it() {
        set(libc::SIGTERM, own_handler()).unwrap();
        assert_eq!(
            before(&[libc::SIGTERM], tell),
            ["SIGTERM: the program handles it"]
        );
        get_signals(1);
    }

    #[test]
    #[ignore = "started by the tests beside it, and ended by a handler"]
    fn handles_it_later() {
        assert!(before(&[libc::SIGTERM], tell).is_empty());
        set(libc::SIGTERM, own_handler()).unwrap();
        get_signals(1);
    }

    #[test]
    #[ignore = "started by the tests beside it, as the signal is that of the process"]
    fn ignores_it() {
        set(libc::SIGTERM, libc::SIG_IGN).unwrap();
        assert_eq!(
            before(&[libc::SIGTERM], tell),
            ["SIGTERM: the program ignores it"]
        );
        get_signals(2);
    }

    #[test]
    #[ignore = "started by the tests beside it, and ended by a signal"]
    fn has_endless_words() {
        let stuck = |_| std::thread::sleep(LONG);
        assert!(before(&[libc::SIGTERM], stuck).is_empty());
        get_signals(PATIENCE as usize);
        std::thread::sleep(LONG);
    }

    #[test]
    fn a_signal_does_what_it_does_after_the_words() {
        let ended = other_process("leaves_it_alone");
        let how = (words(&ended), ended.status.signal());
        assert_eq!(how, (1, Some(libc::SIGTERM)));
    }

    #[test]
    fn what_the_program_says_of_a_signal_counts() {
        for (body, status) in [
            ("handles_it", 7),
            ("handles_it_later", 7),
            ("ignores_it", 0),
        ] {
            let ended = other_process(body);
            let how = (words(&ended), ended.status.code());
            assert_eq!(how, (0, Some(status)), "{body}");
        }
    }

    #[test]
    fn words_are_not_waited_for_for_ever() {
        let ended = other_process("has_endless_words");
        assert_eq!(ended.status.signal(), Some(libc::SIGTERM));
    }
}
