//! Exact graphs of machines that are not at hand.

use super::*;

fn shape(machine: &Machine) -> [usize; 4] {
    let packages = machine.packages().count();
    [
        packages,
        machine.numa.len(),
        machine.cores.len(),
        machine.cpus().len(),
    ]
}

fn cores(machine: &Machine) -> Vec<String> {
    machine
        .cores
        .iter()
        .map(|core| core.cpus.to_string())
        .collect()
}

#[test]
fn a_desktop_with_one_socket() {
    let machine = load("desktop.xml");
    assert_eq!(shape(&machine), [1, 1, 6, 12]);
    assert_eq!(
        cores(&machine),
        ["0,6", "1,7", "2,8", "3,9", "4,10", "5,11"]
    );
    assert_eq!(
        machine
            .caches(3)
            .map(|cache| &cache.cpus)
            .collect::<Vec<_>>(),
        [&cpus("0-11")]
    );
    assert_eq!(
        (machine.caches(2).count(), machine.caches(4).count()),
        (6, 0)
    );
    assert_eq!(
        machine.caches(1).next().unwrap().kind,
        ObjectKind::Cache {
            level: 1,
            bytes: 32768
        }
    );
    assert_eq!(machine.allowed, cpus("0-11"));
    assert!(machine.devices.is_empty());
}

#[test]
fn two_sockets_of_two_numa_nodes_with_hardware_threads() {
    let machine = load("two_sockets_smt.xml");
    assert_eq!(shape(&machine), [2, 4, 32, 64]);
    let numa: Vec<(u32, String)> = machine
        .numa
        .iter()
        .map(|node| (node.os_index, node.cpus.to_string()))
        .collect();
    let lists = ["0-7,32-39", "8-15,40-47", "16-23,48-55", "24-31,56-63"];
    assert_eq!(
        numa,
        (0..4).zip(lists.map(str::to_owned)).collect::<Vec<_>>()
    );
    assert!(
        machine
            .numa
            .iter()
            .all(|node| node.memory_bytes == 64 << 30)
    );
    assert_eq!(machine.cores_of(&cpus("1,33,34,63")), cpus("1,2,31"));
    assert_eq!(machine.whole_cores(&cpus("1,40")), cpus("1,33,8,40"));
    assert_eq!(machine.numa_of(&cpus("7,8,60")), cpus("0,1,3"));
    assert_eq!(
        machine.cpus_of_numa(&cpus("1,3")),
        cpus("8-15,40-47,24-31,56-63")
    );
    let place = bound(&machine, 5, "0-9,32-39");
    assert_eq!(
        place.core_count(),
        10,
        "hardware threads do not count twice"
    );
}

#[test]
fn cores_in_clusters_around_a_cache() {
    let machine = load("amd_l3_clusters.xml");
    assert_eq!(shape(&machine), [1, 1, 16, 32]);
    let clusters: Vec<String> = machine
        .caches(3)
        .map(|cache| cache.cpus.to_string())
        .collect();
    assert_eq!(
        clusters,
        ["0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"]
    );
}

#[test]
fn devices_know_their_memory_and_their_bridges() {
    let machine = load("pci_nic.xml");
    assert_eq!(shape(&machine), [2, 2, 8, 8]);
    let names: Vec<&str> = machine
        .devices
        .iter()
        .map(|device| device.name.as_str())
        .collect();
    let expected = [
        "0000:00:17.0",
        "sda",
        "0000:18:00.0",
        "ibp24s0",
        "mlx5_0",
        "0000:1b:00.0",
        "cuda0",
        "nvml0",
        "0000:98:00.0",
        "eth0",
        "0000:9a:00.0",
    ];
    assert_eq!(names, expected);
    let expected = Device {
        class: DeviceClass::OpenFabrics,
        name: "mlx5_0".to_owned(),
        subtype: None,
        is_os_device: true,
        bus_id: Some("0000:18:00.0".to_owned()),
        pci: Some(PciId {
            class: 0x0207,
            vendor: 0x15b3,
            device: 0x1021,
        }),
        link_megabytes_per_s: Some(31_508),
        bridges: vec!["0000:[15-1b]".to_owned(), "0000:[16-1b]".to_owned()],
        cpus: cpus("0-3"),
        numa: Some(0),
    };
    assert_eq!(machine.devices[4], expected);
    assert_eq!(machine.devices[6].subtype.as_deref(), Some("CUDA"));
    assert_eq!(
        machine.devices[6].bridges, expected.bridges,
        "behind the same switch"
    );
    assert_eq!(machine.devices[0].link_megabytes_per_s, None);
    assert_eq!(
        (machine.devices[9].numa, &machine.devices[9].cpus),
        (Some(1), &cpus("4-7"))
    );
}

#[test]
fn a_virtual_machine() {
    let machine = Machine::from_xml_file(&path("virtual_machine.xml")).unwrap();
    assert_eq!(shape(&machine), [1, 1, 2, 2]);
    assert_eq!(
        machine.packages().next().unwrap().name.as_deref(),
        Some("AMD EPYC")
    );
    assert_eq!(machine.numa[0].memory_bytes, 7_208_128_512);
    // Its host bridge is at the top of the machine, which has one NUMA node.
    assert_eq!(machine.devices[3].name, "eth0");
    assert_eq!(
        (machine.devices[3].numa, &machine.devices[3].cpus),
        (Some(0), &cpus("0-1"))
    );
}

#[test]
fn files_of_hwloc_1_are_rewritten() {
    let machine = Machine::from_xml_file(&path("version1.xml")).unwrap();
    assert_eq!(shape(&machine), [2, 1, 4, 4]);
    assert_eq!(cores(&machine), ["0", "1", "2", "3"]);
}

#[test]
fn a_pu_without_a_core_counts_as_one_and_memory_may_be_of_two_kinds() {
    let numa = |number, cpus: &str, more: &str| {
        format!(
            "<object type=\"NUMANode\" os_index=\"{number}\" cpuset=\"{cpus}\" \
             local_memory=\"1610612736\" {more}/>\n"
        )
    };
    let memory = [
        numa(1, "0x3", "subtype=\"HBM\""),
        numa(0, "0x3", ""),
        numa(4, "0x0", ""),
    ];
    let pus = PU0.to_owned() + &PU0.replace('0', "1");
    let nic = "<object type=\"OSDev\" name=\"lo\" osdev_type=\"2\"/>";
    let machine = small(&(memory.concat() + &pus + nic)).unwrap();
    assert_eq!(cores(&machine), ["0", "1"]);
    assert_eq!(
        machine
            .numa
            .iter()
            .map(|node| node.os_index)
            .collect::<Vec<_>>(),
        [0, 1, 4]
    );
    assert_eq!(machine.devices[0].numa, Some(0), "ordinary memory, not HBM");
}

#[test]
fn processors_outside_the_cgroup_are_seen_but_not_allowed() {
    let text = std::fs::read_to_string(path("desktop.xml")).unwrap();
    let text = text.replace(
        "allowed_cpuset=\"0x00000fff\"",
        "allowed_cpuset=\"0x000000c3\"",
    );
    let machine = Machine::from_xml_str(&text, "part.xml").unwrap();
    assert_eq!(
        (machine.cpus(), &machine.allowed),
        (&cpus("0-11"), &cpus("0-1,6-7"))
    );
}

#[test]
fn a_machine_survives_serde() {
    let machine = load("pci_nic.xml");
    let text = serde_json::to_string(&machine).unwrap();
    assert_eq!(serde_json::from_str::<Machine>(&text).unwrap(), machine);
}
