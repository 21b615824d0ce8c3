//! The decision of `libkolo_pmpi`, which all ranks must take alike, over drawn calls.
//!
//! Each rank of a drawn job has its own view of a call, as MPI lets it: its part of the data in
//! other elements, in place, with arguments that count on the root only. From its view a rank
//! makes the size that `bindings/pmpi/src/moves.rs`, `vectors.rs` and `reductions.rs` make.

#[path = "../bindings/pmpi/src/decide.rs"]
mod decide;
#[path = "../bindings/pmpi/src/footprint.rs"]
mod footprint;
#[path = "../bindings/pmpi/src/places.rs"]
mod places;
#[path = "dropin/places.rs"]
mod places_tests;
#[path = "../bindings/pmpi/src/table.rs"]
mod table;
#[path = "dropin/tables.rs"]
mod tables;

use kolo::base::mpi_calls;
use kolo::tune::mpi_table;

use decide::{
    Across, Agreement, Attach, Class, Collective, Decision, Elements, Known, Left, Reason, Size,
    Stage,
};
use kolo::base::mpi_calls::{ListedCalls, WrongCall};

const CALLS: usize = 200_000;

/// The names of `front/names.h`, in its order.
fn listed() -> Vec<String> {
    let header = include_str!("../bindings/pmpi/front/names.h");
    let names = header.split("X(").skip(1);
    let names = names.filter_map(|rest| rest.split_once(')'));
    names
        .map(|(name, _)| name.to_string())
        .filter(|name| name != "X")
        .collect()
}

#[test]
fn the_front_has_the_names_of_the_decision() {
    let plain = Collective::ALL.iter().map(|one| one.name().to_string());
    // The barrier has no count.
    let large = Collective::ALL[1..]
        .iter()
        .map(|one| format!("{}_c", one.name()));
    let memory = ["Alloc_mem", "Free_mem"].map(str::to_owned);
    let all: Vec<String> = plain.chain(large).chain(memory).collect();
    let found = listed();
    // What stands before is the macro's own argument.
    assert_eq!(found[found.len() - all.len()..], all[..]);
    let count = format!("#define KOLO_PMPI_COUNT {}\n", all.len());
    assert!(include_str!("../bindings/pmpi/front/names.h").contains(&count));
    for (place, one) in Collective::ALL.iter().enumerate() {
        assert_eq!(*one as usize, place);
    }
}

/// A rank's own view of some data: elements of its type.
#[derive(Clone, Copy, Debug)]
struct View {
    count: u64,
    bytes: u64,
}

impl View {
    /// So many bytes in elements of a drawn size.
    fn draw(random: &mut fastrand::Rng, bytes: u64) -> View {
        let sizes = [1, 2, 3, 4, 8, 12, 16, 40];
        let fitting: Vec<u64> = sizes
            .into_iter()
            .filter(|size| bytes.is_multiple_of(*size))
            .collect();
        let size = fitting[random.usize(..fitting.len())];
        View {
            count: bytes / size,
            bytes: size,
        }
    }

    fn total(&self) -> u64 {
        self.count * self.bytes
    }
}

/// A call, as MPI wants all ranks to have it.
#[derive(Clone, Debug)]
struct Call {
    collective: Collective,
    root: usize,
    /// Bytes of each rank's block; all equal but for the calls with vectors.
    blocks: Vec<u64>,
    elements: Elements,
}

const CLASSES: [Class; 8] = [
    Class::Integer,
    Class::Unsigned,
    Class::Floating,
    Class::Complex,
    Class::Logical,
    Class::Bytes,
    Class::Pair,
    Class::Other,
];

fn draw_call(random: &mut fastrand::Rng, nranks: usize) -> Call {
    let collective = Collective::ALL[random.usize(..Collective::COUNT)];
    let most = if random.u8(..4) == 0 { 1 << 20 } else { 200 };
    let equal = random.u64(..most);
    let class = match random.u8(..9) {
        8 => None,
        class => Some(CLASSES[usize::from(class)]),
    };
    Call {
        collective,
        root: random.usize(..nranks),
        blocks: match collective {
            Collective::Gatherv | Collective::Scatterv | Collective::Allgatherv => {
                (0..nranks).map(|_| random.u64(..most)).collect()
            }
            _ => vec![equal; nranks],
        },
        elements: Elements {
            class,
            bytes: [1, 2, 4, 8, 16, 10, 32][random.usize(..7)],
            count: equal,
            sums: random.bool(),
            ordered: random.bool(),
        },
    }
}

