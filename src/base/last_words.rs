//! Words before the end: a signal that ends the process is caught, a thread of kolo's tells what
//! there is to tell, and then the signal does what it does without kolo.
//!
//! **Problem.** A time limit ends a job by a signal. Then nobody can ask any more what it was
//! doing, and a handler may do hardly anything: it must not take a lock or write a sentence.
//!
//! **Idea.** The handler counts the signal and rings a bell ([`signal_bell`]), on which a thread
//! named "kolo words" sleeps. That thread tells, gives the signal its default action back, and
//! sends it to the process once more.
//!
//! A signal that the program handles or ignores is left alone. Launchers may send one several
//! times; the [`PATIENCE`]th of its kind ends the process at once, as one in a forked child does,
//! where the thread is not.

use super::signal_bell::{self, SignalBell, action, set, word_of};
use std::any::Any;
use std::io;
use std::panic::catch_unwind;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bell that the handler rings.
static BELL: SignalBell = SignalBell::unheard();
/// How often each signal has come since it was told of last.
static COMING: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];
/// So many of one kind are too many to wait for the words any longer.
const PATIENCE: u32 = 5;

/// Things that were used while a signal was told of. Where the process ends, none of them is
/// dropped.
pub type Kept = Box<dyn Any>;

/// From now on `tell` is called with the number of the signal, on a thread of kolo's, before one of
/// these ends the process. Once a process; the first caller's `tell` counts. What it gives is
/// dropped when the signal has not ended the process, for a handler of the program's has it.
///
/// Returns for each signal that is left alone, or all of them, why; only the first caller hears it.
pub fn before(signals: &[i32], tell: fn(i32) -> Kept) -> Vec<String> {
    static ONCE: Once = Once::new();
    let mut left = Vec::new();
    ONCE.call_once(|| {
        if let Err(error) = start(tell) {
            left.push(format!("there is no thread or bell for it: {error}"));
            return;
        }
        let caught = |&signal: &i32| {
            let why = signal_bell::catch(signal, on_signal).err()?;
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

fn start(tell: fn(i32) -> Kept) -> io::Result<()> {
    BELL.hear("kolo words", move || {
        let came = |signal: &i32| coming(*signal).load(Ordering::Relaxed) > 0;
        for signal in (0..COMING.len() as i32).filter(came) {
            // After a panic too the signal does what it does without kolo.
            let kept = catch_unwind(|| tell(signal));
            coming(signal).store(0, Ordering::Relaxed);
            match give_back(signal) {
                true => std::mem::forget(kept),
                false => drop(kept),
            }
        }
    })
}

fn coming(signal: i32) -> &'static AtomicU32 {
    &COMING[signal as usize % COMING.len()]
}

/// The signal does what it does without kolo, unless the program has a handler by now (which may
/// have called this one): then it has had its signal. Whether the signal was sent, which ends the
/// process.
fn give_back(signal: i32) -> bool {
    let is_ours = action(signal).is_ok_and(|now| now == word_of(on_signal));
    if !is_ours || set(signal, libc::SIG_DFL).is_err() {
        return false;
    }
    // SAFETY: plain system calls. This thread takes no signals; another one of the process does.
    unsafe { libc::kill(libc::getpid(), signal) == 0 }
}

extern "C" fn on_signal(signal: libc::c_int) {
    // SAFETY: all of these may be called in a handler; the number of the last error is put back.
    unsafe {
        let error = libc::__errno_location();
        let before = *error;
        // A child may share this memory, and its signals are none of this process.
        let is_told = BELL.is_here()
            && match coming(signal).fetch_add(1, Ordering::Relaxed) {
                0 => BELL.ring(),
                earlier => earlier < PATIENCE - 1,
            };
        if !is_told {
            signal_bell::pass_on(signal);
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

    /// Runs a test below in another process, and returns how that ended.
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

    fn tell(signal: i32) -> Kept {
        println!("last words of {}", name(signal));
        Box::new(())
    }

    /// Says so when it is dropped.
    struct Told;

    impl Drop for Told {
        fn drop(&mut self) {
            println!("what was kept is dropped");
        }
    }

    fn keeps(signal: i32) -> Kept {
        drop(tell(signal));
        Box::new(Told)
    }

    extern "C" fn own(_: libc::c_int) {
        std::process::exit(7);
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

    /// A handler that the program has put before kolo's, which it calls and then goes on.
    extern "C" fn chained(signal: libc::c_int) {
        on_signal(signal);
    }

    #[test]
    #[ignore = "started by the tests beside it, as the signal is that of the process"]
    fn chains_it() {
        assert!(before(&[libc::SIGTERM], keeps).is_empty());
        set(libc::SIGTERM, word_of(chained)).unwrap();
        for _ in 0..2 {
            get_signals(1);
            let begin = crate::base::clock::now();
            while coming(libc::SIGTERM).load(Ordering::Relaxed) > 0 {
                assert!(begin.elapsed() < Duration::from_secs(60));
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        // Behind the second signal the first one's are gone, whatever the second one's do.
    }

    #[test]
    #[ignore = "started by the tests beside it, and ended by a signal"]
    fn keeps_something() {
        assert!(before(&[libc::SIGTERM], keeps).is_empty());
        get_signals(1);
        std::thread::sleep(LONG);
    }

    #[test]
    #[ignore = "started by the tests beside it, and ended by a signal"]
    fn panics_in_its_words() {
        let told = before(&[libc::SIGTERM], |_| panic!("a panic of this test"));
        assert!(told.is_empty());
        get_signals(1);
        std::thread::sleep(LONG);
    }

    #[test]
    #[ignore = "started by the tests beside it, and ended by a handler"]
    fn handles_it() {
        set(libc::SIGTERM, word_of(own)).unwrap();
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
        set(libc::SIGTERM, word_of(own)).unwrap();
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
        let stuck = |_| -> Kept {
            std::thread::sleep(LONG);
            Box::new(())
        };
        assert!(before(&[libc::SIGTERM], stuck).is_empty());
        get_signals(PATIENCE as usize);
        std::thread::sleep(LONG);
    }

    extern "C" fn sends_itself_one(_: *mut libc::c_void) -> libc::c_int {
        // SAFETY: plain system calls.
        unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
        0
    }

    #[test]
    #[ignore = "started by the tests beside it, as the signal is that of the process"]
    fn has_a_child_in_its_memory() {
        assert!(before(&[libc::SIGTERM], tell).is_empty());
        let mut stack = vec![0_u128; 1 << 16];
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let (mut status, top) = (0, stack.as_mut_ptr_range().end.cast());
        // SAFETY: the child has a stack of its own, makes system calls only, and ends before this
        // goes on.
        unsafe {
            let child = libc::clone(sends_itself_one, top, flags, std::ptr::null_mut());
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        }
        assert_eq!(libc::WTERMSIG(status), libc::SIGTERM);
        assert_eq!(coming(libc::SIGTERM).load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_signal_of_a_child_does_not_count_here() {
        let ended = other_process("has_a_child_in_its_memory");
        let text = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && words(&ended) == 0, "{text}");
    }

    #[test]
    fn a_signal_does_what_it_does_after_the_words() {
        let ended = other_process("leaves_it_alone");
        let how = (words(&ended), ended.status.signal());
        assert_eq!(how, (1, Some(libc::SIGTERM)));
    }

    /// Dropping it may wait for others, so it is only where the process goes on.
    #[test]
    fn what_was_told_of_is_dropped_where_the_process_goes_on() {
        let dropped = |ended: &Output| {
            let text = String::from_utf8_lossy(&ended.stdout).into_owned();
            text.matches("what was kept is dropped").count()
        };
        let chained = other_process("chains_it");
        assert!(chained.status.success() && words(&chained) == 2);
        assert!(dropped(&chained) >= 1);
        let ended = other_process("keeps_something");
        let how = (dropped(&ended), ended.status.signal());
        assert_eq!(how, (0, Some(libc::SIGTERM)));
    }

    #[test]
    fn a_panic_in_the_words_does_not_hold_the_signal_up() {
        let ended = other_process("panics_in_its_words");
        assert_eq!(ended.status.signal(), Some(libc::SIGTERM));
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
