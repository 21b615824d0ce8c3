//! The networks between nodes: sockets on the loopback and on virtual links, plugins, MPI.

#[path = "alone/mod.rs"]
mod alone;
#[path = "net_plugin/compile.rs"]
mod compile;
#[path = "net/fake_mpi.rs"]
mod fake_mpi;
#[path = "net/faults.rs"]
mod faults;
#[path = "net/generic.rs"]
mod generic;
#[path = "net/link.rs"]
mod link;
#[path = "net/messages.rs"]
mod messages;
#[path = "net/mpi.rs"]
mod mpi;
#[path = "net/plugin.rs"]
mod plugin;
#[path = "net/proxy.rs"]
mod proxy;
#[path = "net/shortage.rs"]
mod shortage;
#[path = "skip/mod.rs"]
mod skip;
#[path = "net/strays.rs"]
mod strays;
#[path = "net/support.rs"]
mod support;
#[path = "within/mod.rs"]
mod within;
