//! libkolo_ofi.so through its table, as a stranger would use it, over the providers tcp and shm.
//!
//! What holds of every network behind the table is tested by the same code for all
//! (`bindings/plugin/tests/conformance`); `alone` is about what this one does without a device.
#![cfg(not(no_libfabric))]

#[path = "conformance/alone.rs"]
mod alone;
#[path = "../../plugin/tests/conformance/common.rs"]
mod common;
#[path = "../../plugin/tests/conformance/holdings.rs"]
mod holdings;
#[path = "conformance/over.rs"]
mod over;
#[path = "../../../tests/alone/mod.rs"]
mod own_process;
#[path = "../../plugin/tests/conformance/peer.rs"]
mod peer;
#[path = "../../plugin/tests/conformance/plugin.rs"]
mod plugin;
#[path = "conformance/site.rs"]
mod site;
#[path = "../../../tests/skip/mod.rs"]
mod skip;
#[path = "../../plugin/tests/conformance/traffic.rs"]
mod traffic;
