//! The whole grid: every registered algorithm with every number of ranks to 64 and the larger ones
//! it is meant for, on nodes of equal and unequal sizes, for all roots, with one channel and more,
//! in place and out of place, from the least capacity to 8 tokens. Cases run on all cores.

use super::{MOST_TOKENS, collectives, drawn, name, options, plans_on, programs};
use kolo::algo::{self, Entry};
use kolo::base::clock;
use kolo::plan::check::{self, Options, Report};
use kolo::plan::{Algorithm, Collective, Nodes};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Ranks up to here: every number of them, and every capacity from the least to the most.
const DENSE: u32 = 64;
/// Larger communicators, where the algorithm is meant for them: the least capacity (and the
/// failure one below) and 8 only, and chunks of one slice.
const SPARSE: [u32; 8] = [96, 100, 127, 128, 255, 256, 512, 1000];
/// Up to here 2 and 3 channels too, and all roots.
const FEW: u32 = 8;
/// Up to here every plan is lowered, and its program held against it.
const MOST_LOWERED: u32 = 24;
/// Nodes of unequal sizes.
const UNEVEN: [&[u32]; 10] = [
    &[1, 2],
    &[3, 1],
    &[2, 2, 1],
    &[1, 4, 2, 3],
    &[5, 5, 3],
    &[4, 4, 4, 1],
    &[2, 7, 1, 1, 6],
    &[8, 8, 8, 7],
    &[16, 1, 16, 3],
    &[1, 1, 1, 9, 1, 1],
];
/// Of each algorithm, so many cases with more ranks than `DENSE` are drawn: `make test-full` takes
/// all.
const DRAWN: usize = 3;
/// Seeds of the property test.
const SEEDS: u64 = 400;
/// Time that the tests of this process may take: three minutes on two cores. It is time of the
/// processor, for others may use the cores too.
const LIMIT: Duration = Duration::from_secs(2 * 180);

/// Time that all threads of this process have used.
fn processor_time() -> Duration {
    // SAFETY: all bits zero are a valid `rusage`, which is written by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage
    };
    let of = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// One call to check.
pub struct Case {
    pub entry: &'static Entry,
    pub nodes: Nodes,
    pub root: u32,
    pub channels: u16,
}

impl Case {
    fn n(&self) -> u32 {
        self.nodes.nranks()
    }

    /// About what it costs, to begin with the longest.
    fn cost(&self) -> u64 {
        u64::from(self.n()).pow(2) * u64::from(self.channels)
    }

    fn text(&self) -> String {
        let sizes = (0..self.nodes.count()).map(|node| self.nodes.ranks_of(node).len());
        let sizes: Vec<usize> = sizes.collect();
        let (name, n, root) = (name(self.entry), self.n(), self.root);
        let nodes = match sizes.len() {
            1 => String::new(),
            count if count <= 16 => format!(" on nodes of {sizes:?}"),
            count => format!(" on {count} nodes"),
        };
        let parts = self.nodes.parts().levels().len();
        format!(
            "{name}, {n} ranks{nodes}, {parts} levels of parts, root {root}, {} channels",
            self.channels
        )
    }

    pub fn check(&self) -> Report {
        let options = Options {
            most_tokens: MOST_TOKENS,
            every_capacity: self.n() <= DENSE,
            slices: if self.n() <= DENSE {
                vec![1, 2]
            } else {
                vec![1]
            },
            ..options(self.entry)
        };
        let plans = plans_on(self.entry, &self.nodes, self.root, self.channels);
        // Large plans differ from small ones in nothing that an image says.
        for plan in plans.iter().filter(|_| self.n() <= MOST_LOWERED) {
            programs::lower(plan);
        }
        let report = check::check(&plans, &options);
        let report = report.unwrap_or_else(|fault| panic!("{}: {fault}", self.text()));
        expect(self, &report);
        report
    }
}

/// Checks what the report must say, beside having no counterexample.
fn expect(case: &Case, report: &Report) {
    for (&slices, &least) in [1, 2].iter().zip(&report.least_tokens) {
        let declared = (case.entry.least_tokens)(slices);
        let text = case.text();
        assert!(
            least <= declared,
            "{text}: {least} tokens for {slices} slices"
        );
    }
    let promised = case.entry.collective != Collective::AllToAll;
    assert!(report.in_place_ok || !promised, "{}", case.text());
}

