//! Where the memory between ranks lies on a machine with two NUMA nodes: near its writer.
//!
//! Two processes, one on a processor of each NUMA node, exchange data and read in
//! `/proc/self/numa_maps` where the pages lie. The virtual machine of `tests/softroce` has two;
//! where there is one, the test says that it is skipped.

use super::{checked, skip, support};
use kolo::bootstrap::{NetSettings, UniqueId};
use kolo::comm::{CommConfig, Communicator};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

const RANK: &str = "KOLO_TEST_RANK";
const ID: &str = "KOLO_TEST_ID";

/// The first processor of each of the first two NUMA nodes.
fn processors() -> Option<[u32; 2]> {
    let first = |node: u32| {
        let path = format!("/sys/devices/system/node/node{node}/cpulist");
        let list = std::fs::read_to_string(path).ok()?;
        list.split([',', '-', '\n']).next()?.parse().ok()
    };
    Some([first(0)?, first(1)?])
}

fn bind(cpu: u32) {
    // SAFETY: a set of this function, which is zero where nothing was put into it.
    unsafe {
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut cpus);
        let bound = libc::sched_setaffinity(0, size_of_val(&cpus), &raw const cpus);
        assert_eq!(bound, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Pages of the shared memory that this process has mapped: by the NUMA node that they prefer, if
/// they do, how many lie on which.
fn pages() -> BTreeMap<Option<u32>, BTreeMap<u32, u64>> {
    let maps = std::fs::read_to_string("/proc/self/numa_maps").unwrap();
    let mut all: BTreeMap<_, BTreeMap<u32, u64>> = BTreeMap::new();
    for line in maps.lines().filter(|line| line.contains("memfd:kolo")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // One that holds by nodes' numbers is `prefer:1`, and `prefer=static:1` elsewhere.
        let preferred = words[1]
            .strip_prefix("prefer")
            .map(|rest| rest[1..].rsplit(':').next().unwrap().parse().unwrap());
        let lie = words.iter().filter_map(|word| {
            let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
            Some((node.parse::<u32>().ok()?, pages.parse::<u64>().unwrap()))
        });
        let of = all.entry(preferred).or_default();
        lie.for_each(|(node, pages)| *of.entry(node).or_default() += pages);
    }
    all
}

#[test]
#[ignore = "the body of another test"]
fn rank() {
    let text = |name: &str| std::env::var(name).expect(name);
    let rank: u32 = text(RANK).parse().unwrap();
    bind(processors().unwrap()[rank as usize]);
    let hex = text(ID);
    let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    let id = UniqueId::from_bytes(std::array::from_fn(byte)).unwrap();
    let comm = Communicator::init_rank(2, &id, rank, &CommConfig::default()).unwrap();
    support::with(&comm, |comm| {
        checked::everything(comm, &[1, 1000, 20_001]);
        let found = pages();
        println!("rank {rank}: {found:?}");
        for home in [0, 1] {
            let lie = found.get(&Some(home));
            let lie = lie.unwrap_or_else(|| panic!("nothing prefers node {home}: {found:?}"));
            let there = lie.get(&home).copied().unwrap_or(0);
            let elsewhere = lie.values().sum::<u64>() - there;
            assert!(there > 20 && elsewhere == 0, "home {home}: {found:?}");
        }
        // Both still have it mapped.
        comm.barrier().unwrap();
    });
}

#[test]
fn what_a_rank_writes_lies_on_its_numa_node() {
    if processors().is_none() {
        return skip::skip("numa", "this machine has one NUMA node");
    }
    let settings = NetSettings {
        socket_ifname: Some("=lo".into()),
        ..NetSettings::default()
    };
    let id = UniqueId::create(&settings).unwrap();
    let id: String = id.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
    let start = |rank: u32| {
        Command::new(std::env::current_exe().unwrap())
            .args(["homes::rank", "--exact", "--ignored", "--nocapture"])
            .env(RANK, rank.to_string())
            .env(ID, &id)
            .env("KOLO_SOCKET_IFNAME", "=lo")
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    };
    for mut process in [0, 1].map(start) {
        let status = process.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}
