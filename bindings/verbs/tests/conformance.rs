//! libkolo_verbs.so through its table, as a stranger would use it.
//!
//! `alone` runs everywhere: without a device. The rest needs RDMA devices that can be broken: it
//! runs in the virtual machine of tests/softroce (`make test-rdma`; `make test` runs `short`), and
//! elsewhere each test says that it is skipped.

#[path = "../src/abi.rs"]
#[allow(dead_code)]
mod abi;
#[path = "conformance/alone.rs"]
mod alone;
#[path = "conformance/faults.rs"]
mod faults;
#[path = "conformance/lifecycle.rs"]
mod lifecycle;
#[path = "conformance/machine.rs"]
mod machine;
#[path = "conformance/messages.rs"]
mod messages;
#[path = "../../../tests/alone/mod.rs"]
mod own_process;
#[path = "conformance/peer.rs"]
mod peer;
#[path = "conformance/plugin.rs"]
mod plugin;
#[path = "conformance/short.rs"]
mod short;
#[path = "../../../tests/skip/mod.rs"]
mod skip;
#[path = "conformance/traffic.rs"]
mod traffic;
