//! Scenarios that the processes of the tests run.

use super::calls::{Case, DIRECT};
use super::job::{Context, say};
use kolo::base::{Code, Rank};
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Communicator, RedOp};
use kolo::dtype::{DataType, ReduceOp};
use kolo::plan::Collective;
use kolo::transport::cma::Mark;
use kolo::transport::memory;

const LONG_SUM: (DataType, ReduceOp) = (DataType::Int64, ReduceOp::Sum);

pub fn by_name(name: &str) -> fn(&Context) {
    match name {
        "shown" => shown,
        "around" => around,
        "types" => types,
        "mixed" => mixed,
        "counted" => counted,
        "refused" => refused,
        "killed" => killed,
        "hole" => hole,
        "stopped" => stopped,
        "stopped_left" => stopped_left,
        "stopped_mapped" => stopped_mapped,
        _ => super::deaths::by_name(name)
            .or_else(|| super::registered::by_name(name))
            .expect("there is such a scenario"),
    }
}

fn leave(comm: &Communicator) {
    let (executed, planned) = comm.step_counts().expect("alive");
    assert_eq!(executed, planned, "there is no path beside the plan");
    comm.destroy().expect("destroy");
}

/// Shows some memory, and waits to be killed.
fn shown(_: &Context) {
    let mark = Mark::new(0x0123_4567_89ab_cdef << 64 | 42);
    let data: Vec<u8> = (0..3_000_000).map(|i| (i % 251) as u8).collect();
    let (card, data_at) = (mark.card(), data.as_ptr().addr());
    say(&format!("shown {} {} {data_at}", card.address, card.word));
    std::thread::sleep(std::time::Duration::from_secs(60));
    drop((mark, data));
}

/// Sizes below what asks, below the threshold, at it, and beyond it by several slices.
fn around(context: &Context) {
    let comm = context.join();
    let mut repetition = 0;
    for collective in DIRECT {
        for bytes in [
            8, 65_528, 65_536, 131_064, 131_072, 131_080, 262_152, 1_200_024,
        ] {
            for _ in 0..2 {
                repetition += 1;
                Case::new(collective, context.nranks, LONG_SUM, bytes / 8, repetition).must(&comm);
            }
        }
    }
    leave(&comm);
}

/// Every type with every operation, in pieces that are no multiple of anything.
fn types(context: &Context) {
    let comm = context.join();
    let mut repetition = 0;
    for dtype in DataType::ALL {
        let count = 70_001 / dtype.size_bytes() + 1;
        for collective in DIRECT {
            let named = |op: &ReduceOp| op.number().is_some();
            let mut operations: Vec<ReduceOp> = dtype.operations().filter(named).collect();
            if !collective.reduces() {
                operations.truncate(1);
            }
            for op in operations {
                repetition += 1;
                Case::new(collective, context.nranks, (dtype, op), count, repetition).must(&comm);
            }
        }
    }
    leave(&comm);
}

/// Who has which kind of buffer changes from call to call.
fn mixed(context: &Context) {
    let comm = context.join();
    for repetition in 0..48_u64 {
        let bits = (repetition * 0x9e37_79b9) >> (4 * context.rank);
        let collective = DIRECT[repetition as usize % 4];
        let count = 10_000 + 1_777 * repetition as usize;
        let mut case = Case::new(collective, context.nranks, LONG_SUM, count, repetition / 4);
        case.mapped = (bits & 1 == 1, bits & 2 == 2);
        case.must(&comm);
    }
    leave(&comm);
}

/// Says how many steps one large call takes.
fn counted(context: &Context) {
    let comm = context.join();
    Case::new(Collective::AllReduce, context.nranks, LONG_SUM, 100_000, 2).must(&comm);
    let (executed, _) = comm.step_counts().expect("alive");
    say(&format!("steps {executed}"));
    leave(&comm);
}

/// Says how many steps a large call takes where nobody may read rank 1. A process that is not
/// dumpable is closed to all but the privileged, so privileges are dropped first.
fn refused(context: &Context) {
    // SAFETY: plain system calls; the numbers are those of "nobody".
    unsafe {
        if libc::getuid() == 0 {
            assert_eq!(libc::setgid(65534), 0);
            assert_eq!(libc::setuid(65534), 0);
        }
        let open = libc::c_ulong::from(context.rank != 1);
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, open, 0, 0, 0), 0);
    }
    counted(context);
}

/// Rank 1 is killed by itself while calls are under way.
fn killed(context: &Context) {
    let comm = context.join();
    if context.rank == 1 {
        std::thread::spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            // SAFETY: a plain system call, which ends this process.
            unsafe { libc::raise(libc::SIGKILL) };
        });
    }
    for repetition in 0_u64.. {
        let case = Case::new(
            Collective::AllReduce,
            context.nranks,
            LONG_SUM,
            500_000,
            repetition,
        );
        match case.run(&comm) {
            Ok(wrong) => assert_eq!(wrong, 0, "call {repetition}"),
            Err(error) => {
                assert_eq!(error.code, Code::RemoteError, "{error}");
                assert!(error.what.contains("rank 1"), "{error}");
                break;
            }
        }
    }
    let error = comm.barrier().expect_err("it has stopped");
    assert!(error.what.contains("rank 1"), "{error}");
    comm.abort().expect("abort");
}

