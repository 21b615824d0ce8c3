//! The network between nodes against bare TCP, over the loopback: `cargo bench --bench net`.
//!
//! Two threads; each number is the best of several runs, ours and bare TCP in turns, so that the
//! ratio is of one and the same machine. Bandwidth: messages of 4 MiB in one direction, eight in
//! flight, over 1, 2 and 4 sockets, against a loop of `write_all` and `read_exact` over one
//! `TcpStream`. Round trip: 8 bytes there and back with buffers posted ahead, against the same over
//! one blocking stream; ours sleeps in `poll` or spins, as a driver may.

use kolo::base::clock;
use kolo::transport::net::socket::{SocketNet, SocketOptions};
use kolo::transport::net::{Net, Receive, RecvComm, Region, Request, SendComm};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

const SAMPLES: usize = 5;
const MESSAGE: usize = 4 << 20;
const IN_FLIGHT: usize = 8;
const MESSAGES: usize = 192;
const TRIPS: usize = 4000;

type Pair = (Box<dyn SendComm>, Box<dyn RecvComm>);

fn pair(sockets: u16, checksum: bool) -> Pair {
    let options = SocketOptions {
        ifname: Some("=lo".into()),
        sockets,
        checksum,
        ..SocketOptions::default()
    };
    let net = SocketNet::new(options).expect("loopback");
    let (handle, mut listener) = net.listen(0).expect("listens");
    let mut connecting = net.connect(0, &handle).expect("a good handle");
    let (mut sender, mut receiver) = (None, None);
    loop {
        sender = sender.or_else(|| connecting.poll().expect("connects"));
        receiver = receiver.or_else(|| listener.accept().expect("accepts"));
        if let (Some(_), Some(_)) = (&sender, &receiver) {
            return (sender.expect("is there"), receiver.expect("is there"));
        }
    }
}

fn sleep(set: &mut Vec<libc::pollfd>) {
    // SAFETY: the pointer and the count describe one exclusive slice of pollfd.
    unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, 1000) };
    set.clear();
}

/// Sends `count` messages from the same memory; `asleep`: waits in `poll`.
fn send(comm: &mut dyn SendComm, data: &[u8], count: usize, asleep: bool) {
    let (mut started, mut flying) = (0, std::collections::VecDeque::new());
    let mut set = Vec::new();
    while started < count || !flying.is_empty() {
        let mut moved = false;
        if started < count {
            // SAFETY: `data` outlives all requests, which this loop tests until they are done.
            let request = unsafe { comm.isend(data.as_ptr(), data.len(), 1, Region(0)) };
            if let Some(request) = request.expect("alive") {
                flying.push_back(request);
                started += 1;
                moved = true;
            }
        }
        if let Some(oldest) = flying.front()
            && comm.test(oldest).expect("alive").is_some()
        {
            flying.pop_front();
            moved = true;
        }
        if !moved && asleep {
            comm.watch(&mut set);
            sleep(&mut set);
        }
    }
}

/// Receives `count` messages into `buffers` in turn.
fn receive(comm: &mut dyn RecvComm, buffers: &mut [Vec<u8>], count: usize, asleep: bool) {
    let (mut posted, mut flying) = (0, std::collections::VecDeque::new());
    let mut set = Vec::new();
    while posted < count || !flying.is_empty() {
        let mut moved = false;
        if posted < count && flying.len() < buffers.len() {
            let at = posted % buffers.len();
            let receive = Receive {
                data: buffers[at].as_mut_ptr(),
                capacity: buffers[at].len(),
                tag: 1,
                region: Region(0),
            };
            // SAFETY: a buffer is posted again only when its last request is done.
            let request = unsafe { comm.irecv(&[receive]) }.expect("alive");
            if let Some(request) = request {
                flying.push_back(request);
                posted += 1;
                moved = true;
            }
        }
        if let Some(oldest) = flying.front()
            && comm.test(oldest).expect("alive").is_some()
        {
            flying.pop_front();
            moved = true;
        }
        if !moved && asleep {
            comm.watch(&mut set);
            sleep(&mut set);
        }
    }
}

/// Gigabytes per second of large messages.
fn bandwidth(pair: &mut Pair) -> f64 {
    let data = vec![3_u8; MESSAGE];
    let mut buffers = vec![vec![0_u8; MESSAGE]; IN_FLIGHT];
    let start = clock::now();
    std::thread::scope(|scope| {
        let (sender, receiver) = (&mut pair.0, &mut pair.1);
        scope.spawn(|| send(sender.as_mut(), &data, MESSAGES, true));
        receive(receiver.as_mut(), &mut buffers, MESSAGES, true);
    });
    (MESSAGE * MESSAGES) as f64 / start.elapsed().as_secs_f64() / 1e9
}

fn streams() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    let (far, _) = listener.accept().expect("accepts");
    near.set_nodelay(true).expect("a socket");
    far.set_nodelay(true).expect("a socket");
    (near, far)
}

