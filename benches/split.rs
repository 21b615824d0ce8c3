//! The price of splitting a communicator: `cargo bench --bench split`.
//!
//! Ranks are processes of this machine, or threads of one where `KOLO_TEST_THREADED` is set. For
//! every number of ranks: milliseconds of a split of all ranks and processor time of one process in
//! it (of all ranks where they are threads), milliseconds of the first call of 1 MiB on what it
//! makes beside a later one, and the address space of a process for each communicator, as long as
//! it is not used and after that call.

use kolo::base::clock;
use kolo::bootstrap::{NetSettings, UniqueId};
use kolo::comm::{CommConfig, Communicator, RedOp};
use std::process::{Command, Stdio};

const ORDER: &str = "KOLO_TEST_SPLITS";
const SPLITS: usize = 20;
const RANKS: [u32; 4] = [2, 4, 8, 16];
/// Elements of the large call.
const LARGE: usize = 1 << 18;

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// KiB of address space of this process.
fn address_space() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("proc");
    let pages = text
        .split(' ')
        .next()
        .and_then(|word| word.parse::<f64>().ok());
    pages.expect("a number") * 4.0
}

/// Microseconds of processor time of this process.
fn processor_time() -> f64 {
    // SAFETY: all-zero bytes are a valid `rusage`, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Milliseconds of `body` on the slowest rank, as rank 0 sees it.
fn timed(comm: &Communicator, body: impl FnOnce()) -> f64 {
    comm.barrier().expect("a barrier");
    let start = clock::now();
    body();
    comm.barrier().expect("a barrier");
    start.elapsed().as_secs_f64() * 1e3
}

/// Runs one rank; rank 0 prints the results.
fn rank(parent: &Communicator) {
    let config = CommConfig::default();
    let mut children = Vec::with_capacity(SPLITS);
    let mut split = || {
        let child = parent.split(Some(0), 0, &config).expect("a split");
        children.push(child.expect("a color"));
    };
    let first = timed(parent, &mut split);
    let (before, busy) = (address_space(), processor_time());
    let times = (1..SPLITS).map(|_| timed(parent, &mut split)).collect();
    let each = (address_space() - before) / (SPLITS - 1) as f64;
    let busy = (processor_time() - busy) / (SPLITS - 1) as f64;
    let mut data = vec![1.0_f32; LARGE];
    let mut large = |comm: &Communicator| {
        timed(parent, || {
            comm.all_reduce_in_place(&mut data, RedOp::MAX)
                .expect("a maximum")
        })
    };
    let _ = large(parent);
    let before = address_space();
    let firsts = children.iter().map(&mut large).collect();
    let used = (address_space() - before) / SPLITS as f64;
    let later = children.iter().map(&mut large).collect();
    if parent.rank() == 0 {
        println!(
            "{:5} {first:12.2} {:12.2} {busy:12.0} {:12.2} {:12.2} {each:14.0} {used:14.0}",
            parent.nranks(),
            median(times),
            median(firsts),
            median(later),
        );
    }
}

fn main() {
    if let Ok(order) = std::env::var(ORDER) {
        let words: Vec<&str> = order.split(' ').collect();
        let number = |word: &str| word.parse::<u32>().expect("a number");
        let digits = (0..words[0].len() / 2)
            .map(|at| u8::from_str_radix(&words[0][2 * at..2 * at + 2], 16).expect("hex"));
        let digits: Vec<u8> = digits.collect();
        let id = UniqueId::from_bytes(digits.try_into().expect("an id")).expect("an id");
        let (me, nranks) = (number(words[1]), number(words[2]));
        let comm = Communicator::init_rank(nranks, &id, me, &CommConfig::default());
        return rank(&comm.expect("init"));
    }
    println!(
        "{:>5} {:>12} {:>12} {:>12} {:>12} {:>12} {:>14} {:>14}",
        "ranks",
        "1st split ms",
        "split ms",
        "its CPU us",
        "1st 1 MiB ms",
        "later ms",
        "KiB unused",
        "KiB more used"
    );
    for nranks in RANKS {
        if std::env::var_os("KOLO_TEST_THREADED").is_some() {
            let comms = Communicator::init_all(nranks, &CommConfig::default()).expect("init");
            std::thread::scope(|scope| {
                for comm in &comms {
                    scope.spawn(|| rank(comm));
                }
            });
            continue;
        }
        let id = UniqueId::create(&NetSettings::default()).expect("an id");
        let hex: String = id.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
        let start = |me: u32| {
            let mut command = Command::new(std::env::current_exe().expect("a name"));
            command
                .env(ORDER, format!("{hex} {me} {nranks}"))
                .stdin(Stdio::null());
            command.spawn().expect("this program")
        };
        let children: Vec<_> = (0..nranks).map(start).collect();
        for mut child in children {
            assert!(child.wait().expect("a child").success());
        }
    }
}
