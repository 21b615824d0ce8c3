//! Over which channels and devices connections between nodes go. Ranks are threads, and nodes have
//! two network devices: the loopback, and another interface of this machine; or four, in a network
//! of their own.

use super::alone::alone;
use super::skip;
use super::support::{AbortOnPanic, POISON, input, made_on, sum};
use kolo::base::interfaces::{self, Family};
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Collective, Communicator, RedOp, Stream, group};
use kolo::plan::Placing;
use kolo::proxy::net::Rail;
use kolo::transport::net::Net;
use kolo::transport::net::socket::{SocketNet, SocketOptions};
use std::path::PathBuf;

fn each(comms: &[Communicator], body: impl Fn(&Communicator) + Sync) {
    std::thread::scope(|scope| {
        for comm in comms {
            scope.spawn(|| {
                let _guard = AbortOnPanic(comm);
                body(comm);
            });
        }
    });
}

/// The setting that asks for two devices, and their names in the order of the devices.
fn two_devices(test: &str) -> Option<(String, [String; 2])> {
    let found = interfaces::discover().expect("interfaces");
    let other = found
        .iter()
        .find(|it| it.address.is_ipv4() && !it.address.is_loopback());
    let Some(other) = other else {
        skip::skip(test, "this machine has no interface beside the loopback");
        return None;
    };
    let list = format!("=lo,{}", other.name);
    let options = SocketOptions {
        ifname: Some(list.clone()),
        family: Family::V4,
        ..SocketOptions::default()
    };
    let net = SocketNet::new(options).expect("two devices");
    let names: Vec<String> = net.devices().iter().map(|it| it.name.clone()).collect();
    Some((list, names.try_into().expect("two devices")))
}

