//! Tests that every network must pass, whichever way it moves the bytes: run by the tests of each.

use super::support::*;
use kolo::base::{Code, Result};
use kolo::transport::net::{Net, RecvComm, SendComm};

/// A size that is often small, often near a limit of the cutting, at most `most`.
fn size(random: &mut fastrand::Rng, most: usize) -> usize {
    let edges = [0, 1, 4048, 4096, 64 << 10, 128 << 10, 1 << 20, 2 << 20];
    let size = match random.u8(..4) {
        0 => random.usize(..200),
        1 => (edges[random.usize(..edges.len())] + random.usize(..5)).saturating_sub(2),
        2 => random.usize(..300_000),
        _ => random.usize(..=8 << 20),
    };
    size.min(most)
}

/// Random messages, the same at both ends of a connection that know the seed.
pub struct Plan {
    data: Vec<Vec<u8>>,
    /// Messages of each request, and how much larger than those its buffers are.
    groups: Vec<(Vec<usize>, usize)>,
    /// Messages in the order of sending.
    order: Vec<usize>,
    any_order: bool,
}

impl Plan {
    /// `count` messages of at most `most` bytes that suit the network; each tag is the number of
    /// its message.
    pub fn new(net: &dyn Net, random: &mut fastrand::Rng, count: usize, most: usize) -> Plan {
        let most_buffers = net.devices()[0].max_receives as usize;
        let make = |_| {
            let bytes = size(random, most);
            random_bytes(random, bytes)
        };
        let data: Vec<Vec<u8>> = (0..count).map(make).collect();
        let mut groups = Vec::new();
        let mut order = Vec::new();
        while order.len() < count {
            let length = random.usize(1..=most_buffers).min(count - order.len());
            let mut numbers: Vec<usize> = (order.len()..order.len() + length).collect();
            groups.push((numbers.clone(), random.usize(..3)));
            random.shuffle(&mut numbers);
            order.extend(numbers);
        }
        if net.any_order() {
            // Sent in another order, but near enough that the buffers are posted.
            for chunk in order.chunks_mut(12) {
                random.shuffle(chunk);
            }
        }
        Plan {
            data,
            groups,
            order,
            any_order: net.any_order(),
        }
    }
}

/// The sending end of a plan.
pub struct SendSide {
    messages: Vec<Sending>,
    any_order: bool,
}

impl SendSide {
    pub fn new(plan: &Plan) -> SendSide {
        let message = |&n: &usize| Sending::new(plan.data[n].clone(), n as u32);
        SendSide {
            messages: plan.order.iter().map(message).collect(),
            any_order: plan.any_order,
        }
    }

    /// Moves on; true when all is done. Many are in flight, because few are tested at a time.
    pub fn step(&mut self, comm: &mut dyn SendComm) -> Result<bool> {
        for message in self.messages.iter_mut().filter(|m| !m.done).take(16) {
            message.step(comm)?;
            if !self.any_order && !message.started() {
                break;
            }
        }
        Ok(self.messages.iter().all(|m| m.done))
    }
}

/// The receiving end of a plan.
pub struct RecvSide {
    posted: Vec<(Receiving, Vec<usize>)>,
}

impl RecvSide {
    pub fn new(plan: &Plan) -> RecvSide {
        let request = |(numbers, spare): &(Vec<usize>, usize)| {
            let buffer = |&n: &usize| (plan.data[n].len() + spare, n as u32);
            let buffers: Vec<_> = numbers.iter().map(buffer).collect();
            (Receiving::new(&buffers), numbers.clone())
        };
        RecvSide {
            posted: plan.groups.iter().map(request).collect(),
        }
    }

    /// Moves on; true when all is there.
    pub fn step(&mut self, comm: &mut dyn RecvComm) -> Result<bool> {
        let open = self.posted.iter_mut().filter(|(r, _)| r.sizes.is_none());
        for (receiving, _) in open.take(8) {
            receiving.step(comm)?;
            if receiving.request.is_none() {
                break;
            }
        }
        Ok(self.posted.iter().all(|(r, _)| r.sizes.is_some()))
    }

