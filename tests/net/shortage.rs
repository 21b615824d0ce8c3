//! A listener in a process that has no file descriptor left. The test is a process of its own, as
//! the limit is that of the whole process.

use super::support::*;
use kolo::transport::net::Net;
use std::process::Command;

const CHILD: &str = "KOLO_TEST_NET_SHORTAGE";
/// Passes of the loop that accepts; each may sleep for [`NAP`].
const PASSES: usize = 60;
const NAP: i32 = 20;

fn limit_files(count: u64) {
    // SAFETY: plain system calls on a value of this function.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = count;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

/// A connection waits in the system's queue and cannot be accepted: what is slept on must not name
/// the listener then, or the thread that looks after it never sleeps.
#[test]
fn a_listener_without_descriptors_lets_its_thread_sleep_and_recovers() {
    if std::env::var_os(CHILD).is_none() {
        let test = "shortage::a_listener_without_descriptors_lets_its_thread_sleep_and_recovers";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{errors}");
        return;
    }
    let net = net(1);
    let (handle, mut listener) = net.listen(0).unwrap();
    let mut held = Vec::new();
    limit_files(64);
    while let Ok(file) = std::fs::File::open("/dev/null") {
        held.push(file);
    }
    // One for the sender's socket, none for the listener's.
    held.pop();
    let mut connecting = net.connect(0, &handle).unwrap();
    assert!(connecting.poll().unwrap().is_none());
    let mut woken = 0;
    for _ in 0..PASSES {
        let mut set = Vec::new();
        listener.watch(&mut set);
        // SAFETY: a live array of that many entries.
        let ready = unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, NAP) };
        woken += usize::from(ready > 0);
        assert!(listener.accept().unwrap().is_none());
    }
    println!("woken {woken} times in {PASSES} passes");
    assert!(woken > 0, "nobody knocked");
    assert!(
        woken <= PASSES / 2,
        "woken {woken} times in {PASSES} passes, each in vain"
    );
    drop(held);
    limit_files(1024);
    let mut pair = meet(connecting.as_mut(), listener.as_mut()).unwrap();
    assert_eq!(carry(&mut pair, vec![7; 99]).unwrap(), [7; 99]);
}
