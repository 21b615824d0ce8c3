//! Communicators over the small plugin of `tests/net_plugin`, in its oldest and newest version.

use super::compile::compile;
use super::{checked, support};
use kolo::comm::Inspect;
use kolo::topo::{CpuSet, affinity};
use std::path::{Path, PathBuf};

const COUNTS: &[usize] = &[0, 1, 7, 1000, 4097, 40_001];

fn carries_everything(version: u32) {
    let library = compile("plugin.c", &format!("networks{version}"), version, &[]);
    let settings = [
        ("net", "plugin"),
        ("net_plugin", library.to_str().unwrap()),
        ("buffsize", "64K"),
    ];
    for nodes in [&[0, 1][..], &[0, 1, 0, 1], &[0, 1, 1, 2, 2]] {
        support::threads(nodes, &settings, |comm| {
            assert_eq!(comm.network_name(), Some("unix"));
            checked::everything(comm, COUNTS);
            let (out, into) = comm.network_connections();
            assert!(out > 0 && into > 0, "nothing crossed the network");
        });
    }
}

#[test]
fn version_8_carries_everything() {
    carries_everything(8);
}

#[test]
fn version_11_carries_everything() {
    carries_everything(11);
}

/// A machine with two packages in hwloc's form: on the first one are the processors of this test,
/// one more, and the network device of which the plugin gives the place.
fn machine_with_the_device() -> PathBuf {
    let mine = affinity().unwrap();
    let next = mine.last().unwrap() + 1;
    let packages = [mine.union(&CpuSet::single(next)), CpuSet::single(next + 1)];
    let object = |what: &str, cpus: &CpuSet, inside: &str| {
        let mask = cpus.to_mask();
        format!("<object type={what} cpuset=\"{mask}\">\n{inside}</object>\n")
    };
    let device = "<object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"0000:[00-1f]\">\
                  <object type=\"PCIDev\" pci_busid=\"0000:00:1f.6\" \
                  pci_type=\"0200 [8086:1563] [15d9:1c34] 01\"/></object>\n";
    let mut text = String::new();
    for (number, cpus) in packages.iter().enumerate() {
        let index = |kind: &str, at: u32| format!("\"{kind}\" os_index=\"{at}\"");
        let pus = cpus
            .iter()
            .map(|pu| object(&index("PU", pu), &CpuSet::single(pu), ""));
        let memory = object(&index("NUMANode", number as u32), cpus, "");
        let device = [device, ""][number];
        let inside = memory + &pus.collect::<String>() + device;
        text += &object(&index("Package", number as u32), cpus, &inside);
    }
    let all = packages[0].union(&packages[1]);
    let text = object("\"Machine\"", &all, &text);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("device_on_the_first_package.xml");
    std::fs::write(
        &file,
        format!("<topology version=\"2.0\">\n{text}</topology>\n"),
    )
    .unwrap();
    file
}

#[test]
fn threads_of_a_rank_go_beside_its_device() {
    let (library, machine) = (
        compile("plugin.c", "networks10", 10, &[]),
        machine_with_the_device(),
    );
    let settings = [
        ("net", "plugin"),
        ("net_plugin", library.to_str().unwrap()),
        ("topo_file", machine.to_str().unwrap()),
        ("progress", "inline"),
    ];
    let near_device = |comm: &kolo::comm::Communicator| {
        let said = comm.pinning().to_string();
        assert!(!comm.pinning().cpus.is_empty(), "{said}");
        said.contains("near the device")
    };
    support::threads(&[0, 1], &settings, |comm| {
        assert!(near_device(comm), "{}", comm.pinning());
    });
    // Where all ranks are on one node, there is no device.
    support::threads(&[0, 0], &settings, |comm| {
        assert!(!near_device(comm), "{}", comm.pinning());
    });
}

#[test]
fn ranks_of_one_node_need_none() {
    let settings = [("net", "plugin"), ("net_plugin", "/nowhere/libnone.so")];
    support::threads(&[0, 0], &settings, |comm| {
        assert_eq!(comm.network_name(), None);
        comm.barrier().unwrap();
    });
}
