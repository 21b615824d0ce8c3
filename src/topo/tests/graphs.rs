//! Exact graphs and exact pictures of machines that are not at hand.

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
        Kind::Cache {
            level: 1,
            bytes: 32768
        }
    );
    assert_eq!(machine.allowed, cpus("0-11"));
    assert!(machine.devices.is_empty());
    let expected = "\
Machine (desktop.xml): 1 package, 1 NUMA node, 6 cores, 12 PUs, 1 GiB
└─ Package 0
   └─ NUMA 0: 1 GiB, PUs 0-11
      └─ L3 32 MiB: PUs 0-11
         └─ 6 x Core: L2 1 MiB, L1 32 KiB, 2 PUs
";
    assert_eq!(render(&machine, None), expected);
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
    let expected = "\
Machine (two_sockets_smt.xml): 2 packages, 4 NUMA nodes, 32 cores, 64 PUs, 256 GiB
├─ Package 0
│  ├─ NUMA 0: 64 GiB, PUs 0-7,32-39 (all usable)
│  │  └─ L3 36 MiB: PUs 0-7,32-39
│  │     └─ 8 x Core: L2 1.25 MiB, L1 48 KiB, 2 PUs
│  └─ NUMA 1: 64 GiB, PUs 8-15,40-47 (usable 8-9)
│     └─ L3 36 MiB: PUs 8-15,40-47
│        └─ 8 x Core: L2 1.25 MiB, L1 48 KiB, 2 PUs
└─ Package 1
   ├─ NUMA 2: 64 GiB, PUs 16-23,48-55 (none usable)
   │  └─ L3 36 MiB: PUs 16-23,48-55
   │     └─ 8 x Core: L2 1.25 MiB, L1 48 KiB, 2 PUs
   └─ NUMA 3: 64 GiB, PUs 24-31,56-63 (none usable)
      └─ L3 36 MiB: PUs 24-31,56-63
         └─ 8 x Core: L2 1.25 MiB, L1 48 KiB, 2 PUs
Rank 5 on node7 (process 42): 3 cores, PUs 0-9,32-39, NUMA 0-1; \
the cgroup grants the time of 2.5 processors
";
    let mut place = bound(&machine, 5, "0-9,32-39");
    assert_eq!(
        place.core_count(),
        10,
        "hardware threads do not count twice"
    );
    place.quota = Some(Quota {
        millicpus: 2500,
        group: 1,
    });
    assert_eq!(render(&machine, Some(&place)), expected);
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
    let expected = "\
Machine (amd_l3_clusters.xml): 1 package, 1 NUMA node, 16 cores, 32 PUs, 32 GiB
└─ Package 0
   └─ NUMA 0: 32 GiB, PUs 0-31
      └─ 4 x L3 16 MiB: PUs 0-3,16-19 | 4-7,20-23 | 8-11,24-27 | 12-15,28-31
         └─ 4 x Core: L2 512 KiB, L1 32 KiB, 2 PUs
";
    assert_eq!(render(&machine, None), expected);
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
    let expected = "\
Machine (pci_nic.xml): 2 packages, 2 NUMA nodes, 8 cores, 8 PUs, 256 GiB
├─ Package 0: Intel(R) Xeon(R) Platinum 8480C
│  └─ NUMA 0: 128 GiB, PUs 0-3
│     └─ L3 105 MiB: PUs 0-3
│        └─ 4 x Core: L2 2 MiB, L1 48 KiB, 1 PU
└─ Package 1: Intel(R) Xeon(R) Platinum 8480C
   └─ NUMA 1: 128 GiB, PUs 4-7
      └─ L3 105 MiB: PUs 4-7
         └─ 4 x Core: L2 2 MiB, L1 48 KiB, 1 PU
Devices
  InfiniBand  ibp24s0, mlx5_0  0000:18:00.0  31.5 GB/s  NUMA 0
  GPU         cuda0, nvml0     0000:1b:00.0  63.0 GB/s  NUMA 0
  Ethernet    eth0             0000:98:00.0  7.9 GB/s   NUMA 1
  GPU                          0000:9a:00.0  63.0 GB/s  NUMA 1
";
    assert_eq!(render(&machine, None), expected);
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
    let expected = "\
Machine (small.xml): 0 packages, 3 NUMA nodes, 2 cores, 2 PUs, 4.5 GiB
├─ NUMA 1 (HBM): 1.5 GiB, PUs 0-1
│  └─ 2 x PU
├─ NUMA 0: 1.5 GiB, PUs 0-1
└─ NUMA 4: 1.5 GiB, no PUs
Devices
  Network  lo  NUMA 0
";
    assert_eq!(render(&machine, None), expected);
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
    assert!(render(&machine, None).contains("only PUs 0-1,6-7 allowed here\n"));
}

#[test]
fn a_machine_survives_serde() {
    let machine = load("pci_nic.xml");
    let text = serde_json::to_string(&machine).unwrap();
    assert_eq!(serde_json::from_str::<Machine>(&text).unwrap(), machine);
}
