//! Tests of ranks that disagree, come late, abort or misuse a communicator: they get an error that
//! says so, and never hang.

#[path = "faults/begun.rs"]
mod begun;
#[path = "faults/ended.rs"]
mod ended;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "cma/job.rs"]
mod job;
#[path = "faults/killed.rs"]
mod killed;
#[path = "ports/mod.rs"]
mod ports;
#[path = "faults/readers.rs"]
mod readers;
#[path = "faults/starting.rs"]
mod starting;
#[path = "faults/storms.rs"]
mod storms;
#[path = "faults/words.rs"]
mod words;

use kolo::base::Code;
use kolo::comm::RawCalls;
use kolo::comm::{CommConfig, Communicator, RedOp};

/// Not a test of its own: what a process of the other tests runs.
#[test]
fn child() {
    job::run_child(|name| match name {
        "bad_op" => words::bad_op,
        "begins" => killed::begins,
        "ends" => ended::ends,
        "late" => ended::late,
        "storm" => storms::storm,
        _ => panic!("there is no scenario {name:?}"),
    });
}

fn comms(nranks: u32, overrides: &[(&str, &str)]) -> Vec<Communicator> {
    let overrides = overrides
        .iter()
        .map(|(k, v)| (k.to_string(), v.to_string()))
        .collect();
    let config = CommConfig {
        overrides,
        ..CommConfig::default()
    };
    Communicator::init_all(nranks, &config).expect("init")
}

