//! A bootstrap for tests: every rank has a connection to a hub in the test's own process, which
//! collects one message from each and sends all to all.

use kolo::base::{Error, Rank, Result};
use kolo::bootstrap::{Bootstrap, ContributionList};
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Mutex;

pub struct HubClient {
    rank: u32,
    nranks: u32,
    stream: Mutex<UnixStream>,
}

fn put(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(&u32::try_from(bytes.len()).unwrap().to_le_bytes())?;
    stream.write_all(bytes)
}

fn take(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Starts a hub for `nranks` ranks on a thread of its own and returns its name. It serves until
/// all ranks have left; when one leaves, the next exchange of the others fails.
pub fn start(nranks: u32) -> String {
    let name = format!("hub-{:032x}", fastrand::u128(..));
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    std::thread::spawn(move || serve(&listener, nranks));
    name
}

fn serve(listener: &UnixListener, nranks: u32) {
    let mut ranks: Vec<Option<UnixStream>> = (0..nranks).map(|_| None).collect();
    for _ in 0..nranks {
        let (mut stream, _) = listener.accept().unwrap();
        let rank = take(&mut stream).unwrap();
        let rank = u32::from_le_bytes(rank.try_into().unwrap());
        ranks[rank as usize] = Some(stream);
    }
    let mut ranks: Vec<UnixStream> = ranks.into_iter().flatten().collect();
    loop {
        let messages: Vec<_> = ranks.iter_mut().map(|stream| take(stream).ok()).collect();
        let dead = messages.iter().position(Option::is_none);
        if messages.iter().all(Option::is_none) {
            return;
        }
        for stream in &mut ranks {
            // A rank may have gone: the next round notices.
            let _ = stream.write_all(&[u8::from(dead.is_some())]);
            if let Some(dead) = dead {
                let _ = stream.write_all(&(dead as u32).to_le_bytes());
            } else {
                for message in messages.iter().flatten() {
                    let _ = put(stream, message);
                }
            }
        }
    }
}

impl HubClient {
    pub fn connect(name: &str, rank: u32, nranks: u32) -> HubClient {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let mut stream = UnixStream::connect_addr(&address).unwrap();
        put(&mut stream, &rank.to_le_bytes()).unwrap();
        HubClient {
            rank,
            nranks,
            stream: Mutex::new(stream),
        }
    }

    fn exchange(&self, mine: &[u8]) -> io::Result<std::result::Result<Vec<Vec<u8>>, u32>> {
        let mut stream = self.stream.lock().unwrap();
        put(&mut *stream, mine)?;
        let mut dead = [0];
        stream.read_exact(&mut dead)?;
        if dead[0] != 0 {
            let mut rank = [0; 4];
            stream.read_exact(&mut rank)?;
            return Ok(Err(u32::from_le_bytes(rank)));
        }
        let all: io::Result<_> = (0..self.nranks).map(|_| take(&mut *stream)).collect();
        all.map(Ok)
    }
}

impl Bootstrap for HubClient {
    fn rank(&self) -> Rank {
        Rank(self.rank)
    }

    fn nranks(&self) -> u32 {
        self.nranks
    }

    fn all_gather(&self, mine: &[u8]) -> Result<ContributionList> {
        match self.exchange(mine) {
            Ok(Ok(all)) => Ok(all.into()),
            Ok(Err(dead)) => Err(Error::remote(Rank(dead), "left the hub", "test")),
            Err(error) => Err(Error::system("hub", &error, "test")),
        }
    }

    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()> {
        *data = self.all_gather(data)?[root.index()].clone();
        Ok(())
    }

    fn barrier(&self) -> Result<()> {
        self.all_gather(&[]).map(drop)
    }
}
