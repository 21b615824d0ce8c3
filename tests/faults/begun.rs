//! Starts that do not block: what the program hears while they go on, and after they were ended.

use kolo::base::{Code, Rank};
use kolo::comm::{CommConfig, Communicator, RedOp, Starting, group};
use std::time::Duration;

/// Begins a rank, which stays in a phase of its start.
fn begin(nranks: u32, id: &kolo::UniqueId, rank: u32, held: &str) -> Starting {
    let config = CommConfig {
        overrides: vec![("fault_hold".into(), held.into())],
        ..CommConfig::default()
    };
    Communicator::begin(nranks, id, rank, &config).unwrap()
}

fn until_in(start: &Starting, phase: &str) {
    while start.phase() != phase {
        std::thread::yield_now();
    }
}

fn until_there(start: &Starting) -> Communicator {
    loop {
        if let Some(comm) = start.poll().unwrap() {
            return comm;
        }
        std::thread::yield_now();
    }
}

#[test]
fn all_ranks_begun_by_one_thread_become_ready() {
    let id = Communicator::unique_id().unwrap();
    let mut starts: Vec<_> = (0..2).map(|rank| begin(3, &id, rank, "none")).collect();
    // The others wait for one that comes late, however often they are asked.
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(2));
        assert!(starts.iter().all(|start| start.poll().unwrap().is_none()));
    }
    assert_eq!(starts[1].phase(), "meeting");
    starts.push(begin(3, &id, 2, "none"));
    assert_eq!(starts[2].nranks(), 3);
    let comms: Vec<_> = starts
        .into_iter()
        .map(|start| start.wait().unwrap())
        .collect();
    let sums = super::all(&comms, |comm| {
        let mut data: Vec<u64> = (0..300)
            .map(|i| u64::from(comm.rank() + 1) * 7 + i)
            .collect();
        comm.all_reduce_in_place(&mut data, RedOp::SUM).unwrap();
        comm.destroy().unwrap();
        data
    });
    for sum in sums {
        assert!((0..300).zip(sum).all(|(i, sum)| sum == 42 + 3 * i));
    }
}

#[test]
fn who_gave_up_and_in_which_phase_is_told_to_all() {
    let id = Communicator::unique_id().unwrap();
    let starts: Vec<_> = ["none", "none", "binding"]
        .iter()
        .zip(0..)
        .map(|(held, rank)| begin(3, &id, rank, held))
        .collect();
    // The others wait where all wait for all; a slow one would be told in an earlier phase.
    for (start, phase) in starts.iter().zip(["ending", "ending", "binding"]) {
        until_in(start, phase);
    }
    starts[2].abort();
    let own = starts[2].poll().unwrap_err();
    assert_eq!((own.code, own.rank), (Code::RemoteError, Some(Rank(2))));
    for start in starts {
        let (rank, error) = (start.rank(), start.wait().unwrap_err());
        let text = error.to_string();
        assert_eq!(
            (error.code, error.rank),
            (Code::RemoteError, Some(Rank(rank)))
        );
        assert!(
            text.contains("rank 2 called CommAbort while it started"),
            "{text}"
        );
        assert!(text.contains("in phase `binding`"), "{text}");
        let own = format!(
            "CommInitRank, phase `{}`:",
            ["ending", "binding"][usize::from(rank == 2)]
        );
        assert!(text.contains(&own), "{text}");
    }
}

#[test]
fn a_start_that_is_dropped_is_given_up() {
    let id = Communicator::unique_id().unwrap();
    let (one, other) = (begin(2, &id, 0, "none"), begin(2, &id, 1, "agreeing"));
    until_in(&other, "agreeing");
    drop(other);
    let error = one.wait().unwrap_err();
    assert!(
        error.what.contains("rank 1 gave it up while it started"),
        "{error}"
    );
}

