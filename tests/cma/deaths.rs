//! Ranks that are killed in the middle of things, and ranks that are stopped and go on.

use super::job::{Context, Job, say};
use super::scenarios::{Words, await_state, wake};
use kolo::base::{Code, Error};
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, CommConfig, Communicator, RedOp, Stream};
use kolo::dtype::DataType;
use kolo::transport::memory;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Elements of a large call: several steps of several rounds.
const COUNT: usize = 200_000;

pub fn by_name(name: &str) -> Option<fn(&Context)> {
    Some(match name {
        "killed_in_slots" => |context| killed_in_a_fold(context, false),
        "killed_in_mapped" => |context| killed_in_a_fold(context, true),
        "killed_in_split" => killed_in_split,
        "killed_in_destroy" => killed_in_destroy,
        "late" => late,
        "stopped_writer" => stopped_writer,
        _ => return None,
    })
}

/// A signal to this process from itself.
fn raise(signal: i32) {
    // SAFETY: a plain system call.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

/// A sum; before each part of one, rank 1 calls `then`.
fn sum(comm: &Communicator, then: impl Fn() + Send + Sync + 'static) -> RedOp {
    let is_one = comm.rank() == 1;
    let combine = move |first: &[i64], second: &mut [i64]| {
        if is_one {
            then();
        }
        for (a, b) in first.iter().zip(second) {
            *b += a;
        }
    };
    comm.user_op(true, combine).expect("an operation")
}

/// Contribution of `rank` to call number `number`.
fn value(rank: u32, at: usize, number: u64) -> i64 {
    (i64::from(rank) + 1) * (at as i64 % 1009 + number as i64)
}

fn all_reduce(op: RedOp, send: &mut Words, recv: &mut Words) -> Call {
    Call {
        collective: Collective::AllReduce,
        send: send.get().as_ptr().cast(),
        recv: recv.get().as_mut_ptr().cast(),
        count: COUNT,
        dtype: DataType::Int64,
        op,
        peer: 0,
    }
}

fn filled(rank: u32, number: u64, mapped: bool) -> (Words, Words) {
    let (mut send, mut recv) = (Words::new(COUNT, mapped), Words::new(COUNT, mapped));
    for (at, word) in send.get().iter_mut().enumerate() {
        *word = value(rank, at, number);
    }
    recv.get().fill(-1);
    (send, recv)
}

fn names_the_dead(error: &Error) {
    assert_eq!(error.code, Code::RemoteError, "{error}");
    assert!(error.to_string().contains("rank 1"), "{error}");
}

/// Rank 1 is killed while it folds what the others have put into slots, or where it lies.
fn killed_in_a_fold(context: &Context, mapped: bool) {
    let comm = context.join();
    let op = sum(&comm, || raise(libc::SIGKILL));
    let (mut send, mut recv) = filled(context.rank, 0, mapped);
    // SAFETY: both hold what the call says, until the process ends.
    let result = unsafe { comm.enqueue(&all_reduce(op, &mut send, &mut recv), None) };
    names_the_dead(&result.expect_err("one is dead"));
    names_the_dead(&comm.barrier().expect_err("it has stopped"));
    comm.abort().expect("abort");
}

/// Rank 1 is killed while all make communicators and end them.
fn killed_in_split(context: &Context) {
    let comm = context.join();
    if context.rank == 1 {
        // Another one than the usual comes from the environment.
        let seed = std::env::var("KOLO_TEST_SEED").ok();
        let seed = seed.map_or(1, |seed| seed.parse().expect("a number"));
        eprintln!("KOLO_TEST_SEED={seed}");
        let moment = fastrand::Rng::with_seed(seed).u64(..60_000);
        std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_micros(moment));
            raise(libc::SIGKILL);
        });
    }
    let one = || {
        let half = comm.split(Some(0), 0, &CommConfig::default())?;
        half.expect("a colour").destroy()
    };
    let error = loop {
        if let Err(error) = one() {
            break error;
        }
    };
    names_the_dead(&error);
    comm.abort().expect("abort");
}

/// Rank 1 is killed while it waits in destroy for calls in flight.
fn killed_in_destroy(context: &Context) {
    static LEAVES: AtomicBool = AtomicBool::new(false);
    const CALLS: usize = 50;
    let comm = context.join();
    let other = comm.split(Some(0), 0, &CommConfig::default());
    let other = other.expect("split").expect("a colour");
    let op = sum(&comm, || {
        if LEAVES.load(Ordering::Relaxed) {
            raise(libc::SIGKILL);
        }
    });
    let stream = Stream::new().expect("a stream");
    let mut buffers: Vec<_> = (0..CALLS).map(|_| filled(context.rank, 0, false)).collect();
    if context.rank != 1 {
        other.barrier().expect("barrier");
    }
    for (send, recv) in &mut buffers {
        // SAFETY: both hold what the call says, until the process ends.
        unsafe { comm.enqueue(&all_reduce(op, send, recv), Some(&stream)) }.expect("begun");
    }
    if context.rank == 1 {
        // The others begin only now, so all of it is still to be done.
        other.barrier().expect("barrier");
        LEAVES.store(true, Ordering::Relaxed);
    }
    names_the_dead(&comm.destroy().expect_err("one is dead"));
    names_the_dead(&stream.synchronize().expect_err("its calls"));
    other.abort().expect("abort");
}

