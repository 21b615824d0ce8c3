//! Scenarios that the processes of the tests run.

use super::job::Context;
use super::threads;
use kolo::comm::RawCalls;
use kolo::comm::{Call, CommConfig, Communicator, RedOp, Stream};
use kolo::dtype::DataType;
use kolo::plan::Collective;
use kolo::proxy::progress::Engine;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The folder by which the ranks of a job speak without kolo.
pub const PLACE: &str = "KOLO_TEST_PLACE";
/// All ranks run on one core.
pub const ONE_CORE: &str = "KOLO_TEST_ONE_CORE";
/// Ranks are on two nodes, as far as kolo knows.
pub const NODES: &str = "KOLO_TEST_NODES";

const COUNT: usize = 300_000;
const POISON: i64 = 0x5a5a_5a5a_5a5a_5a5a;

pub fn by_name(name: &str) -> fn(&Context) {
    match name {
        "awaited" => awaited,
        "looked_at" => looked_at,
        "several" => several,
        "functions" => functions,
        "inline" => inline,
        "blocking" => blocking,
        "asleep" => asleep,
        "placed" => threads::placed,
        "left_alone" => threads::left_alone,
        "shared" => threads::shared,
        _ => panic!("there is no scenario {name:?}"),
    }
}

pub fn wants(what: &str) -> bool {
    std::env::var_os(what).is_some()
}

/// This thread runs on this processor only.
pub fn bind(cpu: u32) {
    // SAFETY: all-zero bytes are an empty set, which the calls fill and read.
    unsafe {
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut cores);
        let size = size_of::<libc::cpu_set_t>();
        assert_eq!(libc::sched_setaffinity(0, size, &raw const cores), 0);
    }
}

pub fn join(context: &Context) -> Communicator {
    if wants(ONE_CORE) {
        let cores = kolo::topo::affinity().expect("a binding");
        bind(cores.iter().next().expect("a core"));
    }
    let mut config = CommConfig::default();
    if wants(NODES) {
        let node = format!("node{}", context.rank % 2);
        config.overrides.push(("hostid".to_string(), node));
    }
    Communicator::init_rank(context.nranks, &context.id, context.rank, &config).expect("init")
}

/// Another communicator of the same ranks.
pub fn split(comm: &Communicator) -> Communicator {
    let made = comm.split(Some(0), comm.rank() as i32, &CommConfig::default());
    made.expect("a split").expect("a member")
}

fn place(what: &str) -> PathBuf {
    PathBuf::from(std::env::var_os(PLACE).expect("a folder")).join(what)
}

/// Tells the other ranks, by a file.
fn tell(what: &str) {
    std::fs::write(place(what), "").expect("a file");
}

