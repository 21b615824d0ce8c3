//! Words of errors of the Rust interface: who, in which call, what it was, and what to do.

use super::{all, comms, job};
use kolo::comm::RawCalls;
use kolo::comm::{Blocks, Call, Collective, CommConfig, Communicator, RedOp, Stream};
use kolo::dtype::DataType;
use kolo::{Error, Result};

fn says(result: Result<()>, begins: &str, words: &[&str]) {
    let text = result.expect_err(begins).to_string();
    assert!(text.starts_with(begins), "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
    assert!(text.contains(". Remedy: "), "{text}");
}

#[test]
fn wrong_arguments_are_told_with_rank_and_call() {
    let comms = comms(2, &[]);
    let (zero, one) = (&comms[0], &comms[1]);
    let mut few = [0_u32; 1];
    says(
        one.all_reduce(&[1_u32; 2], &mut few, RedOp::SUM),
        "kolo: rank 1: AllReduce: ",
        &["the receive buffer has 1 element where 2 are needed"],
    );
    says(
        one.all_gather(&[1_u32; 0], &mut few),
        "kolo: rank 1: AllGather: ",
        &["has 1 element where 0 are needed"],
    );
    says(
        zero.reduce_scatter(&[1_u32; 3], &mut few, RedOp::SUM),
        "kolo: rank 0: ReduceScatter: ",
        &["the send buffer has 3 elements where 2 are needed"],
    );
    says(
        one.all_to_all(&[1_u32; 5], &mut [0; 5]),
        "kolo: rank 1: AllToAll: ",
        &["5 elements are not a multiple of 2 ranks"],
    );
    says(
        one.all_gather_v(&[1_u32], &mut few, Blocks::Packed(&[1, 1])),
        "kolo: rank 1: AllGatherV: ",
        &["the receive buffer has 1 elements, its blocks end at 2"],
    );
    says(
        zero.scope(|scope| scope.all_reduce(&[1_u32; 2], &mut few, RedOp::SUM)),
        "kolo: rank 0: AllReduce: ",
        &["has 1 element where"],
    );
    says(
        one.destroy_op(RedOp::SUM),
        "kolo: rank 1: RedOpDestroy: ",
        &["not an operation made"],
    );
    says(
        one.send(&[1_u32], 1),
        "kolo: rank 1: Send: ",
        &["oneself", "send_recv", "scope"],
    );
    // None of them did anything.
    let sums = all(&comms, |comm| {
        let mut sum = [comm.rank() + 1];
        comm.all_reduce_in_place(&mut sum, RedOp::SUM).map(|()| sum)
    });
    assert_eq!(sums, [Ok([3]), Ok([3])]);
}

#[test]
fn a_split_that_fails_is_a_split() {
    let comms = comms(2, &[]);
    comms[1].destroy().unwrap();
    let split = comms[0].split(Some(0), 0, &CommConfig::default());
    says(split.map(drop), "kolo: rank 0: CommSplit: ", &["rank 1"]);
}

/// A call that is refused because another one has failed is named itself, and so is that one.
#[test]
fn a_refused_call_is_named_and_the_one_that_failed_before() {
    for check in ["false", "true"] {
        let comms = comms(2, &[("timeout", "0.2"), ("check", check)]);
        let comm = &comms[0];
        let mut x = [1.0_f64; 2];
        // Rank 1 never comes. Who compares calls waits for it as this call, too.
        let waited = comm.all_reduce_in_place(&mut x, RedOp::SUM);
        says(waited, "kolo: rank 0: AllReduce: ", &["has not called yet"]);
        let refused: [(&str, Result<()>); 9] = [
            ("Barrier", comm.barrier()),
            ("AllReduce", comm.all_reduce_in_place(&mut x, RedOp::SUM)),
            ("Broadcast", comm.broadcast(&mut x, 0)),
            ("Send", comm.send(&x, 1)),
            ("Scan", comm.scan(&[1_u32], &mut [0], RedOp::SUM)),
            ("SumExact", comm.sum_exact(&x).map(drop)),
            (
                "CommSplit",
                comm.split(Some(0), 0, &CommConfig::default()).map(drop),
            ),
            (
                "RedOpCreateUser",
                comm.user_op(true, |_: &[f64], _: &mut [f64]| ()).map(drop),
            ),
            ("CommFinalize", comm.finalize()),
        ];
        for (call, result) in refused {
            let begins = format!("kolo: rank 0: {call}: ");
            let remedy = "Remedy: the communicator has stopped, as AllReduce failed before: look";
            says(result, &begins, &["has not called yet", remedy]);
        }
        // Who asks what has happened hears of the call that failed.
        let asked = comm.async_error();
        says(asked, "kolo: rank 0: AllReduce: ", &["Remedy: look"]);
    }
}

/// The call stands here, and in the words about it.
#[inline(never)]
fn ask(comm: &Communicator) -> (Result<()>, u32) {
    let message = [1_u32];
    (comm.send(&message, comm.rank()), line!())
}

/// The communicator where the program has named it, and the place where that is asked for, of the
/// call itself and of one that is refused later.
#[test]
fn an_error_names_the_communicator_and_the_place_of_the_call() {
    for errors in ["return", "backtrace"] {
        let config = CommConfig {
            name: Some("ocean".into()),
            overrides: [("errors", errors), ("timeout", "0.2")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .to_vec(),
            ..CommConfig::default()
        };
        let comms = Communicator::init_all(2, &config).unwrap();
        let placed = |error: &Error, line: u32| {
            let place = format!("faults/words.rs:{line})");
            let words = error.to_string();
            let wanted = errors == "backtrace";
            assert_eq!(words.ends_with(&place), wanted, "{place}: {words}");
            assert_eq!(words.contains(". Called by "), wanted, "{words}");
        };
        let (told, line) = ask(&comms[1]);
        let error = told.unwrap_err();
        let begin = "kolo: rank 1: Send on communicator ocean: ";
        assert!(error.to_string().starts_with(begin), "{error}");
        placed(&error, line);
        let (error, line) = (comms[1].barrier().unwrap_err(), line!());
        let first = line;
        let begin = "kolo: rank 1: Barrier on communicator ocean: ";
        assert!(error.to_string().starts_with(begin), "{error}");
        placed(&error, line);
        let (error, line) = (comms[1].barrier().unwrap_err(), line!());
        assert!(error.remedy.contains("Barrier failed before"), "{error}");
        placed(&error, line);
        // The reason itself keeps the place of the call that failed, whoever asks.
        placed(&comms[1].async_error().unwrap_err(), first);
        let made = comms[1].user_op(true, |_: &[u32], _: &mut [u32]| {});
        let (error, line) = (made.unwrap_err(), line!() - 1);
        placed(&error, line);
        let (error, line) = (comms[1].finalize().unwrap_err(), line!());
        placed(&error, line);
    }
}

/// A call on a stream fails in the call that waits for it, and its own place is told.
#[test]
fn an_error_of_a_call_on_a_stream_names_the_place_of_that_call() {
    let config = CommConfig {
        overrides: vec![("errors".into(), "backtrace".into())],
        ..CommConfig::default()
    };
    let comms = Communicator::init_all(2, &config).unwrap();
    let stream = Stream::new().unwrap();
    let mut found = [0_u32];
    let call = Call {
        collective: Collective::Recv,
        send: std::ptr::null(),
        recv: found.as_mut_ptr().cast(),
        count: 1,
        dtype: DataType::Uint32,
        op: RedOp::SUM,
        peer: 1,
    };
    // SAFETY: the buffer stays until the call has ended.
    let (begun, line) = (unsafe { comms[0].enqueue(&call, Some(&stream)) }, line!());
    begun.unwrap();
    // Two come where one is wanted.
    let _ = comms[1].send(&[7_u32, 8], 0);
    let error = stream.synchronize().unwrap_err().to_string();
    assert!(error.contains("ranks disagree"), "{error}");
    assert!(
        error.ends_with(&format!("faults/words.rs:{line})")),
        "{error}"
    );
}

/// Rank 1 is in the way by `leave`; what rank 0 hears then.
fn heard_after(leave: impl FnOnce(Communicator) + Send) -> Error {
    let mut comms = comms(2, &[]);
    let one = comms.pop().unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| leave(one));
        let _ = thread.join();
    });
    comms[0].barrier().unwrap_err()
}

