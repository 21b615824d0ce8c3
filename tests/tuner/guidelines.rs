//! Tables never contradict themselves, however hostile the measurements.

use crate::support::inputs;
use kolo::algo::{Entry, REGISTRY};
use kolo::plan::Collective;
use kolo::price::Cluster;
use kolo::tune::{Allowed, CLASSES, Inputs, Measured, ProtocolChoice, Rule, Table, parts};

/// A file of measurements that contradict each other in every way.
fn hostile(rng: &mut fastrand::Rng, machine: &Cluster) -> Measured {
    let mut text = String::from("format = 1\n");
    let possible = |entry: &'static Entry| {
        let ways = ProtocolChoice::possible(entry.collective, entry.algorithm, machine.nranks());
        ways.map(move |protocol| (entry, protocol))
    };
    for (entry, protocol) in REGISTRY.iter().flat_map(possible) {
        if rng.u8(..4) == 0 {
            continue;
        }
        let (mut sizes, mut times) = (Vec::new(), Vec::new());
        let mut size = rng.usize(..16);
        for _ in 0..rng.usize(1..12) {
            sizes.push(size.to_string());
            times.push(format!("{:e}", 10f64.powf(rng.f64() * 12.0 - 5.0)));
            size = size * rng.usize(1..9) + rng.usize(1..1000);
        }
        text += &format!(
            "[[series]]\ncollective = \"{}\"\nalgorithm = \"{}\"\nprotocol = \"{}\"\n\
             channels = {}\nnodes = {}\nranks_per_node = {}\nsizes = [{}]\ntimes_us = [{}]\n",
            entry.collective.name(),
            entry.algorithm.name(),
            protocol.name(),
            rng.u16(1..4),
            machine.nodes,
            machine.per_node,
            sizes.join(", "),
            times.join(", ")
        );
    }
    Measured::from_toml(&text, "hostile").expect("odd, but well formed")
}

/// Checks the expected times of a table.
fn check(table: &Table, what: &str) {
    let time = |collective, bytes| table.expected_ns(collective, bytes);
    let n = table.inputs().nranks as usize;
    for class in 0..CLASSES - 1 {
        let bytes = 1usize << class;
        for collective in Collective::ALL {
            assert!(
                time(collective, bytes) <= time(collective, 2 * bytes),
                "{what}: {collective:?} of {bytes} and of twice as many"
            );
        }
        let broadcast = time(Collective::Broadcast, bytes);
        let row = time(Collective::Reduce, bytes) + broadcast;
        assert!(
            time(Collective::AllReduce, bytes) <= row,
            "{what}: all-reduce of {bytes}"
        );
        if class < 32 {
            let all = time(Collective::Broadcast, bytes * n);
            let row = time(Collective::Gather, bytes) + all;
            assert!(
                time(Collective::AllGather, bytes) <= row,
                "{what}: all-gather of {bytes}"
            );
        }
        let all_reduce = time(Collective::AllReduce, 8);
        assert!(
            time(Collective::Barrier, bytes) <= all_reduce,
            "{what}: barrier"
        );
    }
}

/// Checks that a choice can run: it is registered, and what it is composed of can run too.
/// Asserts that something computes what the table has chosen.
pub fn runs(table: &Table, collective: Collective, bytes: usize) {
    let choice = table.choose(collective, bytes);
    if choice.composed {
        let n = table.inputs().nranks as usize;
        assert!(!parts(collective).is_empty(), "{collective:?}");
        for &(part, all_blocks) in parts(collective) {
            let bytes = bytes.max(8) * if all_blocks { n } else { 1 };
            runs(table, part, bytes);
        }
        return;
    }
    let entry = kolo::algo::find(collective, choice.algorithm);
    let entry = entry.unwrap_or_else(|| panic!("{collective:?} by {}", choice.algorithm.name()));
    let nranks = table.inputs().nranks;
    assert!(
        choice
            .protocol
            .is_possible(collective, choice.algorithm, nranks)
    );
    let in_token = bytes * entry.blocks_in_token(nranks);
    let fits = entry.most_rounds == 0 || in_token <= table.inputs().setting.eager_bytes;
    assert!(
        fits || collective == Collective::Barrier,
        "{collective:?} of {bytes}"
    );
    let (least, most) = table.inputs().channels;
    assert!((least..=most).contains(&choice.channels));
}

fn all_run(table: &Table) {
    // Calls of blocks of different sizes have no plan of their own: they are bundles of messages.
    let planned = |c: &Collective| REGISTRY.iter().any(|entry| entry.collective == *c);
    for collective in Collective::ALL.into_iter().filter(planned) {
        for bytes in (0..34).flat_map(|k| [1usize << k, (1 << k) + 1, (2 << k) - 1]) {
            runs(table, collective, bytes);
        }
    }
}

