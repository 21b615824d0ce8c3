//! Scenarios that the ranks of a job run; each function runs once for each rank.

use super::job::{Context, PATIENCE};
use kolo::base::Rank;
use kolo::base::sync::{AtomicU32, Ordering};
use kolo::proxy::service;
use kolo::transport::futex::{SystemFutex, lets_others_fence};
use kolo::transport::segment::Segment;
use kolo::wire::doorbell::{Doorbell, Fencing, OwnBell};
use std::sync::Mutex;
use std::time::{Duration, Instant};

pub const NONCE: u128 = 0x1234_5678_9abc_def0;

pub fn by_name(name: &str) -> fn(&Context) {
    match name {
        "share" => share,
        "doorbell" => doorbell,
        "watch" => watch,
        "leave" => leave,
        "exit" => exit_early,
        "fork" => fork,
        "cycle" => cycle,
        "idle" => idle,
        "links" => links,
        "emfile" => emfile,
        "few" => few,
        "netns" => netns,
        "disagree" => disagree,
        other => panic!("no scenario {other}"),
    }
}

/// Open descriptors and threads of this process. One thread counts at a time: the descriptor
/// that counting opens must not be counted by another.
fn holdings() -> (usize, usize) {
    static COUNTING: Mutex<()> = Mutex::new(());
    let _alone = COUNTING.lock().unwrap();
    let count = |path| std::fs::read_dir(path).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

/// Everyone writes, everyone sees all; goodbye is no death.
fn share(context: &Context) {
    let (joined, deaths) = context.join(NONCE);
    let (segment, nranks) = (&joined.segment, context.nranks as usize);
    let at = |rank: usize| Segment::user_offset(nranks) + 8 * rank;
    assert_eq!(segment.len(), 1 << 20);
    assert!((0..nranks).all(|rank| segment.word(at(rank)).load(Ordering::Acquire) == 0));
    context.barrier();
    let mine = segment.word(at(context.rank as usize));
    mine.store(100 + u64::from(context.rank), Ordering::Release);
    context.barrier();
    for rank in 0..nranks {
        let value = segment.word(at(rank)).load(Ordering::Acquire);
        assert_eq!(value, 100 + rank as u64);
    }
    if context.first {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let count = maps.matches("memfd:kolo").count();
        // The file's control and the head are mapped once each, whatever the number of ranks in the
        // process.
        assert_eq!(
            count,
            2 * usize::from(segment.between_processes()),
            "{maps}"
        );
        let named = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| {
                let target = std::fs::read_link(entry.unwrap().path()).ok()?;
                let target = target.to_string_lossy().into_owned();
                (target.starts_with("/dev/shm") || target.contains("memfd")).then_some(target)
            });
        // One file for parts that are mapped later; none where ranks are threads.
        let named: Vec<String> = named.collect();
        assert_eq!(
            named.len(),
            usize::from(segment.between_processes()),
            "{named:?}"
        );
        context.say(&format!("shared {}", segment.between_processes()));
    }
    drop(joined);
    context.barrier();
    std::thread::sleep(Duration::from_millis(100));
    assert!(deaths.try_recv().is_err());
}

/// Ranks 0 and 1 hand a counter to and fro, sleeping in between; first the publisher fences, and
/// then the sleeper where the system lets it.
fn doorbell(context: &Context) {
    let (joined, _deaths) = context.join(NONCE);
    let base = joined
        .segment
        .as_ptr()
        .wrapping_add(Segment::user_offset(2));
    // SAFETY: four lines inside the segment, zero at first, used only as what they are viewed as
    // here, and dropped before the segment.
    let (bells, turn, count) = unsafe {
        let bell = |offset| &*base.add(offset).cast::<Doorbell>();
        let turn = &*base.add(128).cast::<AtomicU32>();
        ([bell(0), bell(64)], turn, &*base.add(192).cast())
    };
    let by_sleeper = lets_others_fence();
    context.barrier();
    let fencings = [Fencing::Publisher, Fencing::Sleeper];
    let rounds = 2000;
    for (part, &fencing) in (0..).zip(&fencings[..1 + usize::from(by_sleeper)]) {
        let own = |me: usize| OwnBell {
            bell: bells[me],
            count: Some(count),
            fencing,
        };
        for round in part * rounds..(part + 1) * rounds {
            hand_over(context, &own, turn, round);
        }
        context.barrier();
    }
}

