//! A real link between two nodes: a pair of virtual interfaces, each in a network namespace of its
//! own: ranks of other tests would take one that all can see. It is unplugged for a while, and for
//! good.

use super::skip::skip;
use super::support::*;
use crate::within::within;
use kolo::base::{Code, interfaces::Family};
use kolo::transport::net::Net;
use kolo::transport::net::socket::{SocketNet, SocketOptions};
use std::process::Command;
use std::time::{Duration, Instant};

struct Link {
    here: String,
    there: String,
    space: String,
}

fn ip(words: &str) -> bool {
    let output = Command::new("ip").args(words.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

impl Link {
    /// Moves the calling thread, and those that it starts, to a network of their own, and plugs the
    /// link in there. `number` keeps the links of tests that run at the same time apart.
    fn plug(number: u8) -> Option<Link> {
        // SAFETY: it changes the network of this thread, which belongs to the test.
        let is_apart = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
        let id = std::process::id() % 100_000;
        let link = Link {
            here: format!("kolo{id}h{number}"),
            there: format!("kolo{id}t{number}"),
            space: format!("kolo{id}n{number}"),
        };
        let (here, there, space) = (&link.here, &link.there, &link.space);
        let net = format!("10.{}.{}", 200 + number, id % 250);
        let six = format!("fd00:{:x}:{number:x}", id % 65_536);
        let steps = [
            format!("netns add {space}"),
            format!("link add {here} type veth peer name {there} netns {space}"),
            format!("address add {net}.1/24 dev {here}"),
            format!("address add {six}::1/64 dev {here} nodad"),
            format!("link set {here} up"),
            format!("-n {space} address add {net}.2/24 dev {there}"),
            format!("-n {space} address add {six}::2/64 dev {there} nodad"),
            format!("-n {space} link set {there} up"),
        ];
        if is_apart && steps.iter().all(|step| ip(step)) {
            return Some(link);
        }
        skip(
            "net-link",
            "no virtual link can be made (it needs root and `ip`)",
        );
        None
    }

    fn set(&self, state: &str) {
        assert!(ip(&format!(
            "-n {} link set {} {state}",
            self.space, self.there
        )));
    }

    fn net(&self, name: &str, family: Family) -> SocketNet {
        SocketNet::new(SocketOptions {
            ifname: Some(format!("={name}")),
            family,
            ..options(2)
        })
        .unwrap()
    }

    /// Runs `body` on the other node.
    fn there<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        let space = std::fs::File::open(format!("/run/netns/{}", self.space)).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                use std::os::fd::AsRawFd;
                // SAFETY: moves this thread, which only runs `body`, to another network.
                let result = unsafe { libc::setns(space.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(result, 0);
                body()
            });
            thread.join().unwrap()
        })
    }

    /// A connection from here to there: sockets belong to where they were made.
    fn pair(&self, family: Family) -> Pair {
        let (handle, mut listener) =
            self.there(|| self.net(&self.there, family).listen(0).unwrap());
        let net = self.net(&self.here, family);
        let mut connecting = net.connect(0, &handle).unwrap();
        meet(connecting.as_mut(), listener.as_mut()).unwrap()
    }

    /// Bytes that have left by this end.
    fn sent(&self) -> u64 {
        let all = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let name = format!("{}:", self.here);
        let line = all.lines().find_map(|line| line.trim().strip_prefix(&name));
        // Eight numbers of what has come, then what has left.
        let sent = line.and_then(|line| line.split_whitespace().nth(8));
        sent.and_then(|sent| sent.parse().ok()).expect("bytes")
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        ip(&format!("link delete {}", self.here));
        ip(&format!("netns delete {}", self.space));
    }
}

#[test]
fn data_pass_the_chosen_interface_in_both_families() {
    within(60, || {
        let Some(link) = Link::plug(0) else { return };
        let mut random = fastrand::Rng::with_seed(4);
        for family in [Family::V4, Family::V6] {
            let mut pair = link.pair(family);
            let before = link.sent();
            let data = random_bytes(&mut random, 5_000_000);
            assert!(carry(&mut pair, data.clone()).unwrap() == data);
            let moved = link.sent() - before;
            assert!((5_000_000..6_000_000).contains(&moved), "{moved} bytes");
        }
    });
}

#[test]
fn a_link_that_comes_back_loses_nothing() {
    within(60, || {
        let Some(link) = Link::plug(1) else { return };
        let mut pair = link.pair(Family::V4);
        let mut random = fastrand::Rng::with_seed(6);
        let data = random_bytes(&mut random, 4 << 20);
        assert!(carry(&mut pair, data.clone()).unwrap() == data);
        link.set("down");
        std::thread::scope(|scope| {
            let start = Instant::now();
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(1200));
                link.set("up");
            });
            assert!(carry(&mut pair, data.clone()).unwrap() == data);
            assert!(start.elapsed() > Duration::from_secs(1));
        });
    });
}

#[test]
fn a_link_that_stays_away_is_an_error_at_both_ends() {
    within(60, || {
        let Some(link) = Link::plug(2) else { return };
        // A message is on its way in the first connection; the second one waits for a buffer.
        let mut pair = link.pair(Family::V4);
        let mut idle = link.pair(Family::V6);
        let mut receiving = Receiving::new(&[(8 << 20, 1)]);
        receiving.step(pair.1.as_mut()).unwrap();
        let mut sending = Sending::new(vec![1; 8 << 20], 1);
        let mut waiting = Sending::new(vec![1; 8], 1);
        let mut posted = Receiving::new(&[(8, 2)]);
        posted.step(idle.1.as_mut()).unwrap();
        link.set("down");
        let start = Instant::now();
        let errors = [
            until_error(20, || sending.step(pair.0.as_mut())),
            until_error(20, || receiving.step(pair.1.as_mut())),
            until_error(20, || waiting.step(idle.0.as_mut())),
            until_error(20, || posted.step(idle.1.as_mut())),
        ];
        let took = start.elapsed();
        assert!(
            took > Duration::from_secs(2) && took < Duration::from_secs(9),
            "{took:?}"
        );
        let (here, there) = (&link.here, &link.there);
        for (error, name) in errors.iter().zip([here, there, here, there]) {
            assert_eq!(error.code, Code::RemoteError, "{error}");
            assert!(
                error.what.contains("link") && error.what.contains(name),
                "{error}"
            );
            assert!(error.remedy.contains("KOLO_NET_LINK_TIMEOUT"), "{error}");
        }
    });
}