pub fn roots(entry: &Entry, n: u32) -> Vec<u32> {
    let mut roots: Vec<u32> = match n {
        _ if !entry.collective.has_root() => vec![0],
        1..=FEW => (0..n).collect(),
        9..=DENSE => vec![0, 1, n - 1],
        _ => vec![n / 3],
    };
    roots.dedup();
    roots
}

/// All nodes that an algorithm is checked on: one node for those that do not look at nodes.
fn machines(entry: &Entry) -> Vec<Nodes> {
    let sparse = SPARSE.into_iter().filter(|&n| n <= entry.most_ranks);
    let numbers = (1..=DENSE).chain(sparse);
    if !entry.by_node {
        return numbers.map(Nodes::one).collect();
    }
    let mut all: Vec<Nodes> = numbers.clone().map(|n| Nodes::every(n, 1)).collect();
    all.extend((2..=16).map(Nodes::one));
    all.extend(
        numbers
            .filter(|&n| n > 2)
            .map(|n| Nodes::every(n, n.min(8) / 2 + 1)),
    );
    for nodes in 2..=9 {
        all.extend((2..=6).map(|per_node| Nodes::uniform(nodes, per_node)));
    }
    all.extend(UNEVEN.map(Nodes::sizes));
    // Ranks dealt to the nodes in turn, as some launchers do.
    for (nodes, n) in [(2, 4), (2, 7), (3, 8), (4, 16), (5, 33)] {
        all.push(Nodes::of(
            &(0..n).map(|rank| rank % nodes).collect::<Vec<_>>(),
        ));
    }
    // Nodes that are numbered as the switches want them, and not as their ranks.
    for (nodes, order) in [
        (Nodes::uniform(3, 2), &[2, 0, 1][..]),
        (Nodes::sizes(&[2, 1, 3, 2]), &[0, 2, 1, 3]),
        (Nodes::of(&[0, 1, 2, 3, 0, 1, 2, 3]), &[0, 2, 3, 1]),
    ] {
        all.push(nodes.numbered(order).expect("a permutation"));
    }
    all.extend(
        with_parts()
            .into_iter()
            .filter(|nodes| nodes.nranks() <= entry.most_ranks),
    );
    all
}

/// Ranks of a node that fill its caches in order, or are dealt to its sockets in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dealt {
    InOrder,
    InTurn,
}

/// `count` nodes of `sockets` sockets, in each of which are `caches` caches of `cores` ranks.
pub fn machine(count: u32, [sockets, caches, cores]: [u32; 3], dealt: Dealt) -> Nodes {
    let per_node = sockets * caches * cores;
    let place = |rank: u32| {
        let local = rank % per_node;
        match dealt {
            Dealt::InOrder => (local / (caches * cores), local / cores),
            Dealt::InTurn => {
                let (socket, seat) = (local % sockets, local / sockets);
                (socket, socket * caches + seat / cores)
            }
        }
    };
    let places: Vec<(u32, u32)> = (0..count * per_node).map(place).collect();
    let (socket, cache) = places.into_iter().unzip();
    Nodes::uniform(count, per_node).with_parts(&[cache, socket])
}

/// Nodes whose ranks share caches and sockets: even ones, and others.
fn with_parts() -> Vec<Nodes> {
    use Dealt::{InOrder, InTurn};
    let even = [
        (1, [2, 2, 2], InOrder),
        (1, [2, 3, 2], InTurn),
        (1, [1, 3, 3], InOrder),
        (1, [3, 1, 2], InTurn),
        (1, [5, 2, 1], InOrder),
        (1, [2, 4, 8], InOrder),
        (1, [2, 4, 8], InTurn),
        (1, [1, 2, 20], InOrder),
        (2, [2, 2, 2], InTurn),
        (3, [2, 1, 2], InOrder),
        (6, [1, 2, 2], InOrder),
        (1, [2, 8, 8], InOrder),
        (1, [2, 8, 8], InTurn),
        (1, [2, 12, 8], InOrder),
        (2, [2, 8, 8], InOrder),
    ];
    let mut all: Vec<Nodes> = even
        .map(|(count, sizes, dealt)| machine(count, sizes, dealt))
        .into();
    let mixed = [
        (vec![0, 0, 0, 1, 1, 2, 2], vec![0, 0, 0, 0, 0, 1, 1]),
        (
            vec![4, 1, 4, 2, 1, 4, 2, 3, 3, 3],
            vec![0, 0, 0, 1, 0, 0, 1, 1, 1, 1],
        ),
        // Each cache has two ranks, but their leaders are at no equal distances.
        (vec![0, 1, 1, 0, 2, 2, 3, 3], vec![0; 8]),
    ];
    for (cache, socket) in mixed {
        all.push(Nodes::one(cache.len() as u32).with_parts(&[cache, socket]));
    }
    let unequal = Nodes::sizes(&[4, 6, 2]);
    all.push(unequal.with_parts(&[vec![0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]]));
    all.push(Nodes::one(40));
    all
}

