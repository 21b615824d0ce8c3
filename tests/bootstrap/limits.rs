//! How long the ranks of a new communicator may take to meet: the setting `start_timeout`.

use super::processes::Process;
use super::support::*;
use kolo::base::{Code, Rank};
use kolo::bootstrap::{Bootstrap, NetSettings, UniqueId};
use kolo::config::Settings;
use std::time::Duration;

fn limited(milliseconds: u64) -> NetSettings {
    NetSettings {
        meet_limit: Some(Duration::from_millis(milliseconds)),
        ..settings()
    }
}

#[test]
fn missing_ranks_are_named_within_the_limit() {
    within(60, || {
        let told = Told::default();
        let id = UniqueId::create(&talkative()).unwrap();
        let zero = start(id, 0, 5, told.by(limited(4000)));
        // It comes when the others have been told who is late: they must not name it.
        told.wait_for(1);
        let three = start(id, 3, 5, limited(30_000));
        let error = failure(zero);
        assert_eq!(error.code, Code::Timeout, "{error}");
        assert!(error.what.ends_with("still missing: 1, 2, 4"), "{error}");
        assert!(error.remedy.contains("KOLO_START_TIMEOUT"), "{error}");
        // Who has more patience is not left behind.
        let error = failure(three);
        assert_eq!(error.peer, Some(Rank(0)), "{error}");
        assert!(error.what.contains("still missing: 1, 2, 4"), "{error}");
    });
}

/// A named root, which rank 0 is itself.
#[test]
fn rank_zero_of_a_named_root_does_not_wait_for_ever() {
    within(60, || {
        let port = Port::take(HERE);
        let named = NetSettings {
            comm_id: named(&port).comm_id,
            ..limited(1000)
        };
        let id = UniqueId::create(&named).unwrap();
        let error = failure(start(id, 0, 2, named));
        let place = format!("rank 0 listens at 127.0.0.1:{} only", port.number());
        let words = format!("still missing: 1; {place}");
        assert!(error.what.ends_with(&words), "{error}");
    });
}

/// The root is a thread of rank 0's process, which ends as soon as rank 0 has its error.
#[test]
fn a_rank_zero_that_gives_up_and_ends_has_told_the_others() {
    within(60, || {
        let jobs: Vec<_> = (0..8)
            .map(|_| {
                let port = Port::take(HERE);
                let named = NetSettings {
                    comm_id: named(&port).comm_id,
                    ..limited(30_000)
                };
                let id = UniqueId::create(&named).unwrap();
                let zero = Process::start(&id, 0, 4, "hasty");
                let others = [1, 2].map(|rank| start(id, rank, 4, named.clone()));
                (zero, others, port)
            })
            .collect();
        for (mut zero, others, _port) in jobs {
            assert!(zero.line("@failed").contains("still missing: 3"));
            for error in others.map(failure) {
                assert_eq!(error.peer, Some(Rank(0)), "{error}");
                for part in ["rank 0 gave up its start", "still missing: 3"] {
                    assert!(error.what.contains(part), "{error}");
                }
            }
        }
    });
}

/// All have met, but one does not come to what start-up exchanges.
#[test]
fn a_rank_that_comes_no_further_is_named() {
    within(60, || {
        let members = ring(3, &limited(3000));
        let errors = std::thread::scope(|scope| {
            let calls = [0, 1].map(|rank: usize| {
                let member = &members[rank];
                scope.spawn(move || member.all_gather(&[rank as u8]).unwrap_err())
            });
            calls.map(|call| call.join().unwrap())
        });
        for error in errors {
            assert_eq!(error.peer, Some(Rank(2)), "{error}");
            let words = error.to_string();
            assert!(words.contains("KOLO_START_TIMEOUT"), "{words}");
        }
    });
}

#[test]
fn the_limit_comes_from_the_setting() {
    let of = |caller: &[(String, String)]| NetSettings::from(&Settings::load(caller).unwrap());
    let usual = of(&[]);
    assert_eq!(
        usual.meet_limit, None,
        "without a setting nobody is given up"
    );
    assert_eq!(usual.start_limit, Duration::from_secs(120));
    let set = of(&[("start_timeout".into(), "7".into())]);
    let seven = Duration::from_secs(7);
    assert_eq!((set.meet_limit, set.start_limit), (Some(seven), seven));
    assert_eq!(set.connect_limit, seven);
    assert_eq!(set.meeting_limit(), Some((seven, "KOLO_START_TIMEOUT")));
}