#[test]
fn ending_a_start_ends_the_communicator_that_it_made() {
    let id = Communicator::unique_id().unwrap();
    let starts = [begin(2, &id, 0, "none"), begin(2, &id, 1, "none")];
    let comms = starts.each_ref().map(until_there);
    starts[1].abort();
    let own = starts[1].poll().unwrap_err().to_string();
    assert!(own.contains("rank 1 called CommAbort"), "{own}");
    let error = comms[0].barrier().unwrap_err();
    assert!(
        error.to_string().contains("rank 1 called CommAbort"),
        "{error}"
    );
}

/// The program that ends it hears so from its start; the others hear what it called.
#[test]
fn a_start_that_nobody_has_asked_is_ended_with_its_words() {
    let id = Communicator::unique_id().unwrap();
    let starts = [begin(2, &id, 0, "none"), begin(2, &id, 1, "none")];
    let other = until_there(&starts[0]);
    // All are through the last phase, so that rank 1 has a communicator, now or in a moment.
    starts[1].give_up("called CommDestroy");
    let own = starts[1].poll().unwrap_err();
    let heard = other.barrier().unwrap_err();
    assert_eq!(
        (own.code, heard.code),
        (Code::RemoteError, Code::RemoteError)
    );
    for error in [own, heard] {
        let text = error.to_string();
        assert!(text.contains("rank 1 called CommDestroy"), "{text}");
        assert!(!text.contains("CommAbort"), "{text}");
    }
}

/// Whoever keeps the start does not keep the communicator.
#[test]
fn a_communicator_that_was_begun_ends_when_the_program_drops_it() {
    let id = Communicator::unique_id().unwrap();
    let starts = [begin(2, &id, 0, "none"), begin(2, &id, 1, "none")];
    let [kept, dropped] = starts.each_ref().map(until_there);
    // As often as one likes while it lives.
    assert!(starts[1].poll().unwrap().is_some());
    drop(dropped);
    let error = starts[1].poll().unwrap_err();
    assert_eq!(error.code, Code::InvalidUsage, "{error}");
    assert!(kept.barrier().is_err());
    assert!(starts[0].poll().unwrap().is_some());
}

#[test]
fn wrong_arguments_are_told_at_once() {
    let id = Communicator::unique_id().unwrap();
    let error = Communicator::begin(2, &id, 2, &CommConfig::default()).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    assert!(error.to_string().contains("rank 2 of 2"), "{error}");
}

/// All starts of a group begin, or those that have begun are given back untold.
#[test]
fn a_group_begins_all_or_none() {
    struct Begun<'a>(&'a std::cell::RefCell<Vec<&'static str>>, bool);
    impl Begun<'_> {
        fn tell(mut self) {
            self.1 = true;
        }
    }
    impl Drop for Begun<'_> {
        fn drop(&mut self) {
            self.0
                .borrow_mut()
                .push(["given back", "told"][usize::from(self.1)]);
        }
    }
    for works in [true, false] {
        let heard: &'static _ = Box::leak(Box::default());
        group::start();
        for number in 0..3 {
            group::defer_begin(Box::new(move || {
                if number == 2 && !works {
                    return Err(kolo::Error::usage("no thread is left", ""));
                }
                let begun = Begun(heard, false);
                Ok(Box::new(move || begun.tell()))
            }));
        }
        assert!(heard.borrow().is_empty());
        assert_eq!(group::end().is_ok(), works);
        let expected = match works {
            true => vec!["told"; 3],
            false => vec!["given back"; 2],
        };
        assert_eq!(*heard.borrow(), expected);
    }
}

/// A rank that blocks is named with its phase too.
#[test]
fn a_late_rank_of_a_blocking_start_is_named_with_the_phase() {
    let id = Communicator::unique_id().unwrap();
    let late = begin(2, &id, 1, "sharing");
    let config = CommConfig {
        overrides: vec![("timeout".into(), "0.3".into())],
        ..CommConfig::default()
    };
    let error = Communicator::init_rank(2, &id, 0, &config).unwrap_err();
    assert_eq!(error.code, Code::Timeout, "{error}");
    let text = error.to_string();
    assert!(text.contains("CommInitRank, phase `sharing`"), "{text}");
    assert!(text.contains("for rank 1"), "{text}");
    drop(late);
}
