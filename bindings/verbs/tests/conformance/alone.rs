//! Tests that need no device: the library's form, clean reasons where something is missing.

use crate::own_process::alone;
use crate::plugin::{Net, configure, library, log, path};
use crate::skip::skip;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
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
    crate::plugin::loads_not_without("libibverbs");
}

/// `stand_in.c`, compiled; nothing where no compiler is. The caller removes the file.
fn stand_in() -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/stand_in.c");
    let file = std::env::temp_dir().join(format!("kolo-stand-in-{}.so", std::process::id()));
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-shared", "-fPIC", source])
        .arg("-o")
        .arg(&file)
        .output();
    let Ok(output) = output else {
        skip("verbs-stand-in", "there is no C compiler");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    Some(file)
}

/// Calls that `started_over_the_stand_in` makes, and whether it warns, where libibverbs takes the
/// first one or refuses it.
fn over_the_stand_in(file: &Path, refuses: bool) -> (Vec<String>, bool) {
    let mut variables = vec![("LD_PRELOAD", file.as_os_str())];
    if refuses {
        variables.push(("STAND_IN_REFUSES", OsStr::new("1")));
    }
    let text = alone("alone::started_over_the_stand_in", &variables);
    let calls = text
        .lines()
        .filter_map(|line| line.split_once("stand-in: "));
    let calls = calls.map(|(_, name)| name.to_owned()).collect();
    (calls, text.contains("set RDMAV_FORK_SAFE=1"))
}

/// Memory that is registered without that call is lost to the process when it forks. So libibverbs
/// hears of it once, and before it is asked for anything; where it refuses, that is a warning.
#[test]
fn libibverbs_is_told_once_of_forks_and_first() {
    let Some(file) = stand_in() else { return };
    let calls = ["ibv_fork_init", "ibv_get_device_list"].map(str::to_owned);
    let said = [false, true].map(|refuses| over_the_stand_in(&file, refuses));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(said, [(calls.to_vec(), false), (calls.to_vec(), true)]);
}

#[test]
#[ignore = "the body of another test"]
fn started_over_the_stand_in() {
    let failure = Net::start(&[]).err().unwrap();
    let none = "no RDMA device can be used";
    assert!(failure.text.contains(none), "{}", failure.text);
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
        "kolo_net_about",
        "kolo_net_configure",
        "kolo_net_divert",
        "kolo_net_is_read",
        "kolo_net_isend_at",
        "kolo_net_last_error",
        "kolo_net_pin",
        "kolo_net_set_log",
        "kolo_net_test_at",
        "kolo_net_unpin",
        "ncclNetPlugin_v11",
    ];
    assert_eq!(names, expected);
}
