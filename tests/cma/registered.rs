//! Buffers that begin and end anywhere in a page, registered by processes; drawn from a seed.

use super::job::{Context, Job, say};
use super::scenarios::{await_state, wake};
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, Communicator, RedOp};
use kolo::dtype::DataType;
use kolo::transport::memory;
use std::ops::Range;

const SEED: &str = "KOLO_TEST_SEED";
/// Elements before and behind what is registered, at least.
const MARGIN: usize = 1500;
const POISON: i64 = -7_777_777;

pub fn by_name(name: &str) -> Option<fn(&Context)> {
    Some(match name {
        "registered" => registered,
        "stopped_gatherer" => stopped_gatherer,
        _ => return None,
    })
}

const DIRECT: [Collective; 7] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::Broadcast,
    Collective::AllToAll,
    Collective::Gather,
    Collective::Scatter,
];

/// Element `at` of block `block`, as `rank` sends it.
fn value(rank: usize, block: usize, at: usize, round: usize) -> i64 {
    ((rank * 31 + block * 17 + at * 7 + round * 13) % 1009) as i64
}

/// A call on buffers inside a slab, of which a part is registered.
struct Drawn {
    collective: Collective,
    count: usize,
    root: usize,
    slab: Vec<i64>,
    send: Range<usize>,
    recv: Range<usize>,
}

impl Drawn {
    /// `common` draws alike on all ranks, `own` does not.
    fn new(
        collective: Collective,
        (common, own): (&mut fastrand::Rng, &mut fastrand::Rng),
        (rank, ranks): (usize, usize),
    ) -> Drawn {
        // Enough for direct calls also where ranks share cores.
        let least = match collective {
            Collective::Gather | Collective::Scatter => 4 << 20,
            Collective::Broadcast => 2 << 20,
            _ => 512 << 10,
        };
        let count = least / size_of::<i64>() + common.usize(..3000);
        let root = common.usize(..ranks);
        let (inputs, outputs) = collective.blocks((rank as u32, root as u32, ranks as u32));
        let (inputs, outputs) = (inputs as usize * count, outputs as usize * count);
        let first = MARGIN + own.usize(..1024);
        let behind = first + inputs.max(outputs) + own.usize(..1024);
        let mine = |from: usize| from + rank * count..from + (rank + 1) * count;
        let (send, recv) = match (own.bool(), collective) {
            (true, Collective::AllReduce | Collective::Broadcast) => {
                (first..first + inputs, first..first + outputs)
            }
            (true, Collective::AllGather) => (mine(first), first..first + outputs),
            (true, Collective::ReduceScatter) => (first..first + inputs, mine(first)),
            _ => (first..first + inputs, behind..behind + outputs),
        };
        let end = send.end.max(recv.end);
        Drawn {
            collective,
            count,
            root,
            slab: vec![POISON; end + MARGIN],
            send,
            recv,
        }
    }

    /// The value that element `at` of the receive buffer must have afterwards.
    fn wanted(&self, at: usize, (rank, ranks): (usize, usize), round: usize) -> i64 {
        let (block, at) = (at / self.count, at % self.count);
        match self.collective {
            Collective::AllReduce => (0..ranks).map(|from| value(from, 0, at, round)).sum(),
            Collective::ReduceScatter => (0..ranks).map(|from| value(from, rank, at, round)).sum(),
            Collective::Broadcast => value(self.root, 0, at, round),
            Collective::AllToAll => value(block, rank, at, round),
            Collective::Scatter => value(self.root, rank, at, round),
            _ => value(block, 0, at, round),
        }
    }

    fn run(&mut self, comm: &Communicator, round: usize) {
        let (rank, ranks) = (comm.rank() as usize, comm.nranks() as usize);
        self.slab[self.recv.clone()].fill(POISON);
        for (at, place) in self.slab[self.send.clone()].iter_mut().enumerate() {
            *place = value(rank, at / self.count, at % self.count, round);
        }
        let before = self.slab.clone();
        let call = Call {
            collective: self.collective,
            send: self.slab[self.send.start..].as_ptr().cast(),
            recv: self.slab[self.recv.start..].as_mut_ptr().cast(),
            count: self.count,
            dtype: DataType::Int64,
            op: RedOp::SUM,
            peer: self.root as u32,
        };
        // SAFETY: the slab holds both buffers and outlives the call.
        unsafe { comm.enqueue(&call, None) }.expect("a call");
        let what = format!("{:?} of {} on rank {rank}", self.collective, self.count);
        for (at, found) in self.slab.iter().enumerate() {
            let wanted = match self.recv.contains(&at) {
                true => self.wanted(at - self.recv.start, (rank, ranks), round),
                // An input in place may be scratch for the result of others.
                false if self.collective == Collective::ReduceScatter => continue,
                false => before[at],
            };
            assert_eq!(
                *found, wanted,
                "{what}, {:?}, {:?}: {at}",
                self.send, self.recv
            );
        }
    }
}

