//! The TCP bootstrap as its users meet it: ranks as threads and as processes, and every fault.

#[path = "bootstrap/faults.rs"]
mod faults;
#[path = "bootstrap/large.rs"]
mod large;
#[path = "bootstrap/meeting.rs"]
mod meeting;
#[path = "bootstrap/processes.rs"]
mod processes;
#[path = "bootstrap/strays.rs"]
mod strays;
#[path = "bootstrap/support.rs"]
mod support;
