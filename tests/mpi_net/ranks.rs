//! MPI as the network, between real ranks: `mpirun -n 4 mpi_net LIBRARY LEVEL [collectives]`.
//!
//! Loads `libkolo_mpi.so`, starts MPI with a thread level (0 to 3), and opens the network over all
//! ranks. Then: everything that every network must do, from each rank to itself; many connections
//! between all ranks at once, with random messages that are compared; a receiver that leaves; the
//! wrong thread; and more openings than an MPI has communicators. With `collectives` instead: all
//! collectives of communicators whose ranks are on nodes of their own. Prints "ok" on rank 0.

#[path = "../networks/checked.rs"]
mod checked;
#[path = "../net/generic.rs"]
#[allow(dead_code, reason = "the tests of other networks use the rest")]
mod generic;
#[path = "../net/support.rs"]
#[allow(dead_code, reason = "the tests of other networks use the rest")]
mod support;

use generic::{Plan, RecvSide, SendSide};
use kolo::base::Code;
use kolo::bootstrap::mpi_abi::{MpiApi, MpiTable};
use kolo::bootstrap::{Bootstrap, TableBootstrap};
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{CommConfig, Communicator};
use kolo::transport::net::mpi::MpiNet;
use kolo::transport::net::{Handle, Net, RecvComm, SendComm};
use std::ffi::c_int;
use support::{Receiving, Sending, until, until_error};

/// Connections from each rank to each other one.
const CONNECTIONS: u64 = 5;
/// More than the communicators that any MPI bears at once.
const OPENINGS: usize = 2200;
/// Elements of collectives.
const COUNTS: &[usize] = &[0, 1, 7, 1000, 4097, 40_001];

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (library, level, collectives) = match &words[..] {
        [_, library, level] => (library, level, false),
        [_, library, level, word] if word == "collectives" => (library, level, true),
        _ => panic!("usage: mpi_net LIBRARY LEVEL [collectives]"),
    };
    let level: c_int = level.parse().expect("a thread level");
    let api = start(library, level);
    assert_eq!(api.thread_level, level, "MPI gives another thread level");
    match collectives {
        true => communicators(api),
        false => messages(api, level),
    }
    // SAFETY: MPI is running, and nothing of it is used afterwards.
    unsafe { (api.finalize)() };
    if api.rank == 0 {
        println!("ok");
    }
}

fn messages(api: &MpiApi, level: c_int) {
    let bootstrap = bootstrap(api);
    let net = open(&bootstrap);
    // Not every MPI keeps what it promises at MPI_THREAD_MULTIPLE; Open MPI does.
    match std::env::var("MPI").as_deref() {
        Ok("openmpi") => assert_eq!(net.any_thread(), level == 3),
        _ => assert!(level == 3 || !net.any_thread()),
    }
    let place = (api.rank as u32, api.nranks as u32);
    assert_eq!(net.place(), place);
    generic::conform(&net, &["1001 bytes", "1000 bytes", "tag 9", "MPI"]);
    everybody_to_everybody(&net, &bootstrap);
    bootstrap.barrier().unwrap();
    if level < 2 {
        another_thread(&net);
    }
    drop(net);
    // With more ranks than cores, ranks that spin in MPI_Comm_dup would take minutes.
    if level == 3 && api.nranks <= 2 {
        for _ in 0..OPENINGS {
            drop(open(&bootstrap));
        }
    }
}

/// All collectives, with every rank on a node of its own, and with two ranks on each; then of
/// processes that may not share memory.
fn communicators(api: &MpiApi) {
    let own_nodes = format!("node{}", api.rank);
    let pairs = format!("node{}", api.rank / 2);
    for (key, value, nodes) in [
        ("hostid", own_nodes.as_str(), api.nranks as u32),
        ("hostid", pairs.as_str(), (api.nranks as u32).div_ceil(2)),
        ("shm_disable", "1", api.nranks as u32),
    ] {
        let settings = [("net", "mpi"), ("buffsize", "64K"), (key, value)];
        let config = CommConfig {
            overrides: settings.map(|(k, v)| (k.into(), v.into())).to_vec(),
            ..CommConfig::default()
        };
        let comm = Communicator::init_bootstrap(Box::new(bootstrap(api)), &config).unwrap();
        let alone = nodes == 1;
        assert_eq!(comm.network_name(), (!alone).then_some("mpi"));
        checked::everything(&comm, COUNTS);
        let (out, into) = comm.network_connections();
        assert!(
            alone || (out > 0 && into > 0),
            "nothing crossed the network"
        );
        comm.destroy().unwrap();
    }
}

fn start(library: &str, level: c_int) -> &'static MpiApi {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    type Start = unsafe extern "C" fn(c_int) -> *const MpiApi;
    // SAFETY: the library is kolo's own; the function has this type; no other thread runs.
    unsafe {
        let loaded = Library::open(Some(library), RTLD_NOW | RTLD_GLOBAL).unwrap();
        let start: Start = *loaded.get(b"kolo_mpi_start\0").unwrap();
        std::mem::forget(loaded);
        start(level).as_ref().expect("MPI starts")
    }
}

