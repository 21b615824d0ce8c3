//! The progress engine: who moves work that no caller is waiting for.
//!
//! **Problem.** A call on a stream must end whatever the program does meanwhile: compute, or wait
//! in another library for a rank that waits for this call. But a rank that computes needs its core.
//!
//! **Idea.** Work in flight (calls on streams, groups) registers here. Any thread that waits inside
//! kolo drives it; while none does, one thread of the process does ([`Engine::enter`] tells it). It
//! exists from the first such work on, sleeps without limit while nothing is in flight, and while
//! what is in flight is blocked it sleeps on what unblocks it ([`Rest`]). Blocking calls never wake
//! it: it is woken by new work only, and looks for callers that have left between naps.
//!
//! Under the policy `inline` there is no thread, and what only threads of the program may move
//! (`KOLO_NET=mpi` below `MPI_THREAD_MULTIPLE`, functions of the program) waits for them.

mod rest;
#[cfg(test)]
mod thread_tests;

use rest::Armed;
pub use rest::{NAP, Rest};

use crate::base::{Error, caught, own_thread};
use crate::transport::fork;
use crate::transport::futex::SystemFutex;
use crate::wire::doorbell::Doorbell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Result of a pass over some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Something moved.
    Moved,
    /// Nothing could move now.
    Waiting,
    /// Another thread drives it now, or one of the program's must: nothing was looked at.
    Elsewhere,
    /// Nothing is in flight: the engine forgets this work until it is added again.
    Idle,
}

/// Work that anybody may drive; one driver at a time is its own concern.
pub trait Work: Send + Sync {
    /// Moves what can move, without waiting.
    fn pass(&self) -> Pass;

    /// Moves what can move, on the progress thread.
    fn pass_on_thread(&self) -> Pass {
        self.pass()
    }

    /// A pass has panicked, and there will be none any more: whoever waits for this work must hear
    /// why it does not move.
    fn broken(&self, error: Error);

    /// Whether the progress thread may drive it too. If not, only threads of the program do.
    fn any_thread(&self) -> bool {
        true
    }

    /// How often the progress thread looks in vain, giving its core away in between, before it
    /// sleeps: some looks where it has a core of its own, few where a rank computes on it. With
    /// [`NO_SLEEP`] it does not, whatever else is in flight.
    fn patience(&self) -> u32 {
        PATIENCE
    }

    /// Adds what ends the sleep of the progress thread when there is something to do.
    fn rest<'a>(&'a self, rest: &mut Rest<'a>) {
        rest.at_most(NAP);
    }

    /// Whether what was added to it since does not change what [`Work::rest`] names.
    fn rests_alike(&self) -> bool {
        false
    }

    /// The bell that it may rest on.
    fn bell(&self) -> Option<&Doorbell> {
        None
    }
}

/// All work in flight of this process.
pub struct Engine {
    work: Mutex<Vec<Arc<dyn Work>>>,
    in_flight: AtomicUsize,
    /// Callers that drive.
    inside: AtomicUsize,
    /// One more than the generation (see [`fork`]) in which the thread was started; 0 for none.
    started: AtomicU32,
    /// Rung for new work.
    bell: Doorbell,
    /// Whether the thread holds work, and how often it has taken hold of some.
    holds: AtomicBool,
    rounds: AtomicU64,
    /// How often the thread was woken.
    wakeups: AtomicU64,
    /// How often the thread began to sleep.
    sleeps: AtomicU64,
}

/// Passes without movement after which the progress thread sleeps, where it has its own core.
pub const PATIENCE: u32 = 200;
/// Its first sleep; each further one is twice as long, until something moves.
const FIRST_NAP: Duration = Duration::from_micros(500);
/// Its longest sleep while something is in flight: callers that leave do not wake it.
const LONGEST_NAP: Duration = Duration::from_millis(20);
/// The longest while somebody else drives: he may leave at any time.
const LONGEST_BESIDE: Duration = Duration::from_millis(1);
/// A sleep without limit, nearly.
const FOREVER: Duration = Duration::from_secs(3600);

