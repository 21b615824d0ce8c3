//! The TCP bootstrap as its users meet it: ranks as threads and as processes, and every fault.

#[path = "bootstrap/faults.rs"]
mod faults;
#[path = "bootstrap/forks.rs"]
mod forks;
#[path = "bootstrap/interfaces.rs"]
mod interfaces;
#[path = "bootstrap/large.rs"]
mod large;
#[path = "bootstrap/liars.rs"]
mod liars;
#[path = "bootstrap/limits.rs"]
mod limits;
#[path = "bootstrap/meeting.rs"]
mod meeting;
#[path = "ports/mod.rs"]
mod ports;
#[path = "bootstrap/processes.rs"]
mod processes;
#[path = "bootstrap/proof.rs"]
mod proof;
#[path = "bootstrap/shortage.rs"]
mod shortage;
#[path = "skip/mod.rs"]
mod skip;
#[path = "bootstrap/stopped.rs"]
mod stopped;
#[path = "bootstrap/strays.rs"]
mod strays;
#[path = "bootstrap/streams.rs"]
mod streams;
#[path = "bootstrap/support.rs"]
mod support;
#[path = "bootstrap/suspended.rs"]
mod suspended;
#[path = "bootstrap/together.rs"]
mod together;
#[path = "within/mod.rs"]
mod within;
