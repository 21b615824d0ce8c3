//! Memory of a rank on nodes of few and of many ranks, as docs/memory.md has it: what all share, by
//! pages that have memory, and what a process has for itself, by bytes asked of its allocator.

use super::counting::ALL;
use super::job::Context;
use super::scenarios::bytes_of_files;
use kolo::comm::{CommConfig, Communicator, RedOp};
use std::sync::Barrier;
use std::sync::atomic::Ordering;

/// Bytes of the calls.
const CALL: usize = 64 << 10;

/// Kibibytes for each rank of a node, half of whose ranks are in a process.
pub struct Budget {
    pub ranks: u32,
    /// Shared: when the communicator is made, after a call of 8 bytes, after [`CALL`] bytes level
    /// by level, after an all-to-all of them.
    shared: [u64; 4],
    /// Its own: when the communicator is made, and in the end.
    private: [u64; 2],
}

pub const BUDGET: [Budget; 5] = [
    row(2, [18, 18, 146, 178], [174, 402]),
    row(16, [9, 9, 460, 716], [135, 356]),
    row(64, [6, 6, 380, 1665], [158, 438]),
    row(128, [7, 7, 501, 2733], [197, 562]),
    row(192, [7, 7, 633, 1169], [237, 532]),
];

const fn row(ranks: u32, shared: [u64; 4], private: [u64; 2]) -> Budget {
    Budget {
        ranks,
        shared,
        private,
    }
}

impl Budget {
    fn text(&self) -> String {
        let all = self.shared.iter().chain(&self.private);
        let cells: Vec<String> = all.map(|kib| format!("{kib} KiB")).collect();
        format!("| {} | {} |", self.ranks, cells.join(" | "))
    }

    /// The page has this row.
    pub fn is_on_the_page(&self) {
        let (page, text) = (include_str!("../../docs/memory.md"), self.text());
        assert!(page.contains(&text), "docs/memory.md has no row {text}");
    }

    /// A tenth more is too much.
    fn allows(&self, found: &Budget) {
        let pairs = [&self.shared[..], &self.private].concat();
        let found_pairs = [&found.shared[..], &found.private].concat();
        let is_kept = pairs
            .iter()
            .zip(&found_pairs)
            .all(|(most, found)| found * 10 <= most * 11);
        assert!(is_kept, "{} instead of {}", found.text(), self.text());
    }
}

/// Ranks of a process, which do everything at the same time.
struct Ranks<'a> {
    context: &'a Context,
    /// Of the node, and of this process.
    numbers: (u32, u32),
    meet: Barrier,
    /// Bytes that the process had before.
    heap: isize,
}

impl Ranks<'_> {
    /// A node of caches and two sockets, where all calls go level by level.
    fn config(&self) -> CommConfig {
        let all = self.numbers.0;
        let (cache, socket) = ((all / 8).clamp(1, 8), all / 2);
        let (cache, socket) = (cache.to_string(), socket.to_string());
        let settings = [
            ("algo", "hier;allreduce:leader;barrier:leader"),
            ("ranks_per_cache", &cache),
            ("ranks_per_socket", &socket),
            ("direct", "off"),
            ("wait", "sleep"),
        ];
        CommConfig {
            overrides: settings.map(|(k, v)| (k.into(), v.into())).to_vec(),
            ..CommConfig::default()
        }
    }

    /// Shared and private memory of a rank, in KiB, while nothing is in flight.
    fn memory(&self, comm: &Communicator) -> (u64, u64) {
        let (all, mine) = self.numbers;
        // All have done what is measured, and nobody of this process is inside a call.
        comm.barrier().expect("a barrier");
        self.meet.wait();
        let heap = ALL.load(Ordering::Relaxed) - self.heap;
        let found = (
            bytes_of_files() / u64::from(all),
            heap as u64 / u64::from(mine),
        );
        // Nobody goes on while somebody measures.
        self.meet.wait();
        comm.barrier().expect("a barrier");
        (found.0.div_ceil(1 << 10), found.1.div_ceil(1 << 10))
    }

    /// Runs one of them, and measures on the way.
    fn run(&self, number: u32) -> Budget {
        let (all, mine) = self.numbers;
        let rank = self.context.rank * mine + number;
        let comm = self.context.join_as(rank, all, &self.config());
        let made = self.memory(&comm);
        let mut sum = [1.0];
        comm.all_reduce_in_place(&mut sum, RedOp::SUM)
            .expect("a sum");
        assert_eq!(sum, [f64::from(all)]);
        let small = self.memory(&comm);
        let block = CALL / 4 / all as usize;
        let (mut data, mut mine) = (vec![1.0_f32; block * all as usize], vec![0.0; block]);
        comm.reduce_scatter(&data, &mut mine, RedOp::SUM)
            .expect("a sum");
        comm.all_gather(&mine, &mut data).expect("blocks");
        comm.broadcast(&mut data, 0).expect("data");
        let large = self.memory(&comm);
        let mut blocks = vec![0.0; data.len()];
        comm.all_to_all(&data, &mut blocks).expect("blocks");
        assert!(blocks.iter().all(|&sum| sum == all as f32));
        let pairs = self.memory(&comm);
        comm.destroy().expect("end");
        Budget {
            ranks: all,
            shared: [made.0, small.0, large.0, pairs.0],
            private: [made.1, pairs.1],
        }
    }
}

/// Compares a node with its budget, which has its ranks in the processes of the job.
pub fn node(context: &Context, nranks: u32) {
    // What a process has once, whatever its ranks do, is there before.
    let alone = Communicator::init_all(1, &CommConfig::default()).expect("init");
    let mine = nranks / context.nranks;
    let ranks = Ranks {
        context,
        numbers: (nranks, mine),
        meet: Barrier::new(mine as usize),
        heap: ALL.load(Ordering::Relaxed),
    };
    std::thread::scope(|scope| {
        for number in 0..mine {
            let ranks = &ranks;
            scope.spawn(move || {
                let found = ranks.run(number);
                if context.rank == 0 && number == 0 {
                    eprintln!("{}", found.text());
                    let budget = BUDGET.iter().find(|budget| budget.ranks == nranks);
                    budget.expect("a row").allows(&found);
                }
            });
        }
    });
    drop(alone);
}
