//! Much random traffic: sizes, groups, tags, many connections, and memory of devices.

use crate::common;
use crate::machine::{self, counted};
use crate::plugin::{Net, until};
use crate::site::DEVICES;
use crate::traffic::{self, Buffer, Shape};

fn seeds(usual: &[u64]) -> Vec<u64> {
    let chosen = std::env::var("KOLO_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    chosen.map_or(usual.to_vec(), |seed| vec![seed])
}

#[test]
fn random_sizes_to_several_mib() {
    if !machine::is_here() {
        return;
    }
    for (queues, split) in [("1", "0"), ("2", "1"), ("16", "0")] {
        let settings = [
            ("ib_qps_per_connection", queues),
            ("ib_split_data_on_qps", split),
        ];
        let net = Net::start(&settings).unwrap();
        let (sender, receiver) = net.pair(0, 1).unwrap();
        for seed in seeds(&[11, 12]) {
            let shape = Shape {
                seed,
                messages: 40,
                largest: 3 << 20,
                group: 3,
                tags: 2,
                full: false,
            };
            traffic::carry(&sender, &receiver, &shape).unwrap();
        }
    }
}

#[test]
fn full_groups_of_many_tags() {
    if machine::is_here() {
        common::full_groups_of_many_tags(&DEVICES.with(&[("ib_qps_per_connection", "2")]));
    }
}

#[test]
fn every_byte_passes_the_devices() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let shape = Shape {
        seed: 31,
        messages: 24,
        largest: 1 << 20,
        group: 1,
        tags: 1,
        full: true,
    };
    counted(24 << 20, || {
        assert_eq!(
            traffic::carry(&sender, &receiver, &shape).unwrap(),
            24 << 20
        );
    });
}

#[test]
fn many_connections_at_once() {
    if machine::is_here() {
        common::many_connections_at_once(&DEVICES);
    }
}

#[test]
fn one_handle_serves_several_senders() {
    if machine::is_here() {
        common::one_handle_serves_several_senders(&DEVICES);
    }
}

#[test]
fn memory_of_a_device_is_flushed_by_a_read() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let (sender, receiver) = net.pair(0, 1).unwrap();
    let mut source = Buffer::new(&sender, 5000, 7).unwrap();
    // The adapter cannot tell: host memory stands in for a GPU's.
    let mut bytes = vec![0; 5000];
    let memory = receiver.register(bytes.as_mut_ptr(), 5000, 2).unwrap();
    let place = (bytes.as_mut_ptr(), 5000, 0, memory);
    let request = receiver.irecv(&[place]).unwrap().unwrap();
    let message = (source.bytes.as_mut_ptr(), 5000, 0, source.memory);
    let sent = until(10, || sender.isend(message)).unwrap();
    receiver.wait(request).unwrap();
    sender.wait(sent).unwrap();
    counted(0, || {
        let reads =
            || machine::command("cat /sys/class/infiniband/rxe1/ports/1/hw_counters/sent_pkts");
        let before: u64 = reads().trim().parse().unwrap();
        for _ in 0..100 {
            let flush = until(10, || receiver.iflush(&[place])).unwrap();
            receiver.wait(flush).unwrap();
        }
        // A request and its answer each.
        let after: u64 = reads().trim().parse().unwrap();
        assert!(after >= before + 200, "{before} {after}");
    });
    // Host memory needs no flush, and empty buffers do not either.
    let mut host = Buffer::new(&receiver, 10, 0).unwrap();
    let place = (host.bytes.as_mut_ptr(), 10, 0, host.memory);
    assert_eq!(receiver.iflush(&[place]).unwrap(), None);
    assert_eq!(
        receiver
            .iflush(&[(bytes.as_mut_ptr(), 0, 0, memory)])
            .unwrap(),
        None
    );
    let failure = receiver
        .register_dmabuf(bytes.as_mut_ptr(), 4096, 0)
        .unwrap_err();
    assert!(failure.text.contains("dmabuf"), "{}", failure.text);
}