/// The half of rank 1's buffer that rank 0 folds is closed; rank 1 itself does not touch it.
fn hole(context: &Context) {
    let comm = context.join();
    // One round: each rank folds a half.
    let bytes = 256 << 10;
    // SAFETY: a new mapping, of which the first half is closed again.
    let start = unsafe {
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let start = libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        if context.rank == 1 {
            assert_eq!(libc::mprotect(start, bytes / 2, libc::PROT_NONE), 0);
        }
        start.cast::<u8>()
    };
    let mut result = vec![0_u8; bytes];
    let call = Call {
        collective: Collective::AllReduce,
        send: start,
        recv: result.as_mut_ptr(),
        count: bytes / 8,
        dtype: DataType::Int64,
        op: RedOp::SUM,
        peer: 0,
    };
    // SAFETY: kolo reads the missing half from another process only, where that is an error.
    let error = unsafe { comm.enqueue(&call, None) }.expect_err("half of it is missing");
    assert_eq!(error.code, Code::RemoteError, "{error}");
    let named = error.what.contains("rank 1 (process ");
    assert!(named && error.what.contains("cannot be read at"), "{error}");
    // A rank is not its own peer.
    let peer = (context.rank != 1).then_some(Rank(1));
    assert_eq!(error.peer, peer, "{error}");
    comm.abort().expect("abort");
}

/// [`stopped_in_a_fold`] with buffers that are mapped.
fn stopped_mapped(context: &Context) {
    stopped_in_a_fold(context, true, true);
}

/// See [`stopped_in_a_fold`].
fn stopped(context: &Context) {
    stopped_in_a_fold(context, false, true);
}

/// [`stopped_in_a_fold`], but rank 1 is woken up when rank 0 has ended.
fn stopped_left(context: &Context) {
    stopped_in_a_fold(context, false, false);
}

/// Elements of a block of [`stopped_in_a_fold`]: several parts of one round.
const FOLDED: usize = 60_000;

/// Rank 1 stops itself in the middle of a fold from the buffer of rank 0, which aborts, writes to
/// its buffer, and perhaps wakes it up.
fn stopped_in_a_fold(context: &Context, mapped: bool, wakes: bool) {
    let comm = context.join();
    let mut pids = vec![0_u32; 2];
    comm.all_gather(&[std::process::id()], &mut pids)
        .expect("numbers");
    let me = context.rank as usize;
    let op = comm
        .user_op(true, move |first: &[i64], second: &mut [i64]| {
            static STOPPED: std::sync::Once = std::sync::Once::new();
            if me == 1 {
                // SAFETY: a plain system call.
                STOPPED.call_once(|| unsafe {
                    libc::raise(libc::SIGSTOP);
                });
            }
            for (a, b) in first.iter().zip(second) {
                *b += a;
            }
        })
        .expect("an operation");
    let (mut send, mut recv) = (Words::new(2 * FOLDED, mapped), Words::new(FOLDED, mapped));
    let value = |rank: usize, at: usize| (rank as i64 + 1) * (at as i64 + 3);
    for (at, word) in send.get().iter_mut().enumerate() {
        *word = value(me, at);
    }
    recv.get().fill(-1);
    let call = Call {
        collective: Collective::ReduceScatter,
        send: send.get().as_ptr().cast(),
        recv: recv.get().as_mut_ptr().cast(),
        count: FOLDED,
        dtype: DataType::Int64,
        op,
        peer: 0,
    };
    if me == 0 {
        let comm = comm.clone();
        let reader = pids[1];
        std::thread::spawn(move || {
            await_state(reader, 'T');
            comm.abort().expect("abort");
        });
    }
    // SAFETY: both buffers hold what the call says, and are touched after it only.
    let result = unsafe { comm.enqueue(&call, None) };
    if me == 0 {
        result.expect_err("aborted");
        send.get().fill(i64::MIN);
        if wakes {
            wake(pids[1]);
        }
    } else {
        let at = |i: usize| value(0, FOLDED + i) + value(1, FOLDED + i);
        let right = recv
            .get()
            .iter()
            .enumerate()
            .all(|(i, word)| *word == at(i));
        assert!(
            result.is_err() || right,
            "wrong bits must not look like success"
        );
        say(&format!("ended {}", result.expect_err("it was stopped")));
    }
    comm.abort().expect("abort");
}

/// Lets a stopped process go on.
pub fn wake(pid: u32) {
    // SAFETY: a plain system call; the process is a child or a sibling of this one.
    assert_eq!(unsafe { libc::kill(pid as i32, libc::SIGCONT) }, 0);
}

/// Waits until a process is in this state.
pub fn await_state(pid: u32, state: char) {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        let (_, rest) = stat.rsplit_once(") ").expect("a name in brackets");
        if rest.starts_with(state) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Memory of either kind, zero at first. What is mapped stays so.
pub enum Words {
    Private(Vec<i64>),
    Mapped(*mut i64, usize),
}

impl Words {
    pub fn new(count: usize, mapped: bool) -> Words {
        match mapped {
            false => Words::Private(vec![0; count]),
            true => Words::Mapped(memory::allocate(8 * count).expect("memory").cast(), count),
        }
    }

    pub fn get(&mut self) -> &mut [i64] {
        match self {
            Words::Private(words) => words,
            // SAFETY: allocated with so many words, zero at first, until the process ends.
            Words::Mapped(start, count) => unsafe {
                std::slice::from_raw_parts_mut(*start, *count)
            },
        }
    }
}
