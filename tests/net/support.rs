//! Helpers of every test of the network: safe buffers around the calls.

use kolo::base::interfaces::ways::FaceTable;
use kolo::base::{Error, Result};
use kolo::transport::net::socket::{SocketNet, SocketOptions};
use kolo::transport::net::{
    Connecting, Handle, Listener, Net, Receive, RecvComm, Region, Request, SendComm,
};
use std::time::{Duration, Instant};

pub fn options(sockets: u16) -> SocketOptions {
    SocketOptions {
        ifname: Some("=lo".into()),
        family: kolo::base::interfaces::Family::V4,
        sockets,
        link_timeout: Some(Duration::from_secs(3)),
        ..SocketOptions::default()
    }
}

pub fn net(sockets: u16) -> SocketNet {
    SocketNet::new(options(sockets)).unwrap()
}

/// A network whose one interface has two addresses: four ways from an end to another.
pub fn net_of_two_addresses(link_timeout: Duration) -> SocketNet {
    let options = SocketOptions {
        link_timeout: Some(link_timeout),
        ..options(1)
    };
    let list = options.ifname.as_deref();
    let mut table = kolo::base::interfaces::table(options.family, list).unwrap();
    let places = &mut table.cards[0].places;
    places.truncate(1);
    places.push(places[0]);
    places[1].ip = [127, 0, 0, 2].into();
    let FaceTable { cards, .. } = table.clone();
    SocketNet::over(table, cards, options)
}

pub type Pair = (Box<dyn SendComm>, Box<dyn RecvComm>);

/// Makes a connection within one thread: neither end ever waits.
pub fn meet(connecting: &mut dyn Connecting, listener: &mut dyn Listener) -> Result<Pair> {
    let start = Instant::now();
    let (mut sender, mut receiver) = (None, None);
    while start.elapsed() < Duration::from_secs(20) {
        if sender.is_none() {
            sender = connecting.poll()?;
        }
        if receiver.is_none() {
            receiver = listener.accept()?;
        }
        match (sender.take(), receiver.take()) {
            (Some(s), Some(r)) => return Ok((s, r)),
            (s, r) => (sender, receiver) = (s, r),
        }
        std::thread::yield_now();
    }
    panic!("no connection after 20 s");
}

pub fn pair_on(net: &dyn Net, device: usize) -> Pair {
    let (handle, mut listener) = net.listen(device).unwrap();
    let mut connecting = net.connect(device, &handle).unwrap();
    meet(connecting.as_mut(), listener.as_mut()).unwrap()
}

pub fn pair(sockets: u16) -> Pair {
    pair_on(&net(sockets), 0)
}

/// Where a handle of sockets has the number of its addresses.
const COUNT_AT: usize = 12;
/// Where it has its secret.
const SECRET: std::ops::Range<usize> = 16..32;
/// Where it has the port of its only address.
const PORT: std::ops::Range<usize> = 48..50;

/// The bytes of a handle with one address, as those of all nets of these tests.
fn bytes_of_one(handle: &Handle) -> Vec<u8> {
    let bytes = handle.bytes().to_vec();
    assert_eq!(bytes[COUNT_AT], 1, "a way beside that of the test");
    bytes
}

fn sealed(mut bytes: Vec<u8>) -> Handle {
    let end = bytes.len() - 4;
    let sum = crc32c::crc32c(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_be_bytes());
    Handle::new(&bytes).unwrap()
}

/// A handle with the address of a proxy in between.
pub fn redirected(handle: &Handle, port: u16) -> Handle {
    let mut bytes = bytes_of_one(handle);
    bytes[PORT].copy_from_slice(&port.to_be_bytes());
    sealed(bytes)
}

/// The addresses of one handle with the secret of another.
pub fn with_secret_of(handle: &Handle, other: &Handle) -> Handle {
    let mut bytes = handle.bytes().to_vec();
    bytes[SECRET].copy_from_slice(&secret_of(other));
    sealed(bytes)
}

pub fn port_of(handle: &Handle) -> u16 {
    let bytes = bytes_of_one(handle);
    u16::from_be_bytes(bytes[PORT].try_into().unwrap())
}

pub fn secret_of(handle: &Handle) -> Vec<u8> {
    handle.bytes()[SECRET].to_vec()
}

/// A message and where it is on its way.
pub struct Sending {
    pub data: Vec<u8>,
    pub tag: u32,
    region: Option<Region>,
    request: Option<Request>,
    pub done: bool,
}

impl Sending {
    pub fn new(data: Vec<u8>, tag: u32) -> Sending {
        Sending {
            data,
            tag,
            region: None,
            request: None,
            done: false,
        }
    }

