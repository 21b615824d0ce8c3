//! Tests of what a rank may use, crowding and pinning on whole machines, and the machine at hand.

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

/// Paths in the system of the network cards on the two packages of `intel_2s_2nic.xml`.
const FIRST_NIC: &str = "/sys/devices/pci0000:16/0000:16:02.0/0000:18:00.0";
const SECOND_NIC: &str = "/sys/devices/pci0000:97/0000:97:02.0/0000:98:00.0/virtio2";

/// Where threads of the first of these ranks go if it uses these network devices; `told` is what
/// the system says of those that the machine does not list.
fn with_nics(name: &str, lists: &[&str], nics: &[&str], told: Option<&str>) -> (String, PinReason) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topologies");
    let machine = Machine::from_xml_file(&file.join(name)).unwrap();
    let places: Vec<RankPlace> = (0..)
        .zip(lists)
        .map(|(rank, list)| bound(&machine, rank, list))
        .collect();
    let local: Vec<&RankPlace> = places.iter().collect();
    let near = near_devices(&machine, local[0], nics, &|_| told.map(cpus));
    let setting = &PinSetting::Auto;
    let Pinning { cpus, reason } =
        Pinning::decide(&machine, local[0], &local, near.as_ref(), setting);
    (cpus.to_string(), reason)
}

#[test]
fn threads_go_beside_the_nic_that_is_near_the_rank() {
    use PinReason::{FreeNearDevice, FreeSameNuma, Own, OwnNearDevice};
    let both = [FIRST_NIC, SECOND_NIC];
    for (lists, nics, list, reason) in [
        // Ranks that are bound to one core.
        (&["0", "16"][..], &both[..], "1-15,33-47", FreeNearDevice),
        (&["16", "0"], &both, "17-31,49-63", FreeNearDevice),
        (&["0", "16"], &both[1..], "17-31,49-63", FreeNearDevice),
        (&["16", "0"], &both[..1], "1-15,33-47", FreeNearDevice),
        (&["0", "16"], &[], "1-15,33-47", FreeSameNuma),
        // Ranks with cores of their own.
        (&["0-3,16-19"], &both[1..], "16-19", OwnNearDevice),
        (&["0-3", "4"], &both, "0-3", OwnNearDevice),
        (&["0-3", "4"], &both[1..], "0-3", Own),
        (&["0-63"], &both, "0-63", Own),
    ] {
        let found = with_nics("intel_2s_2nic.xml", lists, nics, None);
        assert_eq!(found, (list.to_owned(), reason), "{lists:?} {nics:?}");
    }
    // Of two cards that are not beside the rank, the one on its package.
    let nics = ["/sys/0000:41:00.0", "/sys/0000:C1:00.0"];
    let found = with_nics("amd_nps4.xml", &["0"], &nics, None);
    assert_eq!(found, ("8-15".to_owned(), FreeNearDevice));
    let found = with_nics("amd_nps4.xml", &["32"], &nics, None);
    assert_eq!(found, ("40-47".to_owned(), FreeNearDevice));
}

#[test]
fn a_device_that_the_machine_does_not_list_is_as_the_system_says() {
    use PinReason::{FreeNearDevice, FreeSameNuma};
    let nic = ["/sys/devices/pci0000:ff/0000:ff:00.0"];
    let of = |told| with_nics("amd_nps4.xml", &["0"], &nic, told);
    let is = |list: &str, reason| (list.to_owned(), reason);
    assert_eq!(of(Some("48-55,99")), is("48-55", FreeNearDevice));
    let near_memory = is("1-7", FreeNearDevice);
    assert_eq!(of(Some("0-31")), near_memory, "beside the rank's memory");
    assert_eq!(of(Some("0-63")), is("1-7", FreeSameNuma), "near all alike");
    assert_eq!(of(None), is("1-7", FreeSameNuma));
    // What is near all alike hides no other one.
    let nics = [nic[0], "/sys/devices/0000:41:00.0"];
    let found = with_nics("amd_nps4.xml", &["0"], &nics, Some("0-63"));
    assert_eq!(found, is("8-15", FreeNearDevice));
}

#[test]
fn only_the_machine_at_hand_is_asked_about_its_devices() {
    let paths = ["/sys/class/net/lo", "", "/etc", "/sys/devices/../../etc"];
    for path in paths {
        assert_eq!(Machine::detect().unwrap().told_near(path), None, "{path}");
    }
    let elsewhere = load("desktop.xml");
    let bus = std::fs::read_dir("/sys/bus/pci/devices");
    for device in bus.into_iter().flatten().flatten() {
        let path = std::fs::canonicalize(device.path()).unwrap();
        let list = std::fs::read_to_string(path.join("local_cpulist")).unwrap();
        let path = path.to_str().unwrap();
        let said = Machine::detect().unwrap().told_near(path);
        assert_eq!(said, CpuSet::parse_list(list.trim()).ok(), "{path}");
        assert_eq!(elsewhere.told_near(path), None);
    }
}

#[test]
fn the_pinning_setting_wins() {
    let machine = load("desktop.xml");
    let me = bound(&machine, 0, "0");
    let decide = |setting| Pinning::decide(&machine, &me, &[&me], None, &setting);
    assert_eq!(
        decide(PinSetting::Compact).to_string(),
        "PUs 0: one core of the rank, as set"
    );
    // Both threads of a core where the rank has both.
    let me = bound(&machine, 0, "2-3,8-9");
    let compact = Pinning::decide(&machine, &me, &[&me], None, &PinSetting::Compact);
    assert_eq!(compact.cpus, cpus("2,8"));
    // Ranks that are not bound do not all take the same one.
    let all: Vec<_> = (0..3).map(|rank| bound(&machine, rank, "0-11")).collect();
    let local: Vec<_> = all.iter().collect();
    let third = Pinning::decide(&machine, &all[2], &local, None, &PinSetting::Compact);
    assert_eq!(third.cpus, cpus("2,8"));
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
