//! Communicators over the small plugin of `tests/net_plugin`, in its oldest and newest version.

use super::{checked, support};
use std::path::{Path, PathBuf};
use std::process::Command;

const COUNTS: &[usize] = &[0, 1, 7, 1000, 4097, 40_001];

/// Compiles the plugin.
fn build(version: u32) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/net_plugin/plugin.c");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("libnccl-net-networks{version}.so"));
    let output = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-shared", "-fPIC"])
        .arg(format!("-DVERSION={version}"))
        .arg(source)
        .arg("-o")
        .arg(&file)
        .output()
        .expect("the C compiler can be started");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    file
}

fn carries_everything(version: u32) {
    let library = build(version);
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

#[test]
fn ranks_of_one_node_need_none() {
    let settings = [("net", "plugin"), ("net_plugin", "/nowhere/libnone.so")];
    support::threads(&[0, 0], &settings, |comm| {
        assert_eq!(comm.network_name(), None);
        comm.barrier().unwrap();
    });
}
