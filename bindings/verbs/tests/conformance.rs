//! libkolo_verbs.so through its table, as a stranger would use it.
//!
//! `alone` runs everywhere: without a device. The rest needs RDMA devices that can be broken: it
//! runs in the virtual machine of tests/softroce (`make test-rdma`; `make test` runs `short`), and
//! elsewhere each test says that it is skipped.

#[path = "conformance/alone.rs"]
mod alone;
#[path = "../../plugin/tests/conformance/common.rs"]
mod common;
#[path = "conformance/faults.rs"]
mod faults;
#[path = "../../plugin/tests/conformance/holdings.rs"]
mod holdings;
#[path = "conformance/lent.rs"]
mod lent;
#[path = "conformance/lifecycle.rs"]
mod lifecycle;
#[path = "conformance/machine.rs"]
mod machine;
#[path = "conformance/messages.rs"]
mod messages;
#[path = "../../../tests/alone/mod.rs"]
mod own_process;
#[path = "../../plugin/tests/conformance/peer.rs"]
mod peer;
#[path = "../../plugin/tests/conformance/plugin.rs"]
mod plugin;
#[path = "conformance/short.rs"]
mod short;
#[path = "conformance/site.rs"]
mod site;
#[path = "../../../tests/skip/mod.rs"]
mod skip;
#[path = "../../plugin/tests/conformance/traffic.rs"]
mod traffic;
