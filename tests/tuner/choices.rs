//! Tests of what is chosen.

use crate::support::inputs;
use kolo::plan::{Algorithm, Collective};
use kolo::price::{CacheSeat, Cluster, SeatList};
use kolo::tune::{
    Allowed, Asked, Candidate, Choice, Decided, Inputs, Measured, ProtocolChoice, Route, Rule,
    Table, predict,
};

fn one_node(n: u32) -> Inputs {
    inputs(Cluster::uniform(1, n))
}

fn only(algorithm: Algorithm) -> Allowed {
    let mut allowed = Allowed::default();
    let rule = Rule {
        collective: None,
        exclude: false,
        names: vec![algorithm],
    };
    allowed.restrict_algorithms(&[rule]).unwrap();
    allowed
}

#[test]
fn small_is_one_shot_and_large_saves_traffic() {
    for n in [2, 3, 4, 8] {
        let table = Table::new(one_node(n));
        let algorithm = |collective, bytes| table.choose(collective, bytes).algorithm;
        let shared = if n == 2 {
            Algorithm::Ring
        } else {
            Algorithm::Nvls
        };
        let folded = if n > 2 {
            Algorithm::TwoShot
        } else {
            Algorithm::Ring
        };
        for (collective, large) in [
            (Collective::AllReduce, folded),
            (Collective::Broadcast, shared),
            (Collective::Reduce, Algorithm::Ring),
            (Collective::AllGather, shared),
        ] {
            assert_eq!(algorithm(collective, 8), Algorithm::OneShot, "{n}");
            assert_eq!(algorithm(collective, 64 << 20), large, "{n} {collective:?}");
        }
        assert_eq!(algorithm(Collective::Barrier, 0), Algorithm::OneShot);
        assert_eq!(algorithm(Collective::AllToAll, 1 << 20), Algorithm::Bundle);
        assert_eq!(algorithm(Collective::ReduceScatter, 64 << 20), folded);
        assert!(table.is_oneshot(Collective::AllReduce, 8));
        assert_eq!(
            table.choose(Collective::AllReduce, 8).protocol,
            ProtocolChoice::Eager
        );
    }
}

/// The choices between, as they were measured on one node.
#[test]
fn middle_sizes_are_those_that_were_measured() {
    let (k, n) = (1 << 10, 8);
    let table = Table::new(inputs(Cluster::one_node(n, 2)));
    for (collective, bytes, wanted) in [
        (Collective::AllReduce, 64 * k, Algorithm::TwoShot),
        (Collective::Broadcast, 64 * k, Algorithm::Nvls),
        (Collective::AllGather, 64 * k, Algorithm::Nvls),
        (Collective::Reduce, 16 * k, Algorithm::Tree),
        (Collective::Reduce, 64 * k, Algorithm::Ring),
        (Collective::ReduceScatter, 4 * k, Algorithm::OneShot),
        (Collective::ReduceScatter, 8 * k, Algorithm::HalvingDoubling),
        (Collective::AllToAll, k, Algorithm::OneShot),
        (Collective::AllToAll, 2 * k, Algorithm::Bundle),
        (Collective::ReduceScatter, 64 * k, Algorithm::TwoShot),
    ] {
        assert_eq!(table.choose(collective, bytes).algorithm, wanted);
    }
}

/// The limits of the one-shot path that were tuned by hand: 32 KiB read by each rank, 256 KiB where
/// ranks outnumber cores, no more than other algorithms need, and no more than a token carries.
#[test]
fn the_limits_of_one_shot_are_those_that_were_tuned_by_hand() {
    for n in [2u32, 3, 4, 5, 8] {
        for (cores, read) in [(0, 32 << 10), (1, 256 << 10)] {
            let table = Table::new(inputs(Cluster::one_node(n, cores)));
            let limit = |bytes: usize| bytes.min(32 << 10);
            let readers = n as usize - 1;
            let shared = if n == 2 { read } else { 24 << 10 };
            for (collective, most) in [
                (Collective::AllReduce, limit(read / readers).min(shared)),
                (Collective::AllGather, limit(read / readers).min(12 << 10)),
                (Collective::Broadcast, limit(read / 2).min(6 << 10)),
                (Collective::Reduce, limit(read / readers).min(4 << 10)),
            ] {
                assert!(table.is_oneshot(collective, most), "{n} {collective:?}");
                assert!(
                    !table.is_oneshot(collective, most + 1),
                    "{n} {collective:?}"
                );
                let past = table.choose(collective, most + 1);
                assert_ne!(past.algorithm, Algorithm::OneShot, "{n} {collective:?}");
            }
        }
    }
}