    /// Compares every byte.
    pub fn check(&self, plan: &Plan) {
        for (receiving, numbers) in &self.posted {
            for (index, &n) in numbers.iter().enumerate() {
                assert!(
                    receiving.message(index) == plan.data[n],
                    "message {n} differs"
                );
            }
        }
    }
}

/// Sends `count` random messages, several at a time, with tags that are posted in another order
/// where the network can, and compares every byte.
pub fn storm(net: &dyn Net, pair: &mut Pair, random: &mut fastrand::Rng, count: usize) {
    let plan = Plan::new(net, random, count, 8 << 20);
    let (mut send, mut recv) = (SendSide::new(&plan), RecvSide::new(&plan));
    until(60, || {
        let received = recv.step(pair.1.as_mut())?;
        Ok(send.step(pair.0.as_mut())? && received)
    })
    .unwrap();
    recv.check(&plan);
}

/// Two connections that face each other, each driven by its own thread.
pub fn both_directions(net: &dyn Net) {
    let mut random = fastrand::Rng::with_seed(5);
    let mut there = pair_on(net, 0);
    let mut back = pair_on(net, 0);
    std::thread::scope(|scope| {
        let mut other = random.fork();
        scope.spawn(|| storm(net, &mut there, &mut random, 12));
        scope.spawn(move || storm(net, &mut back, &mut other, 12));
    });
}

/// Many connections at once, of all of which some move.
pub fn many_connections(net: &dyn Net, count: usize) {
    let mut random = fastrand::Rng::with_seed(11);
    let mut pairs: Vec<Pair> = (0..count).map(|_| pair_on(net, 0)).collect();
    let plans: Vec<Plan> = (0..count)
        .map(|_| Plan::new(net, &mut random, 6, 20_000))
        .collect();
    let mut ends: Vec<_> = plans
        .iter()
        .map(|plan| (SendSide::new(plan), RecvSide::new(plan)))
        .collect();
    until(60, || {
        let mut done = true;
        for ((send, recv), pair) in ends.iter_mut().zip(&mut pairs) {
            done &= recv.step(pair.1.as_mut())?;
            done &= send.step(pair.0.as_mut())?;
        }
        Ok(done)
    })
    .unwrap();
    for ((_, recv), plan) in ends.iter().zip(&plans) {
        recv.check(plan);
    }
    for (send, recv) in pairs {
        send.close().unwrap();
        recv.close().unwrap();
    }
}

pub fn a_message_waits_for_its_buffer(net: &dyn Net) {
    let mut pair = pair_on(net, 0);
    let mut sending = Sending::new(vec![5; 100], 3);
    for _ in 0..200 {
        assert!(!sending.step(pair.0.as_mut()).unwrap());
    }
    let mut other = Receiving::new(&[(100, 4)]);
    if net.any_order() {
        // A buffer of another tag does not help.
        until(10, || other.step(pair.1.as_mut())).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        for _ in 0..200 {
            assert!(!sending.step(pair.0.as_mut()).unwrap());
        }
    }
    let mut receiving = Receiving::new(&[(100, 3)]);
    until(10, || receiving.step(pair.1.as_mut())).unwrap();
    until(10, || {
        sending.step(pair.0.as_mut())?;
        receiving.step(pair.1.as_mut())?;
        Ok(sending.done && receiving.sizes.is_some())
    })
    .unwrap();
    assert_eq!(receiving.message(0), [5; 100]);
    assert!(other.sizes.is_none());
}

pub fn buffers_of_one_tag_are_filled_in_the_order_of_posting(net: &dyn Net) {
    let mut pair = pair_on(net, 0);
    let mut receiving: Vec<_> = (0..6).map(|_| Receiving::new(&[(200_000, 1)])).collect();
    let message = |n: usize| vec![n as u8; 200_000 - n];
    let mut sending: Vec<_> = (0..6).map(|n| Sending::new(message(n), 1)).collect();
    for one in &mut receiving {
        until(10, || one.step(pair.1.as_mut())).unwrap();
    }
    until(20, || {
        let first = sending.iter_mut().find(|s| !s.started());
        first.map_or(Ok(false), |one| one.step(pair.0.as_mut()))?;
        for one in sending.iter_mut().filter(|s| s.started()) {
            one.step(pair.0.as_mut())?;
        }
        for one in &mut receiving {
            one.step(pair.1.as_mut())?;
        }
        Ok(receiving.iter().all(|r| r.sizes.is_some()))
    })
    .unwrap();
    for (n, one) in receiving.iter().enumerate() {
        assert!(one.message(0) == message(n), "message {n}");
    }
}