/// Rank 1 stops itself in the middle of two of the calls; somebody wakes it up.
fn late(context: &Context) {
    static CALL: AtomicU64 = AtomicU64::new(0);
    static STOPPED_IN: AtomicU64 = AtomicU64::new(0);
    let comm = context.join();
    let op = sum(&comm, || {
        let call = CALL.load(Ordering::Relaxed);
        if [2, 5].contains(&call) && STOPPED_IN.swap(call, Ordering::Relaxed) != call {
            say(&format!("stops in {call}"));
            raise(libc::SIGSTOP);
        }
    });
    for number in 1..=6 {
        CALL.store(number, Ordering::Relaxed);
        let (mut send, mut recv) = filled(context.rank, number, number % 2 == 0);
        // SAFETY: both hold what the call says, and are touched after it only.
        unsafe { comm.enqueue(&all_reduce(op, &mut send, &mut recv), None) }.expect("a live rank");
        for (at, &got) in recv.get().iter().enumerate() {
            let wanted: i64 = (0..context.nranks)
                .map(|rank| value(rank, at, number))
                .sum();
            assert_eq!(got, wanted, "call {number}, element {at}");
        }
        comm.barrier().expect("a live rank");
    }
    say("done");
    comm.destroy().expect("destroy");
}

/// Rank 1 stops itself in the middle of a fold whose result it stores into the buffer of rank 0,
/// which aborts, uses its buffer again, and wakes rank 1 up. What that one then writes must not
/// arrive.
fn stopped_writer(context: &Context) {
    let comm = context.join();
    let mut pids = vec![0_u32; 2];
    let gathered = comm.all_gather(&[std::process::id()], &mut pids);
    gathered.expect("numbers");
    static STOPPED: AtomicBool = AtomicBool::new(false);
    let op = sum(&comm, || {
        if !STOPPED.swap(true, Ordering::Relaxed) {
            raise(libc::SIGSTOP);
        }
    });
    let (mut send, mut recv) = filled(context.rank, 0, true);
    // The buffers of the two ranks begin at different places of a page.
    let first = usize::from(context.rank == 0);
    let call = Call {
        recv: recv.get()[first..].as_mut_ptr().cast(),
        count: COUNT - 1,
        ..all_reduce(op, &mut send, &mut recv)
    };
    if context.rank == 0 {
        let (comm, writer) = (comm.clone(), pids[1]);
        std::thread::spawn(move || {
            await_state(writer, 'T');
            comm.abort().expect("abort");
        });
    }
    // SAFETY: both buffers hold what the call says, and are touched after it only.
    let result = unsafe { comm.enqueue(&call, None) };
    let error = result.expect_err("aborted");
    if context.rank == 1 {
        say(&format!("ended {error}"));
        return;
    }
    let place = recv.get().as_ptr().cast();
    assert!(
        memory::find(place, 8 * COUNT).is_none(),
        "it was taken back"
    );
    recv.get().fill(i64::MIN);
    wake(pids[1]);
    await_state(pids[1], 'Z');
    let kept = recv.get().iter().filter(|word| **word == i64::MIN).count();
    assert_eq!(kept, COUNT, "written by who was stopped");
    send.get().fill(i64::MAX);
}

#[test]
fn what_a_stopped_writer_writes_after_an_abort_does_not_arrive() {
    let mut job = Job::start("stopped_writer", &[1, 1], &[]);
    let error = job.hear("ended ");
    assert!(error.contains("rank 0 called CommAbort"), "{error}");
    job.finish();
}

#[test]
fn a_rank_that_is_killed_in_a_large_call_is_named() {
    Job::start("killed_in_slots", &[1, 1, 1], &[("KOLO_DIRECT", "off")]).finish_but(1);
    Job::start("killed_in_mapped", &[1, 1, 1], &[]).finish_but(1);
}

#[test]
fn a_rank_that_is_killed_while_communicators_are_made_is_named() {
    for _ in 0..3 {
        Job::start("killed_in_split", &[1, 1, 1], &[]).finish_but(1);
    }
}

#[test]
fn a_rank_that_is_killed_in_destroy_is_named() {
    Job::start(
        "killed_in_destroy",
        &[1, 1, 1],
        &[("KOLO_PROGRESS", "inline")],
    )
    .finish_but(1);
}

#[test]
fn a_stopped_rank_is_waited_for() {
    let mut job = Job::start("late", &[1, 1, 1], &[]);
    for call in [2, 5] {
        // Nobody says anything else before: no call ends without the stopped rank.
        job.hear(&format!("stops in {call}"));
        await_state(job.pid(1), 'T');
        // SAFETY: a plain system call; the process is this one's child, and was not waited for.
        assert_eq!(unsafe { libc::kill(job.pid(1) as i32, libc::SIGCONT) }, 0);
    }
    (0..3).for_each(|_| drop(job.hear("done")));
    job.finish();
}