#[test]
fn one_shot_never_exceeds_what_a_token_carries() {
    for n in 2..70 {
        for allowed in [Allowed::default(), only(Algorithm::OneShot)] {
            let table = Table::new(Inputs {
                oversubscribed: n % 2 == 0,
                eager_limit: (n % 3 == 0).then_some(1 << 30),
                allowed,
                ..one_node(n)
            });
            for collective in Collective::ALL {
                let most = table.inputs().setting.eager_bytes;
                for bytes in [most + 1, most + 100, 2 * most, 1 << 30] {
                    assert!(!table.is_oneshot(collective, bytes));
                    let choice = table.choose(collective, bytes);
                    let sizeless = collective == Collective::Barrier;
                    assert!(sizeless || choice.algorithm != Algorithm::OneShot, "{n}");
                }
            }
        }
    }
}

#[test]
fn what_the_user_allows_is_taken_where_it_computes_the_collective() {
    let table = Table::new(Inputs {
        allowed: only(Algorithm::Ring),
        ..one_node(3)
    });
    let algorithm = |collective, bytes| table.choose(collective, bytes).algorithm;
    assert_eq!(algorithm(Collective::AllReduce, 8), Algorithm::Ring);
    assert!(!table.is_oneshot(Collective::AllReduce, 8));
    assert_eq!(algorithm(Collective::Barrier, 0), Algorithm::OneShot);
    let table = Table::new(Inputs {
        allowed: only(Algorithm::OneShot),
        ..one_node(3)
    });
    assert!(table.is_oneshot(Collective::AllReduce, 32 << 10));
    assert_eq!(
        table.choose(Collective::AllReduce, 1 << 20).algorithm,
        Algorithm::TwoShot
    );
}

#[test]
fn a_limit_that_the_user_sets_is_kept() {
    let table = Table::new(Inputs {
        eager_limit: Some(1000),
        ..one_node(3)
    });
    for collective in [Collective::AllReduce, Collective::Broadcast] {
        assert!(table.is_oneshot(collective, 1000));
        assert!(!table.is_oneshot(collective, 1001));
    }
}

#[test]
fn channels_stay_in_their_bounds() {
    let table = Table::new(one_node(2));
    let channels = |bytes| table.choose(Collective::AllReduce, bytes).channels;
    assert_eq!([channels(100_000), channels(1 << 30)], [1, 2]);
}

#[test]
fn what_was_measured_decides() {
    let text = |first: f64, second: f64| {
        format!(
            "format = 1\n\
             [[series]]\ncollective = \"AllReduce\"\nalgorithm = \"ring\"\nchannels = 1\n\
             nodes = 1\nranks_per_node = 4\nsizes = [8, 8192]\ntimes_us = [{first}, {first}]\n\
             [[series]]\ncollective = \"AllReduce\"\nalgorithm = \"oneshot\"\nchannels = 1\n\
             nodes = 1\nranks_per_node = 4\nsizes = [8, 8192]\ntimes_us = [0.05, {second}]\n"
        )
    };
    let table = |first, second| {
        let measured = Measured::from_toml(&text(first, second), "test").unwrap();
        Table::new(Inputs {
            measured: measured.of_arrangement(1, 4),
            ..one_node(4)
        })
    };
    assert!(!table(0.01, 0.2).is_oneshot(Collective::AllReduce, 8));
    assert!(table(0.3, 0.2).is_oneshot(Collective::AllReduce, 8192));
    assert!(!table(0.3, 10.0).is_oneshot(Collective::AllReduce, 8192));
    let series = Measured::from_toml(&text(0.5, 2.0), "test").unwrap();
    assert_eq!(series.of_arrangement(2, 2).series.len(), 0);
}

