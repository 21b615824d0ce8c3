//! The network between nodes, over real sockets on the loopback and on virtual links.

#[path = "net/faults.rs"]
mod faults;
#[path = "net/link.rs"]
mod link;
#[path = "net/messages.rs"]
mod messages;
#[path = "net/proxy.rs"]
mod proxy;
#[path = "net/strays.rs"]
mod strays;
#[path = "net/support.rs"]
mod support;