fn cases(entry: &'static Entry) -> impl Iterator<Item = Case> {
    machines(entry).into_iter().flat_map(move |nodes| {
        let n = nodes.nranks();
        let most_channels = match n {
            1..=FEW => 3,
            _ => entry.channels,
        };
        let each =
            (1..=most_channels).flat_map(move |c| roots(entry, n).into_iter().map(move |r| (r, c)));
        each.map(move |(root, channels)| Case {
            entry,
            nodes: nodes.clone(),
            root,
            channels,
        })
    })
}

/// Runs all cases on all cores, the longest first, and collects their reports.
pub fn run(mut cases: Vec<Case>, collect: impl Fn(&Case, Report, Duration) + Sync) {
    cases.sort_by_key(|case| std::cmp::Reverse(case.cost()));
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begin = clock::now();
                    collect(case, case.check(), begin.elapsed());
                }
            });
        }
    });
}

/// Results of the grid for one algorithm.
#[derive(Default)]
struct Found {
    cases: u64,
    events: u64,
    time: Duration,
    /// Most tokens that any case needed, for 1 and 2 slices.
    least: [u32; 2],
}

/// Runs all cases, and tells what each algorithm took.
fn run_and_tell(cases: Vec<Case>) -> BTreeMap<String, Found> {
    let start = clock::now();
    let found: Mutex<BTreeMap<String, Found>> = Mutex::default();
    run(cases, |case, report, time| {
        let mut found = found.lock().unwrap();
        let found = found.entry(name(case.entry)).or_default();
        found.cases += 1;
        found.events += report.events;
        found.time += time;
        for (most, least) in found.least.iter_mut().zip(report.least_tokens) {
            *most = least.max(*most);
        }
    });
    let found = found.into_inner().unwrap();
    for (name, found) in &found {
        let (cases, events, time) = (found.cases, found.events, found.time);
        let least = found.least;
        println!("{name:32} {cases:>5} cases {events:>9} events {least:?} {time:>8.2?}");
    }
    let (time, used) = (start.elapsed(), processor_time());
    println!("in all {time:.2?}, and {used:.2?} of the processor so far");
    assert!(used < LIMIT, "the grid took {used:.2?} of the processor");
    found
}

#[test]
fn the_grid() {
    let all = collectives().flat_map(cases);
    let found = run_and_tell(all.filter(|case| case.n() <= DENSE).collect());
    // The declared number of tokens is needed: `least` was found by failing with one fewer.
    for entry in collectives() {
        let declared = [1, 2].map(entry.least_tokens);
        assert_eq!(found[&name(entry)].least, declared, "{}", name(entry));
    }
}

#[test]
fn the_grid_of_many_ranks() {
    let of = |entry| cases(entry).filter(|case| case.n() > DENSE).collect();
    run_and_tell(drawn::of_each("many ranks", collectives().map(of), DRAWN));
}

/// Random shapes; the seed is in the message.
#[test]
fn random_shapes() {
    let entries: Vec<_> = collectives().collect();
    for seed in 0..SEEDS {
        let mut random = fastrand::Rng::with_seed(seed);
        let entry = entries[random.usize(0..entries.len())];
        let sizes: Vec<u32> = (0..random.u32(1..=7)).map(|_| random.u32(1..=7)).collect();
        let mut names: Vec<u32> = Vec::new();
        for (node, &size) in sizes.iter().enumerate() {
            names.extend((0..size).map(|_| node as u32));
        }
        if random.bool() {
            random.shuffle(&mut names);
        }
        let mut nodes = Nodes::of(&names);
        if random.bool() {
            let mut order: Vec<u32> = (0..nodes.count()).collect();
            random.shuffle(&mut order);
            nodes = nodes.numbered(&order).expect("a permutation");
        }
        if random.bool() {
            let mut level = |parts| names.iter().map(|_| random.u32(0..parts)).collect();
            nodes = nodes.with_parts(&[level(6), level(2)]);
        }
        let case = Case {
            entry,
            root: random.u32(0..names.len() as u32),
            nodes,
            channels: random.u16(1..=4),
        };
        println!("seed {seed}: {}", case.text());
        case.check();
    }
}

