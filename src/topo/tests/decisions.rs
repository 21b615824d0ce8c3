//! What a rank may use, crowding and pinning on whole machines, and the machine at hand.

use super::*;

#[test]
fn what_a_binding_leaves() {
    let machine = load("desktop.xml");
    let usable = |list, quota| Usable::of(&machine, &cpus(list), quota);
    let both = usable("0,6,99", None).unwrap();
    assert_eq!(
        (both.cpus.clone(), both.cores.clone(), both.core_count()),
        (cpus("0,6"), cpus("0"), 1)
    );
    let quota = |millicpus| {
        Some(Quota {
            millicpus,
            group: 7,
        })
    };
    assert_eq!(usable("0-11", quota(2001)).unwrap().core_count(), 3);
    assert_eq!(usable("0-11", quota(100)).unwrap().core_count(), 1);
    assert_eq!(usable("0-11", quota(64_000)).unwrap().core_count(), 6);
    let error = usable("12-15", None).unwrap_err();
    assert!(
        error.what.contains("desktop.xml has processors 0-11"),
        "{error}"
    );
}

/// Two ranks on the two hardware threads of one core are crowded, whatever else is there.
#[test]
fn hardware_threads_of_one_core_are_one_core() {
    let machine = load("two_sockets_smt.xml");
    let of = |lists: &[&str]| {
        let places: Vec<RankPlace> = lists
            .iter()
            .zip(0..)
            .map(|(list, rank)| bound(&machine, rank, list))
            .collect();
        let Crowding {
            cores,
            oversubscribed,
            ..
        } = crowding(&places.iter().collect::<Vec<_>>());
        (cores, oversubscribed)
    };
    assert_eq!(of(&["3", "35"]), (1, true));
    assert_eq!(of(&["3", "4"]), (2, false));
    assert_eq!(of(&["0-63"; 32]), (32, false));
    assert_eq!(of(&["0-63"; 33]), (32, true));
}

#[test]
fn threads_of_a_bound_rank_go_to_free_cores_nearby() {
    let machine = load("two_sockets_smt.xml");
    let decide = |lists: &[&str], device: Option<&str>| {
        let places: Vec<RankPlace> = lists
            .iter()
            .zip(0..)
            .map(|(list, rank)| bound(&machine, rank, list))
            .collect();
        let local: Vec<&RankPlace> = places.iter().collect();
        let device = device.map(cpus);
        let Pinning { cpus, reason } = Pinning::decide(
            &machine,
            local[0],
            &local,
            device.as_ref(),
            &PinSetting::Auto,
        );
        (cpus.to_string(), reason)
    };
    let is = |list: &str, reason| (list.to_owned(), reason);
    assert_eq!(
        decide(&["0", "1"], None),
        is("2-7,34-39", PinReason::FreeSameNuma)
    );
    let near = decide(&["0", "1"], Some("8-15,40-47"));
    assert_eq!(near, is("8-15,40-47", PinReason::FreeNearDevice));
    // The whole first NUMA node is in use.
    let sibling = decide(&["0", "1-7", "8-31"], None);
    assert_eq!(
        sibling,
        is("32", PinReason::Sibling),
        "hardware threads of the rank's own core"
    );
    let elsewhere = decide(&["0", "1-7", "16-31"], None);
    assert_eq!(elsewhere, is("8-15,40-47", PinReason::FreeElsewhere));
    assert_eq!(
        decide(&["0,32", "1-31"], None),
        is("0,32", PinReason::Shared)
    );
    assert_eq!(decide(&["0-1,8", "2"], None), is("0-1,8", PinReason::Own));
    assert_eq!(
        decide(&["0-1,8", "2"], Some("8-15")),
        is("8", PinReason::OwnNearDevice)
    );
    assert_eq!(
        decide(&["0-1", "2"], Some("8-15")),
        is("0-1", PinReason::Own)
    );
}

#[test]
fn the_pinning_setting_wins() {
    let machine = load("desktop.xml");
    let me = bound(&machine, 0, "0");
    let decide = |setting| Pinning::decide(&machine, &me, &[&me], None, &setting);
    let given = decide(PinSetting::Cpus(cpus("4-5")));
    assert_eq!(given.to_string(), "PUs 4-5: as set");
    assert_eq!(decide(PinSetting::Off).to_string(), "not pinned");
    let auto = decide(PinSetting::Auto);
    assert_eq!(
        auto.to_string(),
        "PUs 1-5,7-11: free cores of the rank's NUMA node"
    );
}

#[test]
fn this_machine_is_asked_once() {
    let first = Machine::detect().unwrap();
    assert!(!first.cores.is_empty() && first.cores.len() <= first.cpus().len());
    assert!(affinity().unwrap().is_subset(&first.allowed));
    let full = Machine::detect_with_devices().unwrap();
    assert_eq!(full.root, first.root);
    assert!(
        std::ptr::eq(full, Machine::detect().unwrap()),
        "the fuller one serves both"
    );
    assert!(Machine::library_version().starts_with("2."));
}