/// `words` must be in the errors of both ends.
pub fn a_message_that_does_not_fit_is_an_error_at_both_ends(net: &dyn Net, words: &[&str]) {
    let mut pair = pair_on(net, 0);
    let mut receiving = Receiving::new(&[(1000, 9)]);
    until(10, || receiving.step(pair.1.as_mut())).unwrap();
    let mut sending = Sending::new(vec![1; 1001], 9);
    let here = until_error(10, || sending.step(pair.0.as_mut()));
    let there = until_error(10, || receiving.step(pair.1.as_mut()));
    for error in [&here, &there] {
        assert_eq!(error.code, Code::InvalidUsage, "{error}");
        for part in words {
            assert!(error.what.contains(part), "{error}");
        }
        assert!(
            error.operation.is_some() && !error.remedy.is_empty(),
            "{error}"
        );
    }
    // The first error is the last word.
    let again = Sending::new(vec![1], 9).step(pair.0.as_mut());
    assert_eq!(again.unwrap_err(), here);
    assert!(receiving.buffers[0].0.iter().all(|&byte| byte == 0xee));
}

/// Posts and starts until the network says "not yet"; all arrives. How many were posted, and how
/// many messages were in flight.
pub fn too_many_buffers_and_messages_must_wait(net: &dyn Net) -> (usize, usize) {
    let mut pair = pair_on(net, 0);
    let group = net.devices()[0].max_receives as usize;
    let mut posted: Vec<Receiving> = Vec::new();
    let mut refused = 0;
    while refused < 50 {
        let mut more = Receiving::new(&vec![(64, 1); group]);
        match more.step(pair.1.as_mut()).unwrap() {
            true => posted.push(more),
            false => refused += 1,
        }
        assert!(posted.len() < 5000, "there is no limit");
    }
    let none = Receiving::new(&[]).step(pair.1.as_mut()).unwrap_err();
    let more = Receiving::new(&vec![(1, 1); group + 1])
        .step(pair.1.as_mut())
        .unwrap_err();
    assert!(none.code == Code::InvalidArgument && more.code == Code::InvalidArgument);
    let count = posted.len() * group;
    let message = |n: usize| vec![n as u8; 64];
    let mut sending: Vec<_> = (0..count).map(|n| Sending::new(message(n), 1)).collect();
    let (mut at, mut refused) = (0, 0);
    while refused < 50 && at < count {
        match sending[at].step(pair.0.as_mut()).unwrap() {
            true => at += 1,
            false => refused += 1,
        }
    }
    let in_flight = at;
    until(20, || {
        for one in &mut sending {
            one.step(pair.0.as_mut())?;
            if !one.started() {
                break;
            }
        }
        for one in &mut posted {
            one.step(pair.1.as_mut())?;
        }
        Ok(posted.iter().all(|p| p.sizes.is_some()) && sending.iter().all(|s| s.done))
    })
    .unwrap();
    for n in 0..count {
        assert_eq!(posted[n / group].message(n % group), message(n));
    }
    (count, in_flight)
}

pub fn requests_are_asked_for_once(net: &dyn Net) {
    let mut pair = pair_on(net, 0);
    let mut receiving = Receiving::new(&[(8, 1)]);
    let mut sending = Sending::new(vec![1; 8], 1);
    until(10, || {
        receiving.step(pair.1.as_mut())?;
        sending.step(pair.0.as_mut())?;
        Ok(receiving.sizes.is_some() && sending.done)
    })
    .unwrap();
    let again = pair.1.test(receiving.request.as_ref().unwrap());
    assert_eq!(again.unwrap_err().code, Code::InvalidArgument);
    // A mistaken question does not break the connection.
    assert_eq!(carry(&mut pair, vec![4; 50]).unwrap(), [4; 50]);
    assert!(pair.1.flush(&[]).unwrap().is_none());
}

