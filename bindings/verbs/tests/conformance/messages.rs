//! Much random traffic: sizes, groups, tags, many connections, and memory of devices.

use crate::machine::{self, counted};
use crate::plugin::{Net, until};
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
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[("ib_qps_per_connection", "2")]).unwrap();
    let (sender, receiver) = net.pair(1, 0).unwrap();
    for seed in seeds(&[21, 22, 23]) {
        let shape = Shape {
            seed,
            messages: 600,
            largest: 2000,
            group: 8,
            tags: 50,
            full: false,
        };
        traffic::carry(&sender, &receiver, &shape).unwrap();
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
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    // Several senders share a handle, as the ranks of a node do.
    let pairs: Vec<_> = (0..64)
        .map(|index| net.pair(index & 1, 1 - (index & 1)).unwrap())
        .collect();
    std::thread::scope(|scope| {
        for (part, pairs) in pairs.chunks(16).enumerate() {
            let pairs: Vec<_> = pairs.iter().map(Borrowed).collect();
            scope.spawn(move || {
                for (index, Borrowed((sender, receiver))) in pairs.into_iter().enumerate() {
                    let shape = Shape {
                        seed: (part * 100 + index) as u64,
                        messages: 20,
                        largest: 4000,
                        group: 4,
                        tags: 3,
                        full: false,
                    };
                    traffic::carry(sender, receiver, &shape).unwrap();
                }
            });
        }
    });
}

/// Connections of which this thread is the only user for now.
struct Borrowed<'a>(&'a (crate::plugin::Comm, crate::plugin::Comm));

// SAFETY: each pair is given to one thread, and the table allows any.
unsafe impl Send for Borrowed<'_> {}

#[test]
fn one_handle_serves_several_senders() {
    if !machine::is_here() {
        return;
    }
    let net = Net::start(&[]).unwrap();
    let (handle, listener) = net.listen(1).unwrap();
    let mut copies: Vec<_> = (0..5).map(|_| (handle.clone(), None)).collect();
    let mut receivers = Vec::new();
    until(30, || {
        for (index, (copy, sender)) in copies.iter_mut().enumerate() {
            if sender.is_none() {
                *sender = net.connect(index as i32 & 1, copy)?;
            }
        }
        receivers.extend(listener.accept()?);
        let all = copies.iter().all(|(_, sender)| sender.is_some()) && receivers.len() == 5;
        Ok(all.then_some(()))
    })
    .unwrap();
    // Each sender says who it is; every receiver hears one of them.
    let mut sources = Vec::new();
    for (index, (_, sender)) in copies.iter().enumerate() {
        let sender = sender.as_ref().unwrap();
        sources.push((sender, Buffer::new(sender, 4, index as u8).unwrap(), None));
    }
    let mut heard = Vec::new();
    for receiver in &receivers {
        let mut target = Buffer::new(receiver, 4, 99).unwrap();
        let place = (target.bytes.as_mut_ptr(), 4, 0, target.memory);
        let request = receiver.irecv(&[place]).unwrap().unwrap();
        until(30, || {
            for (sender, source, sent) in &mut sources {
                if sent.is_none() {
                    *sent = sender.isend((source.bytes.as_mut_ptr(), 4, 0, source.memory))?;
                }
            }
            receiver.test(request)
        })
        .unwrap();
        heard.push(target.bytes[0]);
    }
    heard.sort_unstable();
    assert_eq!(heard, [0, 1, 2, 3, 4]);
    for (sender, _, sent) in sources {
        sender.wait(sent.unwrap()).unwrap();
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