/// One round of the above.
fn hand_over<'a>(
    context: &Context,
    own: &impl Fn(usize) -> OwnBell<'a>,
    turn: &AtomicU32,
    round: u32,
) {
    let (me, other) = (own(context.rank as usize), own(1 - context.rank as usize));
    let mine = 2 * round + context.rank;
    let begun = Instant::now();
    let mut ticket = None;
    while turn.load(Ordering::Acquire) != mine {
        let armed = ticket.map_or_else(|| me.arm(&SystemFutex), |_| me.again());
        ticket = Some(armed);
        if turn.load(Ordering::Acquire) != mine {
            me.sleep(armed, PATIENCE, &SystemFutex);
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "a wake-up was lost in round {round}"
        );
    }
    if ticket.is_some() {
        me.disarm();
    }
    turn.store(mine + 1, Ordering::Release);
    other.bell.ring(other.fencing, &SystemFutex);
}

/// Says the service's address and "ready", then what deaths it hears of, until it is told to end.
fn watch(context: &Context) {
    let (joined, deaths) = context.join(NONCE);
    if context.first {
        context.say(&format!("address {}", service::get().unwrap().address()));
    }
    context.sync.wait();
    if context.first {
        context.say("ready");
    }
    report_death(context, &deaths);
    context.sync.wait();
    drop(joined);
}

fn report_death(context: &Context, deaths: &super::job::Deaths) {
    let (ranks, text) = deaths.recv_timeout(PATIENCE).unwrap();
    let ranks: Vec<String> = ranks.iter().map(Rank::to_string).collect();
    context.say(&format!("death of {}: {text}", ranks.join(",")));
}

/// The last rank leaves and its process ends; nobody calls that a death.
fn leave(context: &Context) {
    let (joined, deaths) = context.join(NONCE);
    if context.rank == context.nranks - 1 {
        drop(joined);
        return;
    }
    assert!(deaths.recv_timeout(Duration::from_millis(700)).is_err());
    drop(joined);
}

/// The last rank's process exits in the middle of things.
fn exit_early(context: &Context) {
    let (joined, deaths) = context.join(NONCE);
    context.barrier();
    if context.rank == context.nranks - 1 {
        std::process::exit(0);
    }
    report_death(context, &deaths);
    drop(joined);
}

/// The last rank's process forks a child that outlives it.
fn fork(context: &Context) {
    let (joined, deaths) = context.join(NONCE);
    context.barrier();
    if context.rank != context.nranks - 1 {
        context.say("ready");
        report_death(context, &deaths);
        drop(joined);
        return;
    }
    let mut pipe = [0; 2];
    // SAFETY: `pipe` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: the child is single-threaded and leaves by _exit or by the alarm.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = service::get().is_err_and(|error| error.what.contains("forked"));
        let refused = refused && kolo::transport::fork::in_child_of_user();
        drop(joined);
        // SAFETY: plain system calls; the alarm ends the child when the test is long over.
        unsafe {
            let answer = [u8::from(refused)];
            libc::write(pipe[1], answer.as_ptr().cast(), 1);
            // The test would wait for the end of these streams.
            for stream in 0..3 {
                libc::close(stream);
            }
            libc::alarm(5);
            loop {
                libc::pause();
            }
        }
    }
    let mut answer = [9_u8];
    // SAFETY: one writable byte.
    let count = unsafe { libc::read(pipe[0], answer.as_mut_ptr().cast(), 1) };
    assert_eq!(count, 1);
    context.say(&format!("refused in the child: {}", answer[0]));
    std::thread::sleep(PATIENCE);
    drop(joined);
}

/// Many communicators, one after the other: nothing accumulates.
fn cycle(context: &Context) {
    let once = |nonce| {
        let (joined, deaths) = context.join(nonce);
        drop(joined);
        assert!(deaths.try_recv().is_err());
    };
    once(1);
    context.barrier();
    let before = holdings();
    context.sync.wait();
    let begun = Instant::now();
    for nonce in 2..102 {
        once(nonce);
    }
    context.barrier();
    if context.first {
        context.say(&format!("cycle {} us", begun.elapsed().as_micros() / 100));
    }
    // The service closes links a moment after the last goodbye.
    let mut after = holdings();
    while after.0 > before.0 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
        after = holdings();
    }
    assert!(
        after.0 <= before.0 && after.1 == before.1,
        "{before:?} became {after:?}"
    );
    assert_eq!(kolo::transport::segment::registered(), 0);
    context.barrier();
}

/// How often the other threads of this process have been given a core, by the kernel's count. A
/// thread that sleeps is given none.
fn turns_of_others() -> i64 {
    let turns = |whose| {
        // SAFETY: all-zero bytes are a valid `rusage`, and the call fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(whose, &raw mut usage), 0);
            usage
        };
        usage.ru_nvcsw + usage.ru_nivcsw
    };
    turns(libc::RUSAGE_SELF) - turns(libc::RUSAGE_THREAD)
}

