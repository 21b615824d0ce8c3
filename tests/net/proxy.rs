//! A stretch of network between the two ends that a test can disturb: it flips a byte, stops for a
//! while, or cuts; it never reorders.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Disturbances of the bytes from the sender to the receiver.
#[derive(Default)]
pub struct Disturb {
    /// Flip one bit when so many further bytes have passed; negative: never.
    pub flip_after: AtomicI64,
    /// Pass nothing on.
    pub stall: AtomicBool,
    /// End all streams.
    pub cut: AtomicBool,
    /// Bytes that have passed.
    pub passed: AtomicU64,
}

pub struct Proxy {
    pub port: u16,
    pub disturb: Arc<Disturb>,
}

impl Proxy {
    /// Passes every connection on to `target` on the loopback.
    pub fn before(target: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let disturb = Arc::new(Disturb::default());
        disturb.flip_after.store(-1, Ordering::Relaxed);
        let shared = disturb.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                let far = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).unwrap();
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                let there = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let disturb = shared.clone();
                std::thread::spawn(move || pass(there.0, there.1, Some(&disturb)));
                std::thread::spawn(move || pass(far, near, None));
            }
        });
        Proxy { port, disturb }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, disturb: Option<&Disturb>) {
    from.set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let mut bytes = vec![0; 64 << 10];
    loop {
        if disturb.is_some_and(|d| d.cut.load(Ordering::Relaxed)) {
            break;
        }
        if disturb.is_some_and(|d| d.stall.load(Ordering::Relaxed)) {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        let count = match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => break,
        };
        if let Some(disturb) = disturb {
            disturb.passed.fetch_add(count as u64, Ordering::Relaxed);
            let before = disturb.flip_after.load(Ordering::Relaxed);
            if before >= 0 {
                let after = before - count as i64;
                if after < 0 {
                    bytes[before as usize] ^= 0x10;
                }
                disturb.flip_after.store(after.max(-1), Ordering::Relaxed);
            }
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
