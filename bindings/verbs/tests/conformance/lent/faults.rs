//! Faults while messages are lent: memory that goes, ends that close, links that fail.

use super::*;

/// Memory that is given back too early is not read, and both ends say so.
#[test]
fn memory_that_is_given_back_too_early_is_an_error() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let mut one = begin((&sender, &receiver), 100_000, 1);
    one.source.unpin();
    let (failure, _) = until_failure(20, || test_at(one.posted, false));
    assert!(
        failure.code == 6 && failure.text.contains("access"),
        "{failure:?}"
    );
    let (failure, _) = until_failure(20, || sender.test(one.sent));
    assert!(
        failure.code == 6 && failure.text.contains("rxe1"),
        "{failure:?}"
    );
    assert!(one.place.bytes.iter().all(|&byte| byte == POISON));
}

const LARGE: usize = 16 << 20;

/// A large message of which some bytes have been read, and not all.
fn half_read(sender: &Comm, receiver: &Comm) -> OnItsWay {
    let mut one = begin((sender, receiver), LARGE, 1);
    assert!(divert(one.posted, &mut one.place, (5, LARGE), LARGE + TAIL).unwrap());
    // SAFETY: the byte is alive; volatile, because the adapter writes it.
    let byte = |at: usize| unsafe { (&raw const one.place.bytes[at]).read_volatile() };
    let begun = until(30, || {
        assert_eq!(test_at(one.posted, false)?, None);
        Ok((byte(6) != POISON || byte(7) != POISON).then_some(()))
    });
    begun.unwrap();
    assert!((0..64).all(|at| byte(LARGE - at) == POISON), "it was read");
    one
}

/// Nobody writes into the place any more.
fn is_left_alone(one: &mut OnItsWay) {
    one.place.bytes.fill(0x11);
    std::thread::sleep(Duration::from_millis(500));
    let alone = one.place.bytes.iter().all(|&byte| byte == 0x11);
    assert!(alone, "written later");
}

#[test]
fn a_link_that_fails_while_a_message_is_read() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[("ib_timeout", "14"), ("net_link_timeout", "2")]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let mut one = half_read(&sender, &receiver);
    let undo = Undo::after(
        &["tc qdisc add dev s0 root netem loss 100%"],
        &["tc qdisc del dev s0 root"],
    );
    let (failure, took) = until_failure(30, || test_at(one.posted, false));
    println!("    after {took:?}: {}", failure.text);
    assert_eq!(failure.code, 6, "{failure:?}");
    let (heard, _) = until_failure(20, || sender.test(one.sent));
    assert!(heard.code == 6 && heard.text.contains("rxe1"), "{heard:?}");
    drop(undo);
    is_left_alone(&mut one);
}

#[test]
fn a_receiver_that_closes_while_it_reads() {
    if !machine::is_here() {
        return;
    }
    let before = regions();
    let net = Net::start(&[]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let mut one = half_read(&sender, &receiver);
    assert!(
        receiver
            .close()
            .unwrap_err()
            .text
            .contains("1 requests open")
    );
    is_left_alone(&mut one);
    let (heard, _) = until_failure(20, || sender.test(one.sent));
    assert!(heard.code == 5 && heard.text.contains("rxe1"), "{heard:?}");
    drop((one, sender, net));
    assert_eq!(regions(), before);
}

#[test]
fn a_sender_that_closes_while_it_is_read() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[("ib_timeout", "14")]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let mut one = half_read(&sender, &receiver);
    assert!(sender.close().unwrap_err().text.contains("1 requests open"));
    let (heard, _) = until_failure(20, || test_at(one.posted, false));
    assert!(heard.code == 5 && heard.text.contains("rxe0"), "{heard:?}");
    is_left_alone(&mut one);
}