/// Waits outside of kolo until it is told.
fn hear(what: &str) {
    while !place(what).exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A sum over all ranks of [`COUNT`] numbers, on a stream.
pub struct Sum {
    data: Vec<i64>,
    result: Vec<i64>,
    nranks: i64,
    stream: Stream,
}

impl Sum {
    pub fn begin(comm: &Communicator, op: RedOp, count: usize, stream: &Stream) -> Sum {
        let rank = i64::from(comm.rank());
        let mut sum = Sum {
            data: (0..count as i64).map(|i| i * 3 + rank * 1000).collect(),
            result: vec![POISON; count],
            nranks: i64::from(comm.nranks()),
            stream: stream.clone(),
        };
        let call = Call {
            collective: Collective::AllReduce,
            send: sum.data.as_ptr().cast(),
            recv: sum.result.as_mut_ptr().cast(),
            count,
            dtype: DataType::Int64,
            op,
            peer: 0,
        };
        // SAFETY: the buffers live on until `end`.
        unsafe { comm.enqueue(&call, Some(&sum.stream)) }.expect("begun");
        sum
    }

    pub fn end(self) {
        self.stream.synchronize().expect("a sum");
        let n = self.nranks;
        let ranks = n * (n - 1) / 2 * 1000;
        let mut values = (0..).map(|i| i * 3 * n + ranks);
        assert!(self.result.iter().all(|&it| Some(it) == values.next()));
    }
}

/// Rank 0 speaks only after its call has ended, and until then the others wait elsewhere.
fn awaited(context: &Context) {
    let comm = join(context);
    let sum = Sum::begin(&comm, RedOp::SUM, COUNT, &Stream::new().expect("a stream"));
    if context.rank == 0 {
        sum.end();
        tell("ended");
    } else {
        hear("ended");
        sum.end();
    }
    comm.destroy().expect("destroy");
}

/// After the call has begun no rank is inside kolo: each looks at its own memory until all results
/// are there, and enters again only when all ranks have seen theirs.
fn looked_at(context: &Context) {
    let comm = join(context);
    let sum = Sum::begin(&comm, RedOp::SUM, COUNT, &Stream::new().expect("a stream"));
    for element in &sum.result {
        // SAFETY: it is ours to read; kolo may write it meanwhile, whole as it is aligned.
        while unsafe { std::ptr::from_ref(element).read_volatile() } == POISON {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    tell(&format!("seen by {}", context.rank));
    for rank in 0..context.nranks {
        hear(&format!("seen by {rank}"));
    }
    sum.end();
    comm.destroy().expect("destroy");
}

/// Waits as [`awaited`] does, for calls of two communicators that follow each other on one stream.
fn several(context: &Context) {
    let comm = join(context);
    let other = split(&comm);
    let stream = Stream::new().expect("a stream");
    let comms = [&comm, &other, &comm, &other];
    let sums = comms.map(|comm| Sum::begin(comm, RedOp::SUM, COUNT, &stream));
    if context.rank != 0 {
        hear("ended");
    }
    sums.into_iter().for_each(Sum::end);
    tell("ended");
    other.destroy().expect("destroy");
    comm.destroy().expect("destroy");
}

fn functions(context: &Context) {
    let comm = join(context);
    let threads = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&threads);
    let add = move |first: &[i64], second: &mut [i64]| {
        notes.lock().unwrap().push(std::thread::current().id());
        first.iter().zip(second).for_each(|(a, b)| *b += a);
    };
    let op = comm.user_op::<i64>(true, add).expect("an operation");
    let stream = Stream::new().expect("a stream");
    // What is before and behind it may move without the program.
    let first = Sum::begin(&comm, RedOp::SUM, COUNT, &stream);
    let sum = Sum::begin(&comm, op, COUNT, &stream);
    let last = Sum::begin(&comm, RedOp::SUM, COUNT, &stream);
    std::thread::sleep(Duration::from_millis(100));
    for sum in [first, sum, last] {
        sum.end();
    }
    let here = std::thread::current().id();
    let threads = threads.lock().unwrap();
    assert!(!threads.is_empty() && threads.iter().all(|&thread| thread == here));
    comm.destroy().expect("destroy");
}

/// Number of the progress thread.
fn thread() -> Option<PathBuf> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("threads");
    let named = |task: &PathBuf| {
        let name = std::fs::read_to_string(task.join("comm"));
        name.is_ok_and(|name| name.trim() == "kolo progress")
    };
    tasks.map(|task| task.expect("a thread").path()).find(named)
}

fn inline(context: &Context) {
    let comm = join(context);
    let stream = Stream::new().expect("a stream");
    for _ in 0..3 {
        Sum::begin(&comm, RedOp::SUM, COUNT, &stream).end();
    }
    assert_eq!(thread(), None);
    comm.destroy().expect("destroy");
}

fn small(comm: &Communicator) {
    let mut data = [i64::from(comm.rank())];
    for _ in 0..1000 {
        comm.all_reduce_in_place(&mut data, RedOp::SUM).unwrap();
        comm.barrier().unwrap();
    }
}

/// Small blocking calls with nothing in flight, and beside a call that cannot end.
fn blocking(context: &Context) {
    let comm = join(context);
    let other = split(&comm);
    small(&comm);
    assert_eq!((thread(), Engine::global().wakeups()), (None, (0, 0)));
    let stream = Stream::new().expect("a stream");
    let sum = (context.rank == 0).then(|| Sum::begin(&comm, RedOp::SUM, COUNT, &stream));
    let before = Engine::global().wakeups().0;
    small(&other);
    for late in 0..20 {
        // Whoever waits for long drives what is in flight as well, and leaves again.
        if context.rank == late % 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        other.barrier().unwrap();
    }
    assert_eq!(Engine::global().wakeups().0, before);
    sum.unwrap_or_else(|| Sum::begin(&comm, RedOp::SUM, COUNT, &stream))
        .end();
    other.destroy().expect("destroy");
    comm.destroy().expect("destroy");
}

/// How often the progress thread has gone to sleep, as the system counts.
fn switches() -> u64 {
    let path = thread().expect("a progress thread").join("status");
    let status = std::fs::read_to_string(path).expect("a status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok())
        .expect("a number")
}

/// Switches of the thread while this one computes for half a second.
fn meanwhile() -> u64 {
    let before = switches();
    std::thread::sleep(Duration::from_millis(500));
    switches() - before
}

fn asleep(context: &Context) {
    let comm = join(context);
    let stream = Stream::new().expect("a stream");
    if context.rank == 0 {
        let sum = Sum::begin(&comm, RedOp::SUM, COUNT, &stream);
        std::thread::sleep(Duration::from_millis(100));
        // 25 naps at their longest; one every 200 us would be 2500.
        let blocked = meanwhile();
        assert!(blocked < 100, "{blocked} naps");
        tell("tried");
        sum.end();
    } else {
        hear("tried");
        Sum::begin(&comm, RedOp::SUM, COUNT, &stream).end();
    }
    // It notices within a nap that nothing is in flight.
    while Engine::global().busy() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(meanwhile(), 0);
    comm.barrier().expect("a barrier");
    comm.destroy().expect("destroy");
}
