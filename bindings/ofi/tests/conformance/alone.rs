//! Tests that need no device: the library's form, clean reasons where something is missing.

use crate::plugin::{Net, configure, path};
use crate::skip::skip;
use std::process::Command;

#[test]
fn a_provider_that_is_not_there_is_a_clean_reason() {
    for _ in 0..2 {
        let failure = Net::start(&[("ofi_provider", "nonesuch")]).err().unwrap();
        assert_eq!(failure.code, 2);
        for part in ["its provider nonesuch offers no", "KOLO_OFI_PROVIDER"] {
            assert!(failure.text.contains(part), "{}", failure.text);
        }
    }
}

#[test]
fn without_an_interface_to_meet_on_there_is_no_network() {
    let failure = Net::start(&[("socket_ifname", "=nonesuch0")])
        .err()
        .unwrap();
    let part = "KOLO_SOCKET_IFNAME";
    assert!(failure.text.contains(part), "{}", failure.text);
}

#[test]
fn settings_are_refused_by_name() {
    let failure = configure("ofi_colour", "red").unwrap_err();
    assert_eq!(failure.code, 4);
    for part in ["ofi_colour", "docs/net-ofi.md"] {
        assert!(failure.text.contains(part), "{}", failure.text);
    }
}

#[test]
fn a_missing_libfabric_is_a_clean_reason() {
    crate::plugin::loads_not_without("libfabric");
}

#[test]
fn only_the_table_and_its_helpers_are_exported() {
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(path())
        .output();
    let Ok(output) = output else {
        skip("ofi-symbols", "there is no nm");
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
        "kolo_net_about",
        "kolo_net_configure",
        "kolo_net_last_error",
        "kolo_net_set_log",
        "ncclNetPlugin_v11",
    ];
    assert_eq!(names, expected);
}