fn bootstrap(api: &MpiApi) -> TableBootstrap {
    let mut table = std::mem::MaybeUninit::<MpiTable>::zeroed();
    // SAFETY: the world lives; there is room for a table, which is whole afterwards.
    unsafe {
        assert_eq!((api.table)(api.world, table.as_mut_ptr()), 0);
        TableBootstrap::from_raw(table.as_ptr()).unwrap()
    }
}

fn open(bootstrap: &TableBootstrap) -> MpiNet {
    let (table, context) = bootstrap.net_functions();
    // SAFETY: the table is that of libkolo_mpi, of the same build, with its context.
    unsafe { MpiNet::new(table.cast(), context) }.unwrap()
}

/// The messages from one rank to another on one connection, which both ends know.
fn plan(net: &MpiNet, from: u64, to: u64, index: u64) -> Plan {
    let mut random = fastrand::Rng::with_seed(from << 40 | to << 20 | index);
    let most = [300, 20_000, 2_000_000][(from + to + index) as usize % 3];
    Plan::new(net, &mut random, 10, most)
}

/// First words of a sender: who it is.
fn name(from: u64, index: u64) -> Vec<u8> {
    [from.to_be_bytes(), index.to_be_bytes()].concat()
}

struct Coming {
    comm: Box<dyn RecvComm>,
    first: Receiving,
    messages: Option<(Plan, RecvSide)>,
    done: bool,
}

impl Coming {
    fn step(&mut self, net: &MpiNet, me: u64) -> kolo::base::Result<()> {
        self.first.step(self.comm.as_mut())?;
        if self.messages.is_none() && self.first.sizes.is_some() {
            let words: Vec<u64> = self
                .first
                .message(0)
                .chunks_exact(8)
                .map(|word| u64::from_be_bytes(word.try_into().unwrap()))
                .collect();
            let plan = plan(net, words[0], me, words[1]);
            let side = RecvSide::new(&plan);
            self.messages = Some((plan, side));
        }
        if let Some((_, side)) = &mut self.messages {
            self.done = side.step(self.comm.as_mut())?;
        }
        Ok(())
    }
}

struct Going {
    comm: Box<dyn SendComm>,
    first: Sending,
    messages: SendSide,
    done: bool,
}

fn everybody_to_everybody(net: &MpiNet, bootstrap: &TableBootstrap) {
    let (me, n) = (u64::from(bootstrap.rank().0), u64::from(bootstrap.nranks()));
    let (handle, mut listener) = net.listen(0).unwrap();
    let handles = bootstrap.all_gather(handle.bytes()).unwrap();
    let others: Vec<u64> = (0..n).filter(|rank| *rank != me).collect();
    let mut knocking = Vec::new();
    for (to, index) in others
        .iter()
        .flat_map(|to| (0..CONNECTIONS).map(move |i| (*to, i)))
    {
        let handle = Handle::new(&handles[to as usize]).unwrap();
        knocking.push((net.connect(0, &handle).unwrap(), to, index));
    }
    let count = knocking.len();
    let (mut coming, mut going) = (Vec::<Coming>::new(), Vec::<Going>::new());
    until(100, || {
        if let Some(comm) = listener.accept()? {
            coming.push(Coming {
                comm,
                first: Receiving::new(&[(16, 0)]),
                messages: None,
                done: false,
            });
        }
        let mut waiting = Vec::new();
        for (mut connecting, to, index) in knocking.drain(..) {
            match connecting.poll()? {
                None => waiting.push((connecting, to, index)),
                Some(comm) => going.push(Going {
                    comm,
                    first: Sending::new(name(me, index), 0),
                    messages: SendSide::new(&plan(net, me, to, index)),
                    done: false,
                }),
            }
        }
        knocking = waiting;
        for one in &mut coming {
            one.step(net, me)?;
        }
        for one in &mut going {
            match one.first.done {
                false => drop(one.first.step(one.comm.as_mut())?),
                true => one.done = one.messages.step(one.comm.as_mut())?,
            }
        }
        let all = coming.len() == count && going.len() == count;
        Ok(all && coming.iter().all(|c| c.done) && going.iter().all(|g| g.done))
    })
    .unwrap();
    for one in &coming {
        let (plan, side) = one.messages.as_ref().unwrap();
        side.check(plan);
    }
    // Receivers leave; the senders' next message is an error.
    for one in coming {
        one.comm.close().unwrap();
    }
    for mut one in going {
        let mut next = Sending::new(vec![1; 8], 1);
        let error = until_error(60, || next.step(one.comm.as_mut()));
        assert_eq!(error.code, Code::RemoteError, "{error}");
        assert_eq!(one.comm.close().unwrap_err(), error);
    }
}

/// Below MPI_THREAD_SERIALIZED only the main thread may call MPI.
fn another_thread(net: &MpiNet) {
    let (handle, mut listener) = net.listen(0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for error in [
                net.connect(0, &handle).err().unwrap(),
                listener.accept().err().unwrap(),
            ] {
                assert_eq!(error.code, Code::InvalidUsage, "{error}");
                assert!(error.what.contains("thread level MPI_THREAD_"), "{error}");
                assert!(error.remedy.contains("MPI_THREAD_MULTIPLE"), "{error}");
            }
        });
    });
}