/// Files that are removed on drop.
struct Files(PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Files {
    /// A machine with two network ports, and rings of three ranks: the first comes in and goes out
    /// by the second port, sent by the proxy of rank `proxy`, the second ring by the first port.
    fn new(test: &str, [first, second]: &[String; 2], proxy: u32) -> Files {
        let name = format!("kolo-rails-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let net = |dev, name| format!("<nic><net name='{name}' dev='{dev}' speed='10000'/></nic>");
        let all = "ffffffff,ffffffff,ffffffff,ffffffff";
        let machine = format!(
            "<system version='1'><cpu numaid='0' affinity='{all}'>{}{}</cpu></system>",
            net(0, first),
            net(1, second)
        );
        std::fs::write(folder.join("machine.xml"), machine).expect("a file");
        let graph = format!(
            "version = 1\nranks = 3\nnets = ['{first}', '{second}']\n\
             ring_bandwidth = 1.0\ntree_bandwidth = 1.0\n\
             [[ring]]\norder = [0, 1, 2]\nentry = '{second}'\nexit = '{second}'\nproxy = {proxy}\n\
             [[ring]]\norder = [0, 1, 2]\nentry = '{first}'\nexit = '{first}'\n\
             [[tree]]\nchain = [0, 1, 2]\nnet = '{first}'\n"
        );
        std::fs::write(folder.join("rings.toml"), graph).expect("a file");
        Files(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("plain letters").into()
    }
}

/// Two nodes of three ranks, on the two devices and over the rings of [`Files`]; `None` where the
/// machine has one device.
fn over_two_rails(test: &str, proxy: u32, settings: &[(&str, &str)]) -> Option<Vec<Communicator>> {
    let (list, names) = two_devices(test)?;
    let files = Files::new(test, &names, proxy);
    let (machine, rings) = (files.path("machine.xml"), files.path("rings.toml"));
    let mut all = vec![
        ("socket_ifname", list.as_str()),
        ("topo_file", &machine),
        ("graph_file", &rings),
    ];
    all.extend_from_slice(settings);
    Some(made_on(6, &all, |rank| rank / 3))
}

/// Rings of two channels, and slots that are soon full.
const RING_OF_TWO: [(&str, &str); 3] = [
    ("algo", "allreduce:ring"),
    ("min_nchannels", "2"),
    ("buffsize", "64K"),
];

fn all_reduce(comm: &Communicator, count: usize, iteration: usize) {
    let (me, n) = (comm.rank() as usize, comm.nranks() as usize);
    let send = input(me, count, iteration);
    let mut recv = vec![POISON; count];
    comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap();
    assert!((0..count).all(|e| recv[e] == sum(n, e, iteration)));
}

/// Everybody sends to everybody, messages of `count` elements.
fn exchange(comm: &Communicator, count: usize, iteration: usize) {
    let (me, n) = (comm.rank() as usize, comm.nranks() as usize);
    let mine = input(me, count, iteration);
    let mut theirs = vec![vec![POISON; count]; n];
    let call = |collective, peer: usize, send: *const i64, recv: *mut i64| kolo::comm::Call {
        collective,
        send: send.cast(),
        recv: recv.cast(),
        count,
        dtype: kolo::dtype::DataType::Int64,
        op: RedOp::SUM,
        peer: peer as u32,
    };
    group::start();
    for (peer, theirs) in theirs.iter_mut().enumerate() {
        let send = call(Collective::Send, peer, mine.as_ptr(), std::ptr::null_mut());
        let recv = call(
            Collective::Recv,
            peer,
            std::ptr::null(),
            theirs.as_mut_ptr(),
        );
        for call in [send, recv] {
            // SAFETY: the buffers live, and nobody else touches them, until the group has ended.
            unsafe { comm.enqueue(&call, None) }.expect("taken down");
        }
    }
    group::end().expect("messages");
    for (peer, theirs) in theirs.iter().enumerate() {
        assert!(*theirs == input(peer, count, iteration), "{peer} to {me}");
    }
}

fn over(device: usize) -> Rail {
    Rail {
        exit: device,
        entry: device,
    }
}

/// The ports that a graph file gives to the rings, against the order of the devices.
#[test]
fn rings_go_over_the_ports_that_were_found_for_them() {
    let Some(comms) = over_two_rails("rails-rings", 2, &RING_OF_TWO) else {
        return;
    };
    each(&comms, |comm| {
        for (iteration, count) in [70_000, 3, 9000].into_iter().enumerate() {
            all_reduce(comm, count, iteration);
        }
        let mut rails = comm.rails();
        rails.sort_by_key(|&(peer, channel, _)| (peer, channel));
        let next = (comm.rank() + 1) % 6;
        match comm.rank() {
            2 | 5 => assert_eq!(rails, [(next, 0, over(1)), (next, 1, over(0))]),
            rank => assert_eq!(rails, [], "rank {rank} has no neighbour elsewhere"),
        }
        comm.barrier().unwrap();
        exchange(comm, 100, 3);
        exchange(comm, 9000, 4);
        // Ranks 2 and 4 are no neighbours in the ring, and rank 2 talks to nobody in the tree: of
        // the ports, which are equally near, it is the turn of number 2 + 1.
        let rail = comm.rails().into_iter();
        let rail: Vec<_> = rail.filter(|it| (it.0, it.1) == (4, 1)).collect();
        if comm.rank() == 2 {
            assert_eq!(rail, [(4, 1, over(1))]);
        }
    });
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

/// The last rank of a ring sends through the rank that the graph names as its proxy.
#[test]
fn the_proxy_that_a_graph_names_sends() {
    let Some(comms) = over_two_rails("rails-proxy", 0, &RING_OF_TWO) else {
        return;
    };
    each(&comms, |comm| {
        for (iteration, count) in [70_000, 3, 9000].into_iter().enumerate() {
            all_reduce(comm, count, iteration);
        }
        let channels: Vec<u16> = comm
            .rails()
            .iter()
            .map(|&(_, channel, _)| channel)
            .collect();
        match comm.rank() {
            2 | 5 => assert_eq!(channels, [1], "by itself on the second channel"),
            _ => assert!(channels.is_empty(), "{channels:?}"),
        }
        let proxied = usize::from(comm.rank() % 3 == 0);
        assert_eq!(comm.proxied_connections(), proxied, "rank {}", comm.rank());
        comm.barrier().unwrap();
    });
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

/// Collectives of one channel begin on all channels in turn, and so use both devices; the order in
/// which ranks are folded, and so the bits, is that of the first channel every time.
#[test]
fn small_collectives_use_all_devices_in_turn() {
    let Some(comms) = over_two_rails("rails-turns", 2, &[("algo", "allreduce:ring")]) else {
        return;
    };
    each(&comms, |comm| {
        let send: Vec<f64> = (0..500)
            .map(|e| 1.0 / f64::from(1 + e * 7 + comm.rank() * 1000))
            .collect();
        let mut bits = Vec::new();
        for turn in 1..=4 {
            let mut recv = vec![f64::NAN; send.len()];
            comm.all_reduce(&send, &mut recv, RedOp::SUM).unwrap();
            bits.push(recv.iter().map(|it| it.to_bits()).collect::<Vec<u64>>());
            let mut used: Vec<_> = comm.rails().iter().map(|it| (it.1, it.2)).collect();
            used.sort_by_key(|it| it.0);
            match (comm.rank() % 3, turn) {
                (2, 1) => assert_eq!(used, [(1, over(0))]),
                (2, _) => assert_eq!(used, [(0, over(1)), (1, over(0))]),
                _ => assert_eq!(used, [], "its neighbours are on its node"),
            }
        }
        assert!(bits.iter().all(|these| *these == bits[0]));
    });
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

/// A small reduce looks at the same connections whether its rank waits in the call or has it in a
/// queue, also where each collective has at least as many channels as there are.
#[test]
fn both_paths_of_a_small_reduce_take_one_channel() {
    let Some(comms) = over_two_rails(
        "rails-reduce",
        2,
        &[
            ("algo", "reduce:oneshot"),
            ("min_nchannels", "2"),
            ("max_nchannels", "2"),
            ("timeout", "60"),
        ],
    ) else {
        return;
    };
    each(&comms, |comm| {
        let (me, n, count) = (comm.rank() as usize, 6, 5);
        let stream = Stream::new().unwrap();
        for iteration in 0..24 {
            let root = iteration % n;
            let mine = input(me, count, iteration);
            let mut recv = vec![POISON; count];
            let call = kolo::comm::Call {
                collective: Collective::Reduce,
                send: mine.as_ptr().cast(),
                recv: recv.as_mut_ptr().cast(),
                count,
                dtype: kolo::dtype::DataType::Int64,
                op: RedOp::SUM,
                peer: root as u32,
            };
            let queued = (me + iteration / n) % 2 == 0;
            // SAFETY: the buffers live, and nobody else touches them, until the call has ended.
            unsafe { comm.enqueue(&call, queued.then_some(&stream)) }.expect("reduced");
            stream.synchronize().expect("reduced");
            match me == root {
                true => assert!((0..count).all(|e| recv[e] == sum(n, e, iteration))),
                false => assert_eq!(recv, [POISON; 5]),
            }
        }
    });
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

/// Messages, small and large, take a channel that follows from both ranks; collectives keep theirs.
#[test]
fn messages_choose_their_channels() {
    let comms = made_on(4, &[("algo", "allreduce:ring")], |rank| rank / 2);
    each(&comms, |comm| {
        exchange(comm, 3, 0);
        exchange(comm, 20_000, 1);
        let mut used: Vec<(u32, u16)> = comm.rails().iter().map(|it| (it.0, it.1)).collect();
        used.sort_unstable();
        let me = comm.rank();
        let chosen = |peer| (peer, Placing::ByPair.channel(0, (me, peer), 2));
        let elsewhere = (0..4).filter(|peer| peer / 2 != me / 2);
        assert_eq!(used, elsewhere.map(chosen).collect::<Vec<_>>());
        let channels: Vec<u16> = used.iter().map(|it| it.1).collect();
        assert!(channels == [0, 1] || channels == [1, 0], "{channels:?}");
        let all = input(me as usize, 4 * 50, 2);
        let mut back = vec![POISON; 4 * 50];
        comm.all_to_all(&all, &mut back).unwrap();
        for (peer, block) in back.chunks(50).enumerate() {
            assert_eq!(block, &input(peer, 4 * 50, 2)[50 * me as usize..][..50]);
        }
        assert_eq!(
            comm.rails().len(),
            used.len(),
            "all-to-all consists of messages"
        );
        all_reduce(comm, 3000, 3);
    });
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

/// Interfaces of a network of this thread's own, and of those that it starts.
fn four_devices() -> Option<Vec<String>> {
    let ip = |arguments: String| {
        let run = std::process::Command::new("ip")
            .args(arguments.split_whitespace())
            .output();
        run.is_ok_and(|run| run.status.success())
    };
    // SAFETY: it changes the network of this thread, which belongs to the test.
    let is_apart = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
    let names: Vec<String> = (0..4).map(|at| format!("rail{at}")).collect();
    let made = |(at, name): (usize, &String)| {
        [
            format!("link add {name} type veth peer name far{at}"),
            format!("address add 10.{}.0.1/24 dev {name}", 10 + at),
            format!("link set {name} up"),
            format!("link set far{at} up"),
        ]
        .into_iter()
        .all(ip)
    };
    let lo = ip("link set lo up".to_owned());
    if is_apart && lo && names.iter().enumerate().all(made) {
        return Some(names);
    }
    skip::skip(
        "four-rails",
        "no virtual links can be made (it needs root and `ip`)",
    );
    None
}

/// Of four ports a node uses all alike: large calls by rings of four channels, which leave a node
/// at one rank, and messages of all with all.
#[test]
fn four_rails_carry_the_same() {
    alone("rails::alone_with_four_rails", &[]);
}

#[test]
#[ignore = "the body of a test that needs a process of its own"]
fn alone_with_four_rails() {
    let Some(names) = four_devices() else {
        return;
    };
    let folder = std::env::temp_dir().join(format!("kolo-rails-four-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let files = Files(folder);
    let net = |(dev, name): (usize, &String)| {
        format!("<nic><net name='{name}' dev='{dev}' speed='10000'/></nic>")
    };
    let all = "ffffffff,ffffffff,ffffffff,ffffffff";
    let nets: String = names.iter().enumerate().map(net).collect();
    let machine =
        format!("<system version='1'><cpu numaid='0' affinity='{all}'>{nets}</cpu></system>");
    let machine_file = files.path("machine.xml");
    std::fs::write(&machine_file, machine).expect("a file");
    let list = format!("={}", names.join(","));
    let settings = [
        ("socket_ifname", list.as_str()),
        ("topo_file", &machine_file),
        ("algo", "allreduce:ring"),
        ("min_nchannels", "4"),
    ];
    let comms = made_on(8, &settings, |rank| rank / 4);
    each(&comms, |comm| all_reduce(comm, 300_000, 0));
    let used = || {
        let mut used = vec![[0; 4]; 2];
        for (comm, (_, _, rail)) in comms
            .iter()
            .flat_map(|comm| comm.rails().into_iter().map(move |it| (comm, it)))
        {
            used[comm.rank() as usize / 4][rail.exit] += 1;
            assert_eq!(rail.exit, rail.entry, "equal nodes meet on equal ports");
        }
        used
    };
    // Channels of a call have equal parts of it.
    assert_eq!(used(), [[1; 4]; 2], "a channel of the ring for each");
    each(&comms, |comm| exchange(comm, 9000, 1));
    // Neighbours in a ring or tree keep the ports of that, and some have their connection already.
    let all = used();
    assert!(
        all.iter().flatten().all(|&count| (3..=6).contains(&count)),
        "{all:?} connections for 16 messages, and the ring's"
    );
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}
