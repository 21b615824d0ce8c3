//! Laws of any simulation: tokens and bytes are those of the plans, time grows with everything that
//! costs, equal inputs give equal results.

use crate::support::{Case, assert_close, one_pass};
use kolo::algo::REGISTRY;
use kolo::exec::sim::{self, Cause};
use kolo::plan::{Algorithm, Collective, Geometry, Link};
use kolo::price::{CacheSeat, Carrier, Cluster, Costs, Level, LinkPlace, SeatList};

/// Two sockets, four cores, two interfaces and two leaves.
fn machine(nodes: u32, per_node: u32) -> Cluster {
    Cluster {
        sockets: 2,
        cores: 4,
        nics: 2,
        leaf_nodes: 2,
        taper: 2,
        ..Cluster::uniform(nodes, per_node)
    }
}

/// Every registered algorithm that all ranks run together, on small machines.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for entry in REGISTRY {
        if entry.collective.is_point_to_point() {
            continue;
        }
        for (nodes, per_node) in [(1, 2), (1, 5), (2, 3), (4, 4), (9, 1)] {
            for bytes in [4, 1000, 30_000] {
                cases.push(Case {
                    machine: machine(nodes, per_node),
                    ..Case::new(entry.collective, entry.algorithm, 2, bytes)
                });
            }
        }
    }
    cases
}

fn geometry(case: &Case) -> Geometry {
    match case.algorithm {
        Algorithm::Ring => Geometry::ring(64 << 10),
        // The slots hold the packed blocks of 8 ranks.
        _ => Geometry::bundle(4 << 20),
    }
}

/// Tokens of all readers by level, and their bytes where a token is a whole block, from the plans.
fn tokens_of(case: &Case, rounds_and_slices: u64) -> [u64; 4] {
    let mut tokens = [0; 4];
    let nodes = case.nodes();
    for rank in 0..case.machine.nranks() {
        let plan = case.plan(rank, &nodes).unwrap();
        for (index, used) in plan.connections.iter().enumerate() {
            let readers = match used.link {
                Link::Pair { writer, reader, .. } if writer == rank => vec![reader],
                link if link.writer() == rank => (0..case.machine.nranks())
                    .filter(|&reader| link.is_read_by(reader))
                    .collect(),
                _ => Vec::new(),
            };
            for reader in readers {
                let level = case.machine.level(rank, reader);
                tokens[level as usize] += plan.touches(index) * rounds_and_slices;
            }
        }
    }
    tokens
}

#[test]
fn tokens_are_those_of_the_plans() {
    for case in cases() {
        let geometry = geometry(&case);
        let report = case.run(&geometry, &Costs::default());
        // 30,000 bytes are less than one round of every geometry above.
        let wanted = tokens_of(&case, u64::from(geometry.slices()));
        let found = report.levels.map(|level| level.tokens);
        assert_eq!(found, wanted, "{case:?}");
        assert_eq!(report.tokens, wanted.iter().sum::<u64>());
    }
}

#[test]
fn bytes_on_links_are_those_of_the_algorithms() {
    let whole = 64 * 4 * 12 * 10;
    let total = |case: Case| {
        let report = case.run(&geometry(&case), &Costs::default());
        let bytes: u64 = report.levels.iter().map(|level| level.bytes).sum();
        (bytes, report)
    };
    let case = |collective, algorithm, bytes| Case {
        machine: machine(4, 3),
        ..Case::new(collective, algorithm, 2, bytes)
    };
    let (bytes, report) = total(case(Collective::AllReduce, Algorithm::Ring, whole));
    assert_eq!(
        bytes,
        2 * 11 * whole as u64,
        "every chunk travels 2(n-1) hops"
    );
    // Four of the twelve neighbours are on different nodes, and each link of the ring carries
    // 2(n-1)/n of the data; two of the four cross between leaves.
    let carried = 2 * 11 * (whole / 12) as u64;
    assert_eq!(report.levels[Level::Network as usize].bytes, 4 * carried);
    let of = |kind| {
        let links = report.links.iter().filter(move |link| link.kind == kind);
        links.map(|link| link.bytes).sum::<u64>()
    };
    assert_eq!(of(LinkPlace::NicOut), 4 * carried);
    assert_eq!(of(LinkPlace::NicIn), 4 * carried);
    assert_eq!(of(LinkPlace::LeafUp), 2 * carried);
    assert_eq!(of(LinkPlace::LeafDown), 2 * carried);
    // Of the other eight half are in one cache, and half between sockets.
    let between = [LinkPlace::Memory, LinkPlace::CacheOut, LinkPlace::Cross];
    assert_eq!(between.map(of), [4 * carried; 3]);
    let (bytes, _) = total(case(Collective::AllToAll, Algorithm::Bundle, 512));
    assert_eq!(bytes, 12 * 11 * 512);
    let (bytes, _) = total(case(Collective::Broadcast, Algorithm::OneShot, 512));
    assert_eq!(bytes, 11 * 512);
}

