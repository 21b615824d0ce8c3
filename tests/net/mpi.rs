//! MPI as a network, over an MPI of one process; `tests/mpi_net` runs it over the real ones.

use super::fake_mpi::{Fake, TABLE};
use super::generic;
use super::support::*;
use crate::within::within;
use kolo::base::Code;
use kolo::transport::net::mpi::MpiNet;
use kolo::transport::net::mpi::abi::MpiNetTable;
use kolo::transport::net::{Handle, Net};
use std::sync::atomic::Ordering;

/// A connection from the first network to the second.
fn pair_between(from: &MpiNet, to: &MpiNet) -> Pair {
    let (handle, mut listener) = to.listen(0).unwrap();
    let mut connecting = from.connect(0, &handle).unwrap();
    meet(connecting.as_mut(), listener.as_mut()).unwrap()
}

/// Ends the network of every rank, all at the same time as a program does.
fn end(nets: Vec<MpiNet>) {
    std::thread::scope(|scope| {
        for net in nets {
            scope.spawn(move || drop(net));
        }
    });
}

#[test]
fn conforms_whatever_mpi_takes_at_once() {
    for most_bytes in [1 << 30, 70_000] {
        within(100, move || {
            let fake = Fake {
                most_bytes,
                ..Fake::default()
            };
            let rank = fake.ranks(1)[0];
            let net = rank.net();
            assert!(net.any_order() && net.any_thread());
            generic::conform(&net, &["1001 bytes", "1000 bytes", "tag 9", "MPI"]);
            drop(net);
            assert_eq!(rank.left(), 0, "messages that nobody has ended");
            assert_eq!(rank.open.load(Ordering::SeqCst), 0, "the duplicate is left");
        });
    }
}

#[test]
fn ranks_talk_in_both_directions() {
    within(60, || {
        let ranks = Fake::default().ranks(3);
        let nets: Vec<MpiNet> = ranks.iter().map(|rank| rank.net()).collect();
        assert_eq!(nets[2].place(), (2, 3));
        let mut random = fastrand::Rng::with_seed(21);
        for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 0)] {
            let mut pair = pair_between(&nets[from], &nets[to]);
            generic::storm(&nets[0], &mut pair, &mut random, 12);
            pair.0.close().unwrap();
            pair.1.close().unwrap();
        }
        end(nets);
        assert_eq!(ranks[0].left(), 0, "messages that nobody has ended");
        for rank in ranks {
            assert_eq!(rank.open.load(Ordering::SeqCst), 0, "the duplicate is left");
        }
    });
}

#[test]
fn few_tags_of_mpi_only_make_it_wait() {
    within(60, || {
        let fake = Fake {
            most_tag: 3,
            ..Fake::default()
        };
        let net = fake.ranks(1)[0].net();
        let mut pair = pair_on(&net, 0);
        let mut group = Receiving::new(&[(8, 1); 4]);
        assert!(
            !group.step(pair.1.as_mut()).unwrap(),
            "more buffers than tags"
        );
        let mut posted: Vec<_> = (0..4).map(|_| Receiving::new(&[(8, 1)])).collect();
        let mut sending: Vec<_> = (0..4).map(|n| Sending::new(vec![n; 8], 1)).collect();
        for (n, one) in posted.iter_mut().enumerate() {
            assert_eq!(one.step(pair.1.as_mut()).unwrap(), n < 3);
        }
        until(10, || {
            for one in &mut sending {
                one.step(pair.0.as_mut())?;
            }
            for one in &mut posted {
                one.step(pair.1.as_mut())?;
            }
            Ok(posted.iter().all(|p| p.sizes.is_some()))
        })
        .unwrap();
        for (n, one) in (0..).zip(&posted) {
            assert_eq!(one.message(0), [n; 8]);
        }
    });
}