    pub fn started(&self) -> bool {
        self.request.is_some()
    }

    /// Moves on; true when anything changed.
    pub fn step(&mut self, comm: &mut dyn SendComm) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        let Some(request) = &self.request else {
            let (data, bytes) = (self.data.as_ptr(), self.data.len());
            // SAFETY: `data` is neither moved nor written until the message is done, and the
            // tests drop connections before buffers.
            unsafe {
                let region = match self.region {
                    Some(region) => region,
                    None => *self.region.insert(comm.register(data, bytes)?),
                };
                self.request = comm.isend(data, bytes, self.tag, region)?;
            }
            return Ok(self.request.is_some());
        };
        if let Some(bytes) = comm.test(request)? {
            assert_eq!(bytes, self.data.len());
            self.done = true;
            self.region.take().map_or(Ok(()), |r| comm.deregister(r))?;
        }
        Ok(self.done)
    }
}

/// Buffers of one request.
pub struct Receiving {
    pub buffers: Vec<(Vec<u8>, u32)>,
    regions: Vec<Region>,
    pub request: Option<Request>,
    pub sizes: Option<Vec<usize>>,
}

impl Receiving {
    pub fn new(buffers: &[(usize, u32)]) -> Receiving {
        let make = |&(capacity, tag): &(usize, u32)| (vec![0xee; capacity], tag);
        Receiving {
            buffers: buffers.iter().map(make).collect(),
            regions: Vec::new(),
            request: None,
            sizes: None,
        }
    }

    /// Moves on; true when anything changed.
    pub fn step(&mut self, comm: &mut dyn RecvComm) -> Result<bool> {
        if self.sizes.is_some() {
            return Ok(false);
        }
        let Some(request) = &self.request else {
            for (data, _) in &mut self.buffers[self.regions.len()..] {
                // SAFETY: the buffers are neither moved nor freed before the connection is.
                self.regions
                    .push(unsafe { comm.register(data.as_mut_ptr(), data.len()) }?);
            }
            let receive = |((data, tag), region): (&mut (Vec<u8>, u32), &Region)| Receive {
                data: data.as_mut_ptr(),
                capacity: data.len(),
                tag: *tag,
                region: *region,
            };
            let buffers = self.buffers.iter_mut().zip(&self.regions);
            let list: Vec<Receive> = buffers.map(receive).collect();
            // SAFETY: the buffers are left alone until the request is done, and the tests drop
            // connections before buffers.
            self.request = unsafe { comm.irecv(&list) }?;
            comm.announce();
            return Ok(self.request.is_some());
        };
        if let Some(received) = comm.test(request)? {
            self.sizes = Some(received.bytes().to_vec());
            for region in std::mem::take(&mut self.regions) {
                comm.deregister(region)?;
            }
        }
        Ok(self.sizes.is_some())
    }

    /// Bytes that buffer `index` got; everything behind them must be untouched.
    pub fn message(&self, index: usize) -> &[u8] {
        let size = self.sizes.as_ref().expect("done")[index];
        let (got, rest) = self.buffers[index].0.split_at(size);
        assert!(
            rest.iter().all(|&byte| byte == 0xee),
            "bytes behind the message"
        );
        got
    }
}

pub fn random_bytes(random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// Sends and receives one message; either end's error.
pub fn carry(pair: &mut Pair, data: Vec<u8>) -> Result<Vec<u8>> {
    let mut receiving = Receiving::new(&[(data.len().max(1), 7)]);
    let mut sending = Sending::new(data, 7);
    until(30, || {
        receiving.step(pair.1.as_mut())?;
        sending.step(pair.0.as_mut())?;
        Ok(receiving.sizes.is_some() && sending.done)
    })?;
    Ok(receiving.message(0).to_vec())
}

/// Calls `body` until it says that it is done.
pub fn until(seconds: u64, mut body: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !body()? {
        assert!(
            start.elapsed() < Duration::from_secs(seconds),
            "not done after {seconds} s"
        );
        std::thread::yield_now();
    }
    Ok(())
}

/// Calls `body` until it fails.
pub fn until_error(seconds: u64, mut body: impl FnMut() -> Result<bool>) -> Error {
    match until(seconds, || body().map(|_| false)) {
        Err(error) => error,
        Ok(()) => unreachable!("`until` returns only when the body says so"),
    }
}

/// Seeds of a test: one from the environment to repeat a failure, else the given ones.
pub fn seeds(usual: &[u64]) -> Vec<u64> {
    let chosen = std::env::var("KOLO_TEST_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let seeds = chosen.map_or(usual.to_vec(), |seed| vec![seed]);
    println!("KOLO_TEST_SEED of {seeds:?}");
    seeds
}