fn machines() -> [Cluster; 5] {
    [
        Cluster::uniform(1, 2),
        Cluster::uniform(1, 7),
        Cluster::one_node(8, 2),
        Cluster::uniform(6, 4),
        Cluster::uniform(1000, 1),
    ]
}

#[test]
fn built_in_tables_do_not_contradict_themselves() {
    for machine in machines() {
        for only in std::iter::once(None).chain(ProtocolChoice::ALL.map(Some)) {
            let mut allowed = Allowed::default();
            let rule = |protocol| Rule {
                collective: None,
                exclude: false,
                names: vec![protocol],
            };
            allowed.restrict_protocols(&only.map(rule).into_iter().collect::<Vec<_>>());
            let table = Table::new(Inputs {
                allowed,
                ..inputs(machine.clone())
            });
            check(&table, &format!("{machine:?} over {only:?}"));
            all_run(&table);
        }
    }
}

#[test]
fn hostile_tables_are_mended() {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut composed = [0; 3];
    let mut monotone = 0;
    for round in 0..200 {
        let machine = machines()[round % 5].clone();
        let measured = hostile(&mut rng, &machine);
        let table = Table::new(Inputs {
            measured: measured.of_arrangement(machine.nodes, machine.per_node),
            ..inputs(machine.clone())
        });
        check(&table, &format!("round {round}"));
        all_run(&table);
        let kinds = [
            Collective::AllReduce,
            Collective::AllGather,
            Collective::Barrier,
        ];
        for class in 0..CLASSES - 1 {
            for (count, collective) in composed.iter_mut().zip(kinds) {
                *count += usize::from(table.choose(collective, 1 << class).composed);
            }
            let cell = table.cell(Collective::Reduce, 1 << class);
            monotone += usize::from(cell.mended);
        }
    }
    // Every kind of mending was needed, or these tables were not hostile.
    assert!(composed.iter().all(|&count| count > 0), "{composed:?}");
    assert!(monotone > 0);
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let series = |sizes: &str, times: &str| {
        format!(
            "format = 1\n[[series]]\ncollective = \"AllReduce\"\nalgorithm = \"ring\"\n\
             channels = 1\nnodes = 1\nranks_per_node = 2\nsizes = {sizes}\ntimes_us = {times}\n"
        )
    };
    for (text, says) in [
        ("format = ".to_string(), "/site/t.toml"),
        ("format = 2\n".to_string(), "`format`"),
        (
            "format = 1\nserie = 3\n".to_string(),
            "unknown entry `serie`",
        ),
        (
            series("[8, 4]", "[1.0, 2.0]"),
            "series 1: the size 4 does not exceed",
        ),
        (series("[8]", "[1.0, 2.0]"), "1 sizes but 2 times"),
        (series("[8]", "[-1.0]"), "no number of microseconds"),
        (series("[8]", "[nan]"), "no number of microseconds"),
        (series("[-8]", "[1.0]"), "no number of bytes"),
        (
            "format = 1\n[costs]\nlatency = 0\nbytes = 1\n".to_string(),
            "`latency`",
        ),
        (
            "format = 1\n[machine]\nprocessor = \"x\"\ncpus = 0\n".to_string(),
            "`cpus`",
        ),
    ] {
        let error = Measured::from_toml(&text, "/site/t.toml")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(says) && error.contains("kolo tune"),
            "{text}: {error}"
        );
    }
}

#[test]
fn a_file_is_read_as_it_was_written_and_fitted() {
    let mut rng = fastrand::Rng::with_seed(3);
    let machine = Cluster::uniform(1, 4);
    let mut measured = hostile(&mut rng, &machine);
    let machine_name = "A \"CPU\" of 3\\2 GHz\u{2122}";
    measured.machine = Some(kolo::tune::measured::TunedOn {
        processor: machine_name.into(),
        cpus: 96,
    });
    let back = Measured::from_toml(&measured.to_toml(), "back").unwrap();
    assert_eq!(back, measured);
    // Times that are those of the model for a site three times as slow are found to be so.
    let setting = inputs(machine).setting;
    let slow = kolo::tune::measured::Factors {
        latency: 3.0,
        bytes: 0.5,
    };
    let mut site = setting.clone();
    site.costs = slow.costs(&setting.costs);
    for series in &mut measured.series {
        for (bytes, time_ns) in &mut series.points {
            let way = (series.algorithm, series.protocol);
            let (collective, channels) = (series.collective, series.channels);
            let predicted = kolo::tune::predict(collective, way, *bytes, channels, &site);
            *time_ns = predicted.unwrap_or(*time_ns);
        }
    }
    measured.fit(|_| setting.clone());
    assert!(
        (measured.factors.latency / 3.0 - 1.0).abs() < 0.05,
        "{:?}",
        measured.factors
    );
    assert!(
        (measured.factors.bytes / 0.5 - 1.0).abs() < 0.05,
        "{:?}",
        measured.factors
    );
}