/// The size that a rank makes of what it alone is given.
fn seen(random: &mut fastrand::Rng, call: &Call, rank: usize) -> Size {
    let own = call.blocks[rank];
    let (send, recv) = (View::draw(random, own), View::draw(random, own));
    let garbage = View {
        count: random.u64(..1 << 30),
        bytes: random.u64(..64),
    };
    let (in_place, is_root) = (random.bool(), rank == call.root);
    match call.collective {
        Collective::Barrier
        | Collective::Gatherv
        | Collective::Scatterv
        | Collective::Alltoallv => Size::Unknown,
        Collective::Bcast => Size::Bytes(send.total()),
        // In place, the root's other side says it; elsewhere that side is nobody's.
        Collective::Gather | Collective::Scatter => {
            let (mine, roots) = match call.collective {
                Collective::Gather => (send, recv),
                _ => (recv, send),
            };
            let roots = if is_root { roots } else { garbage };
            Size::Bytes(if is_root && in_place { roots } else { mine }.total())
        }
        Collective::Allgather => Size::Bytes(if in_place { recv } else { send }.total()),
        Collective::Alltoall => Size::Bytes(recv.total()),
        Collective::Allgatherv => {
            let parts = call
                .blocks
                .iter()
                .map(|&block| View::draw(random, block).total());
            Size::Bytes(parts.sum())
        }
        _ => Size::Elements(call.elements),
    }
}

/// Whether data that go up to the first rank of each node, across and down again are where the
/// call wants them.
fn goes_in_levels(known: &Known, collective: Collective, size: Size) -> bool {
    match collective {
        Collective::Barrier | Collective::Bcast => true,
        Collective::Reduce | Collective::Allreduce => match size {
            Size::Elements(elements) => known.span.in_order || !elements.ordered,
            _ => false,
        },
        Collective::Allgather => match size {
            Size::Bytes(block) => known.span.in_order && block * u64::from(known.nranks) < 1 << 31,
            _ => false,
        },
        _ => false,
    }
}

/// Holds a single decision to its account.
fn check(
    agreed: &Agreement,
    before: &Known,
    collective: Collective,
    decision: Decision,
    size: Size,
) {
    let (stage, begun) = (before.stage, before.begun);
    // Of sums whose bits are to be kolo's none comes too early, and none is MPI's for its speed.
    let bound = agreed.placement && size.is_of_floats();
    match decision {
        Decision::Take => assert_eq!(stage, Stage::Attached),
        Decision::Attach => {
            assert_eq!(stage, Stage::Counted);
            assert!(before.nranks >= agreed.min_ranks);
            if let Attach::After(calls) = agreed.attach {
                assert!(begun == calls || bound && begun < calls);
            }
        }
        Decision::Pass(Reason::Early) => assert!(stage == Stage::Counted && !bound),
        Decision::Pass(Reason::Communicator) => {
            let stays = before.spans() && agreed.across == Across::Stays;
            assert!(stage == Stage::Mpi || before.nranks < agreed.min_ranks || stays);
        }
        Decision::Pass(Reason::Derived) => {
            assert!(matches!(size, Size::Elements(Elements { class: None, .. })));
        }
        Decision::Pass(Reason::OddSize | Reason::FloatSum) => {
            assert!(matches!(
                size,
                Size::Elements(Elements { class: Some(_), .. })
            ));
        }
        Decision::Pass(Reason::Left) => {
            assert!(agreed.left.has(collective, before.nranks, size));
            assert!(!agreed.faster.has(collective, before.nranks, size));
        }
        Decision::Pass(Reason::Faster) => {
            assert!(!before.spans() && !bound);
            assert!(agreed.left.has(collective, before.nranks, size));
            assert!(agreed.faster.has(collective, before.nranks, size));
        }
        Decision::Pass(Reason::Across) => {
            assert!(before.spans() && agreed.across != Across::Kolo);
            let in_levels = goes_in_levels(before, collective, size);
            assert!(bound || agreed.across == Across::Levels && !in_levels);
        }
    }
    if before.spans() && matches!(decision, Decision::Take | Decision::Attach) {
        match agreed.across {
            Across::Stays => panic!("{before:?} stays with MPI"),
            Across::Levels => assert!(goes_in_levels(before, collective, size) && !bound),
            Across::Kolo => {}
        }
    }
}

