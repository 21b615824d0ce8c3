//! The networks between nodes: sockets on the loopback and on virtual links, plugins.

#[path = "net/faults.rs"]
mod faults;
#[path = "net/generic.rs"]
mod generic;
#[path = "net/link.rs"]
mod link;
#[path = "net/messages.rs"]
mod messages;
#[path = "net/plugin.rs"]
mod plugin;
#[path = "net/proxy.rs"]
mod proxy;
#[path = "net/strays.rs"]
mod strays;
#[path = "net/support.rs"]
mod support;
