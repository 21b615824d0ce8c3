//! Ranks that do something wrong: the offender is told, the others are not harmed.

use super::support::*;
use kolo::base::{Code, Rank, Result, hash};
use kolo::bootstrap::{Bootstrap, MAX_FRAME, NetSettings, TcpRing, UniqueId};
use kolo::trust::knock::{Knock, Reply};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// Changes an id, such as its secret or its address, and gives it a checksum that fits.
fn forged(id: &UniqueId, change: impl Fn(&mut [u8; 128])) -> UniqueId {
    let mut bytes = *id.as_bytes();
    change(&mut bytes);
    let checksum = hash::fnv1a(&bytes[..120]).to_be_bytes();
    bytes[120..].copy_from_slice(&checksum);
    UniqueId::from_bytes(bytes).unwrap()
}

#[test]
fn wrong_secret_is_told_and_harms_nobody() {
    within(30, || {
        let id = UniqueId::create(&settings()).unwrap();
        let first = start(id, 0, 2, settings());
        let other = forged(&id, |bytes| bytes[40] ^= 1);
        let error = failure(start(other, 1, 2, settings()));
        assert!(error.what.contains("secret"), "{error}");
        assert_eq!(
            (error.rank, error.code),
            (Some(Rank(1)), Code::InvalidUsage)
        );
        assert!(error.remedy.contains("koloGetUniqueId"));
        let second = start(id, 1, 2, settings()).join().unwrap().unwrap();
        let members = [first.join().unwrap().unwrap(), second];
        each(&members, check_exchange);
    });
}

#[test]
fn wrong_number_of_ranks_even_when_first_harms_nobody() {
    within(30, || {
        let id = UniqueId::create(&talkative()).unwrap();
        let told = Told::default();
        let offender = start(id, 2, 4, told.by(settings()));
        told.wait_for(1);
        let mut ranks: Vec<_> = (0..2).map(|rank| start(id, rank, 3, settings())).collect();
        let error = failure(offender);
        assert!(
            error.what.contains("started with 4 ranks, rank 0 with 3"),
            "{error}"
        );
        assert_eq!(error.peer, Some(Rank(0)));
        let error = failure(start(id, 7, 9, settings()));
        assert!(error.what.contains("started with 9 ranks"), "{error}");
        ranks.push(start(id, 2, 3, settings()));
        let members: Vec<_> = ranks
            .into_iter()
            .map(|r| r.join().unwrap().unwrap())
            .collect();
        each(&members, check_exchange);
    });
}

#[test]
fn rank_zero_against_all_others_does_not_wait_for_ever() {
    within(30, || {
        let id = UniqueId::create(&settings()).unwrap();
        let zero = start(id, 0, 5, settings());
        let others: Vec<_> = (1..3).map(|rank| start(id, rank, 3, settings())).collect();
        for other in others {
            assert!(failure(other).what.contains("rank 0 with 5"));
        }
        let error = failure(zero);
        assert!(error.what.contains("all other ranks with 3"), "{error}");
    });
}

#[test]
fn checking_in_twice_is_told_and_harms_nobody() {
    within(30, || {
        let id = UniqueId::create(&talkative()).unwrap();
        let told = Told::default();
        let first = start(id, 0, 2, told.by(settings()));
        told.wait_for(1);
        let error = failure(start(id, 0, 2, settings()));
        assert!(error.what.contains("rank 0 checks in twice"), "{error}");
        assert!(error.remedy.contains("rank of its own"));
        let members = [
            start(id, 1, 2, settings()).join().unwrap().unwrap(),
            first.join().unwrap().unwrap(),
        ];
        each(&members, check_exchange);
        // After all are there the port is closed, which is told as well.
        let error = failure(start(id, 1, 2, settings()));
        assert!(error.what.contains("already there"), "{error}");
    });
}