#[test]
fn every_rank_binds_the_same_table() {
    let table = || Table::new(inputs(Cluster::uniform(4, 8)));
    let (a, b) = (table(), table());
    for collective in Collective::ALL {
        for shift in 0..40 {
            assert_eq!(
                a.choose(collective, 1 << shift),
                b.choose(collective, 1 << shift)
            );
        }
    }
}

fn over(protocols: &[ProtocolChoice]) -> Allowed {
    let mut allowed = Allowed::default();
    allowed.restrict_protocols(&[Rule {
        collective: None,
        exclude: false,
        names: protocols.to_vec(),
    }]);
    allowed
}

/// Every choice of a table, at all sizes.
fn all_choices(table: &Table) -> Vec<(Collective, usize, Choice)> {
    let sizes = (0..34).map(|shift| 1_usize << shift);
    let calls = sizes.flat_map(|bytes| Collective::ALL.map(|collective| (collective, bytes)));
    let of = |(collective, bytes)| {
        let ways = [
            table.choose(collective, bytes),
            table.choose_ordered(collective, bytes),
            table.choose_large(collective, bytes),
        ];
        ways.map(|choice| (collective, bytes, choice))
    };
    calls.flat_map(of).collect()
}

/// Small messages have a way to their route that does not look at the grid.
#[test]
fn the_short_way_to_a_route_leads_to_the_same() {
    let machines = [
        Cluster::one_node(2, 0),
        Cluster::one_node(3, 2),
        Cluster::one_node(8, 2),
        Cluster::one_node(64, 0),
        Cluster::uniform(4, 8),
        Cluster::uniform(200, 1),
    ];
    let mut as_messages = 0;
    for machine in machines {
        for eager_limit in [None, Some(0), Some(600)] {
            let table = Table::new(Inputs {
                eager_limit,
                ..inputs(machine.clone())
            });
            for collective in Collective::ALL {
                for bytes in (1..=600)
                    .chain((1000..=4200).step_by(25))
                    .chain([4095, 4096, 4097])
                {
                    let asked = Asked::plain(collective, bytes);
                    let route = Route::of(&asked, &table);
                    if !matches!(route, Route::Small { .. }) {
                        let what = format!("{collective:?} of {bytes} on {machine:?}");
                        assert_eq!(route, Route::larger(&asked, &table), "{what}");
                    }
                    as_messages += u32::from(matches!(route, Route::Messages { .. }));
                }
            }
        }
    }
    assert!(as_messages > 1000);
    let table = Table::new(inputs(Cluster::one_node(2, 0)));
    for collective in [Collective::Reduce, Collective::Gather, Collective::Send] {
        assert!(table.as_messages(collective, 8).is_some(), "{collective:?}");
    }
}

/// Flagged lines win on hosts at no size, as they were measured by hand: nothing chooses them
/// unasked, not even where their smaller slots make a finer pipeline. `docs/tuning.md` says so.
#[test]
fn flagged_lines_are_not_chosen_unasked() {
    let machines = [
        Cluster::one_node(2, 0),
        Cluster::one_node(8, 2),
        Cluster::one_node(64, 0),
        Cluster::uniform(4, 8),
        Cluster::uniform(200, 1),
    ];
    for machine in machines {
        for (collective, bytes, choice) in all_choices(&Table::new(inputs(machine.clone()))) {
            let what = format!("{collective:?} of {bytes} on {machine:?}");
            assert!(!choice.protocol.is_lines(), "{what}: {choice:?}");
        }
    }
}