#[test]
fn equal_inputs_give_equal_results() {
    for case in cases() {
        let run = || case.run(&geometry(&case), &Costs::default());
        let (first, second) = (run(), run());
        assert_eq!(first.time_ns, second.time_ns, "{case:?}");
        assert_eq!(first.links, second.links, "{case:?}");
        assert_eq!(first.path, second.path, "{case:?}");
    }
}

#[test]
fn the_critical_path_is_a_chain_from_the_call_to_the_end() {
    for case in cases() {
        let report = case.run(&geometry(&case), &Costs::default());
        let path = &report.path;
        assert_eq!(path[0].cause, Cause::Call, "{case:?}");
        assert_eq!(path.last().unwrap().end_ns, report.time_ns, "{case:?}");
        for pair in path.windows(2) {
            assert!(pair[0].end_ns < pair[1].end_ns, "{case:?}: {pair:?}");
            let moved = pair[0].rank != pair[1].rank;
            assert!(!moved || pair[1].cause != Cause::Call, "{case:?}: {pair:?}");
        }
        let hops = path.windows(2).filter(|pair| pair[0].rank != pair[1].rank);
        let hops = hops.count();
        let by_cores = case.bytes > 4 || case.collective == Collective::AllToAll;
        assert!(hops >= 1 || by_cores, "{case:?}: latency is between ranks");
    }
}

#[test]
fn more_of_anything_is_never_faster() {
    for case in cases() {
        // Where ranks share cores, less work may end later: R. L. Graham, "Bounds on
        // multiprocessing timing anomalies", SIAM J. Appl. Math. 17 (1969).
        let mut case = case;
        case.machine.cores = 0;
        let time = |case: &Case, costs: &Costs| case.run(&geometry(case), costs).time_ns;
        let costs = Costs::default();
        let base = time(&case, &costs);
        let mut slow = costs;
        for level in &mut slow.levels {
            level.latency_ns *= 2.0;
            level.overhead_ns *= 2.0;
            level.byte_ns *= 2.0;
        }
        // First come, first served may turn an order around, so a hundredth is allowed for.
        assert!(time(&case, &slow) >= base * 0.99, "{case:?}");
        let twice = Case {
            bytes: 2 * case.bytes,
            ..case.clone()
        };
        assert!(time(&twice, &costs) >= base * 0.99, "{case:?}");
    }
}

#[test]
fn a_credit_that_is_late_delays() {
    // Slots for one token: the root of a chain waits for the release of each piece.
    let case = Case::new(Collective::Broadcast, Algorithm::Ring, 2, 64 << 10);
    let mut costs = Costs::plain(0.0, 0.1);
    costs.levels[Level::Network as usize].latency_ns = 1000.0;
    let narrow = Geometry {
        slots: 1,
        ..one_pass(4096)
    };
    let narrow = case.run(&narrow, &costs);
    let wide = case.run(&one_pass(4096), &costs);
    let pieces = 16.0;
    let turn = 409.6 + 1000.0;
    assert!((narrow.time_ns - (pieces * turn + (pieces - 1.0) * 1000.0)).abs() < 1.0);
    assert!((wide.time_ns - (pieces * 409.6 + 1000.0)).abs() < 1.0);
    assert!(narrow.path.iter().any(|step| step.cause == Cause::Credit));
}