/// A caller that drives; the progress thread keeps away while it lives.
#[must_use = "dropping it at once says that nobody drives"]
pub struct Inside<'a>(&'a AtomicUsize);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One more than the generation of this process.
fn generation() -> u32 {
    fork::generation().wrapping_add(1)
}

/// Work that the progress thread holds.
struct Held<'a> {
    work: Vec<Arc<dyn Work>>,
    holds: &'a AtomicBool,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.work.clear();
        self.holds.store(false, Ordering::SeqCst);
    }
}

/// [`Work::patience`] of work that nothing would wake the thread for.
pub const NO_SLEEP: u32 = u32::MAX;

/// How often the thread looks in vain before it sleeps.
fn patience(list: &[Arc<dyn Work>]) -> u32 {
    let each = || list.iter().map(|work| work.patience());
    match each().any(|patience| patience == NO_SLEEP) {
        true => NO_SLEEP,
        false => each().min().unwrap_or(0),
    }
}

impl Engine {
    fn new() -> Engine {
        Engine {
            work: Mutex::new(Vec::new()),
            in_flight: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            started: AtomicU32::new(0),
            bell: Doorbell::new(),
            holds: AtomicBool::new(false),
            rounds: AtomicU64::new(0),
            wakeups: AtomicU64::new(0),
            sleeps: AtomicU64::new(0),
        }
    }