fn registered(context: &Context) {
    let comm = context.join();
    let (rank, ranks) = (context.rank as usize, context.nranks as usize);
    let seed: u64 = std::env::var(SEED)
        .expect("a seed")
        .parse()
        .expect("a number");
    let mut common = fastrand::Rng::with_seed(seed);
    let mut own = fastrand::Rng::with_seed(seed + 1 + context.rank as u64);
    let before = comm.direct_calls().expect("alive");
    let mut calls = 0;
    for collective in [DIRECT, DIRECT].concat() {
        let mut drawn = Drawn::new(collective, (&mut common, &mut own), (rank, ranks));
        // Exactly the buffers, or one range around both.
        let around = [drawn.send.clone(), drawn.recv.clone()];
        let ranges = match own.bool() {
            true => around.to_vec(),
            false => {
                let first = around.iter().map(|one| one.start).min().expect("two");
                let end = around.iter().map(|one| one.end).max().expect("two");
                std::iter::once(first - own.usize(..700)..end + own.usize(..700)).collect()
            }
        };
        let handles: Vec<_> = ranges
            .iter()
            .map(|range| {
                let start = drawn.slab[range.start..].as_ptr().cast();
                // SAFETY: the slab lives until the registration has ended.
                unsafe { comm.register(start, 8 * range.len()) }.expect("registered")
            })
            .collect();
        for round in 0..2 {
            drawn.run(&comm, round);
            calls += 1;
        }
        for handle in handles {
            comm.deregister(handle).expect("deregistered");
        }
    }
    let direct = comm.direct_calls().expect("alive") - before;
    assert_eq!(direct, calls, "all calls read buffers where they lie");
    comm.destroy().expect("destroy");
}

#[test]
fn buffers_are_right_wherever_they_begin_and_end() {
    let seed = fastrand::u32(..).to_string();
    println!("seed {seed}");
    Job::start("registered", &[1, 1, 1], &[(SEED, &seed)]).finish();
}

/// Elements of a block, which ends in the middle of a page.
const BLOCK: usize = 200_100;

/// Where rank 1 stops itself: a page of its receive buffer that may not be touched.
static FORBIDDEN: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
const PAGE: usize = 4096;

extern "C" fn stop_here(_: libc::c_int) {
    let page = FORBIDDEN.load(std::sync::atomic::Ordering::Relaxed);
    // SAFETY: plain system calls on a page of this test; this thread goes on when it is woken.
    unsafe {
        libc::mprotect(
            page as *mut libc::c_void,
            PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
        );
        libc::raise(libc::SIGSTOP);
    }
}

/// Rank 1 stops itself while it stores its block into the buffer of rank 0, whose own block lies
/// there in place. Rank 0 aborts: what it has sent must still be there.
fn stopped_gatherer(context: &Context) {
    let comm = context.join();
    let mut pids = vec![0_u32; 2];
    comm.all_gather(&[std::process::id()], &mut pids)
        .expect("numbers");
    let me = context.rank as usize;
    let recv: *mut i64 = memory::allocate(16 * BLOCK).expect("memory").cast();
    let apart: *mut i64 = memory::allocate(8 * BLOCK).expect("memory").cast();
    // SAFETY: so many elements were allocated.
    let all = || unsafe { std::slice::from_raw_parts_mut(recv, 2 * BLOCK) };
    let mine = me * BLOCK..(me + 1) * BLOCK;
    all().fill(-1);
    all()[mine.clone()]
        .iter_mut()
        .enumerate()
        .for_each(|(at, word)| *word = at as i64);
    if me == 1 {
        let page = (recv.addr() + 8 * (BLOCK + BLOCK / 2)) / PAGE * PAGE;
        FORBIDDEN.store(page, std::sync::atomic::Ordering::Relaxed);
        // SAFETY: a page of the receive buffer; the handler makes system calls only.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = stop_here as *const () as usize;
            libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
            libc::mprotect(page as *mut libc::c_void, PAGE, libc::PROT_NONE);
        }
    } else {
        let (comm, writer) = (comm.clone(), pids[1]);
        std::thread::spawn(move || {
            await_state(writer, 'T');
            comm.abort().expect("abort");
        });
    }
    let call = Call {
        collective: Collective::AllGather,
        send: if me == 0 { recv.cast() } else { apart.cast() },
        recv: recv.cast(),
        count: BLOCK,
        dtype: DataType::Int64,
        op: RedOp::SUM,
        peer: 0,
    };
    // SAFETY: both buffers hold the blocks of the call.
    let error = unsafe { comm.enqueue(&call, None) }.expect_err("aborted");
    if me == 1 {
        say(&format!("ended {error}"));
        return;
    }
    let kept = |part: &[i64]| {
        part.iter()
            .enumerate()
            .filter(|(at, word)| **word == *at as i64)
            .count()
    };
    say(&format!("kept {}", kept(&all()[mine])));
    all().fill(i64::MIN);
    wake(pids[1]);
    await_state(pids[1], 'Z');
    let kept = all().iter().filter(|word| **word == i64::MIN).count();
    assert_eq!(kept, 2 * BLOCK, "written by who was stopped");
}

#[test]
fn the_own_block_of_a_gather_in_place_outlives_an_abort() {
    let mut job = Job::start("stopped_gatherer", &[1, 1], &[]);
    assert_eq!(job.hear("kept "), BLOCK.to_string());
    job.hear("ended ");
    job.finish();
}