#[test]
fn ranks_that_share_a_core_wait_for_each_other() {
    let on = |cores| Case {
        machine: Cluster::one_node(8, cores),
        ..Case::new(Collective::AllReduce, Algorithm::OneShot, 2, 1024)
    };
    let time = |cores| on(cores).run(&Geometry::bundle(256 << 10), &Costs::default());
    let (one, two, all) = (time(1).time_ns, time(2).time_ns, time(0).time_ns);
    assert!(one > 1.5 * two && two > 2.0 * all, "{one} {two} {all}");
}

/// Ranks dealt to sockets and caches by lot: every token is counted at what its two ranks share.
#[test]
fn tokens_are_counted_by_what_their_ranks_share() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..50 {
        let spots: Vec<CacheSeat> = (0..random.u32(2..40))
            .map(|core| {
                let cache = random.u32(0..6);
                CacheSeat {
                    socket: cache / 3,
                    cache,
                    core,
                }
            })
            .collect();
        let machine = Cluster::listed(1, SeatList::new(&spots).expect("ranks"));
        let case = Case {
            machine,
            ..Case::new(Collective::Broadcast, Algorithm::OneShot, 2, 8)
        };
        let report = case.run(&Geometry::bundle(256 << 10), &Costs::default());
        let mut wanted = [0u64; 4];
        for spot in &spots[1..] {
            let level = match *spot {
                CacheSeat { cache, .. } if cache == spots[0].cache => Level::Cache,
                CacheSeat { socket, .. } if socket == spots[0].socket => Level::Socket,
                _ => Level::Node,
            };
            wanted[level as usize] += 1;
        }
        let counted: Vec<u64> = report.levels.iter().map(|load| load.tokens).collect();
        assert_eq!(counted, wanted, "{spots:?}");
    }
}

/// A node of two sockets with two caches each.
fn four_caches(ranks: u32) -> Cluster {
    Cluster {
        sockets: 2,
        caches: 2,
        ..Cluster::uniform(1, ranks)
    }
}

/// Of the readers of a line each further one of a level sees it a gap later, and the farther ones
/// do not hold up the nearer ones.
#[test]
fn readers_of_a_line_are_served_one_after_the_other() {
    let mut costs = Costs::plain(0.0, 0.0);
    let levels = [Level::Cache, Level::Socket, Level::Node];
    for (level, (latency_ns, gap_ns)) in
        levels
            .into_iter()
            .zip([(10.0, 1.0), (100.0, 3.0), (1000.0, 20.0)])
    {
        let cost = &mut costs.levels[level as usize];
        (cost.latency_ns, cost.gap_ns, cost.carrier) = (latency_ns, gap_ns, Carrier::Reader);
    }
    let time = |machine, costs: &Costs| {
        let case = Case {
            machine,
            ..Case::new(Collective::Broadcast, Algorithm::OneShot, 2, 8)
        };
        case.run(&Geometry::bundle(256 << 10), costs).time_ns
    };
    assert_eq!(time(Cluster::uniform(1, 9), &costs), 10.0 + 7.0 * 1.0);
    // Rank 0 has three mates, four neighbours on its socket and eight ranks on the other one.
    assert_eq!(time(four_caches(16), &costs), 1000.0 + 7.0 * 20.0);
    let far = &mut costs.levels[Level::Node as usize];
    (far.latency_ns, far.gap_ns) = (0.0, 0.0);
    assert_eq!(time(four_caches(16), &costs), 100.0 + 3.0 * 3.0);
}

