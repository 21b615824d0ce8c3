//! A program whose timer interrupts it all the time, as profilers do: no system call of kolo ends
//! the worse for it, in any phase, over shared memory and over sockets.

use super::job::{Context, Job};
use kolo::comm::RawCalls;
use kolo::comm::{Call, CommConfig, Communicator, RedOp, Stream};
use kolo::dtype::DataType;
use kolo::plan::Collective;
use std::cell::Cell;

/// Every second rank is on another node, as far as kolo knows.
const NODES: &str = "KOLO_TEST_NODES";
const POISON: i64 = 0x5a5a_5a5a_5a5a_5a5a;
const SIZES: [usize; 6] = [1, 6, 700, 5000, 70_000, 300_001];
const INTERVAL_NS: i64 = 200_000;

thread_local! {
    /// Signals that this thread has had.
    static HAD: Cell<u64> = const { Cell::new(0) };
}

extern "C" fn on_signal(_: libc::c_int) {
    HAD.set(HAD.get() + 1);
}

/// A timer that interrupts the thread that made it. Threads of kolo take no signals, and a timer
/// of the whole process would find its first thread, which is no rank here.
struct Storm(libc::timer_t);

impl Storm {
    fn begin() -> Storm {
        // SAFETY: all-zero bytes are valid for these plain structures, whose fields are then set;
        // the calls read them and write to a live place. Without SA_RESTART the system tells the
        // thread of each interruption.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
            assert_eq!(
                libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()),
                0
            );
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGALRM;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::mem::zeroed();
            assert_eq!(
                libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer),
                0
            );
            let interval = libc::timespec {
                tv_sec: 0,
                tv_nsec: INTERVAL_NS,
            };
            let times = libc::itimerspec {
                it_interval: interval,
                it_value: interval,
            };
            assert_eq!(
                libc::timer_settime(timer, 0, &times, std::ptr::null_mut()),
                0
            );
            Storm(timer)
        }
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        // SAFETY: the timer was made above, and is deleted once.
        assert_eq!(unsafe { libc::timer_delete(self.0) }, 0);
    }
}

/// Contribution of `rank` to a call.
fn value(rank: u32, at: usize, number: usize) -> i64 {
    (i64::from(rank) * 31 + at as i64 * 7 + number as i64 * 13) % 101 - 50
}

fn input(rank: u32, count: usize, number: usize) -> Vec<i64> {
    (0..count).map(|at| value(rank, at, number)).collect()
}

/// The sum over the members, which are ranks of the first communicator.
fn sum(members: &[u32], at: usize, number: usize) -> i64 {
    members.iter().map(|&rank| value(rank, at, number)).sum()
}

/// Calls of every size, blocking and on a stream, each with data of its own.
fn calls(comm: &Communicator, members: &[u32]) {
    let (n, me) = (members.len(), comm.rank() as usize);
    for (number, count) in SIZES.into_iter().enumerate() {
        let mine = input(members[me], count * n, number);
        let mut folded = vec![POISON; count];
        comm.reduce_scatter(&mine, &mut folded, RedOp::SUM)
            .expect("a live rank");
        for (at, &got) in folded.iter().enumerate() {
            assert_eq!(got, sum(members, me * count + at, number), "{count}, {at}");
        }
        let mut all = vec![POISON; count * n];
        comm.all_gather(&mine[..count], &mut all)
            .expect("a live rank");
        for (at, &got) in all.iter().enumerate() {
            assert_eq!(
                got,
                value(members[at / count], at % count, number),
                "{count}, {at}"
            );
        }
        let (next, previous) = ((me + 1) % n, (me + n - 1) % n);
        let mut passed = vec![POISON; count];
        comm.scope(|scope| {
            scope.send(&mine[..count], next as u32)?;
            scope.recv(&mut passed, previous as u32)
        })
        .expect("a live rank");
        assert!(passed == input(members[previous], count, number), "{count}");
        on_stream(comm, members, &mine[..count], number);
    }
}

fn on_stream(comm: &Communicator, members: &[u32], mine: &[i64], number: usize) {
    let stream = Stream::new().expect("a stream");
    let mut all = vec![POISON; mine.len()];
    let call = Call {
        collective: Collective::AllReduce,
        send: mine.as_ptr().cast(),
        recv: all.as_mut_ptr().cast(),
        count: mine.len(),
        dtype: DataType::Int64,
        op: RedOp::SUM,
        peer: 0,
    };
    // SAFETY: the buffers live until the stream has come to its end.
    unsafe { comm.enqueue(&call, Some(&stream)) }.expect("begun");
    stream.synchronize().expect("a live rank");
    for (at, &got) in all.iter().enumerate() {
        assert_eq!(
            got,
            sum(members, at, number),
            "{} elements, {at}",
            mine.len()
        );
    }
}

/// Runs each process: everything, while it is interrupted.
pub fn storm(context: &Context) {
    let mut config = CommConfig::default();
    if std::env::var_os(NODES).is_some() {
        let node = format!("node{}", context.rank % 2);
        config.overrides.push(("hostid".to_string(), node));
    }
    let storm = Storm::begin();
    let mut had = 0;
    let mut interrupted = |phase: &str| {
        let before = std::mem::replace(&mut had, HAD.get());
        assert!(had > before, "no signal during {phase}");
    };
    let comm = Communicator::init_rank(context.nranks, &context.id, context.rank, &config);
    let comm = comm.expect("init");
    interrupted("init");
    let everybody: Vec<u32> = (0..context.nranks).collect();
    calls(&comm, &everybody);
    interrupted("calls");
    for round in 0..5 {
        // Halves with a node each, and halves with parts of both.
        let colour = |rank: u32| if round % 2 == 0 { rank % 2 } else { rank / 2 };
        let mine = colour(context.rank);
        let part = comm.split(Some(mine), 0, &CommConfig::default());
        let part = part.expect("a split").expect("a colour");
        let members: Vec<u32> = (0..context.nranks).filter(|&r| colour(r) == mine).collect();
        calls(&part, &members);
        part.destroy().expect("destroy");
    }
    interrupted("splits");
    comm.barrier().expect("a live rank");
    comm.destroy().expect("destroy");
    drop(storm);
}

#[test]
fn interruptions_harm_nothing_in_shared_memory() {
    for progress in ["thread", "inline"] {
        Job::start("storm", &[1; 4], &[("KOLO_PROGRESS", progress)]).finish();
    }
}

#[test]
fn interruptions_harm_nothing_where_private_buffers_are_read() {
    Job::start("storm", &[1; 3], &[("KOLO_CMA", "on")]).finish();
}

#[test]
fn interruptions_harm_nothing_between_nodes() {
    for progress in ["thread", "inline"] {
        let settings = [(NODES, "1"), ("KOLO_PROGRESS", progress)];
        Job::start("storm", &[1; 4], &settings).finish();
    }
    Job::start("storm", &[1; 3], &[("KOLO_SHM_DISABLE", "1")]).finish();
}

#[test]
fn interruptions_harm_no_threads_of_one_process() {
    Job::start("storm", &[2, 2], &[(NODES, "1")]).finish();
}