/// An open watch costs nothing: once all is said, its threads sleep for good.
fn idle(context: &Context) {
    let (joined, _deaths) = context.join(NONCE);
    context.barrier();
    // What was said last may still be on its way.
    let mut turns = turns_of_others();
    let slept = (0..20).any(|_| {
        std::thread::sleep(Duration::from_secs(1));
        let before = std::mem::replace(&mut turns, turns_of_others());
        before == turns
    });
    assert!(slept, "a thread wakes up again and again: {turns} turns");
    context.say("idle");
    context.barrier();
    drop(joined);
}

fn socket_count() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = fds.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    links
        .filter(|link| link.to_string_lossy().starts_with("socket:"))
        .count()
}

/// Two communicators need one link; the first is left, the second hears of the death.
fn links(context: &Context) {
    let none = socket_count();
    // The service's listener comes with the first communicator.
    let (first, first_deaths) = context.join(1);
    assert_eq!(socket_count(), none + 2);
    let (second, second_deaths) = context.join(2);
    assert_eq!(socket_count(), none + 2);
    context.barrier();
    drop(first);
    context.barrier();
    context.say("ready");
    report_death(context, &second_deaths);
    assert!(first_deaths.try_recv().is_err());
    drop(second);
}

/// Sets the limit on open descriptors and returns the one before.
fn set_descriptor_limit(limit: u64) -> u64 {
    let mut values = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `values` is readable and writable.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut values), 0);
        let before = std::mem::replace(&mut values.rlim_cur, limit);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const values), 0);
        before
    }
}

/// Rank 0 has no descriptor left: a sentence for all, and no spinning service.
fn emfile(context: &Context) {
    let (first, _deaths) = context.join(1);
    if context.rank == 0 {
        context.say(&format!("address {}", service::get().unwrap().address()));
    }
    // A further one would lie in the file of the first.
    drop(first);
    context.barrier();
    let before = (context.rank == 0).then(|| set_descriptor_limit(4));
    let (second, _) = context.try_join(2, 1 << 20);
    context.say(&second.unwrap_err().to_string());
    if let Some(before) = before {
        let before_all = turns_of_others();
        context.say("full");
        // For as long a stranger comes and waits for half a second.
        std::thread::sleep(Duration::from_secs(3));
        // It rests for 100 ms each time; one that spins takes every turn that it gets.
        let turns = turns_of_others() - before_all;
        assert!(turns < 1000, "{turns} turns");
        set_descriptor_limit(before);
        context.say("room again");
    }
    let (third, _deaths) = context.join(3);
    drop(third);
    // Whoever came while there was no room is served before this process ends.
    context.barrier();
    std::thread::sleep(Duration::from_millis(500));
}

/// The limit that rank 0 has in `few`.
pub const FEW: u64 = 64;
/// With so many descriptors left, every communicator can be made.
pub const MOST_LEFT: u64 = 8;

/// Rank 0 has 0, 1, 2, ... descriptors left.
fn few(context: &Context) {
    // The processes know each other, and have a service each.
    let (first, _deaths) = context.join(1);
    // Further ones would lie in the file of the first.
    drop(first);
    context.barrier();
    let before = (context.rank == 0).then(|| set_descriptor_limit(FEW));
    for left in 0..=MOST_LEFT {
        let mut fillers = Vec::new();
        if context.rank == 0 {
            fillers.extend(std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()));
            fillers.truncate(fillers.len() - left as usize);
        }
        context.barrier();
        let (joined, _deaths) = context.try_join(2 + u128::from(left), 1 << 20);
        drop(fillers);
        match &joined {
            Ok(_) => context.say(&format!("{left} left:joined")),
            Err(error) => context.say(&format!("{left} left:{error}")),
        }
        context.barrier();
    }
    if let Some(before) = before {
        set_descriptor_limit(before);
    }
}

/// The last rank's process is in a network namespace of its own.
fn netns(context: &Context) {
    if context.rank == context.nranks - 1 {
        // SAFETY: changes the namespace of this thread and of those that it starts.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            context.say("not allowed");
        }
    }
    let (joined, _) = context.try_join(NONCE, 1 << 20);
    match joined {
        Ok(_) => context.say("joined"),
        Err(error) => context.say(&error.to_string()),
    }
}

/// The last rank wants another length.
fn disagree(context: &Context) {
    let odd = usize::from(context.rank == context.nranks - 1);
    let (joined, _) = context.try_join(NONCE, (1 << 20) + 4096 * odd);
    context.say(&joined.unwrap_err().to_string());
    // All failed together, so all may go on together.
    let (joined, _deaths) = context.join(NONCE);
    context.barrier();
    drop(joined);
}