/// In a cache tokens cost no memory, and own buffers cost some where they do not fit. Beside its
/// bytes a token has a line on the ways out of caches and sockets.
#[test]
fn memory_and_the_ways_out_of_caches_carry_what_leaves_them() {
    let run = |machine, bytes, costs: &Costs| {
        let case = Case {
            machine,
            ..Case::new(Collective::AllReduce, Algorithm::Ring, 2, bytes)
        };
        case.run(&Geometry::ring(1 << 20), costs)
    };
    let of = |report: &sim::Report, kind| {
        let links = report.links.iter().filter(move |link| link.kind == kind);
        links
            .map(|link| (link.bytes, link.busy_ns))
            .fold((0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))
    };
    let mut costs = Costs::default();
    let bytes = 1 << 20;
    let small = run(Cluster::uniform(1, 4), bytes, &costs);
    assert_eq!(small.links, []);
    costs.cache_bytes = 1e6;
    let large = run(Cluster::uniform(1, 4), bytes, &costs);
    // Each rank takes 6 of 4 chunks, reads its input once and writes its output.
    let passed = 4 * (6 + 4 + 4) * bytes as u64 / 4;
    assert_eq!(of(&large, LinkPlace::Memory).0, passed);
    let (costs, bytes) = (Costs::default(), 1 << 12);
    let apart = run(four_caches(8), 8 * bytes, &costs);
    let carried = 2 * 7 * bytes as u64;
    let (left, busy_ns) = of(&apart, LinkPlace::CacheOut);
    // Of eight neighbours four are in other caches, two of them on the other socket.
    assert_eq!(left, 4 * carried);
    assert_eq!(of(&apart, LinkPlace::Cross).0, 2 * carried);
    let tokens: u64 = apart.levels[1..3].iter().map(|level| level.tokens).sum();
    let known = costs.cache_link_ns * (left as f64 + 64.0 * tokens as f64);
    assert!(
        (busy_ns / known - 1.0).abs() < 1e-3,
        "{busy_ns} and {known}"
    );
}

#[test]
fn channels_share_links_and_data() {
    let with = |channels| Case {
        channels,
        ..Case::new(Collective::AllReduce, Algorithm::Ring, 4, 1 << 20)
    };
    let run = |channels| with(channels).run(&one_pass(1 << 20), &Costs::plain(10.0, 0.1));
    let (one, two) = (run(1), run(2));
    let bytes = |report: &sim::Report| report.levels.iter().map(|l| l.bytes).sum::<u64>();
    assert_eq!(bytes(&one), bytes(&two));
    assert!(two.tokens == 2 * one.tokens);
    assert!(
        (two.time_ns / one.time_ns - 1.0).abs() < 0.01,
        "the links are the limit"
    );
}

#[test]
fn what_never_ends_or_is_too_much_is_refused_with_a_reason() {
    let case = Case::new(Collective::AllReduce, Algorithm::Ring, 100_000, 1 << 20);
    let nodes = case.nodes();
    let error = sim::simulate(&case.job(&one_pass(1 << 20), &Costs::default()), &|rank| {
        case.plan(rank, &nodes)
    });
    let text = error.expect_err("2 10^10 steps").to_string();
    assert!(text.contains("steps, more than"), "{text}");
    // Rank 1 runs another algorithm than the others.
    let case = Case::new(Collective::Broadcast, Algorithm::Ring, 3, 1 << 10);
    let nodes = case.nodes();
    let other = Case {
        algorithm: Algorithm::OneShot,
        ..case.clone()
    };
    let plan = |rank| {
        if rank == 1 {
            other.plan(1, &nodes)
        } else {
            case.plan(rank, &nodes)
        }
    };
    let error = sim::simulate(&case.job(&one_pass(1 << 20), &Costs::default()), &plan);
    let text = error.expect_err("nobody writes to rank 1").to_string();
    assert!(
        text.contains("never end") && text.contains("rank 1"),
        "{text}"
    );
}

#[test]
fn log_step_algorithms_of_many_ranks_fit_in_time_and_memory() {
    let n = 1 << 14;
    let case = Case::new(Collective::AllReduce, Algorithm::RecursiveDoubling, n, 1024);
    let report = case.run(&one_pass(1024), &Costs::default());
    assert_eq!(report.tokens, u64::from(n) * 14);
    // Counted, not timed: each token is sent once and received once, and each rank begins and ends.
    assert!(report.actions <= u64::from(n) * 30, "{}", report.actions);
    assert!(report.memory_bytes < 100 << 20, "{}", report.memory_bytes);
}