/// Bandwidth of one bare stream, into as many buffers.
fn bare_bandwidth() -> f64 {
    let (mut near, mut far) = streams();
    let data = vec![3_u8; MESSAGE];
    let mut buffers = vec![vec![0_u8; MESSAGE]; IN_FLIGHT];
    let start = clock::now();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..MESSAGES).for_each(|_| near.write_all(&data).expect("alive")));
        for n in 0..MESSAGES {
            far.read_exact(&mut buffers[n % IN_FLIGHT]).expect("alive");
        }
    });
    (MESSAGE * MESSAGES) as f64 / start.elapsed().as_secs_f64() / 1e9
}

/// One end of a ping-pong: as an engine does, it keeps eight buffers posted, so that the peer
/// never waits for a credit.
struct Player<'a> {
    sender: &'a mut dyn SendComm,
    receiver: &'a mut dyn RecvComm,
    buffers: Vec<Vec<u8>>,
    posted: std::collections::VecDeque<Request>,
    next: usize,
    asleep: bool,
}

impl Player<'_> {
    fn post(&mut self) {
        let at = self.next % self.buffers.len();
        let receive = Receive {
            data: self.buffers[at].as_mut_ptr(),
            capacity: 8,
            tag: 1,
            region: Region(0),
        };
        // SAFETY: a buffer is posted again only when its last request is done.
        let request = unsafe { self.receiver.irecv(&[receive]) }.expect("alive");
        self.posted.push_back(request.expect("room for eight"));
        self.next += 1;
    }

    fn hear(&mut self) {
        let mut set = Vec::new();
        while self
            .receiver
            .test(&self.posted[0])
            .expect("alive")
            .is_none()
        {
            if self.asleep {
                self.receiver.watch(&mut set);
                sleep(&mut set);
            }
        }
        self.posted.pop_front();
    }

    fn play(&mut self, first: bool) {
        (0..IN_FLIGHT).for_each(|_| self.post());
        for _ in 0..TRIPS {
            if first {
                send(self.sender, &[1; 8], 1, self.asleep);
            }
            self.hear();
            if !first {
                send(self.sender, &[1; 8], 1, self.asleep);
            }
            self.post();
        }
    }
}

/// Microseconds of a round trip of 8 bytes.
fn round_trip(asleep: bool) -> f64 {
    let (mut there, mut back) = (pair(1, false), pair(1, false));
    let player = |sender, receiver| Player {
        sender,
        receiver,
        buffers: vec![vec![0; 8]; IN_FLIGHT],
        posted: std::collections::VecDeque::new(),
        next: 0,
        asleep,
    };
    let mut near = player(there.0.as_mut(), back.1.as_mut());
    let mut far = player(back.0.as_mut(), there.1.as_mut());
    let start = clock::now();
    std::thread::scope(|scope| {
        scope.spawn(|| far.play(false));
        near.play(true);
    });
    start.elapsed().as_secs_f64() * 1e6 / TRIPS as f64
}

fn bare_round_trip() -> f64 {
    let (mut near, mut far) = streams();
    let start = clock::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut data = [0; 8];
            for _ in 0..TRIPS {
                far.read_exact(&mut data).expect("alive");
                far.write_all(&data).expect("alive");
            }
        });
        let mut data = [0; 8];
        for _ in 0..TRIPS {
            near.write_all(&data).expect("alive");
            near.read_exact(&mut data).expect("alive");
        }
    });
    start.elapsed().as_secs_f64() * 1e6 / TRIPS as f64
}

fn main() {
    println!(
        "{:<28} {:>10} {:>10} {:>7}",
        "4 MiB messages", "GB/s", "bare TCP", "ratio"
    );
    for (sockets, checksum) in [(1, false), (2, false), (4, false), (1, true)] {
        let mut pair = pair(sockets, checksum);
        let (mut ours, mut bare) = (0_f64, 0_f64);
        for _ in 0..SAMPLES {
            ours = ours.max(bandwidth(&mut pair));
            bare = bare.max(bare_bandwidth());
        }
        let name = format!(
            "{sockets} sockets{}",
            if checksum { ", CRC32C" } else { "" }
        );
        println!("{name:<28} {ours:>10.2} {bare:>10.2} {:>7.2}", ours / bare);
    }
    println!(
        "{:<28} {:>10} {:>10} {:>7}",
        "8 bytes there and back", "us", "bare TCP", "ratio"
    );
    for (name, asleep) in [("asleep in poll", true), ("spinning", false)] {
        let (mut ours, mut bare) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..SAMPLES {
            ours = ours.min(round_trip(asleep));
            bare = bare.min(bare_round_trip());
        }
        println!("{name:<28} {ours:>10.2} {bare:>10.2} {:>7.2}", ours / bare);
    }
}