#[test]
fn the_wrong_thread_is_refused_and_nothing_happens() {
    within(60, || {
        for level in [0, 1] {
            let fake = Fake {
                level,
                ..Fake::default()
            };
            let rank = fake.ranks(1)[0];
            let net = rank.net();
            assert!(!net.any_thread());
            let (handle, mut listener) = net.listen(0).unwrap();
            let mut connecting = net.connect(0, &handle).unwrap();
            let mut pair = meet(connecting.as_mut(), listener.as_mut()).unwrap();
            let mut receiving = Receiving::new(&[(8, 1)]);
            let mut sending = Sending::new(vec![1; 8], 1);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let errors = [
                        net.connect(0, &handle).err().unwrap(),
                        listener.accept().err().unwrap(),
                        sending.step(pair.0.as_mut()).unwrap_err(),
                        receiving.step(pair.1.as_mut()).unwrap_err(),
                    ];
                    for error in errors {
                        assert_eq!(error.code, Code::InvalidUsage, "{error}");
                        let name = ["MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED"][level as usize];
                        assert!(error.what.contains(name), "{error}");
                        assert!(error.remedy.contains("MPI_THREAD_MULTIPLE"), "{error}");
                    }
                });
            });
            // The connection is as good as before.
            assert_eq!(carry(&mut pair, vec![4; 5000]).unwrap(), [4; 5000]);
            rank.finalised.store(true, Ordering::SeqCst);
            let error = carry(&mut pair, vec![4; 50]).unwrap_err();
            assert!(error.what.contains("finalised"), "{error}");
        }
    });
}

#[test]
fn errors_of_mpi_have_its_words() {
    within(30, || {
        let rank = Fake::default().ranks(1)[0];
        let net = rank.net();
        let mut pair = pair_on(&net, 0);
        rank.broken.store(true, Ordering::SeqCst);
        let error = carry(&mut pair, vec![1; 70]).unwrap_err();
        assert_eq!(error.code, Code::RemoteError, "{error}");
        assert!(
            error.what.contains("the fake is broken (code 77)"),
            "{error}"
        );
        rank.broken.store(false, Ordering::SeqCst);
        assert_eq!(carry(&mut pair, vec![1; 70]).unwrap_err(), error);
    });
}

#[test]
fn nobody_listens_and_foreign_handles_are_errors() {
    within(30, || {
        let ranks = Fake::default().ranks(2);
        let nets: Vec<MpiNet> = ranks.iter().map(|rank| rank.net()).collect();
        let (handle, listener) = nets[1].listen(0).unwrap();
        let mut early = nets[0].connect(0, &handle).unwrap();
        assert!(early.poll().unwrap().is_none());
        drop(listener);
        let mut late = nets[0].connect(0, &handle).unwrap();
        let (_other, mut driver) = nets[1].listen(0).unwrap();
        for connecting in [&mut early, &mut late] {
            let error = until_error(10, || {
                assert!(driver.accept()?.is_none());
                connecting.poll().map(|c| c.is_some())
            });
            assert_eq!(error.code, Code::RemoteError, "{error}");
            assert!(error.what.contains("nobody listens at rank 1"), "{error}");
        }
        // A rank that the communicator does not have.
        let mut bytes = handle.bytes().to_vec();
        bytes[11] = 2;
        let wrong = Handle::new(&bytes).unwrap();
        assert!(nets[0].connect(0, &wrong).is_err());
    });
}

#[test]
fn who_gives_up_connecting_leaves_a_closed_connection() {
    within(30, || {
        let ranks = Fake::default().ranks(2);
        let nets: Vec<MpiNet> = ranks.iter().map(|rank| rank.net()).collect();
        let (handle, mut listener) = nets[1].listen(0).unwrap();
        let connecting = nets[0].connect(0, &handle).unwrap();
        drop(connecting);
        let mut receiver = None;
        until(10, || {
            receiver = listener.accept()?;
            Ok(receiver.is_some())
        })
        .unwrap();
        let mut receiver = receiver.unwrap();
        let mut receiving = Receiving::new(&[(8, 1)]);
        // The one that gave up answers when its process drives anything.
        let (_handle, mut driver) = nets[0].listen(0).unwrap();
        let error = until_error(10, || {
            assert!(driver.accept()?.is_none());
            receiving.step(receiver.as_mut())
        });
        assert_eq!(error.code, Code::RemoteError, "{error}");
    });
}