#[test]
fn ranks_and_ids_are_checked_before_anything_is_sent() {
    let id = UniqueId::create(&settings()).unwrap();
    for (rank, nranks) in [(4, 4), (0, 0)] {
        let error = TcpRing::connect(&id, rank, nranks, &settings())
            .err()
            .unwrap();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.what.contains("does not exist"));
    }
    let none = NetSettings {
        socket_ifname: Some("=nosuch0".into()),
        ..settings()
    };
    let error = UniqueId::create(&none).unwrap_err();
    assert!(
        error.what.contains("nosuch0") && error.what.contains("lo 127.0.0.1"),
        "{error}"
    );
}

#[test]
fn late_ranks_are_named_once() {
    within(30, || {
        let said = Told::default();
        let patient = said.by(NetSettings {
            warn_after: Duration::from_millis(150),
            ..settings()
        });
        let id = UniqueId::create(&patient).unwrap();
        let mut ranks = Vec::new();
        for (rank, count) in [(0, 1), (2, 2)] {
            ranks.push(start(id, rank, 4, patient.clone()));
            said.wait_for(count);
        }
        // In this time each would say it again, if it said it more than once.
        pause(500);
        let words = said.words();
        assert_eq!(words.len(), 2, "{words:?}");
        for (text, (rank, missing)) in words.iter().zip([(0, "1, 2, 3"), (2, "1, 3")]) {
            let begin = format!("kolo: rank {rank} of 4 has waited");
            let end = format!("still missing: {missing}");
            assert!(text.starts_with(&begin) && text.ends_with(&end), "{text}");
        }
        ranks.extend([1, 3].map(|rank| start(id, rank, 4, patient.clone())));
        let members: Vec<_> = ranks
            .into_iter()
            .map(|r| r.join().unwrap().unwrap())
            .collect();
        // Inside an operation the late rank is named too, and comes when it was.
        let is_named = |text: &String| {
            text.starts_with("kolo: rank 2 has waited ")
                && text.contains(" s in all_gather for rank 1")
        };
        each(&members, |member| {
            while member.rank() == Rank(1) && !said.words().iter().any(is_named) {
                pause(5);
            }
            member.barrier().unwrap();
        });
    });
}

#[test]
fn a_timeout_names_the_late_ranks() {
    within(30, || {
        let limited = |seconds| NetSettings {
            timeout: Some(Duration::from_secs(seconds)),
            ..settings()
        };
        let id = UniqueId::create(&settings()).unwrap();
        let error = failure(start(id, 0, 3, limited(2)));
        assert_eq!(error.code, Code::Timeout);
        assert!(error.what.contains("still missing: 1, 2"), "{error}");
        // Who comes later learns why the start has failed.
        let error = failure(start(id, 1, 3, settings()));
        assert!(
            error.what.contains("rank 0") && error.what.contains("gave up"),
            "{error}"
        );

        // The limit is one of the meeting too, which a busy machine must not miss.
        let members = ring(3, &limited(6));
        let told = Barrier::new(3);
        let errors = each(&members, |member| {
            if member.rank() == Rank(1) {
                told.wait();
                return member.barrier().unwrap_err();
            }
            let error = member.barrier().unwrap_err();
            told.wait();
            error
        });
        // A rank is not its own peer.
        let peers = [0, 1, 2].map(|rank: usize| errors[rank].peer);
        assert_eq!(peers, [Some(Rank(1)), None, Some(Rank(1))], "{errors:?}");
        assert!(errors[2].what.contains("rank 1"), "{}", errors[2]);
    });
}

#[test]
fn mistakes_in_operations_end_the_ring_everywhere() {
    within(60, || {
        let members = ring(4, &settings());
        let errors = each(&members, |member| match member.rank() {
            Rank(2) => member
                .broadcast(Rank(2), &mut vec![1])
                .and_then(|()| member.barrier()),
            _ => member.barrier(),
        });
        assert!(errors.iter().all(Result::is_err), "{errors:?}");
        let words = errors[3].as_ref().unwrap_err();
        // Rank 2's broadcast comes along the ring, and the news of what rank 1 saw against it.
        let seen = words.what.contains("broadcast") && words.peer == Some(Rank(2));
        let told = words.what.contains("where rank 2 called") && words.peer == Some(Rank(1));
        assert!(seen || told, "{words}");
        // The error stays.
        assert_eq!(members[3].barrier().as_ref(), Err(words));

        let members = ring(3, &settings());
        let long = vec![0; MAX_FRAME + 1];
        let errors = each(&members, |member| match member.rank() {
            Rank(1) => member.all_gather(&long).map(|_| ()),
            _ => member.barrier(),
        });
        for error in errors {
            assert!(
                error
                    .unwrap_err()
                    .what
                    .contains("too many for the bootstrap")
            );
        }
    });
}

