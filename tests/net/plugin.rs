//! External plugins of all four versions: a plugin in C (`tests/net_plugin`), compiled here, that
//! is as strict as the interface allows.
//!
//! A plugin reads its knobs from the environment when it starts, so every test of a knob runs in a
//! process of its own.

use super::compile::compile;
use super::generic;
use super::support::*;
use crate::within::within;
use kolo::base::Code;
use kolo::transport::net::Net;
use kolo::transport::net::plugin::PluginNet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const VERSIONS: [u32; 4] = [8, 9, 10, 11];
/// Names the library to the child process.
const LIBRARY: &str = "KOLO_TEST_PLUGIN_LIBRARY";

/// The plugin of one version.
fn build(version: u32, name: &str, flags: &[&str]) -> PathBuf {
    compile("plugin.c", name, version, flags)
}

/// Runs an ignored test of this file in a process with these knobs.
fn alone(test: &str, library: &Path, knobs: &[(&str, &str)]) {
    let knobs = knobs
        .iter()
        .map(|(name, value)| (format!("KOLO_TEST_PLUGIN_{name}"), OsStr::new(value)));
    let knobs: Vec<_> = knobs.collect();
    let knobs = knobs.iter().map(|(name, value)| (name.as_str(), *value));
    let variables: Vec<_> = knobs.chain([(LIBRARY, library.as_os_str())]).collect();
    crate::alone::alone(&format!("plugin::{test}"), &variables);
}

fn library() -> PathBuf {
    PathBuf::from(std::env::var_os(LIBRARY).expect("the parent names the library"))
}

fn load(file: &Path) -> PluginNet {
    PluginNet::load(file.as_os_str()).unwrap()
}

#[test]
fn every_version_conforms() {
    for version in VERSIONS {
        let library = build(version, &format!("conform{version}"), &[]);
        for knobs in [
            &[][..],
            &[("RECVS", "1")],
            &[("DELAY", "5"), ("NULL", "3")],
            &[("RECVS", "1"), ("DELAY", "1"), ("NULL", "2")],
        ] {
            alone("alone_conforms", &library, knobs);
        }
    }
}

/// Run alone in a process by the test above.
#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_conforms() {
    within(100, || {
        let net = load(&library());
        generic::conform(&net, &["1001 bytes", "1000 bytes", "tag 9", "unix"]);
    });
}

#[test]
fn properties_come_as_the_plugin_gives_them() {
    for version in VERSIONS {
        let net = load(&build(version, &format!("properties{version}"), &[]));
        assert_eq!((net.version(), net.name()), (version, "unix"));
        assert!(!net.any_order() && net.any_thread());
        let devices = net.devices();
        assert_eq!(devices.len(), 2, "version {version}");
        for (number, device) in (0..).zip(devices) {
            assert_eq!(device.name, format!("unix{number}"));
            assert_eq!(device.speed_mbits, 40_000 + number);
            assert_eq!(device.port, 1 + number);
            assert_eq!(device.latency_ns, 1500);
            assert_eq!(device.max_connections, 4096 + number);
            assert_eq!(device.max_receives, 8);
            assert!(device.memory.host && !device.memory.cuda && !device.memory.dmabuf);
        }
        assert_eq!(devices[0].pci_path, None);
        let path = devices[1].pci_path.as_deref().unwrap();
        assert_eq!(path, "/sys/devices/pci0000:00/0000:00:1f.6");
    }
}

#[test]
fn a_failed_send_names_the_plugin_and_its_last_words() {
    for version in VERSIONS {
        let library = build(version, &format!("burning{version}"), &[]);
        alone("alone_with_a_burning_cable", &library, &[("FAIL", "3")]);
    }
}

