//! The progress thread, without communicators.

use super::tests::Countdown;
use super::*;
use std::sync::atomic::AtomicU32;

#[test]
fn the_progress_thread_takes_no_signals() {
    let (say, hear) = std::sync::mpsc::channel();
    let engine: &'static Engine = Box::leak(Box::new(Engine::new()));
    engine.want_thread(move || {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("SigBlk:"));
        let mask = line.unwrap().split_whitespace().nth(1).unwrap();
        say.send(u64::from_str_radix(mask, 16).unwrap()).unwrap();
    });
    let blocked = hear.recv().unwrap();
    for signal in [libc::SIGTERM, libc::SIGUSR1, libc::SIGALRM, libc::SIGCHLD] {
        assert_ne!(blocked & (1 << (signal - 1)), 0, "signal {signal}");
    }
}

/// Work that only threads of the program may drive is left to them, whatever other work there is.
#[test]
fn the_progress_thread_leaves_alone_what_is_not_for_it() {
    struct OfProgram(AtomicU32);
    impl Work for OfProgram {
        fn pass(&self) -> Pass {
            self.0.fetch_add(1, Ordering::SeqCst);
            Pass::Waiting
        }

        fn any_thread(&self) -> bool {
            false
        }

        fn broken(&self, _: Error) {}
    }
    let engine: &'static Engine = Box::leak(Box::new(Engine::new()));
    let theirs = Arc::new(OfProgram(AtomicU32::new(0)));
    engine.add(Arc::clone(&theirs) as Arc<dyn Work>);
    engine.want_thread(|| {});
    let ours = Arc::new(Countdown(AtomicU32::new(1000)));
    engine.add(Arc::clone(&ours) as Arc<dyn Work>);
    while ours.0.load(Ordering::SeqCst) > 0 {
        std::thread::yield_now();
    }
    assert_eq!(theirs.0.load(Ordering::SeqCst), 0);
    // The thread may hold the list for a moment.
    while theirs.0.load(Ordering::SeqCst) == 0 {
        engine.drive();
        std::thread::yield_now();
    }
}

/// Work that waits for ever on a bell.
struct Blocked(Doorbell);

impl Work for Blocked {
    fn pass(&self) -> Pass {
        Pass::Waiting
    }

    fn rest<'a>(&'a self, rest: &mut Rest<'a>) {
        rest.bell((&self.0).into());
    }

    fn bell(&self) -> Option<&Doorbell> {
        Some(&self.0)
    }

    fn broken(&self, _: Error) {}
}

/// The thread sleeps with its hands on what is blocked, and lets go of it when it is over.
#[test]
fn released_work_is_free_at_once() {
    let engine: &'static Engine = Box::leak(Box::new(Engine::new()));
    engine.want_thread(|| {});
    let other: Arc<dyn Work> = Arc::new(Blocked(Doorbell::new()));
    for round in 0..200 {
        let work: Arc<dyn Work> = Arc::new(Blocked(Doorbell::new()));
        if round % 2 == 1 {
            engine.add(Arc::clone(&other));
        }
        let before = engine.wakeups().1;
        engine.add(Arc::clone(&work));
        while round % 3 == 0 && engine.wakeups().1 == before {
            std::thread::yield_now();
        }
        engine.release(&work);
        assert_eq!(Arc::strong_count(&work), 1, "round {round}");
        engine.release(&other);
        assert_eq!(Arc::strong_count(&other), 1, "round {round}");
    }
    assert!(!engine.busy());
}