    /// The engine of this process.
    pub fn global() -> &'static Engine {
        static ENGINE: OnceLock<Engine> = OnceLock::new();
        ENGINE.get_or_init(Engine::new)
    }

    pub(crate) fn list(&self) -> MutexGuard<'_, Vec<Arc<dyn Work>>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything is in flight: one load, for waiting loops.
    #[inline(always)]
    pub fn busy(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    /// How often the progress thread was woken, and how often it went to sleep.
    pub fn wakeups(&self) -> (u64, u64) {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        (count(&self.wakeups), count(&self.sleeps))
    }

    /// A caller drives from now on, until it drops this.
    #[inline]
    pub fn enter(&self) -> Inside<'_> {
        self.inside.fetch_add(1, Ordering::Relaxed);
        Inside(&self.inside)
    }

    /// Adds work unless it is there already, and wakes the progress thread if it sleeps and would
    /// not hear of it otherwise.
    pub fn add(&self, work: Arc<dyn Work>) {
        let mut list = self.list();
        let is_new = !list.iter().any(|known| Arc::ptr_eq(known, &work));
        if is_new {
            list.push(Arc::clone(&work));
            self.in_flight.store(list.len(), Ordering::Relaxed);
        }
        let heard = !is_new && work.rests_alike();
        // The thread arms its bell before it looks at the list.
        let bells = list.iter().filter_map(|work| work.bell());
        if !heard && self.bell.ring_with(bells, &SystemFutex) {
            self.wakeups.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One pass over all work, for a thread of the program; says whether anything moved.
    pub fn drive(&self) -> bool {
        let list: Vec<Arc<dyn Work>> = match self.work.try_lock() {
            Ok(list) => list.clone(),
            Err(_) => return false,
        };
        self.pass_over(&list, |work| work.pass()) == Pass::Moved
    }

    /// One pass over this work. `Elsewhere` if somebody else drives any of it.
    fn pass_over(&self, list: &[Arc<dyn Work>], pass: impl Fn(&dyn Work) -> Pass) -> Pass {
        let mut all = Pass::Waiting;
        let mut idle: Vec<&Arc<dyn Work>> = Vec::new();
        for work in list {
            match (caught(|| pass(&**work)), all) {
                (Ok(Pass::Moved), _) => all = Pass::Moved,
                (Ok(Pass::Elsewhere), Pass::Waiting) => all = Pass::Elsewhere,
                (Ok(Pass::Idle), _) => idle.push(work),
                (Ok(_), _) => {}
                (Err(error), _) => {
                    self.give_up(work, error);
                    all = Pass::Moved;
                }
            }
        }
        self.forget(&idle, pass);
        all
    }

    /// Removes work whose pass panicked, and has it tell those who wait for it.
    #[cold]
    fn give_up(&self, work: &Arc<dyn Work>, error: Error) {
        tracing::error!("{error}");
        let mut list = self.list();
        list.retain(|known| !Arc::ptr_eq(known, work));
        self.in_flight.store(list.len(), Ordering::Relaxed);
        drop(list);
        // It may panic for the same reason; the other work goes on all the same.
        let _ = caught(|| work.broken(error));
    }

    /// Removes work that is still idle now that nobody can add it.
    fn forget(&self, idle: &[&Arc<dyn Work>], pass: impl Fn(&dyn Work) -> Pass) {
        if idle.is_empty() {
            return;
        }
        let mut list = self.list();
        list.retain(|work| {
            let candidate = idle.iter().any(|gone| Arc::ptr_eq(gone, work));
            // One that panics stays, to be given up when it is driven again.
            !(candidate && matches!(caught(|| pass(&**work)), Ok(Pass::Idle)))
        });
        self.in_flight.store(list.len(), Ordering::Relaxed);
    }

    /// Makes sure that the progress thread exists. `prepare` runs first on it (pinning). False if
    /// the system has no thread left.
    pub fn want_thread(&'static self, prepare: impl FnOnce() + Send + 'static) -> bool {
        // A forked child has no thread, and none of its threads is inside.
        let now = generation();
        let before = self.started.swap(now, Ordering::AcqRel);
        if before == now {
            return true;
        }
        if before != 0 {
            self.inside.store(0, Ordering::Relaxed);
            self.holds.store(false, Ordering::SeqCst);
        }
        let body = move || {
            if let Err(error) = caught(prepare) {
                tracing::error!("{error}");
            }
            self.run();
        };
        let builder = std::thread::Builder::new().name("kolo progress".into());
        if own_thread::start(builder, body).is_err() {
            self.started.store(0, Ordering::Release);
            tracing::warn!("no progress thread: work in flight moves only inside kolo calls");
            return false;
        }
        true
    }

    /// The work that the progress thread may drive.
    fn for_thread(&self) -> Held<'_> {
        let list = self.list();
        self.holds.store(true, Ordering::SeqCst);
        self.rounds.fetch_add(1, Ordering::SeqCst);
        let mine = list.iter().filter(|work| work.any_thread());
        Held {
            work: mine.cloned().collect(),
            holds: &self.holds,
        }
    }

    /// Forgets work that is over, and returns when the progress thread has let go of it: what it
    /// has must end while the program still lets it. Not for that thread.
    pub fn release(&self, work: &Arc<dyn Work>) {
        let has_thread = self.started.load(Ordering::Acquire) == generation();
        let holds = || has_thread && self.holds.load(Ordering::SeqCst);
        let mut list = self.list();
        let seen = self.rounds.load(Ordering::SeqCst);
        if holds() {
            let bells = list.iter().chain([work]).filter_map(|work| work.bell());
            self.bell.ring_with(bells, &SystemFutex);
        }
        list.retain(|known| !Arc::ptr_eq(known, work));
        self.in_flight.store(list.len(), Ordering::Relaxed);
        drop(list);
        while holds() && self.rounds.load(Ordering::SeqCst) == seen {
            std::thread::yield_now();
        }
    }

    fn is_driven(&self) -> bool {
        self.inside.load(Ordering::Relaxed) > 0
    }

    fn run(&self) {
        let mut still: u32 = 0;
        let mut nap = FIRST_NAP;
        loop {
            if !self.is_driven() {
                let list = &self.for_thread().work;
                let patience = patience(list);
                match self.pass_over(list, |work| work.pass_on_thread()) {
                    Pass::Moved => (still, nap) = (0, FIRST_NAP),
                    _ => still = still.saturating_add(1).min(NO_SLEEP - 1),
                }
                if still < patience {
                    std::thread::yield_now();
                    continue;
                }
            }
            match self.sleep(nap) {
                true => nap = (nap * 2).min(LONGEST_NAP),
                false => (still, nap) = (0, FIRST_NAP),
            }
        }
    }

    /// Sleeps until there may be something to do, with a last look between going to bed and
    /// falling asleep. False if there is something, or there was nothing in flight.
    fn sleep(&self, nap: Duration) -> bool {
        let armed = Armed::new((&self.bell).into());
        let held = self.for_thread();
        let list = &held.work;
        if list.is_empty() {
            drop(held);
            self.sleeps.fetch_add(1, Ordering::Relaxed);
            armed.sleep(FOREVER);
            return false;
        }
        let mut rest = Rest::default();
        let mut beside = self.is_driven();
        if !beside {
            list.iter().for_each(|work| work.rest(&mut rest));
            match self.pass_over(list, |work| work.pass_on_thread()) {
                Pass::Moved => return false,
                looked => beside = looked == Pass::Elsewhere,
            }
        }
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        match beside {
            true => armed.sleep(nap.min(LONGEST_BESIDE)),
            false => rest.sleep(nap, &armed),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub struct Countdown(pub AtomicU32);

    impl Work for Countdown {
        fn pass(&self) -> Pass {
            let left = self.0.load(Ordering::SeqCst);
            if left == 0 {
                return Pass::Idle;
            }
            self.0.store(left - 1, Ordering::SeqCst);
            Pass::Moved
        }

        fn broken(&self, _: Error) {}
    }

    /// Panics in its third pass, and notes what it is told.
    #[derive(Default)]
    struct Fragile(AtomicU32, Mutex<Vec<String>>);

    impl Work for Fragile {
        fn pass(&self) -> Pass {
            let passes = self.0.fetch_add(1, Ordering::SeqCst);
            assert!(passes < 2, "slot 5 is gone");
            Pass::Moved
        }

        fn broken(&self, error: Error) {
            self.1.lock().unwrap().push(error.into_what());
            panic!("and so is slot 6");
        }
    }

    #[test]
    fn a_panic_ends_one_work_and_not_the_thread() {
        let engine: &'static Engine = Box::leak(Box::new(Engine::new()));
        assert!(engine.want_thread(|| panic!("no place to run")));
        let fragile = Arc::new(Fragile::default());
        let sound = Arc::new(Countdown(AtomicU32::new(100)));
        engine.add(Arc::clone(&fragile) as Arc<dyn Work>);
        engine.add(Arc::clone(&sound) as Arc<dyn Work>);
        while sound.0.load(Ordering::SeqCst) > 0 || engine.busy() {
            std::thread::yield_now();
        }
        let told = fragile.1.lock().unwrap().clone();
        assert_eq!(told, ["a check inside kolo failed: slot 5 is gone"]);
        assert_eq!(fragile.0.load(Ordering::SeqCst), 3, "it is driven no more");
        // The thread is there for what comes later.
        let later = Arc::new(Countdown(AtomicU32::new(100)));
        engine.add(Arc::clone(&later) as Arc<dyn Work>);
        while later.0.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn work_is_driven_and_forgotten() {
        let engine = Engine::new();
        let work = Arc::new(Countdown(AtomicU32::new(3)));
        engine.add(Arc::clone(&work) as Arc<dyn Work>);
        engine.add(Arc::clone(&work) as Arc<dyn Work>);
        assert!(engine.busy());
        let passes = (0..10).take_while(|_| engine.drive()).count();
        assert_eq!(passes, 3);
        assert!(!engine.busy(), "forgotten when idle");
    }
}
