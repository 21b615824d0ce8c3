//! Exact pictures, in text, of machines that are not at hand.

use super::render::render;
use kolo::base::Rank;
use kolo::topo::{CpuSet, Machine, Quota, RankPlace, Usable};
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../tests/data/topo")
        .join(name)
}

fn load(name: &str) -> Machine {
    let text = std::fs::read_to_string(path(name)).unwrap();
    Machine::from_xml_str(&text, name).unwrap()
}

#[test]
fn a_desktop_with_one_socket() {
    let machine = load("desktop.xml");
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
fn two_sockets_of_two_numa_nodes_and_a_rank_there() {
    let machine = load("two_sockets_smt.xml");
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
    let cpus = CpuSet::parse_list("0-9,32-39").unwrap();
    let usable = Usable::of(&machine, &cpus, None).unwrap();
    let place = RankPlace::new(Rank(5), "node7.site", None, "boot", &machine, usable);
    let place = RankPlace {
        pid: 42,
        quota: Some(Quota {
            millicpus: 2500,
            group: 1,
        }),
        ..place
    };
    assert_eq!(render(&machine, Some(&place)), expected);
}

#[test]
fn cores_in_clusters_around_a_cache() {
    let machine = load("amd_l3_clusters.xml");
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
fn devices_stand_below() {
    let machine = load("pci_nic.xml");
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
fn memory_of_two_kinds_and_pus_without_cores() {
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
    let pu = |number| format!("<object type=\"PU\" os_index=\"{number}\"/>\n");
    let xml = format!(
        "<topology version=\"2.0\">\n<object type=\"Machine\">\n{}{}{}\
         <object type=\"OSDev\" name=\"lo\" osdev_type=\"2\"/>\n</object>\n</topology>",
        memory.concat(),
        pu(0),
        pu(1)
    );
    let machine = Machine::from_xml_str(&xml, "small.xml").unwrap();
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
fn processors_outside_the_cgroup_are_said() {
    let text = std::fs::read_to_string(path("desktop.xml")).unwrap();
    let text = text.replace(
        "allowed_cpuset=\"0x00000fff\"",
        "allowed_cpuset=\"0x000000c3\"",
    );
    let machine = Machine::from_xml_str(&text, "part.xml").unwrap();
    assert!(render(&machine, None).contains("only PUs 0-1,6-7 allowed here\n"));
}