#[test]
fn a_rank_that_leaves_is_named_by_those_who_need_it() {
    within(30, || {
        let mut members = ring(5, &settings());
        each(&members, check_exchange);
        drop(members.remove(3));
        let errors = each(&members, |member| member.barrier().unwrap_err());
        for error in errors {
            assert_eq!(error.peer, Some(Rank(3)), "{error}");
            assert!(error.what.contains("has left"), "{error}");
        }
    });
}

#[test]
fn comm_id_with_nobody_or_somebody_else_there() {
    within(60, || {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let limit = Duration::from_millis(600);
        let there = NetSettings {
            comm_id: Some(taken.local_addr().unwrap().to_string()),
            start_limit: limit,
            ..settings()
        };
        let id = UniqueId::create(&there).unwrap();
        let error = failure(start(id, 0, 2, there.clone()));
        assert!(
            error.what.contains("rank 0 cannot listen at 127.0.0.1"),
            "{error}"
        );
        // A service that says nothing, and one that says something else.
        let talks = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&talks);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for mut stream in taken.incoming().flatten() {
                if flag.load(Ordering::SeqCst) {
                    let _ = stream.write_all(&[b'x'; 256]);
                }
                held.push(stream);
            }
        });
        for talk in [false, true] {
            talks.store(talk, Ordering::SeqCst);
            let error = failure(start(id, 1, 2, there.clone()));
            assert!(
                error.what.contains("does not answer as kolo does"),
                "{error}"
            );
        }

        let port = Port::take(HERE);
        let nobody = NetSettings {
            start_limit: limit,
            ..named(&port)
        };
        let id = UniqueId::create(&nobody).unwrap();
        let error = failure(start(id, 1, 2, nobody));
        assert!(
            error.what.contains("cannot reach rank 0") && error.remedy.contains("KOLO_COMM_ID")
        );
    });
}

/// A rank that checks in by hand and then does nothing more.
fn half_rank(id: &UniqueId, rank: u32, nranks: u32) -> (TcpStream, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let stream = TcpStream::connect(id.address()).unwrap();
    let knock = Knock::new(stream, PROTOCOL, &check_in(id, rank, nranks, port));
    match knock.go_on(|choice| (choice == 1).then(|| check_in_key(id))) {
        Reply::In(stream, _) => (stream, listener),
        _ => panic!("the root does not prove itself"),
    }
}

#[test]
fn a_rank_lost_while_the_ring_is_made_is_named() {
    within(30, || {
        let id = UniqueId::create(&settings()).unwrap();
        let others: Vec<_> = [0, 2, 3].map(|rank| start(id, rank, 4, settings())).into();
        let (mut stream, listener) = half_rank(&id, 1, 4);
        // Welcome, then addresses and a secret: all are there, the ring is being made.
        for _ in 0..2 {
            let mut header = [0; 32];
            stream.read_exact(&mut header).unwrap();
            let length = u64::from_be_bytes(header[24..].try_into().unwrap());
            // Behind the body stands a seal of 16 bytes.
            stream
                .read_exact(&mut vec![0; length as usize + 16])
                .unwrap();
        }
        pause(200);
        drop(stream);
        // Rank 3 has both of its links already; it learns of the death when it first needs one.
        for other in others {
            let error = match other.join().unwrap() {
                Ok(member) => member.barrier().unwrap_err(),
                Err(error) => error,
            };
            assert_eq!(error.peer, Some(Rank(1)), "{error}");
            assert!(
                error.what.contains("while the ring was being made"),
                "{error}"
            );
        }
        drop(listener);
    });
}
