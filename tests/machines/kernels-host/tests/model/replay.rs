//! A seed makes one run, whoever runs it and beside whatever.

use crate::kernels::{self, run, words, zeros};
use kolo_kernels_host::{Counts, Machine, Options};
use std::collections::HashSet;

/// Runs a pipe, and returns the counts of the run and the words at its end.
fn pipe(seed: u64, before: usize) -> (Counts, Vec<u64>) {
    let mut machine = Machine::new(Options::new(seed));
    // Addresses differ between runs.
    let _elsewhere = vec![0_u8; before];
    let slots = zeros(&mut machine, "slots", 64);
    let [tail, head] = ["tail", "head"].map(|name| zeros(&mut machine, name, 1));
    let seen = zeros(&mut machine, "seen", 32 * 8);
    // Credit comes early, so what is seen depends on the order.
    let launch = [slots.at(), tail.at(), head.at(), seen.at(), 8, 1];
    let counts = run(&mut machine, kernels::pipe(), 2, 32, &launch).expect("it ends");
    (counts, words(&machine, seen))
}

#[test]
fn a_seed_makes_the_same_run_again() {
    let runs: Vec<_> = (0..60).map(|seed| pipe(seed, 0)).collect();
    for (seed, first) in (0_u64..).zip(&runs) {
        assert_eq!(*first, pipe(seed, 4096 * seed as usize + 8), "seed {seed}");
    }
    let switches: HashSet<u64> = runs.iter().map(|(counts, _)| counts.switches).collect();
    assert!(switches.len() > 50, "seeds differ: {}", switches.len());
    let seen: HashSet<&Vec<u64>> = runs.iter().map(|(_, seen)| seen).collect();
    assert!(seen.len() > 3, "and so does what is seen: {}", seen.len());
}

#[test]
fn machines_run_beside_each_other_in_threads() {
    let alone: Vec<_> = (0..8).map(|seed| pipe(seed, 0)).collect();
    let beside: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|seed| scope.spawn(move || pipe(seed, 64)))
            .collect();
        threads
            .into_iter()
            .map(|it| it.join().expect("no panic"))
            .collect()
    });
    assert_eq!(alone, beside);
}

#[test]
fn a_machine_may_go_on_in_another_thread() {
    for seed in 0..20 {
        let mut machine = Machine::new(Options::new(seed));
        let [flag, answer] = ["flag", "answer"].map(|name| zeros(&mut machine, name, 1));
        let launch = kernels::launch(&[flag.at(), answer.at(), 0]);
        machine
            .launch(0, &kernels::answer(), 1, 32, &launch)
            .expect("it fits");
        machine.run_some(50).expect("it waits");
        machine.write(flag, 0, &1_u64.to_ne_bytes());
        let seen = std::thread::spawn(move || {
            machine.run().expect("it ends");
            words(&machine, answer)
        });
        assert_eq!(seen.join().expect("no panic"), [2]);
    }
}