fn new_communicator(random: &mut fastrand::Rng, nranks: usize) -> Known {
    let stage = if random.u8(..16) == 0 {
        Stage::Mpi
    } else {
        Stage::Counted
    };
    let nodes: Vec<u32> = (0..nranks).map(|_| random.u32(..2)).collect();
    Known {
        stage,
        nranks: nranks as u32,
        span: match random.bool() {
            true => places::span(&nodes),
            false => places::span(&vec![0; nranks]),
        },
        begun: 0,
        spent: 0,
    }
}

#[test]
fn all_ranks_decide_alike() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut taken, mut attached, mut passed) = (0, 0, [0; Reason::COUNT]);
    let mut calls = 0;
    while calls < CALLS {
        let nranks = random.usize(2..=6);
        let agreed = Agreement {
            min_ranks: random.u32(2..=4),
            attach: match random.u8(..3) {
                0 => Attach::Earned,
                _ => Attach::After(random.u64(..20)),
            },
            float_sums_stay: random.bool(),
            placement: random.u8(..3) == 0,
            across: [Across::Stays, Across::Kolo, Across::Levels][random.usize(..3)],
            left: Left::NONE,
            faster: Left::NONE,
        };
        let mut bits = || random.u64(..) & random.u64(..) & random.u64(..);
        let listed = std::array::from_fn(|_| bits());
        let agreed = agreed.leaving(listed, tables::drawn(&mut random));
        // Each rank keeps its own account of each communicator.
        let comms: Vec<Known> = (0..3)
            .map(|_| new_communicator(&mut random, nranks))
            .collect();
        let mut ranks = vec![comms; nranks];
        for _ in 0..200 {
            let comm = random.usize(..3);
            let call = draw_call(&mut random, nranks);
            // Whether attaching goes well, which all hear.
            let goes_well = random.u8(..8) > 0;
            let mut first = None;
            for (rank, accounts) in ranks.iter_mut().enumerate() {
                let size = seen(&mut random, &call, rank);
                let known = &mut accounts[comm];
                let before = *known;
                let decision = decide::decide(&agreed, known, call.collective, size);
                check(&agreed, &before, call.collective, decision, size);
                if decision == Decision::Attach {
                    known.stage = if goes_well {
                        Stage::Attached
                    } else {
                        Stage::Mpi
                    };
                }
                let (all, after) = *first.get_or_insert((decision, *known));
                assert_eq!(decision, all, "seed {seed}, rank {rank}: {call:?}");
                assert_eq!(*known, after, "seed {seed}, rank {rank}: {call:?}");
            }
            match first {
                Some((Decision::Take, _)) => taken += 1,
                Some((Decision::Attach, _)) => attached += 1,
                Some((Decision::Pass(reason), _)) => passed[reason as usize] += 1,
                None => unreachable!("a job has ranks"),
            }
            calls += 1;
        }
    }
    println!("{taken} taken, {attached} attached, {passed:?} passed");
    assert!(passed.iter().all(|&calls| calls > CALLS / 1000));
    assert!(taken > CALLS / 10 && attached > CALLS / 1000);
}

/// A word of a list of collectives, by what it means.
#[derive(Clone, Debug)]
struct Word {
    leave: bool,
    collective: Collective,
    low: u32,
    /// Above all bits: no end.
    high: u32,
}

const NO_END: u32 = 64;

impl Word {
    fn draw(random: &mut fastrand::Rng) -> Word {
        let collective = Collective::ALL[random.usize(..Collective::COUNT)];
        let ranged = !collective.is_of_unknown_size() && random.bool();
        let low = if ranged { random.u32(..30) } else { 0 };
        let high = match ranged && random.bool() {
            true => random.u32(low + 1..=40),
            false => NO_END,
        };
        let leave = random.bool();
        Word {
            leave,
            collective,
            low,
            high,
        }
    }

    fn text(&self, random: &mut fastrand::Rng) -> String {
        let not = if self.leave { "^" } else { "" };
        let name = match random.bool() {
            true => self.collective.name().to_lowercase(),
            false => self.collective.name().to_uppercase(),
        };
        let mut end = |bit: u32| match bit {
            0 if random.bool() => String::new(),
            NO_END => String::new(),
            bit if bit >= 20 && random.bool() => format!("{}M", 1u64 << (bit - 20)),
            bit if bit >= 10 && random.bool() => format!("{}k", 1u64 << (bit - 10)),
            bit => (1u64 << bit).to_string(),
        };
        match (self.low, self.high) {
            (0, NO_END) => format!("{not}{name}"),
            (low, high) => format!("{not}{name}:{}-{}", end(low), end(high)),
        }
    }