/// Whether the fold keeps the order of ranks, as `docs/algorithms.md` says it.
fn rank_order_in_words(entry: &Entry) -> &'static str {
    let ordered = (5..=17).flat_map(|n| {
        let nodes = match entry.by_node {
            true => Nodes::every(n, 3),
            false => Nodes::one(n),
        };
        let root = (0..n).filter(|&r| r == 0 || entry.collective.has_root());
        root.map(move |root| (nodes.clone(), root))
    });
    let ordered: Vec<bool> = ordered
        .map(|(nodes, root)| {
            let plans = plans_on(entry, &nodes, root, 2);
            let report = check::check(&plans, &options(entry));
            report
                .unwrap_or_else(|fault| panic!("{fault}"))
                .rank_ordered
        })
        .collect();
    match ordered {
        _ if !entry.collective.reduces() => "-",
        all if all.iter().all(|&kept| kept) => "yes",
        some if some.iter().any(|&kept| kept) => "sometimes",
        _ => "no",
    }
}

/// The declared number of tokens, which [`the_grid`] proves, as `docs/algorithms.md` says it.
fn least_tokens_in_words(entry: &Entry) -> &'static str {
    match [1, 2].map(entry.least_tokens) {
        [1, 1] => "1",
        [1, 2] => "s",
        [2, 3] => "s + 1",
        [2, 4] => "2s",
        other => panic!("{} needs {other:?} tokens: name this here", name(entry)),
    }
}

/// `docs/algorithms.md` has a row for every algorithm. What the checker finds is compared; other
/// cells are prose. `KOLO_BLESS=1` adds rows that are missing.
#[test]
fn the_page_of_algorithms_is_complete_and_true() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/algorithms.md");
    let mut page = std::fs::read_to_string(path).expect("docs/algorithms.md");
    let mut missing = String::new();
    for entry in collectives() {
        let (algorithm, collective) = (entry.algorithm.name(), entry.collective.name());
        let found = [least_tokens_in_words(entry), rank_order_in_words(entry)];
        let start = format!("| `{algorithm}` | {collective} |");
        let Some(row) = page.lines().find(|line| line.starts_with(&start)) else {
            missing += &format!("{start} - | - | {} | {} | - |\n", found[0], found[1]);
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let said = [cells[5], cells[6]];
        assert_eq!(said, found, "tokens and rank order in the row {start}");
    }
    if std::env::var_os("KOLO_BLESS").is_some() {
        let end = page
            .find("\n\n`bundle` also carries")
            .expect("the end of the table")
            + 1;
        page.insert_str(end, &missing);
        std::fs::write(path, &page).expect("docs/algorithms.md");
    } else {
        assert!(
            missing.is_empty(),
            "docs/algorithms.md lacks\n{missing}run KOLO_BLESS=1 cargo test --test plans the_page"
        );
    }
}

/// The rank order that algorithms promise to operations that need it.
#[test]
fn rank_order() {
    let ordered = |collective, algorithm, n, root| {
        let entry = algo::find(collective, algorithm).expect("registered");
        let plans = plans_on(entry, &Nodes::one(n), root, 1);
        let report = check::check(&plans, &options(entry)).unwrap_or_else(|f| panic!("{f}"));
        report.rank_ordered
    };
    for n in 2..=20 {
        for algorithm in [Algorithm::OneShot, Algorithm::RecursiveDoubling] {
            assert!(ordered(Collective::AllReduce, algorithm, n, 0), "{n}");
        }
        assert!(
            ordered(Collective::Reduce, Algorithm::Binomial, n, 0),
            "{n}"
        );
        assert!(
            !ordered(Collective::AllReduce, Algorithm::Ring, n, 0),
            "{n}"
        );
        assert!(
            ordered(Collective::Reduce, Algorithm::Ring, n, n - 1),
            "{n}"
        );
        assert!(!ordered(Collective::Reduce, Algorithm::Ring, n, 0), "{n}");
    }
}