pub fn closing_while_something_is_in_flight_is_an_error(net: &dyn Net) {
    let mut pair = pair_on(net, 0);
    let mut receiving = Receiving::new(&[(8, 1)]);
    until(10, || receiving.step(pair.1.as_mut())).unwrap();
    let mut sending = Sending::new(vec![1; 8], 1);
    until(10, || {
        sending.step(pair.0.as_mut())?;
        Ok(sending.started())
    })
    .unwrap();
    assert_eq!(pair.1.close().unwrap_err().code, Code::InvalidUsage);
    drop(pair.0);
}

pub fn what_was_sent_arrives_although_the_sender_closed(net: &dyn Net) {
    let (mut sender, mut receiver) = pair_on(net, 0);
    let mut random = fastrand::Rng::with_seed(3);
    // More buffers than messages: the sender closes with credits unread.
    let mut posted: Vec<_> = (0..8).map(|_| Receiving::new(&[(300_000, 1)])).collect();
    for one in &mut posted {
        until(10, || one.step(receiver.as_mut())).unwrap();
    }
    let data = random_bytes(&mut random, 300_000);
    let mut sending = Sending::new(data.clone(), 1);
    until(10, || {
        sending.step(sender.as_mut())?;
        posted[0].step(receiver.as_mut())?;
        Ok(sending.done)
    })
    .unwrap();
    sender.close().unwrap();
    until(10, || {
        posted[0].step(receiver.as_mut())?;
        Ok(posted[0].sizes.is_some())
    })
    .unwrap();
    assert!(posted[0].message(0) == data);
    let error = until_error(10, || posted[1].step(receiver.as_mut()));
    assert_eq!(error.code, Code::RemoteError, "{error}");
}

pub fn a_receiver_that_closed_is_an_error_at_the_sender(net: &dyn Net) {
    let mut pair = pair_on(net, 0);
    assert_eq!(carry(&mut pair, vec![4; 50]).unwrap(), [4; 50]);
    pair.1.close().unwrap();
    let mut sending = Sending::new(vec![1; 8], 1);
    let error = until_error(10, || sending.step(pair.0.as_mut()));
    assert_eq!(error.code, Code::RemoteError, "{error}");
    assert!(!error.remedy.is_empty(), "{error}");
}

pub fn wrong_numbers_are_arguments(net: &dyn Net) {
    let beyond = net.devices().len();
    let error = net.listen(beyond).err().unwrap();
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
    let (handle, _listener) = net.listen(0).unwrap();
    let error = net.connect(beyond, &handle).err().unwrap();
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
    let foreign = kolo::transport::net::Handle::new(&[1; 40]).unwrap();
    let error = net.connect(0, &foreign).err().unwrap();
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
    let mut pair = pair_on(net, 0);
    let region = kolo::transport::net::Region(987_654);
    assert!(pair.0.deregister(region).is_err() && pair.1.deregister(region).is_err());
    assert_eq!(carry(&mut pair, vec![4; 50]).unwrap(), [4; 50]);
}

/// Everything above but what depends on a number; `words` are those of
/// [`a_message_that_does_not_fit_is_an_error_at_both_ends`].
pub fn conform(net: &dyn Net, words: &[&str]) {
    let mut random = fastrand::Rng::with_seed(1);
    let mut pair = pair_on(net, 0);
    storm(net, &mut pair, &mut random, 24);
    pair.0.close().unwrap();
    pair.1.close().unwrap();
    if net.any_thread() {
        both_directions(net);
    }
    many_connections(net, 20);
    a_message_waits_for_its_buffer(net);
    buffers_of_one_tag_are_filled_in_the_order_of_posting(net);
    a_message_that_does_not_fit_is_an_error_at_both_ends(net, words);
    too_many_buffers_and_messages_must_wait(net);
    requests_are_asked_for_once(net);
    closing_while_something_is_in_flight_is_an_error(net);
    what_was_sent_arrives_although_the_sender_closed(net);
    a_receiver_that_closed_is_an_error_at_the_sender(net);
    wrong_numbers_are_arguments(net);
}
