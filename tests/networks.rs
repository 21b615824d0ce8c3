//! Communicators over every network that is not the usual one: all collectives, with checked data.
//!
//! Sockets are in `tests/nodes.rs`, MPI in `tests/mpi_net` (`make test-mpi`). Verbs needs RDMA
//! devices: it runs in the virtual machine of `tests/softroce` (`make test-rdma`), and so does what
//! needs two NUMA nodes.

#[path = "alone/mod.rs"]
mod alone;
#[path = "networks/checked.rs"]
mod checked;
#[path = "net_plugin/compile.rs"]
mod compile;
#[path = "networks/fold.rs"]
mod fold;
#[path = "networks/homes.rs"]
mod homes;
#[path = "networks/lasting.rs"]
mod lasting;
#[path = "../bindings/verbs/tests/conformance/machine.rs"]
#[allow(dead_code, reason = "the tests of the library itself use the rest")]
mod machine;
#[path = "networks/plugin.rs"]
mod plugin;
#[path = "skip/mod.rs"]
mod skip;
#[path = "networks/support.rs"]
mod support;
#[path = "networks/verbs.rs"]
mod verbs;