    /// Whether it speaks of a call; no bytes: nobody knows how many.
    fn means(&self, collective: Collective, bytes: Option<u64>) -> bool {
        let fits = bytes.is_none_or(|bytes| {
            let high = 1u128 << self.high;
            (self.low == 0 || bytes >= 1 << self.low) && u128::from(bytes) < high
        });
        self.collective == collective && fits
    }
}

#[test]
fn a_list_leaves_what_it_says() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..2000 {
        let words: Vec<Word> = (0..random.usize(1..6))
            .map(|_| Word::draw(&mut random))
            .collect();
        let texts: Vec<String> = words.iter().map(|word| word.text(&mut random)).collect();
        let text = texts.join([",", ", ", " "][random.usize(..3)]);
        let listed = mpi_calls::read(&text).unwrap();
        for _ in 0..50 {
            let collective = Collective::ALL[random.usize(..Collective::COUNT)];
            let known = !collective.is_of_unknown_size();
            let most = 1 << random.u32(1..62);
            let bytes = known.then(|| random.u64(..most));
            let mut stays = words.iter().any(|word| !word.leave);
            for word in words.iter().filter(|word| word.means(collective, bytes)) {
                stays = word.leave;
            }
            let size = bytes.map_or(Size::Unknown, Size::Bytes);
            let has = |bits| Left::of_all_ranks(bits).has(collective, 2, size);
            let (found, named) = (has(listed.left), has(listed.named));
            assert_eq!(
                found, stays,
                "seed {seed}: {text}: {collective:?} of {bytes:?}"
            );
            let mut meant = words.iter().filter(|word| word.means(collective, bytes));
            let taken = meant.next_back().is_some_and(|word| !word.leave);
            assert_eq!(named, taken, "seed {seed}: {text}: {collective:?}");
        }
    }
    for all in ["all", "ALL", ""] {
        assert_eq!(mpi_calls::read(all), Ok(ListedCalls::default()), "{all:?}");
    }
    let range = |word: &str| WrongCall::Range(word.into());
    let name = |word: &str| WrongCall::Name(word.into());
    for (text, wrong) in [
        ("allredce", name("allredce")),
        ("bcast,all", WrongCall::All),
        ("^all", WrongCall::All),
        ("^", name("")),
        ("barrier:8-", WrongCall::Sizeless("barrier:8-".into())),
        ("bcast:8", range("bcast:8")),
        ("bcast,^reduce:9-", range("^reduce:9-")),
        ("bcast:64-8", range("bcast:64-8")),
        ("bcast:-0", range("bcast:-0")),
        (
            "bcast:8-99999999999999999999",
            range("bcast:8-99999999999999999999"),
        ),
        ("bcast:-17179869185G", range("bcast:-17179869185G")),
    ] {
        assert_eq!(mpi_calls::read(text), Err(wrong), "{text}");
    }
}

#[test]
fn communicators_are_grouped_by_doublings_of_ranks() {
    let places = [2, 3, 4, 5, 8, 9, 16, 17, 128, 129, 256, 257, u32::MAX].map(Left::place);
    assert_eq!(places, [0, 1, 1, 2, 2, 3, 3, 4, 6, 7, 7, 7, 7]);
}

/// The rows of the page are those of kolo's own layout (`src/comm/start/layout.rs`).
#[test]
fn what_a_communicator_takes_is_what_the_page_says() {
    let page = include_str!("../docs/memory.md");
    let cells = |row: &str| -> Option<Vec<u64>> {
        let cells = row.trim_matches('|').split('|').take(4);
        let number = |cell: &str| cell.trim().trim_end_matches(" KiB").parse().ok();
        cells.map(number).collect()
    };
    let rows: Vec<Vec<u64>> = page
        .lines()
        .filter(|line| line.contains(" KiB | ") && line.ends_with(" MiB |"))
        .filter_map(cells)
        .collect();
    assert_eq!(rows.len(), 5, "rows for 2, 16, 64, 128 and 192 ranks");
    for row in rows {
        let nranks = row[0] as u32;
        assert!(row[1] << 10 <= footprint::HEAD, "{row:?}");
        assert_eq!(footprint::lines(nranks), row[2] << 10, "{row:?}");
        assert_eq!(footprint::slots(nranks), row[3] << 10, "{row:?}");
    }
}