/// Times of flagged lines that a site measured make them chosen for what was measured, and for
/// nothing else: no other collective, algorithm or kind of lines, and no other arrangement.
#[test]
fn flagged_lines_are_chosen_where_they_were_measured_and_nowhere_else() {
    let text = "format = 1\n[[series]]\ncollective = \"AllReduce\"\nalgorithm = \"rd\"\n\
         protocol = \"ll\"\nchannels = 1\nnodes = 1\nranks_per_node = 4\n\
         sizes = [64, 65536]\ntimes_us = [0.001, 0.001]\n";
    let table = |ranks| {
        let measured = Measured::from_toml(text, "test").unwrap();
        Table::new(Inputs {
            measured: measured.of_arrangement(1, ranks),
            ..one_node(ranks)
        })
    };
    let lines = |ranks| {
        let all = all_choices(&table(ranks)).into_iter();
        all.filter(|(_, _, choice)| choice.protocol.is_lines())
            .map(|(collective, bytes, choice)| {
                let way = (choice.algorithm, choice.protocol);
                let wanted = (Algorithm::RecursiveDoubling, ProtocolChoice::Ll);
                assert_eq!((collective, way), (Collective::AllReduce, wanted));
                bytes
            })
            .collect::<Vec<_>>()
    };
    let found = lines(4);
    assert!(found.contains(&1024), "{found:?}");
    assert_eq!(lines(8), [0; 0]);
}

#[test]
fn protocols_that_the_user_names_are_taken_where_they_can_carry() {
    for protocol in [ProtocolChoice::Ll, ProtocolChoice::Ll128] {
        let table = Table::new(Inputs {
            allowed: over(&[protocol]),
            ..one_node(4)
        });
        for collective in [
            Collective::AllReduce,
            Collective::Broadcast,
            Collective::Reduce,
            Collective::AllGather,
            Collective::ReduceScatter,
            Collective::AllToAll,
            Collective::Barrier,
        ] {
            for bytes in [8, 5000, 1 << 20] {
                let choice = table.choose(collective, bytes);
                assert_eq!(choice.protocol, protocol, "{collective:?} of {bytes}");
                assert!(!table.may_be_direct(collective, 1 << 24));
            }
        }
        let ordered = table.choose_ordered(Collective::AllReduce, 8);
        assert_eq!(ordered.protocol, protocol);
        // Messages, and all that only fans and casts do, go their own way.
        assert_eq!(
            table.choose(Collective::Send, 8).protocol,
            ProtocolChoice::Simple
        );
        let casts = |c: &Candidate| c.choice.algorithm == Algorithm::Nvls;
        let broadcasts = table.candidates(Collective::Broadcast, 8);
        assert!(!broadcasts.iter().any(casts));
        // Too many ranks: the usual protocols have to do.
        let many = Table::new(Inputs {
            allowed: over(&[protocol]),
            ..one_node(300)
        });
        let choice = many.choose(Collective::AllReduce, 8);
        assert!(!choice.protocol.is_lines());
    }
}

/// A site that measured that lines win gets them; one that did not does not.
#[test]
fn protocols_that_were_measured_as_faster_are_chosen() {
    let series = |protocol: &str, time: f64| {
        format!(
            "[[series]]\ncollective = \"AllReduce\"\nalgorithm = \"rd\"\n{protocol}channels = 1\n\
             nodes = 1\nranks_per_node = 4\nsizes = [8, 65536]\ntimes_us = [{time}, {time}]\n"
        )
    };
    let table = |lines: f64| {
        let text = series("", 0.2) + &series("protocol = \"ll128\"\n", lines);
        let measured = Measured::from_toml(&format!("format = 1\n{text}"), "test").unwrap();
        Table::new(Inputs {
            measured,
            ..one_node(4)
        })
    };
    let choice = |lines| table(lines).choose(Collective::AllReduce, 4096);
    let protocols = [choice(0.1).protocol, choice(0.3).protocol];
    assert_eq!(protocols, [ProtocolChoice::Ll128, ProtocolChoice::Simple]);
    assert_eq!(choice(0.1).algorithm, Algorithm::RecursiveDoubling);
}

