//! Names of this plugin, for the tests that all plugins share.

use crate::common::Setup;
use crate::machine::command;

pub const PACKAGE: &str = "kolo-verbs";
pub const FILE: &str = "libkolo_verbs.so";

/// Settings that every test begins with: short waits, meeting where no test pulls the link.
pub const USUAL: &[(&str, &str)] = &[
    ("ib_hca", ""),
    ("ib_disable", ""),
    ("ib_gid_index", ""),
    ("ib_qps_per_connection", ""),
    ("ib_split_data_on_qps", ""),
    ("ib_tc", ""),
    ("ib_sl", ""),
    ("ib_timeout", "16"),
    ("ib_retry_cnt", "6"),
    ("socket_ifname", "lo"),
    ("socket_family", ""),
    ("net_link_timeout", "5"),
];

/// The devices of the virtual machine.
pub const DEVICES: Setup = Setup {
    settings: &[],
    more: &[],
    from: 0,
    to: 1,
    named: "rxe0 port 1",
};

/// In the virtual machine all is built.
pub fn is_built() -> bool {
    std::env::var_os("SOFTROCE").is_some()
}

/// Objects of the kernel's RDMA.
pub fn resources() -> String {
    command("rdma resource show")
}
