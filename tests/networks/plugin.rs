//! Communicators over the small plugin of `tests/net_plugin`, in its oldest and newest version.

use super::compile::compile;
use super::{checked, lasting, support};
use kolo::comm::Inspect;
use kolo::topo::{CpuSet, affinity};
use std::ffi::OsStr;
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

/// Pieces that the plugin's devices have pinned, that they ever had, and bytes that were read into
/// buffers and to where readers wanted them.
fn counts(library: &Path) -> [i64; 4] {
    let mut four = [0; 4];
    // SAFETY: kolo has loaded the library and never unloads it, and the function writes four
    // numbers.
    unsafe {
        let library = libloading::Library::new(library).unwrap();
        let count: libloading::Symbol<unsafe extern "C" fn(*mut i64)> =
            library.get(b"test_plugin_counts").unwrap();
        count(four.as_mut_ptr());
    }
    four
}

/// Memory that lasts is read where it lies, into where it lies, is pinned once for all connections
/// of a device, and is pinned no longer than it lasts.
#[test]
fn memory_that_lasts_is_read_where_it_lies() {
    let library = compile("plugin.c", "networks_reads", 11, &["-DREADS"]);
    let settings = [("net", "plugin"), ("net_plugin", library.to_str().unwrap())];
    support::threads(&[0, 1], &settings, lasting::everything);
    let [open, made, read, placed] = counts(&library);
    assert_eq!(open, 0, "{made} were pinned");
    // Two buffers in each of 24 rounds of a rank, each for one of two devices or for both.
    assert!((48..=96).contains(&made), "{made}");
    assert!(read > 8 << 20 && placed > 8 << 20, "{read} {placed}");
    // The setting that switches direct buffers off.
    let off = [&settings[..], &[("direct", "0")]].concat();
    support::threads(&[0, 1], &off, |comm| {
        checked::everything(comm, COUNTS);
        lasting::copies_all(comm);
    });
    assert_eq!(counts(&library), [0, made, read, placed]);
}

#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_with_a_late_network() {
    let library = compile("plugin.c", "networks_late", 11, &["-DREADS"]);
    let settings = [("net", "plugin"), ("net_plugin", library.to_str().unwrap())];
    support::threads(&[0, 1], &settings, lasting::everything);
}

/// A message that is here before its reader has said where it goes waits at its sender.
#[test]
fn messages_wait_until_it_is_said_where_they_go() {
    let library = compile("plugin.c", "networks_many", 11, &["-DREADS"]);
    let settings = [("net", "plugin"), ("net_plugin", library.to_str().unwrap())];
    support::threads(&[0, 1, 2, 3], &settings, lasting::many);
    assert_eq!(counts(&library)[2], 0, "read into slots");
}

/// A network that says "not yet" now and then is asked again, with the same bytes.
#[test]
fn memory_of_any_kind_goes_when_the_network_takes_it() {
    let knobs = [("KOLO_TEST_PLUGIN_NULL", OsStr::new("2"))];
    super::alone::alone("plugin::alone_with_a_late_network", &knobs);
}

#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_with_few_pins() {
    let library = compile("plugin.c", "networks_few", 11, &["-DREADS"]);
    let settings = [("net", "plugin"), ("net_plugin", library.to_str().unwrap())];
    support::threads(&[0, 1], &settings, lasting::copies_all);
}

/// Memory that the adapter refuses goes through slots, and one warning says why.
#[test]
fn memory_that_cannot_be_pinned_passes_slots() {
    let knobs = [
        ("KOLO_TEST_PLUGIN_PINS", OsStr::new("0")),
        ("KOLO_DEBUG", OsStr::new("warn")),
    ];
    let said = super::alone::alone("plugin::alone_with_few_pins", &knobs);
    let warning = "registered memory passes slots between nodes, as ";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
    for part in ["no more than 0 pieces", "the limit of locked memory is"] {
        assert!(said.contains(part), "{part}: {said}");
    }
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
