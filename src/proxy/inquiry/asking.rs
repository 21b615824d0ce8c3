//! Asking the processes of this machine that use kolo.
//!
//! Their services listen on abstract addresses, which the system lists for a network namespace. The
//! processes are asked side by side: a process that is stopped takes a connection and never
//! answers, and must not hold the others up.

use super::Inquiry;
use crate::base::clock;
use crate::base::turns;
use crate::proxy::socket::{self, Address};
use crate::transport::fork::Fd;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The longest answer of one process that is read.
const MOST_BYTES: usize = 256 << 20;

/// A process that can be asked.
#[derive(Clone, Copy, Debug)]
pub struct ServicePlace {
    pub address: Address,
    /// Its number, as this process sees it.
    pub pid: u32,
}

/// Answer of one process.
#[derive(Debug)]
pub struct ServiceReply {
    pub from: ServicePlace,
    /// Answer, or nothing where it did not end in time.
    pub text: Option<Vec<u8>>,
}

/// Addresses of the services of this machine, as far as this process's network namespace goes.
///
/// # Errors
/// The system does not list them.
pub fn addresses() -> io::Result<Vec<Address>> {
    let list = std::fs::read_to_string("/proc/thread-self/net/unix")
        .or_else(|_| std::fs::read_to_string("/proc/net/unix"))?;
    Ok(listed(&list))
}

/// Addresses of services that listen, in the system's list of Unix sockets.
fn listed(list: &str) -> Vec<Address> {
    let lines = list.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        // Number, references, protocol, flags (10000: it listens), type, state, inode, path.
        let (flags, name) = (words.get(3)?, words.get(7)?);
        if *flags != "00010000" {
            return None;
        }
        Address::named(name.strip_prefix('@')?)
    });
    let mut all: Vec<Address> = lines.collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A process that is asked.
struct AskedProcess {
    fd: Fd,
    from: ServicePlace,
    text: Vec<u8>,
    /// It has said all, or cannot be heard.
    over: Option<bool>,
}

/// Processes that are asked at once: each takes a descriptor.
const AT_ONCE: usize = 64;

/// Asks them side by side, and waits at most for `limit` for each [`AT_ONCE`] of them. Processes of
/// other users, and those that have ended meanwhile, are left out. One that says nothing has too
/// many questions at the moment, and is asked again.
pub fn ask(addresses: &[Address], question: Inquiry, limit: Duration) -> Vec<ServiceReply> {
    let mut said: Vec<ServiceReply> = Vec::new();
    for some in addresses.chunks(AT_ONCE) {
        let mut replies = ask_some(some, question, limit);
        for reply in &mut replies {
            let is_busy = |it: &ServiceReply| it.text.as_ref().is_some_and(Vec::is_empty);
            for _ in 0..AGAIN {
                if !is_busy(reply) {
                    break;
                }
                turns::sleep(PAUSE);
                if let Some(next) = ask_some(&[reply.from.address], question, limit).pop() {
                    *reply = next;
                }
            }
        }
        said.append(&mut replies);
    }
    said
}

/// How often a busy process is asked again, and the pause before.
const AGAIN: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);

fn ask_some(addresses: &[Address], question: Inquiry, limit: Duration) -> Vec<ServiceReply> {
    let start = clock::now();
    let reach = |address: &Address| {
        let fd = socket::connect(address).ok()?;
        let pid = socket::peer_of(&fd).ok()?.pid as u32;
        socket::send(&fd, &question.frame(), None).ok()?;
        Some(AskedProcess {
            fd,
            from: ServicePlace {
                address: *address,
                pid,
            },
            text: Vec::new(),
            over: None,
        })
    };
    let mut asked: Vec<AskedProcess> = addresses.iter().filter_map(reach).collect();
    loop {
        asked.iter_mut().for_each(AskedProcess::hear);
        let open: Vec<&AskedProcess> = asked.iter().filter(|one| one.over.is_none()).collect();
        let left = start.left(limit);
        if open.is_empty() || left.is_zero() {
            break;
        }
        let entry = |one: &&AskedProcess| libc::pollfd {
            fd: one.fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        turns::poll(&mut open.iter().map(entry).collect::<Vec<_>>(), Some(left));
    }
    let said = |one: AskedProcess| ServiceReply {
        from: one.from,
        text: (one.over == Some(true)).then_some(one.text),
    };
    asked.into_iter().map(said).collect()
}

impl AskedProcess {
    /// Reads what is there.
    fn hear(&mut self) {
        let mut packet = [0_u8; 64 << 10];
        while self.over.is_none() {
            // SAFETY: the packet is writable for its whole length.
            let length = unsafe {
                let at = packet.as_mut_ptr().cast();
                libc::recv(self.fd.as_raw_fd(), at, packet.len(), libc::MSG_DONTWAIT)
            };
            match usize::try_from(length) {
                Ok(0) => self.over = Some(true),
                Ok(length) => {
                    self.text.extend_from_slice(&packet[..length]);
                    if self.text.len() > MOST_BYTES {
                        self.over = Some(false);
                    }
                }
                Err(_) => match io::Error::last_os_error().kind() {
                    io::ErrorKind::WouldBlock => return,
                    io::ErrorKind::Interrupted => {}
                    _ => self.over = Some(false),
                },
            }
        }
    }
}

#[cfg(test)]
impl ServicePlace {
    /// One that nobody asks.
    pub fn of_test(pid: u32) -> ServicePlace {
        let address = Address([0; 16]);
        ServicePlace { address, pid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_that_listen_are_found_in_the_list() {
        let (first, second) = (Address([0xab; 16]), Address([7; 16]));
        let list = format!(
            "Num       RefCount Protocol Flags    Type St Inode Path\n\
             0000: 00000002 00000000 00010000 0005 01 4711 @{first}\n\
             0000: 00000003 00000000 00000000 0005 03 4712 @{second}\n\
             0000: 00000002 00000000 00010000 0001 01 4713 /run/other\n\
             0000: 00000002 00000000 00010000 0005 01 4714 @kolo-12\n\
             0000: 00000002 00000000 00010000 0005 01 4715\n\
             0000: 00000002 00000000 00010000 0005 01 4716 @{first}\n"
        );
        assert_eq!(listed(&list), [first]);
        assert_eq!(listed(""), []);
    }
}
