//! The other end of a connection in a process of its own, which can be killed.
//!
//! It is this test program again, asked for one test; what it is to do stands in the environment,
//! and handles go through pipes.

use crate::common::Setup;
use crate::plugin::{Comm, Handle, Net, until};
use crate::traffic::Buffer;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const ROLE: &str = "KOLO_TEST_PEER";
/// Settings of the test, a line each.
const SETTINGS: &str = "KOLO_TEST_PEER_SETTINGS";
const MARK: &str = "handle ";

pub struct Peer(Child);

impl Peer {
    fn start(setup: &Setup, role: &str) -> Peer {
        let pairs = setup.settings.iter().chain(setup.more);
        let settings: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["peer::serve", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(SETTINGS, settings.join("\n"))
            .stdout(Stdio::piped())
            .spawn();
        Peer(child.unwrap())
    }

    /// A process that receives for ever, and the end that sends to it.
    pub fn receiver(setup: &Setup, net: &Net) -> (Peer, Comm) {
        let mut peer = Peer::start(setup, &format!("receive {}", setup.to));
        // The pipe stays open: whoever prints into a closed one ends.
        let output = BufReader::new(peer.0.stdout.as_mut().unwrap());
        let line = output
            .lines()
            .map(Result::unwrap)
            .find_map(|line| line.split_once(MARK).map(|(_, hex)| hex.to_string()))
            .expect("a handle");
        let mut handle = decode(&line);
        let sender = until(30, || net.connect(setup.from, &mut handle)).unwrap();
        (peer, sender)
    }

    /// A process that sends 20 messages and then waits for ever.
    pub fn sender(setup: &Setup, handle: &Handle) -> Peer {
        Peer::start(setup, &format!("{} {}", encode(handle), setup.from))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Removes what libfabric's provider shm leaves of a process that was killed, under its number:
    /// a process that has the same number later finds it, and opens nothing ("resource busy").
    fn remove_memory(&self) {
        let prefix = format!("{}:", self.id());
        let all = std::fs::read_dir("/dev/shm").into_iter().flatten();
        let files = all.flatten().map(|file| file.path());
        let is_of_peer = |file: &std::path::PathBuf| {
            let name = file.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&prefix))
        };
        for file in files.filter(is_of_peer) {
            drop(std::fs::remove_file(file));
        }
    }

    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
        self.remove_memory();
    }
}

fn encode(handle: &Handle) -> String {
    handle.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decode(hex: &str) -> Handle {
    let byte = |at: usize| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap();
    Handle(std::array::from_fn(byte))
}

/// Not a test of its own: what the other process does.
#[test]
fn serve() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let settings = std::env::var(SETTINGS).unwrap();
    let pairs: Vec<(&str, &str)> = settings
        .lines()
        .filter_map(|it| it.split_once('='))
        .collect();
    let net = Net::start(&pairs).unwrap();
    let (role, device) = role.split_once(' ').unwrap();
    let device = device.parse().unwrap();
    if role == "receive" {
        let (handle, listener) = net.listen(device).unwrap();
        println!("{MARK}{}", encode(&handle));
        let receiver = until(30, || listener.accept()).unwrap();
        let mut target = Buffer::new(&receiver, 4000, 0).unwrap();
        let place = (target.bytes.as_mut_ptr(), 4000, 0, target.memory);
        loop {
            let posted = until(30, || receiver.irecv(&[place])).unwrap();
            receiver.wait(posted).unwrap();
        }
    }
    let mut handle = decode(role);
    let sender = until(30, || net.connect(device, &mut handle)).unwrap();
    let mut source = Buffer::new(&sender, 4000, 5).unwrap();
    let message = (source.bytes.as_mut_ptr(), 4000, 0, source.memory);
    for _ in 0..20 {
        let sent = until(30, || sender.isend(message)).unwrap();
        sender.wait(sent).unwrap();
    }
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}
