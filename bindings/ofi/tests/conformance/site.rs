//! Names of this plugin, for the tests that all plugins share.

use crate::common::Setup;

pub const PACKAGE: &str = "kolo-ofi";
pub const FILE: &str = "libkolo_ofi.so";

/// Settings that every test begins with.
pub const USUAL: &[(&str, &str)] = &[
    ("ofi_provider", ""),
    ("socket_ifname", "lo"),
    ("socket_family", ""),
    ("net_link_timeout", "5"),
];

/// TCP on the loopback: both ends are of one endpoint, or of two processes.
pub const TCP: Setup = Setup {
    settings: &[("ofi_provider", "tcp")],
    more: &[],
    from: 0,
    to: 0,
    named: "lo of process",
};

/// Memory of the node.
pub const SHM: Setup = Setup {
    settings: &[("ofi_provider", "shm")],
    more: &[],
    from: 0,
    to: 0,
    named: "shm of process",
};

/// `PLUGIN_IS_BUILT` says so, where there is no cargo.
pub fn is_built() -> bool {
    std::env::var_os("PLUGIN_IS_BUILT").is_some()
}

/// Nothing but files and threads.
pub fn resources() -> String {
    String::new()
}