/// The receiver hears of the end before it has taken what came before, and wants to post more.
#[test]
fn what_was_sent_before_the_goodbye_arrives() {
    within(100, || {
        for seed in 0..60 {
            let fake = Fake {
                seed,
                ..Fake::default()
            };
            let ranks = fake.ranks(2);
            let nets: Vec<MpiNet> = ranks.iter().map(|rank| rank.net()).collect();
            let (mut sender, mut receiver) = pair_between(&nets[0], &nets[1]);
            let mut posted: Vec<_> = (0..4).map(|_| Receiving::new(&[(80, 1)])).collect();
            for one in &mut posted {
                until(10, || one.step(receiver.as_mut())).unwrap();
            }
            for n in 0..3 {
                let mut sending = Sending::new(vec![n; 80], 1);
                until(10, || {
                    sending.step(sender.as_mut())?;
                    Ok(sending.done)
                })
                .unwrap();
            }
            sender.close().unwrap();
            let (_handle, mut driver) = nets[1].listen(0).unwrap();
            (0..seed).for_each(|_| assert!(driver.accept().unwrap().is_none()));

            let mut refused = None;
            let mut more = Vec::new();
            until(10, || {
                let mut one = Receiving::new(&[(80, 1)]);
                refused = one.step(receiver.as_mut()).err();
                more.push(one);
                Ok(refused.is_some())
            })
            .unwrap();
            let what = refused.unwrap().into_what();
            assert!(
                what.contains("closed the connection"),
                "seed {seed}: {what}"
            );
            let (last, came) = posted.split_last_mut().unwrap();
            for (n, one) in (0..).zip(came) {
                until(10, || one.step(receiver.as_mut()))
                    .unwrap_or_else(|error| panic!("seed {seed}, message {n}: {error}"));
                assert_eq!(one.message(0), [n; 80], "seed {seed}");
            }
            let error = until_error(10, || last.step(receiver.as_mut()));
            assert_eq!(error.code, Code::RemoteError, "seed {seed}: {error}");
            drop((receiver, driver));
            end(nets);
            assert_eq!(
                ranks[0].left(),
                0,
                "seed {seed}: messages that nobody has ended"
            );
        }
    });
}

#[test]
fn a_message_for_a_buffer_that_was_given_up_does_no_harm() {
    within(60, || {
        for most_bytes in [1 << 30, 70_000] {
            let fake = Fake {
                most_bytes,
                ..Fake::default()
            };
            let ranks = fake.ranks(2);
            let nets: Vec<MpiNet> = ranks.iter().map(|rank| rank.net()).collect();
            let (mut sender, mut receiver) = pair_between(&nets[0], &nets[1]);
            let mut receiving = Receiving::new(&[(200_000, 1)]);
            until(10, || receiving.step(receiver.as_mut())).unwrap();
            let mut sending = Sending::new(vec![1; 200_000], 1);
            // The receiver closes before the message starts; the sender has not heard of it.
            assert_eq!(receiver.close().unwrap_err().code, Code::InvalidUsage);
            let started = until(10, || {
                sending.step(sender.as_mut())?;
                Ok(sending.started())
            });
            let error = match started {
                Err(error) => error,
                Ok(()) => until_error(10, || sending.step(sender.as_mut())),
            };
            assert_eq!(error.code, Code::RemoteError, "{error}");
            assert!(receiving.buffers[0].0.iter().all(|&byte| byte == 0xee));
            let _ = sender.close();
            end(nets);
            assert_eq!(ranks[0].left(), 0, "messages that nobody has ended");
            assert_eq!(ranks[1].open.load(Ordering::SeqCst), 0);
        }
    });
}

#[test]
fn tables_that_are_none_are_refused() {
    let bad = |change: fn(&mut MpiNetTable)| {
        let mut table = TABLE;
        change(&mut table);
        // SAFETY: the table is readable; it is refused before anything is called.
        unsafe { MpiNet::new(&table, std::ptr::null_mut()) }
            .err()
            .unwrap()
    };
    assert!(bad(|t| t.size = 8).what.contains("8 bytes"));
    assert!(bad(|t| t.version = 9).what.contains("version 9"));
    assert!(bad(|t| t.poll = None).what.contains("poll"));
}
