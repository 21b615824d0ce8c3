//! The progress engine: who moves work that no caller is waiting for.
//!
//! Work in flight (calls on streams, groups) registers here. Any thread that waits inside kolo
//! drives it, and under the policy `thread` so does one progress thread of the process, which
//! sleeps while nothing is in flight.

use crate::base::own_thread;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// What a pass over some work did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Something moved.
    Moved,
    /// Nothing could move now.
    Waiting,
    /// Nothing is in flight: the engine forgets this work until it is added again.
    Idle,
}

/// Work that anybody may drive; one driver at a time is its own concern.
pub trait Work: Send + Sync {
    /// Moves what can move, without waiting.
    fn pass(&self) -> Pass;

    /// Whether the progress thread may drive it too. If not, only threads of the program do.
    fn any_thread(&self) -> bool {
        true
    }
}

/// All work in flight of this process.
pub struct Engine {
    work: Mutex<Vec<Arc<dyn Work>>>,
    in_flight: AtomicUsize,
    thread_wanted: AtomicBool,
    thread_started: AtomicBool,
    wake: Condvar,
}

/// Passes without movement after which the progress thread sleeps between passes.
const PATIENCE: u32 = 200;
/// How long it sleeps then.
const NAP: Duration = Duration::from_micros(200);

impl Engine {
    /// The engine of this process.
    pub fn global() -> &'static Engine {
        static ENGINE: OnceLock<Engine> = OnceLock::new();
        ENGINE.get_or_init(|| Engine {
            work: Mutex::new(Vec::new()),
            in_flight: AtomicUsize::new(0),
            thread_wanted: AtomicBool::new(false),
            thread_started: AtomicBool::new(false),
            wake: Condvar::new(),
        })
    }

    /// Whether anything is in flight: one load, for waiting loops.
    #[inline(always)]
    pub fn busy(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    /// Adds work unless it is there already.
    pub fn add(&self, work: Arc<dyn Work>) {
        let mut list = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if !list.iter().any(|known| Arc::ptr_eq(known, &work)) {
            list.push(work);
            self.in_flight.store(list.len(), Ordering::Relaxed);
        }
        drop(list);
        self.wake.notify_one();
    }

    /// One pass over all work, for a thread of the program; says whether anything moved.
    pub fn drive(&self) -> bool {
        self.drive_those(|_| true)
    }

    fn drive_those(&self, may: impl Fn(&Arc<dyn Work>) -> bool) -> bool {
        let list: Vec<Arc<dyn Work>> = match self.work.try_lock() {
            Ok(list) => list.clone(),
            Err(_) => return false,
        };
        let mut moved = false;
        let mut idle: Vec<Arc<dyn Work>> = Vec::new();
        for work in list.into_iter().filter(may) {
            match work.pass() {
                Pass::Moved => moved = true,
                Pass::Waiting => {}
                Pass::Idle => idle.push(work),
            }
        }
        self.forget(&idle);
        moved
    }

    /// Removes work that is still idle now that nobody can add it.
    fn forget(&self, idle: &[Arc<dyn Work>]) {
        if idle.is_empty() {
            return;
        }
        let mut list = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|work| {
            let candidate = idle.iter().any(|gone| Arc::ptr_eq(gone, work));
            !(candidate && work.pass() == Pass::Idle)
        });
        self.in_flight.store(list.len(), Ordering::Relaxed);
    }

    /// Makes sure that the progress thread exists. `prepare` runs first on it (pinning). False if
    /// the system has no thread left.
    pub fn want_thread(&'static self, prepare: impl FnOnce() + Send + 'static) -> bool {
        self.thread_wanted.store(true, Ordering::Relaxed);
        if self.thread_started.swap(true, Ordering::AcqRel) {
            return true;
        }
        let body = move || {
            prepare();
            self.run();
        };
        let builder = std::thread::Builder::new().name("kolo progress".into());
        if own_thread::start(builder, body).is_err() {
            self.thread_started.store(false, Ordering::Release);
            tracing::warn!("no progress thread: work in flight moves only inside kolo calls");
            return false;
        }
        true
    }

    fn run(&self) {
        let mut still = 0;
        loop {
            if self.drive_those(|work| work.any_thread()) {
                still = 0;
                continue;
            }
            still += 1;
            let list = self.work.lock().unwrap_or_else(PoisonError::into_inner);
            if !list.iter().any(|work| work.any_thread()) {
                still = 0;
                drop(self.wake.wait(list));
            } else {
                drop(list);
                if still > PATIENCE {
                    std::thread::sleep(NAP)
                } else {
                    std::thread::yield_now()
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    struct Countdown(AtomicU32);

    impl Work for Countdown {
        fn pass(&self) -> Pass {
            let left = self.0.load(Ordering::SeqCst);
            if left == 0 {
                return Pass::Idle;
            }
            self.0.store(left - 1, Ordering::SeqCst);
            Pass::Moved
        }
    }

    fn engine() -> Engine {
        Engine {
            work: Mutex::new(Vec::new()),
            in_flight: AtomicUsize::new(0),
            thread_wanted: AtomicBool::new(false),
            thread_started: AtomicBool::new(false),
            wake: Condvar::new(),
        }
    }

    #[test]
    fn the_progress_thread_takes_no_signals() {
        let (say, hear) = std::sync::mpsc::channel();
        let engine: &'static Engine = Box::leak(Box::new(engine()));
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

    /// What only threads of the program may drive is left to them, whatever else there is.
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
        }
        let engine: &'static Engine = Box::leak(Box::new(engine()));
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

    #[test]
    fn work_is_driven_and_forgotten() {
        let engine = engine();
        let work = Arc::new(Countdown(AtomicU32::new(3)));
        engine.add(Arc::clone(&work) as Arc<dyn Work>);
        engine.add(Arc::clone(&work) as Arc<dyn Work>);
        assert!(engine.busy());
        let passes = (0..10).take_while(|_| engine.drive()).count();
        assert_eq!(passes, 3);
        assert!(!engine.busy(), "forgotten when idle");
    }
}