/// The price of flags: more the larger the data, and twice the bytes on wires for LL.
#[test]
fn flags_cost_bytes() {
    for machine in [Cluster::uniform(1, 8), Cluster::uniform(8, 1)] {
        let setting = inputs(machine.clone()).setting;
        let time = |protocol, bytes| {
            let way = (Algorithm::Ring, protocol);
            predict(Collective::AllReduce, way, bytes, 1, &setting).unwrap()
        };
        for bytes in [1 << 16, 1 << 24] {
            let simple = time(ProtocolChoice::Simple, bytes);
            assert!(time(ProtocolChoice::Ll128, bytes) > simple, "{machine:?}");
            assert!(time(ProtocolChoice::Ll, bytes) > time(ProtocolChoice::Ll128, bytes));
        }
    }
}

/// Between nodes an all-reduce goes by the hierarchy, or by doubling, unless something else is
/// estimated to be 1.3 times as fast: then that is taken, at every size, and the table says so.
#[test]
fn between_nodes_the_better_price_wins() {
    let machine = Cluster::uniform(16, 8);
    let table = Table::new(inputs(machine.clone()));
    let (collective, bytes) = (Collective::AllReduce, 64 << 20);
    assert_eq!(table.choose(collective, bytes).algorithm, Algorithm::Ring);
    let decided = table.cell(collective, bytes).decided;
    let Decided::Faster(ratio, Algorithm::Hierarchical) = decided else {
        panic!("{decided:?}");
    };
    assert!(ratio > 1.3, "{ratio}");
    for machine in [(2, 2), (4, 2), (16, 8), (64, 8), (100, 1)].map(|(n, p)| Cluster::uniform(n, p))
    {
        let table = Table::new(inputs(machine.clone()));
        for bytes in (10..33).map(|shift| 1_usize << shift) {
            let slots = |c: &&Candidate| !c.choice.protocol.is_lines();
            let found = table.candidates(collective, bytes);
            let least = found.iter().find(slots).expect("one").time_ns;
            let choice = table.choose(collective, bytes);
            let chosen = found.iter().find(|c| c.choice == choice).expect("one");
            let text = format!("{machine:?} {bytes} {:?}", chosen.choice.algorithm);
            assert!(chosen.time_ns <= 1.3 * least, "{text}");
            match table.cell(collective, bytes).decided {
                Decided::Usual(ratio) => assert!((1.0..=1.3).contains(&ratio), "{text}"),
                Decided::Faster(ratio, usual) => {
                    assert!(ratio > 1.3 && usual != choice.algorithm, "{text}");
                }
                // Small calls are one-shot by habit, which reaches no other node.
                Decided::Least => assert!(chosen.time_ns <= least, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}

/// Ranks of a node, dealt by lot to up to 4 sockets with up to 8 caches each.
fn drawn(random: &mut fastrand::Rng, ranks: u32) -> Cluster {
    let (sockets, caches) = (random.u32(1..=4), random.u32(1..=8));
    let seat = |core| {
        let socket = random.u32(0..sockets);
        let cache = socket * caches + random.u32(0..caches);
        #[rustfmt::skip]
        let seat = CacheSeat { socket, cache, core };
        seat
    };
    let seats: Vec<CacheSeat> = (0..ranks).map(seat).collect();
    Cluster::listed(1, SeatList::new(&seats).expect("ranks"))
}

/// Holds docs/numerics.md; of two ranks every algorithm folds the first and the second.
#[test]
fn sums_of_up_to_16_ranks_fold_in_their_order_wherever_they_sit() {
    let mut random = fastrand::Rng::new();
    let in_order = [Algorithm::OneShot, Algorithm::TwoShot, Algorithm::Nvls];
    for ranks in (3..=16).flat_map(|ranks| [ranks; 6]) {
        let machine = drawn(&mut random, ranks);
        let table = Table::new(inputs(machine.clone()));
        for bytes in (2..31).map(|shift| 1_usize << shift) {
            let choice = table.choose(Collective::AllReduce, bytes);
            let is_in_order = in_order.contains(&choice.algorithm) && !choice.composed;
            assert!(is_in_order, "{bytes} bytes: {choice:?} on {machine:?}");
        }
    }
}
