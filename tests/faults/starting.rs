//! What happens when a rank cannot begin: all of them hear it, and nobody waits.

use kolo::base::{Code, Error, Rank, Result};
use kolo::bootstrap::{Bootstrap, NetSettings, ThreadsBootstrap, UniqueId};
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
    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
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