#[test]
fn the_plan_of_one_rank_of_a_hundred_thousand_is_small() {
    for rank in [0, 1, 50_000, 99_999] {
        let case = Case::new(Collective::AllReduce, Algorithm::Ring, 100_000, 1024);
        let nodes = case.nodes();
        let plan = case.plan(rank, &nodes).unwrap();
        let bytes = plan.steps.len() * 16 + plan.connections.len() * 24;
        assert!(bytes < 4096, "{bytes}");
        assert_eq!(plan.steps_per_round(), 2 * 99_999 + 1);
    }
}

#[test]
fn what_only_moves_is_not_copied_from_buffers_that_are_mapped() {
    let costs = Costs::default();
    let run = |case: &Case, mapped: bool| {
        let nodes = case.nodes();
        let job = sim::Job {
            mapped,
            ..case.job(&one_pass(1 << 20), &costs)
        };
        sim::simulate(&job, &|rank| case.plan(rank, &nodes)).expect("it can be simulated")
    };
    let of = |collective, algorithm, machine: Cluster, bytes| Case {
        machine,
        ..Case::new(collective, algorithm, 2, bytes)
    };
    for bytes in [8 << 10, 256 << 10] {
        let inside = of(
            Collective::Broadcast,
            Algorithm::Binomial,
            Cluster::uniform(1, 2),
            bytes,
        );
        let between = Case {
            machine: Cluster::uniform(2, 1),
            ..inside.clone()
        };
        let saved = |case: &Case| run(case, false).time_ns - run(case, true).time_ns;
        // The root reads its data for its own result, too.
        let into_slot_ns = costs.write_ns * bytes as f64;
        let out_of_slot_ns = (costs.read_ns + costs.write_ns) * bytes as f64;
        assert_close(saved(&inside), into_slot_ns, 0.01, &inside);
        let both = into_slot_ns + out_of_slot_ns;
        assert_close(saved(&between), both, 0.01, &between);
    }
    for case in cases() {
        let [private, mapped] = [false, true].map(|mapped| run(&case, mapped));
        assert_eq!(private.levels, mapped.levels, "{case:?}");
        // Some pack the blocks of all ranks into a token.
        let small = case.bytes < 100;
        assert!(
            mapped.time_ns <= 1.05 * private.time_ns,
            "{case:?}: {} ns, private {}",
            mapped.time_ns,
            private.time_ns
        );
        assert!(!small || mapped.time_ns == private.time_ns, "{case:?}");
    }
}

/// The limit of the wire is the bytes that a node must send, at the rate of its interface, and the
/// hand-overs of halving and doubling between the nodes.
#[test]
fn hierarchies_work_in_the_node_while_they_wait_for_the_network() {
    let costs = Costs::default();
    let network = costs.level(Level::Network);
    let (nodes, per_node): (u32, u32) = (16, 8);
    let steps = f64::from(2 * nodes.ilog2());
    let step_ns = network.latency_ns + 2.0 * network.overhead_ns + network.gap_ns;
    let part = 2.0 * f64::from(nodes - 1) / f64::from(nodes);
    for (bytes, channels) in [(1 << 20, 4), (4 << 20, 8), (16 << 20, 8)] {
        let case = Case {
            machine: Cluster::uniform(nodes, per_node),
            channels,
            ..Case::new(Collective::AllReduce, Algorithm::Hierarchical, 2, bytes)
        };
        let of_nodes = case.nodes();
        let job = sim::Job {
            mapped: true,
            ..case.job(&Geometry::bundle(1 << 20), &costs)
        };
        let report = sim::simulate(&job, &|rank| case.plan(rank, &of_nodes)).unwrap();
        let limit = part * bytes as f64 * network.byte_ns + steps * step_ns;
        let ratio = report.time_ns / limit;
        assert!(
            ratio <= 1.3,
            "{case:?}: {ratio:.2} times the limit of the wire"
        );
    }
}
