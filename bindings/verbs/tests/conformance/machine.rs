//! The virtual machine that a test runs in: its links, counters, and what the process holds.

use std::process::Command;
use std::time::{Duration, Instant};

/// Whether this is the virtual machine; elsewhere says that the test is skipped. In it a missing
/// device is a failure.
pub fn is_here() -> bool {
    let here = std::env::var_os("SOFTROCE").is_some();
    if !here {
        let why = "it needs RDMA devices that can be broken (make test-rdma has them)";
        crate::skip::skip("rdma", why);
    }
    here
}

pub fn command(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap())
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Something done to the machine that is undone at the end, also of a failed test.
pub struct Undo(&'static [&'static str]);

impl Undo {
    pub fn after(commands: &[&str], undo: &'static [&'static str]) -> Undo {
        let armed = Undo(undo);
        for line in commands {
            command(line);
        }
        armed
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        for line in self.0 {
            let mut words = line.split_whitespace();
            drop(Command::new(words.next().unwrap()).args(words).status());
        }
        wait_active();
    }
}

/// Waits until both ports are active again.
pub fn wait_active() {
    let state = |device| {
        let path = format!("/sys/class/infiniband/{device}/ports/1/state");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let start = Instant::now();
    while !["rxe0", "rxe1"]
        .iter()
        .all(|device| state(device).contains("ACTIVE"))
    {
        if start.elapsed() > Duration::from_secs(10) {
            println!("the ports did not come back");
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Packets that a device has sent and received.
pub fn packets(device: &str) -> (u64, u64) {
    let read = |name| {
        let path = format!("/sys/class/infiniband/{device}/ports/1/hw_counters/{name}");
        std::fs::read_to_string(path)
            .unwrap()
            .trim()
            .parse::<u64>()
            .unwrap()
    };
    (read("sent_pkts"), read("rcvd_pkts"))
}

/// Counts what left one device and reached the other while `body` ran: it must be at least what
/// the payload needs, so that no message can have gone another way.
pub fn counted<T>(payload: u64, body: impl FnOnce() -> T) -> T {
    counted_both(payload, 0, body)
}

/// Counts so for the payload from rxe0 to rxe1 and for that of the way back.
pub fn counted_both<T>(there: u64, back: u64, body: impl FnOnce() -> T) -> T {
    const LARGEST_PACKET: u64 = 4096;
    let before = [packets("rxe0"), packets("rxe1")];
    let result = body();
    let after = [packets("rxe0"), packets("rxe1")];
    for (payload, from, to) in [(there, 0, 1), (back, 1, 0)] {
        let needed = payload / LARGEST_PACKET;
        let (sent, received) = (after[from].0 - before[from].0, after[to].1 - before[to].1);
        println!("    {payload} bytes: rxe{from} sent {sent} packets, rxe{to} received {received}");
        assert!(
            sent >= needed && received >= needed,
            "at least {needed} packets"
        );
    }
    result
}
