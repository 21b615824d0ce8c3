//! Pairs of ranks by what their cores share, on whole machines.

use super::*;
use crate::topo::pairs::{PairClass, Pairs, core_pairs, pairs};

fn classes(pairs: &[Pairs]) -> Vec<(PairClass, u64)> {
    pairs
        .iter()
        .map(|pairs| (pairs.class, pairs.count))
        .collect()
}

fn of(machine: &Machine, lists: &[&str]) -> Vec<Pairs> {
    let places: Vec<RankPlace> = lists
        .iter()
        .zip(0..)
        .map(|(list, rank)| bound(machine, rank, list))
        .collect();
    pairs(machine, &places.iter().collect::<Vec<_>>())
}

#[test]
fn ranks_are_paired_by_what_their_cores_share() {
    let machine = load("two_sockets_smt.xml");
    let near = of(&machine, &["3", "4"]);
    assert_eq!(classes(&near), [(PairClass::Cache, 1)]);
    assert_eq!(near[0].cores, [cpus("3"), cpus("4")]);
    // Two hardware threads of one core, and a core of the other socket.
    let far = machine
        .cpus_of_numa(&cpus("1"))
        .first()
        .unwrap()
        .to_string();
    let three = of(&machine, &["3", "4", &far]);
    assert_eq!(
        classes(&three),
        [(PairClass::Cache, 1), (PairClass::Machine, 2)]
    );
    assert!(of(&machine, &["3"]).is_empty());
    assert!(of(&machine, &["3", "3"]).is_empty(), "one core is no pair");
}

/// Ranks that may use all cores count with those that would be theirs.
#[test]
fn ranks_without_a_binding_have_cores_too() {
    let machine = load("two_sockets_smt.xml");
    let all = machine.allowed.to_string();
    let found = of(&machine, &[&all, &all]);
    assert_eq!(classes(&found), [(PairClass::Cache, 1)]);
    let cores = machine.cores.len() as u64;
    let all = core_pairs(&machine);
    assert_eq!(
        all.iter().map(|pairs| pairs.count).sum::<u64>(),
        cores * (cores - 1) / 2
    );
}