/// Every rank runs `body`; the results in rank order.
fn all<R: Send>(comms: &[Communicator], body: impl Fn(&Communicator) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = comms
            .iter()
            .map(|comm| scope.spawn(|| body(comm)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

/// Rank 2 of 4 deviates; all ranks must hear it, and at least one sentence names both calls.
fn deviating(overrides: &[(&str, &str)], usual: usize, other: usize) {
    let comms = comms(4, overrides);
    let results = all(&comms, |comm| {
        let count = if comm.rank() == 2 { other } else { usual };
        let mut data = vec![1.0f64; count];
        comm.all_reduce_in_place(&mut data, RedOp::SUM)
            .and_then(|()| comm.barrier())
            .unwrap_err()
            .to_string()
    });
    for (rank, text) in results.iter().enumerate() {
        assert!(text.contains("rank 2"), "{text}");
        assert!(!text.contains(&format!("[peer {rank}]")), "{text}");
        assert!(!text.contains("about rank"), "{text}");
        assert!(text.contains(&format!("of {other} double")), "{text}");
        assert!(text.contains(&format!("of {usual} double")), "{text}");
    }
}

#[test]
fn different_counts_of_small_messages() {
    deviating(&[], 3, 4);
}

#[test]
fn different_counts_with_checks() {
    deviating(&[("check", "1")], 100_000, 100_001);
}

#[test]
fn a_small_and_a_large_call_do_not_hang() {
    deviating(&[], 1, 1_000_000);
}

#[test]
fn different_roots_are_named_with_checks() {
    let comms = comms(3, &[("check", "1")]);
    let results = all(&comms, |comm| {
        let mut data = [7i32];
        comm.broadcast(&mut data, u32::from(comm.rank() == 1))
            .unwrap_err()
    });
    for error in results {
        let text = error.to_string();
        assert!(text.contains("root 0") && text.contains("root 1"), "{text}");
    }
}

#[test]
fn abort_ends_the_wait_of_the_others() {
    let comms = comms(3, &[]);
    let results = all(&comms, |comm| {
        if comm.rank() == 0 {
            std::thread::sleep(std::time::Duration::from_millis(50));
            comm.abort().unwrap();
            return comm.barrier().unwrap_err();
        }
        comm.barrier().unwrap_err()
    });
    for error in results {
        assert_eq!(error.code, Code::RemoteError);
        assert!(
            error.to_string().contains("rank 0 called CommAbort"),
            "{error}"
        );
    }
}

#[test]
fn a_late_rank_is_waited_for_up_to_the_limit() {
    let comms = comms(2, &[("timeout", "0.3")]);
    // Rank 1 comes when rank 0 has waited in vain.
    let in_vain = std::sync::Barrier::new(2);
    let results = all(&comms, |comm| {
        if comm.rank() == 1 {
            in_vain.wait();
        }
        let error = comm.barrier().unwrap_err();
        if comm.rank() == 0 {
            in_vain.wait();
        }
        error
    });
    assert_eq!(results[0].code, Code::Timeout);
    assert!(results[0].to_string().contains("rank 1"), "{}", results[0]);
    assert_eq!(results[1].code, Code::RemoteError);
}

#[test]
fn calls_after_destroy_are_refused() {
    let comms = comms(1, &[]);
    comms[0].destroy().unwrap();
    comms[0].destroy().expect("destroying twice does no harm");
    assert_eq!(comms[0].barrier().unwrap_err().code, Code::InvalidUsage);
}

/// Calls `meanwhile` while another thread is inside a call of the first of two communicators: of
/// two threads that call, the one that ends first was told of the other.
fn inside(comms: &[Communicator], meanwhile: impl FnOnce()) {
    std::thread::scope(|scope| {
        let (say, ended) = std::sync::mpsc::channel();
        for say in [say.clone(), say] {
            scope.spawn(move || say.send(comms[0].barrier()));
        }
        let error = ended.recv().unwrap().unwrap_err();
        assert!(error.to_string().contains("another thread"), "{error}");
        meanwhile();
        comms[1].barrier().unwrap();
        ended.recv().unwrap().unwrap();
    });
}

#[test]
fn two_threads_in_one_communicator_are_told() {
    let comms = comms(2, &[]);
    inside(&comms, || {});
}

#[test]
fn a_rank_that_left_is_not_waited_for() {
    let comms = comms(2, &[]);
    comms[1].destroy().unwrap();
    let error = comms[0].barrier().unwrap_err();
    assert!(
        error.to_string().contains("let go of the communicator"),
        "{error}"
    );
}

#[test]
fn a_forked_child_is_told_and_harms_nobody() {
    let comms = comms(2, &[]);
    all(&comms, |comm| comm.barrier().unwrap());
    // SAFETY: the child makes calls that must be refused, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let mut data = [1.0f64];
        let told = |result: kolo::base::Result<()>| {
            result.is_err_and(|error| {
                error.code == Code::InvalidUsage && error.what.contains("was forked")
            })
        };
        let good = told(comms[0].all_reduce_in_place(&mut data, RedOp::SUM))
            && told(comms[1].barrier())
            && told(comms[0].async_error())
            && comms[0].abort().is_ok()
            && comms[1].destroy().is_ok();
        drop(comms);
        // SAFETY: leaves without running destructors or exit handlers.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let mut status = -1;
    // SAFETY: `status` is a live integer; `child` is this process's child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "the child was told, and did not crash");
    all(&comms, |comm| {
        let mut data = [1.0f64];
        comm.all_reduce_in_place(&mut data, RedOp::SUM).unwrap();
        assert_eq!(data[0], 2.0, "the parent's communicator still works");
    });
}

#[test]
fn a_message_to_oneself_outside_of_a_group() {
    let comms = comms(1, &[]);
    let error = comms[0].send(&[1i32], 0).unwrap_err();
    assert_eq!(error.code, Code::InvalidUsage);
}

#[test]
fn different_roots_of_a_small_broadcast_are_noticed_at_the_latest_in_the_next_call() {
    let comms = comms(3, &[]);
    let results = all(&comms, |comm| {
        let mut data = [comm.rank() as f64];
        comm.broadcast(&mut data, u32::from(comm.rank() != 0))
            .and_then(|()| {
                let mut next = [if comm.rank() == 0 { 200.0 } else { -1.0 }];
                comm.broadcast(&mut next, 0).map(|()| next[0])
            })
            .and_then(|got| comm.barrier().map(|()| got))
    });
    assert!(results.iter().any(Result::is_err));
    for result in results {
        match result {
            Ok(got) => assert_eq!(got, 200.0, "never stale data"),
            Err(error) => assert!(error.to_string().contains("disagree"), "{error}"),
        }
    }
}

#[test]
fn what_a_rank_sent_before_it_left_arrives() {
    for round in 0..20 {
        let comms = comms(2, &[]);
        all(&comms, |comm| {
            if comm.rank() == 0 {
                std::thread::sleep(std::time::Duration::from_millis(190 + round));
                comm.send(&[round], 1).unwrap();
            } else {
                let mut got = [0];
                comm.recv(&mut got, 0).unwrap();
                assert_eq!(got[0], round);
            }
            comm.destroy().unwrap();
        });
    }
}

#[test]
fn destroy_while_another_thread_is_inside_does_nothing() {
    let comms = comms(2, &[]);
    inside(&comms, || {
        let error = comms[0].destroy().unwrap_err();
        assert_eq!(error.code, Code::InvalidUsage);
    });
    all(&comms, |comm| comm.barrier().unwrap());
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

#[test]
fn a_finalised_communicator_takes_no_calls() {
    let comms = comms(2, &[]);
    all(&comms, |comm| comm.finalize().unwrap());
    let error = comms[0].barrier().unwrap_err();
    assert!(error.what.contains("finalised"), "{error}");
    comms[0].async_error().unwrap();
    comms.iter().for_each(|comm| comm.destroy().unwrap());
}

#[test]
fn after_an_abort_no_call_of_a_stream_is_in_flight() {
    use kolo::comm::{Call, Collective, Stream};
    use kolo::dtype::DataType;
    for progress in ["thread", "inline"] {
        let comms = comms(2, &[("progress", progress)]);
        let stream = Stream::new().unwrap();
        let mut data = vec![1.0f64; 1 << 20];
        let place = data.as_mut_ptr().cast::<u8>();
        let call = Call {
            collective: Collective::AllReduce,
            send: place.cast_const(),
            recv: place,
            count: data.len(),
            dtype: DataType::Float64,
            op: RedOp::SUM,
            peer: 0,
        };
        // SAFETY: the data live until the abort has ended the call.
        unsafe { comms[0].enqueue(&call, Some(&stream)) }.unwrap();
        comms[0].abort().unwrap();
        assert!(stream.query().is_err(), "{progress}: it has ended");
        drop(data);
        assert!(comms[1].barrier().is_err());
    }
}
