//! Links that fail for a while or for good, lost packets, peers that are killed.

use crate::common;
use crate::machine::{self, Undo, command, counted};
use crate::plugin::{Net, log, until, until_failure};
use crate::site::DEVICES;
use crate::traffic::{self, Buffer, Shape};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn lost_packets_cost_time_only() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[("ib_timeout", "13")]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let _undo = Undo::after(
        &[
            "tc qdisc add dev s0 root netem loss 1%",
            "tc qdisc add dev s1 root netem loss 1%",
        ],
        &["tc qdisc del dev s0 root", "tc qdisc del dev s1 root"],
    );
    let shape = Shape {
        seed: 41,
        messages: 60,
        largest: 256 << 10,
        group: 4,
        tags: 3,
        full: false,
    };
    let payload = counted(0, || traffic::carry(&sender, &receiver, &shape).unwrap());
    counted(payload, || {
        traffic::carry(&sender, &receiver, &shape).unwrap()
    });
    let dropped = command("tc -s qdisc show dev s1");
    println!("    {}", dropped.replace('\n', " "));
    assert!(!dropped.contains("dropped 0,"), "no packet was lost");
}

#[test]
fn a_link_that_comes_back_loses_nothing() {
    if !machine::is_here() {
        return;
    }
    // Sends again for 4 s.
    let net = Net::start(&[("ib_timeout", "17")]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    traffic::one(&sender, &receiver, 1000, 1).unwrap();
    log();
    let _undo = Undo::after(&["ip link set s0 down"], &["ip link set s0 up"]);
    let comes_back = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(700));
            comes_back.store(true, Ordering::SeqCst);
            command("ip link set s0 up");
        });
        traffic::one(&sender, &receiver, 100_000, 2).unwrap();
        let before = !comes_back.load(Ordering::SeqCst);
        assert!(!before, "the message arrived while there was no link");
    });
    let lines = log();
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("2 NET/verbs: rxe0 port 1:")),
        "{lines:?}"
    );
}

#[test]
fn a_link_that_stays_away_is_an_error_at_both_ends() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[("ib_timeout", "14"), ("net_link_timeout", "2")]).unwrap();
    // A message on its way, and a connection that only waits.
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let (idle_sender, idle_receiver) = net.pair(1, 0).unwrap();
    let mut source = Buffer::new(&sender, 1000, 5).unwrap();
    let mut idle_source = Buffer::new(&idle_sender, 10, 5).unwrap();
    let mut target = Buffer::new(&receiver, 1000, 0).unwrap();
    let place = (target.bytes.as_mut_ptr(), 1000, 0, target.memory);
    let posted = receiver.irecv(&[place]).unwrap().unwrap();
    let waiting = Buffer::new(&idle_receiver, 10, 0).unwrap();
    let idle = (waiting.bytes.as_ptr().cast_mut(), 10, 0, waiting.memory);
    let idle_posted = idle_receiver.irecv(&[idle]).unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let _undo = Undo::after(&["ip link set s0 down"], &["ip link set s0 up"]);
    let message = (source.bytes.as_mut_ptr(), 1000, 0, source.memory);
    let sent = until(5, || sender.isend(message)).unwrap();
    let (failure, took) = until_failure(20, || sender.test(sent));
    println!("    after {took:?}: {}", failure.text);
    assert_eq!(failure.code, 6);
    for part in ["rxe0 port 1", "rxe1 port 1", "10.77.0.2", "Remedy"] {
        assert!(failure.text.contains(part), "{part}: {}", failure.text);
    }
    let (heard, _) = until_failure(10, || receiver.test(posted));
    assert!(
        heard.code == 6 && heard.text.contains("rxe0"),
        "{}",
        heard.text
    );
    let (down, took) = until_failure(20, || idle_receiver.test(idle_posted));
    println!("    after {took:?}: {}", down.text);
    assert!(
        down.text.contains("rxe0 port 1") && down.text.contains("down for"),
        "{}",
        down.text
    );
    assert!(down.text.contains("KOLO_NET_LINK_TIMEOUT"), "{}", down.text);
    let message = (idle_source.bytes.as_mut_ptr(), 10, 0, idle_source.memory);
    let (ended, _) = until_failure(20, || match idle_sender.isend(message)? {
        Some(sent) => idle_sender.wait(sent).map(Some),
        None => Ok(None),
    });
    assert!(
        ended.code == 6 && ended.text.contains("rxe1 port 1"),
        "{}",
        ended.text
    );
}

/// Some adapters take 7 retries for "never give up": the network's own limit holds then.
#[test]
fn endless_retries_have_a_limit() {
    if !machine::is_here() {
        return;
    }
    let settings = [
        ("ib_timeout", "12"),
        ("ib_retry_cnt", "7"),
        ("net_link_timeout", "1.5"),
    ];
    let net = Net::start(&settings).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let mut target = Buffer::new(&receiver, 10, 0).unwrap();
    let place = (target.bytes.as_mut_ptr(), 10, 0, target.memory);
    let _posted = receiver.irecv(&[place]).unwrap().unwrap();
    let mut source = Buffer::new(&sender, 10, 5).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let _undo = Undo::after(
        &["tc qdisc add dev s1 root netem loss 100%"],
        &["tc qdisc del dev s1 root"],
    );
    let message = (source.bytes.as_mut_ptr(), 10, 0, source.memory);
    let (before, _) = machine::packets("rxe0");
    let sent = until(5, || sender.isend(message)).unwrap();
    let (failure, took) = until_failure(20, || sender.test(sent));
    let (after, _) = machine::packets("rxe0");
    let packets = after - before;
    println!("    after {took:?} and {packets} packets: {}", failure.text);
    assert!(
        failure.code == 6 && failure.text.contains("no answer for 1.5 s"),
        "{failure:?}"
    );
    // One that counts its retries ends after 7 of them.
    assert!(packets > 8, "the message was sent {packets} times only");
}

#[test]
fn a_killed_receiver_is_noticed() {
    if machine::is_here() {
        common::a_killed_receiver_is_noticed(&DEVICES.with(&[("ib_timeout", "14")]));
    }
}

#[test]
fn a_killed_sender_is_noticed_by_an_idle_receiver() {
    if machine::is_here() {
        common::a_killed_sender_is_noticed_by_an_idle_receiver(&DEVICES);
    }
}
