//! The tuner: its model against the simulator, its choices against what must hold of any choice.

#[path = "tuner/choices.rs"]
mod choices;
#[path = "tuner/guidelines.rs"]
mod guidelines;
#[path = "tuner/support.rs"]
mod support;

use kolo::algo::REGISTRY;
use kolo::plan::{Collective, Costs, Machine};
use kolo::tune;
use support::{SIZES, Shown, setting, simulated};

/// Every estimate is within this factor of the simulated time ...
const MOST: f64 = 2.5;
/// ... and half of them within this one.
const MIDDLE: f64 = 1.35;

fn machines() -> Vec<Machine> {
    vec![
        Machine::uniform(1, 2),
        Machine::uniform(1, 8),
        Machine::one_node(8, 2),
        Machine {
            sockets: 2,
            caches: 2,
            ..Machine::uniform(1, 32)
        },
        Machine::uniform(16, 1),
        Machine {
            sockets: 2,
            ..Machine::uniform(4, 8)
        },
    ]
}

/// Most bytes, in all blocks, that are simulated here.
const MOST_BYTES: usize = 64 << 20;

#[test]
fn the_model_agrees_with_the_simulator() {
    let mut ratios: Vec<(f64, Shown)> = Vec::new();
    let mut unknown = std::collections::BTreeSet::new();
    for machine in machines() {
        let setting = setting(machine, Costs::default());
        for entry in REGISTRY {
            if entry.collective.is_point_to_point() || machine.nranks() > entry.most_ranks {
                continue;
            }
            for bytes in SIZES {
                let blocks = entry.collective.output_blocks(machine.nranks())
                    * entry.collective.input_blocks(machine.nranks());
                let eager = entry.most_rounds != 0 && bytes > setting.eager_bytes;
                let empty = entry.collective == Collective::Barrier && bytes > 4;
                if eager || empty || bytes * blocks as usize > MOST_BYTES {
                    continue;
                }
                let (collective, algorithm) = (entry.collective, entry.algorithm);
                let channels = entry.channels;
                let known = simulated(collective, algorithm, bytes, channels, &setting);
                let estimate = tune::predict(collective, algorithm, bytes, channels, &setting);
                let Some(estimate) = estimate else {
                    unknown.insert(algorithm.name());
                    continue;
                };
                let shown = Shown {
                    collective,
                    algorithm,
                    machine,
                    bytes,
                    known,
                    estimate,
                };
                ratios.push((estimate / known, shown));
            }
        }
    }
    let off = |ratio: f64| ratio.max(1.0 / ratio);
    ratios.sort_by(|a, b| off(a.0).total_cmp(&off(b.0)));
    for (ratio, shown) in ratios.iter().rev().take(40) {
        println!("{ratio:.2} {shown}");
    }
    let (worst, shown) = ratios.last().expect("something was compared");
    let middle = off(ratios[ratios.len() / 2].0);
    println!("{} compared, half within {middle:.2}", ratios.len());
    println!("without a closed form: {unknown:?}");
    assert!(off(*worst) <= MOST, "{worst:.2} {shown}");
    assert!(
        middle <= MIDDLE,
        "half of the estimates are off by {middle:.2}"
    );
}
