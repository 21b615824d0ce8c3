//! Choices where the bits of sums depend on nothing but the number of ranks.

use crate::support::inputs;
use kolo::plan::{Algorithm, Collective};
use kolo::price::Cluster;
use kolo::tune::{
    Allowed, Asked, CLASSES, Combining, Decided, Inputs, ProtocolChoice, Route, Rule, Table,
};

const DRAWN: usize = 60;

/// The algorithms that fold as so many ranks always do: one step up to 256 ranks, else a chain.
fn folds(collective: Collective, n: u32) -> &'static [Algorithm] {
    match collective {
        Collective::Scan | Collective::Exscan => &[Algorithm::Chain],
        _ if n <= 256 => &[Algorithm::OneShot, Algorithm::TwoShot],
        _ => &[Algorithm::Ordered],
    }
}

fn drawn_inputs(random: &mut fastrand::Rng) -> Inputs {
    const RANKS: [u32; 9] = [2, 3, 7, 16, 64, 255, 256, 257, 2000];
    let n = RANKS[random.usize(..RANKS.len())];
    let nodes = random.u32(1..=4.min(n));
    let machine = Cluster {
        cores: if random.bool() { 2 } else { 0 },
        ..Cluster::uniform(nodes, n.div_ceil(nodes))
    };
    let mut allowed = Allowed::default();
    if random.bool() {
        let all = [
            Algorithm::Ring,
            Algorithm::TwoShot,
            Algorithm::OneShot,
            Algorithm::RecursiveDoubling,
        ];
        let rule = Rule {
            collective: None,
            exclude: random.bool(),
            names: vec![all[random.usize(..4)], all[random.usize(..4)]],
        };
        allowed.restrict_algorithms(&[rule]).unwrap();
    }
    Inputs {
        allowed,
        reproducible: true,
        eager_limit: [None, Some(0), Some(16 << 10)][random.usize(..3)],
        direct: random.bool(),
        channels: (1, random.u16(1..=4)),
        ..inputs(machine)
    }
}

/// The algorithm of a call, whether the buffers of all can be read or not.
fn algorithms(asked: &Asked, table: &Table) -> Vec<Algorithm> {
    let route = Route::of(asked, table);
    let cards = [kolo::plan::Cards::Private, kolo::plan::Cards::Readable];
    let plans = cards.map(|cards| route.after(cards).choice(asked, table));
    plans.into_iter().flatten().map(|it| it.algorithm).collect()
}

#[test]
fn only_plans_that_fold_in_the_one_order_are_chosen() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let reducing = [
        Collective::AllReduce,
        Collective::Reduce,
        Collective::ReduceScatter,
        Collective::Scan,
        Collective::Exscan,
    ];
    for _ in 0..DRAWN {
        let inputs = drawn_inputs(&mut random);
        let n = inputs.nranks;
        let what = format!(
            "{n} ranks, {:?} {:?}",
            inputs.setting.machine, inputs.allowed
        );
        let table = Table::new(inputs);
        for collective in reducing {
            let folds = folds(collective, n);
            for class in 0..CLASSES - 1 {
                let bytes = (1usize << class) + random.usize(..1 << class);
                let asked = Asked::plain(collective, bytes);
                let found = algorithms(&asked, &table);
                assert_eq!(found.len(), 2, "{collective:?} of {bytes}, {what}");
                for one in found {
                    assert!(
                        folds.contains(&one),
                        "{collective:?} {one:?} {bytes} {what}"
                    );
                }
                let scaled = Asked {
                    combining: Combining::Made {
                        commutes: true,
                        scaled: true,
                    },
                    ..asked
                };
                // A rank rounds what it sends, and not what it folds itself.
                let wanted: &[Algorithm] = match collective {
                    Collective::AllReduce | Collective::Reduce => &[Algorithm::Ordered],
                    Collective::ReduceScatter if n > 64 => &[Algorithm::Bundle],
                    _ => folds,
                };
                for one in algorithms(&scaled, &table) {
                    assert!(
                        wanted.contains(&one),
                        "{collective:?} {one:?} {bytes} {what}"
                    );
                }
            }
        }
    }
}

/// Where each rank would fold for itself, ranks would get different bits of scaled sums; what
/// stands in for that is what the user allows.
#[test]
fn one_rank_makes_each_element_of_scaled_sums() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut in_two_shots, mut in_rings) = (0, 0);
    for _ in 0..DRAWN {
        let inputs = Inputs {
            reproducible: false,
            ..drawn_inputs(&mut random)
        };
        let what = format!("{} ranks, {:?}", inputs.nranks, inputs.allowed);
        let allowed = inputs.allowed.clone();
        let over = |algorithm| {
            let n = inputs.nranks;
            ProtocolChoice::possible(Collective::AllReduce, algorithm, n)
                .any(|over| allowed.allows(Collective::AllReduce, algorithm, over))
        };
        let two_shot_may_be = over(Algorithm::TwoShot);
        let table = Table::new(inputs.clone());
        for class in 0..CLASSES - 1 {
            let plain = Asked::plain(Collective::AllReduce, 1 << class);
            let asked = Asked {
                combining: Combining::Made {
                    commutes: true,
                    scaled: true,
                },
                ..plain
            };
            // Where what is allowed cannot carry a size, plain sums take it, too.
            let is_usual = algorithms(&plain, &table).contains(&Algorithm::TwoShot);
            for one in algorithms(&asked, &table) {
                let each = matches!(one, Algorithm::OneShot | Algorithm::RecursiveDoubling);
                assert!(!each, "{one:?} of {} {what}", 1u64 << class);
                let is_two_shot = one == Algorithm::TwoShot;
                assert!(two_shot_may_be || is_usual || !is_two_shot, "{what}");
                in_two_shots += u32::from(is_two_shot);
                in_rings += u32::from(one == Algorithm::Ring);
            }
        }
    }
    assert!(in_two_shots > 0 && in_rings > 0);
}

/// Collectives that only move data are chosen as ever, and the reason of other choices is told.
#[test]
fn other_collectives_are_free() {
    let machine = Cluster::uniform(2, 8);
    let free = Table::new(inputs(machine.clone()));
    let bound = Table::new(Inputs {
        reproducible: true,
        ..inputs(machine)
    });
    let moving = Collective::ALL.into_iter().filter(|it| !it.reduces());
    for collective in moving.filter(|it| !it.is_point_to_point()) {
        for class in 0..30 {
            let choice = |table: &Table| table.choose(collective, 1 << class);
            assert_eq!(choice(&free), choice(&bound), "{collective:?} {class}");
        }
    }
    let decided = bound.cell(Collective::AllReduce, 1 << 20).decided;
    assert_eq!(decided, Decided::InOrder);
    assert!(decided.to_string().contains("`reproducible`"));
}
