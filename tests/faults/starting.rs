//! Tests of a rank that cannot begin: all ranks hear it, and nobody waits.

use kolo::base::{Code, Error, Rank, Result};
use kolo::bootstrap::{Bootstrap, ContributionList, NetSettings, ThreadsBootstrap, UniqueId};
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{CommConfig, Communicator, RedOp};
use std::sync::{Condvar, Mutex};

/// The configuration of each rank: rank 1 has one option that the others do not have.
fn odd(rank: u32, key: &str, value: &str) -> CommConfig {
    let overrides = match rank {
        1 => vec![(key.into(), value.into())],
        _ => Vec::new(),
    };
    CommConfig {
        overrides,
        ..CommConfig::default()
    }
}

fn on_threads<R: Send>(nranks: u32, body: impl Fn(u32) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let body = &body;
        let threads: Vec<_> = (0..nranks)
            .map(|rank| scope.spawn(move || body(rank)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// Rank 1 says what is wrong with it, and the others say the same of rank 1.
fn all_hear(errors: &[Error], word: &str) {
    for (rank, error) in errors.iter().enumerate() {
        let text = error.to_string();
        assert!(text.contains(word), "{text}");
        assert!(text.contains("Remedy: "), "{text}");
        assert!(text.contains(&format!("rank {rank}: ")), "{text}");
        if rank != 1 {
            assert_eq!((error.code, error.peer), (Code::RemoteError, Some(Rank(1))));
            assert!(text.contains("rank 1 on "), "{text}");
            assert!(text.contains("could not join"), "{text}");
        } else {
            assert_ne!(error.code, Code::RemoteError);
            assert_eq!(error.peer, None, "{text}");
        }
    }
}

/// Begins over `ThreadsBootstrap`, as programs do over MPI.
fn begin(key: &str, value: &str) -> Vec<Error> {
    let members: Vec<_> = ThreadsBootstrap::group(4)
        .into_iter()
        .map(|member| Mutex::new(Some(member)))
        .collect();
    on_threads(4, |rank| {
        let member = members[rank as usize].lock().unwrap().take().unwrap();
        Communicator::init_bootstrap(Box::new(member), &odd(rank, key, value)).unwrap_err()
    })
}

#[test]
fn a_setting_that_one_rank_cannot_read() {
    all_hear(&begin("buffsize", "nonsense"), "nonsense");
}

#[test]
fn a_topology_file_that_one_rank_lacks() {
    all_hear(
        &begin("topo_file", "/no/such/file.xml"),
        "/no/such/file.xml",
    );
}

/// Texts of two graph files for four ranks, in files of their own.
fn graph_files(name: &str, orders: [&str; 2]) -> [String; 2] {
    let folder = std::env::temp_dir();
    let mut number = 0;
    orders.map(|order| {
        number += 1;
        let path = folder.join(format!("kolo-{name}-{}-{number}.toml", std::process::id()));
        let text = format!(
            "version = 1\nranks = 4\nring_bandwidth = 8.0\ntree_bandwidth = 8.0\n\
             [[ring]]\norder = {order}\n[[tree]]\nchain = [0, 1, 2, 3]\n"
        );
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    })
}

/// Begins with a graph file of each rank; an empty name is none.
fn begin_with_graphs(files: [&str; 4]) -> Vec<Result<Communicator>> {
    let members: Vec<_> = ThreadsBootstrap::group(4)
        .into_iter()
        .map(|member| Mutex::new(Some(member)))
        .collect();
    on_threads(4, |rank| {
        let member = members[rank as usize].lock().unwrap().take().unwrap();
        let config = CommConfig {
            overrides: vec![("graph_file".into(), files[rank as usize].into())],
            ..CommConfig::default()
        };
        Communicator::init_bootstrap(Box::new(member), &config)
    })
}

#[test]
fn different_graph_files_are_told_to_all() {
    let [one, other] = graph_files("differ", ["[0, 2, 1, 3]", "[0, 3, 1, 2]"]);
    let same = graph_files("same", ["[0, 2, 1, 3]", "[0, 2, 1, 3]"]);
    for files in [
        [&*one, &other, &one, &one],
        [&one, "", "", ""],
        ["", "", &one, ""],
    ] {
        for error in begin_with_graphs(files) {
            let error = error.unwrap_err();
            let text = error.to_string();
            assert_eq!(error.code, Code::InvalidUsage, "{text}");
            for word in [
                "`graph_file` is",
                " but ",
                "(node ",
                &one,
                "the calling program",
            ] {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
    }
    // The contents count, not the name.
    for comm in begin_with_graphs([&same[0], &same[1], &same[0], &one]) {
        assert_eq!(comm.unwrap().ring_order(0).unwrap(), [0, 2, 1, 3]);
    }
    for file in [&one, &other, &same[0], &same[1]] {
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn a_bad_graph_file_is_told_to_all() {
    let [short, cycle] = graph_files("bad", ["[0, 2, 1]", "[0, 1, 0, 3]"]);
    for (file, word) in [(&short, "missing"), (&cycle, "cycle")] {
        for (rank, error) in begin_with_graphs([file; 4]).into_iter().enumerate() {
            let error = error.unwrap_err();
            let text = error.to_string();
            for part in [word, &**file, "line 6", "ring 0"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            // Rank 0 read it for all.
            assert_eq!(error.peer, (rank > 0).then_some(Rank(0)), "{text}");
        }
        std::fs::remove_file(file).unwrap();
    }
    all_hear(
        &begin("graph_file", "/no/such/graph.toml"),
        "/no/such/graph.toml",
    );
}

#[test]
fn a_setting_that_one_rank_cannot_read_where_ranks_meet_by_id() {
    let id = UniqueId::create(&NetSettings::default()).unwrap();
    let errors = on_threads(3, |rank| {
        Communicator::init_rank(3, &id, rank, &odd(rank, "timeout", "soon")).unwrap_err()
    });
    all_hear(&errors, "soon");
}

#[test]
fn a_split_that_one_rank_cannot_make() {
    let comms = Communicator::init_all(4, &CommConfig::default()).unwrap();
    let errors = on_threads(4, |rank| {
        let config = odd(rank, "wait", "idly");
        comms[rank as usize].split(Some(3), 0, &config).unwrap_err()
    });
    all_hear(&errors, "idly");
    // Another color does not notice.
    let made = on_threads(4, |rank| {
        let config = odd(rank, "wait", "idly");
        comms[rank as usize].split(Some(rank / 2), 0, &config)
    });
    assert!(made[..2].iter().all(Result::is_err) && made[2..].iter().all(Result::is_ok));
    // The parent goes on.
    on_threads(4, |rank| comms[rank as usize].barrier().unwrap());
}

#[test]
fn a_split_with_wrong_arguments_of_one_rank() {
    let comms = Communicator::init_all(4, &CommConfig::default()).unwrap();
    let errors = on_threads(4, |rank| {
        let config = match rank {
            1 => CommConfig::refused(Error::argument("color is -7", "give a color")),
            _ => CommConfig::default(),
        };
        let color = (rank != 1).then_some(rank);
        comms[rank as usize].split(color, 0, &config).unwrap_err()
    });
    all_hear(&errors, "color is -7");
    on_threads(4, |rank| comms[rank as usize].barrier().unwrap());
}

/// A rank that comes late out of the last barrier: the others have gone on meanwhile.
struct Late<'a> {
    inner: ThreadsBootstrap,
    others_failed: &'a (Mutex<u32>, Condvar),
}

impl Bootstrap for Late<'_> {
    fn rank(&self) -> Rank {
        self.inner.rank()
    }
    fn nranks(&self) -> u32 {
        self.inner.nranks()
    }
    fn all_gather(&self, mine: &[u8]) -> Result<ContributionList> {
        self.inner.all_gather(mine)
    }
    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()> {
        self.inner.broadcast(root, data)
    }
    fn barrier(&self) -> Result<()> {
        self.inner.barrier()?;
        if self.rank() == Rank(2) {
            let (count, changed) = self.others_failed;
            let count = count.lock().unwrap();
            drop(changed.wait_while(count, |count| *count < 2).unwrap());
        }
        Ok(())
    }
}

#[test]
fn a_slow_rank_gets_its_communicator_and_then_the_news() {
    static FAILED: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());
    let members: Vec<_> = ThreadsBootstrap::group(3)
        .into_iter()
        .map(|member| Mutex::new(Some(member)))
        .collect();
    let errors = on_threads(3, |rank| {
        let late = Late {
            inner: members[rank as usize].lock().unwrap().take().unwrap(),
            others_failed: &FAILED,
        };
        let comm = Communicator::init_bootstrap(Box::new(late), &CommConfig::default());
        let comm = comm.expect("the others' later mistake is no mistake of the beginning");
        // Ranks 0 and 1 contradict each other; rank 2 comes when they know it.
        let mut data = vec![1.0; 3 + rank as usize];
        let error = comm.all_reduce_in_place(&mut data, RedOp::SUM).unwrap_err();
        *FAILED.0.lock().unwrap() += 1;
        FAILED.1.notify_all();
        error.to_string()
    });
    for text in &errors {
        assert!(text.contains("AllReduce"), "{text}");
        assert!(
            text.contains("of 3 double") && text.contains("of 4 double"),
            "{text}"
        );
    }
}

/// Rank 1 hears of a death at the end of the last barrier, where the others are through already.
struct Broken(ThreadsBootstrap);

impl Bootstrap for Broken {
    fn rank(&self) -> Rank {
        self.0.rank()
    }
    fn nranks(&self) -> u32 {
        self.0.nranks()
    }
    fn all_gather(&self, mine: &[u8]) -> Result<ContributionList> {
        self.0.all_gather(mine)
    }
    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()> {
        self.0.broadcast(root, data)
    }
    fn barrier(&self) -> Result<()> {
        self.0.barrier()?;
        if self.rank() != Rank(1) {
            return Ok(());
        }
        let error = Error::new(Code::RemoteError, "rank 2 was lost", "look into its output");
        Err(error.with_peer(Rank(2)))
    }
}

#[test]
fn those_who_are_through_hear_why_another_one_is_not() {
    let members: Vec<_> = ThreadsBootstrap::group(3)
        .into_iter()
        .map(|member| Mutex::new(Some(Broken(member))))
        .collect();
    let errors = on_threads(3, |rank| {
        let member = members[rank as usize].lock().unwrap().take().unwrap();
        let made = Communicator::init_bootstrap(Box::new(member), &CommConfig::default());
        assert_eq!(made.is_ok(), rank != 1);
        made.and_then(|comm| comm.barrier()).unwrap_err()
    });
    for error in errors {
        // Nobody is its own peer.
        let peer = Some(Rank(2)).filter(|_| error.rank != Some(Rank(2)));
        assert_eq!((error.code, error.peer), (Code::RemoteError, peer));
        assert!(error.to_string().contains("rank 2 was lost"), "{error}");
    }
}