/// Run alone in a process by the test above.
#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_with_a_burning_cable() {
    within(30, || {
        let net = load(&library());
        let mut pair = pair_on(&net, 0);
        let mut other = pair_on(&net, 1);
        for _ in 0..2 {
            assert_eq!(carry(&mut pair, vec![1; 70]).unwrap(), [1; 70]);
        }
        let error = carry(&mut pair, vec![1; 70]).unwrap_err();
        assert_eq!(error.code, Code::SystemError, "{error}");
        for part in [
            "isend",
            "unix",
            "libnccl-net-burning",
            "cable 7 of connection is on fire",
        ] {
            assert!(error.what.contains(part), "{error}");
        }
        assert!(error.remedy.contains("KOLO_NET=socket"), "{error}");
        let again = Sending::new(vec![1], 7).step(pair.0.as_mut()).unwrap_err();
        assert_eq!(again, error, "the first error is the last word");
        assert_eq!(pair.0.close().unwrap_err(), error);
        // The receiver sees its sender go; another connection is not touched.
        let mut receiving = Receiving::new(&[(8, 1)]);
        let gone = until_error(10, || receiving.step(pair.1.as_mut()));
        assert_eq!(gone.code, Code::RemoteError, "{gone}");
        assert_eq!(carry(&mut other, vec![2; 70]).unwrap(), [2; 70]);
    });
}

#[test]
fn why_a_plugin_is_not_used_is_the_end_of_a_sentence() {
    for version in VERSIONS {
        let library = build(version, &format!("refusing{version}"), &[]);
        alone("alone_init_fails", &library, &[("INIT", "fail")]);
        alone("alone_without_device", &library, &[("INIT", "none")]);
        let name = format!("half{version}");
        let half = build(version, &name, &["-DWITHOUT_ISEND", "-Wno-unused-function"]);
        let why = PluginNet::load(half.as_os_str()).err().unwrap();
        let whole = format!("is no whole plugin of version {version}: its table has no isend");
        assert!(why.contains(&whole), "{why}");
    }
    let none = ["-DWITHOUT_TABLE", "-Wno-unused-function"];
    let why = PluginNet::load(build(8, "tableless", &none).as_os_str());
    let why = why.err().unwrap();
    assert!(
        why.contains("libnccl-net-tableless.so exports none of"),
        "{why}"
    );
}

/// Run alone in a process by the test above.
#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_init_fails() {
    let why = PluginNet::load(library().as_os_str()).err().unwrap();
    assert!(why.starts_with("init of the plugin unix ("), "{why}");
    assert!(why.contains("unhandled system error"), "{why}");
    assert!(why.contains("last words: the fabric of version"), "{why}");
    assert!(why.ends_with("is not plugged in"), "{why}");
}

/// Run alone in a process by the test above.
#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_without_device() {
    let why = PluginNet::load(library().as_os_str()).err().unwrap();
    assert!(
        why.starts_with("unix of") && why.ends_with("finds no device"),
        "{why}"
    );
}

#[test]
fn a_wrong_handle_and_nobody_there_are_errors() {
    within(30, || {
        let net = load(&build(11, "nobody", &[]));
        let (handle, listener) = net.listen(0).unwrap();
        drop(listener);
        let mut connecting = net.connect(0, &handle).unwrap();
        let error = until_error(10, || connecting.poll().map(|c| c.is_some()));
        assert_eq!(error.code, Code::RemoteError, "{error}");
        assert!(error.what.contains("nobody listens"), "{error}");
        assert_eq!(connecting.poll().err().unwrap(), error);
        let wrong = kolo::transport::net::Handle::new(&[9; 128]).unwrap();
        let error = net.connect(0, &wrong).unwrap().poll().err().unwrap();
        assert!(error.what.contains("bad handle"), "{error}");
    });
}

#[test]
fn unregistered_memory_is_an_argument_and_does_no_harm() {
    within(30, || {
        let net = load(&build(9, "registered", &[]));
        let mut pair = pair_on(&net, 0);
        let region = kolo::transport::net::Region(77);
        let data = [1_u8; 8];
        // SAFETY: `data` outlives the call, which starts nothing.
        let error = unsafe { pair.0.isend(data.as_ptr(), 8, 1, region) }.unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument, "{error}");
        // SAFETY: registered for its length; too much is refused before it is read.
        let error = unsafe {
            let region = pair.0.register(data.as_ptr(), 8).unwrap();
            pair.0.isend(data.as_ptr(), 1 << 31, 1, region)
        };
        assert!(error.unwrap_err().what.contains("2147483648 bytes"));
        assert_eq!(carry(&mut pair, vec![6; 30]).unwrap(), vec![6; 30]);
    });
}
