//! Plans on kernels: the programs of every algorithm run by the interpreter kernels on devices of
//! the host, in orders drawn from a seed and over weak memory, give the bits of the host's engine
//! and do the steps of their plans.

#[path = "plans/call.rs"]
mod call;
#[path = "plans/devices.rs"]
mod devices;
#[path = "plans/draw.rs"]
mod draw;
#[path = "../../../drawn/mod.rs"]
mod drawn;
#[path = "plans/host.rs"]
mod host;
#[path = "../../../memory/mod.rs"]
mod memory;
#[path = "plans/mutants.rs"]
mod mutants;
#[path = "plans/run.rs"]
mod run;

use call::{Call, Draft, Sizes};
use devices::World;
use draw::{PROTOCOLS, entries};
use kolo::dtype::{DataType, ReduceOp};
use kolo::plan::{Algorithm, Collective, ConnectionUse, Direction, Protocol};
use run::{Run, ours};

/// Sequences of calls, each drawn with a seed of its own, that run on all cores.
struct Cases {
    random: fastrand::Rng,
    all: Vec<Box<dyn FnOnce() -> Result<(), String> + Send>>,
}

impl Cases {
    fn new() -> Cases {
        Cases {
            random: fastrand::Rng::with_seed(draw::seed()),
            all: Vec::new(),
        }
    }

    /// Adds a sequence, on connections that begin to count at `first`.
    fn add(
        &mut self,
        first: u64,
        make: impl FnOnce(&mut fastrand::Rng) -> Vec<Call> + Send + 'static,
    ) {
        let seed = self.random.u64(..);
        self.all.push(Box::new(move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let calls = make(&mut random);
            let how = draw::how(&calls[0], &mut random);
            // Some ranks have a proxy between them.
            let per_node = *[0, 0, 1, 2].get(random.usize(..4)).expect("one of four");
            let mut world = World::new(first).with_nodes_of(per_node);
            run::run(&calls, &mut world, how, &ours)
        }));
    }

    /// Runs them; the first failure ends it.
    fn run(self) {
        let cases = std::sync::Mutex::new(self.all);
        let next = || cases.lock().expect("no panic").pop();
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
                scope.spawn(|| {
                    while let Some(case) = next() {
                        if let Err(text) = case() {
                            panic!("{text}");
                        }
                    }
                });
            }
        });
    }
}

/// Every algorithm by every protocol, with 2 to 8 ranks and whatever else is drawn.
#[test]
fn every_algorithm_by_every_protocol() {
    let mut cases = Cases::new();
    for entry in entries() {
        for protocol in PROTOCOLS {
            for _ in 0..2 {
                cases.add(0, move |random| {
                    let ranks = random.u32(2..=8);
                    vec![draw::call(entry, ranks, protocol, random)]
                });
            }
        }
    }
    cases.run();
}

/// Every type and operation by every protocol.
#[test]
fn every_type_and_operation_by_every_protocol() {
    let ring = draw::entry(Collective::AllReduce, Algorithm::Ring);
    let mut cases = Cases::new();
    for protocol in PROTOCOLS {
        for dtype in DataType::NCCL {
            for op in ReduceOp::NCCL {
                cases.add(0, move |random| {
                    let draft = Draft {
                        dtype,
                        op: Some(op),
                        ..draw::draft(ring, random.u32(2..=3), protocol, random)
                    };
                    vec![draft.call().expect("one piece fits")]
                });
            }
        }
    }
    assert_eq!(cases.all.len(), 3 * 12 * 6);
    cases.run();
}

/// The loop that large slices run in: whole passes of it, vectors behind it, and a tail.
#[test]
fn every_type_and_operation_in_the_loop_of_large_slices() {
    let ring = draw::entry(Collective::AllReduce, Algorithm::Ring);
    let mut cases = Cases::new();
    for dtype in DataType::NCCL {
        for op in ReduceOp::NCCL {
            cases.add(0, move |random| {
                let draft = Draft {
                    dtype,
                    op: Some(op),
                    channels: 1,
                    shift: 0,
                    sizes: Sizes {
                        slot_bytes: 4608,
                        steps: (1, 1),
                        grid: (1, 64),
                        // Halves of about 4,400 bytes: 32 threads fold 2,048 in a pass, and move
                        // 4,096.
                        count: 2 * 4400 / dtype.size_bytes() + 1,
                    },
                    ..draw::draft(ring, 2, Protocol::Simple, random)
                };
                vec![draft.call().expect("one piece fits")]
            });
        }
    }
    cases.run();
}

/// A rank never comes, and the flag is set at a drawn moment: every kernel ends, and what it wrote
/// is right.
#[test]
fn an_abort_ends_every_kernel() {
    let mut random = fastrand::Rng::with_seed(draw::seed());
    for protocol in PROTOCOLS {
        for turn in 0..12 {
            let call = draw::sum(protocol, &mut random);
            let how = Run {
                abort: Some(turn),
                ..draw::how(&call, &mut random)
            };
            let ended = run::run(&[call], &mut World::new(0), how, &ours);
            ended.unwrap_or_else(|text| panic!("{text}"));
        }
    }
}

