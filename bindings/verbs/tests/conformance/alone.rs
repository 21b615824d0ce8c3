//! What holds without any device: the library's form, clean reasons where something is missing.

use crate::plugin::{Net, configure, library, log, path};
use crate::skip::skip;
use libloading::Library;
use std::process::Command;

/// Whether this machine has devices; then the tests about their absence say nothing.
fn has_devices() -> bool {
    std::fs::read_dir("/sys/class/infiniband").is_ok_and(|mut entries| entries.next().is_some())
}

#[test]
fn no_device_is_a_clean_reason() {
    if has_devices() {
        skip("rdma-absent", "this machine has RDMA devices");
        return;
    }
    for _ in 0..2 {
        let failure = Net::start(&[]).err().unwrap();
        assert_eq!(failure.code, 2);
        assert!(
            failure.text.contains("no RDMA device can be used"),
            "{}",
            failure.text
        );
        assert!(failure.text.contains("ibv_devinfo"), "{}", failure.text);
    }
}

/// The two ends of a connection meet by TCP first.
#[test]
fn without_an_interface_to_meet_on_there_is_no_rdma() {
    log();
    let failure = Net::start(&[("socket_ifname", "=nonesuch0")])
        .err()
        .unwrap();
    assert!(
        failure.text.contains("KOLO_SOCKET_IFNAME"),
        "{}",
        failure.text
    );
    let warned = log();
    let warning = "2 NET/verbs: no RDMA, as there is no interface on which connections could meet";
    assert!(
        warned.iter().any(|line| line.starts_with(warning)),
        "{warned:?}"
    );
}

#[test]
fn settings_are_refused_by_name() {
    let failure = Net::start(&[("ib_timeout", "99")]).err().unwrap();
    assert_eq!(failure.code, 4);
    assert!(failure.text.contains("KOLO_IB_TIMEOUT") && failure.text.contains("from 1 to 31"));
    let failure = Net::start(&[("ib_disable", "1")]).err().unwrap();
    assert!(
        failure.text.contains("switched off by KOLO_IB_DISABLE"),
        "{}",
        failure.text
    );
    let failure = configure("ib_colour", "red").unwrap_err();
    assert!(
        failure.code == 4 && failure.text.contains("ib_colour"),
        "{}",
        failure.text
    );
}

#[test]
fn a_missing_libibverbs_is_a_clean_reason() {
    // The library as it is, but it asks for a libibverbs that no machine has.
    let mut bytes = std::fs::read(path()).unwrap();
    let (have, want) = (b"libibverbs.so.1\0", b"libibverbs.so.0\0");
    let places: Vec<usize> = (0..bytes.len() - have.len())
        .filter(|&at| bytes[at..].starts_with(have))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + want.len()].copy_from_slice(want);
    }
    let copy = std::env::temp_dir().join(format!("kolo-verbs-{}.so", std::process::id()));
    std::fs::write(&copy, bytes).unwrap();
    // SAFETY: nothing of the copy runs when it cannot be loaded.
    let loaded = unsafe { Library::new(&copy) };
    std::fs::remove_file(&copy).unwrap();
    let reason = loaded.err().unwrap().to_string();
    assert!(reason.contains("libibverbs.so.0"), "{reason}");
}

#[test]
fn only_the_table_and_its_helpers_are_exported() {
    assert!(format!("{:?}", library()).contains("Library"));
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(path())
        .output();
    let Ok(output) = output else {
        skip("verbs-symbols", "there is no nm");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    names.sort_unstable();
    let expected = [
        "kolo_net_abandon",
        "kolo_net_configure",
        "kolo_net_last_error",
        "kolo_net_set_log",
        "ncclNetPlugin_v11",
    ];
    assert_eq!(names, expected);
}