#[test]
fn a_rank_that_panicked_is_told_from_one_that_let_go() {
    let error = heard_after(|comm| panic!("{comm:?} finds no particles"));
    let text = error.to_string();
    assert!(
        text.contains("rank 1 on ") && text.contains(" panicked"),
        "{text}"
    );
    assert!(error.remedy.contains("panic"), "{text}");
    for leave in [drop::<Communicator>, |comm: Communicator| {
        comm.destroy().unwrap()
    }] {
        let error = heard_after(leave);
        let text = error.to_string();
        assert!(!text.contains("panicked"), "{text}");
        let told = text.contains("has let go of the communicator (destroyed or dropped it)");
        assert!(told && error.remedy.contains("same operations"), "{text}");
    }
}

/// Also of the rank that deviates.
#[test]
fn nobody_is_its_own_peer_and_no_rank_has_failed() {
    let comms = comms(3, &[("check", "true")]);
    let errors = all(&comms, |comm| match comm.rank() {
        1 => comm.broadcast(&mut [1_u8], 0).and_then(|()| comm.barrier()),
        _ => comm.barrier().and_then(|()| comm.barrier()),
    });
    for (rank, error) in errors.into_iter().enumerate() {
        let error = error.unwrap_err();
        assert_eq!(error.rank.map(|it| it.0), Some(rank as u32), "{error}");
        assert_ne!(error.peer, error.rank, "{error}");
        assert!(!error.remedy.contains("failed rank"), "{error}");
        assert_eq!(format!("{error:?}"), error.to_string());
    }
    let comms = super::comms(2, &[]);
    comms[1].abort().unwrap();
    let error = comms[0].barrier().unwrap_err();
    assert!(error.what.contains("called CommAbort"), "{error}");
    assert!(!error.remedy.contains("failed rank"), "{error}");
}

/// Two ranks, whose operation panics.
pub fn bad_op(context: &job::Context) {
    let comm = context.join();
    let op = comm.user_op(true, |_: &[f64], _: &mut [f64]| panic!("no particles"));
    let _ = comm.all_reduce_in_place(&mut [1.0], op.unwrap());
    job::say("it went on");
}

#[test]
fn a_panic_in_an_operation_ends_the_process_with_a_sentence() {
    let text = job::Job::start("bad_op", &[2], &[]).finish_but(0);
    assert!(text.contains("no particles"), "{text}");
    let line =
        "AllReduce: a user operation (Communicator::user_op) panicked, so this process ends. ";
    let ranks = ["kolo: rank 0: ", "kolo: rank 1: "];
    assert!(
        ranks
            .iter()
            .any(|rank| text.contains(&format!("{rank}{line}"))),
        "{text}"
    );
    assert!(!text.contains("cannot unwind"), "{text}");
}