/// A proxy reads what each slot holds.
#[test]
fn sizes_say_what_slots_hold() {
    let ring = draw::entry(Collective::Broadcast, Algorithm::Ring);
    let mut random = fastrand::Rng::with_seed(draw::seed());
    let draft = Draft {
        root: 0,
        channels: 1,
        dtype: DataType::Float32,
        shift: 0,
        sizes: Sizes {
            slot_bytes: 512,
            steps: (1, 1),
            grid: (1, 64),
            count: 128 * 5 + 7,
        },
        ..draw::draft(ring, 2, Protocol::Simple, &mut random)
    };
    let call = draft.call().expect("one piece fits");
    let (mut world, how) = (World::new(0), draw::how(&call, &mut random));
    let sends = |used: &&ConnectionUse| used.direction == Direction::Send;
    let sent = call.pairs[0].connections.iter().find(sends);
    let link = sent.expect("the root sends").link;
    run::run(&[call], &mut world, how, &ours).unwrap_or_else(|text| panic!("{text}"));
    assert_eq!(
        world.sizes(link, Protocol::Simple),
        [512, 512, 512, 512, 512, 28, 0, 0]
    );
}

/// Calls follow each other on the same connections, without a barrier; each rank goes on when its
/// own call has ended. Slices of different sizes, and counts about to pass 2^32.
#[test]
fn calls_follow_each_other() {
    let mut cases = Cases::new();
    let border = 1 << 30;
    for protocol in PROTOCOLS {
        for first in [0, border - 24, 4 * border - 104, 4 * border, 5 << 40] {
            cases.add(first, move |random| {
                let ranks = random.u32(2..=4);
                let slot_bytes = 512 * random.usize(1..=2);
                let entries: Vec<_> = entries().collect();
                let fixed = |sizes: Sizes| Sizes {
                    slot_bytes,
                    ..sizes
                };
                let mut call = |_| {
                    let entry = entries[random.usize(0..entries.len())];
                    draw::call_with(entry, ranks, protocol, fixed, random)
                };
                (0..6).map(&mut call).collect()
            });
        }
    }
    cases.run();
}

/// All-to-all has a lane for each partner and direction: one block passes them all.
#[test]
fn one_block_passes_many_lanes() {
    let bundle = draw::entry(Collective::AllToAll, Algorithm::Bundle);
    for protocol in PROTOCOLS {
        let mut random = fastrand::Rng::with_seed(draw::seed());
        let draft = Draft {
            sizes: Sizes {
                slot_bytes: 512,
                steps: (1, 1),
                grid: (1, 64),
                count: 100,
            },
            ..draw::draft(bundle, 20, protocol, &mut random)
        };
        let call = draft.call().expect("one piece fits");
        assert!(call.pairs[0].lanes.len() >= 38, "lanes of 20 ranks");
        let how = Run {
            resident_blocks: 1,
            ..draw::how(&call, &mut random)
        };
        run::run(&[call], &mut World::new(0), how, &ours).unwrap_or_else(|text| panic!("{text}"));
    }
}

/// A lane that waits is left for the next one, by every protocol.
#[test]
fn a_lane_that_waits_holds_up_no_other() {
    for protocol in PROTOCOLS {
        let mut random = fastrand::Rng::with_seed(draw::seed());
        for ranks in 2..=5 {
            let draft = draw::draft(&draw::RECEIVE_FIRST, ranks, protocol, &mut random);
            let sizes = Sizes {
                grid: (1, 64),
                ..draft.sizes
            };
            let call = Draft { sizes, ..draft }.call().expect("one piece fits");
            let how = draw::how(&call, &mut random);
            let ended = run::run(&[call], &mut World::new(0), how, &ours);
            ended.unwrap_or_else(|text| panic!("{text}"));
        }
    }
}

/// Programs of many steps: some images travel in the launch, some are fetched into shared memory,
/// some are read where they lie.
#[test]
fn images_of_every_size() {
    let mut seen = [false; 3];
    let pat = draw::entry(Collective::ReduceScatter, Algorithm::TwoShot);
    for (ranks, channels) in [(2, 1), (8, 8), (14, 32)] {
        let mut random = fastrand::Rng::with_seed(draw::seed());
        let draft = Draft {
            channels,
            sizes: Sizes {
                slot_bytes: 512,
                steps: (1, 1),
                grid: (2, 64),
                count: 70 * usize::from(channels),
            },
            ..draw::draft(pat, ranks, Protocol::Simple, &mut random)
        };
        let call = draft.call().expect("one piece fits");
        seen[draw::image_kind(&call)] = true;
        let how = draw::how(&call, &mut random);
        run::run(&[call], &mut World::new(0), how, &ours).unwrap_or_else(|text| panic!("{text}"));
    }
    assert_eq!(seen, [true; 3]);
}
