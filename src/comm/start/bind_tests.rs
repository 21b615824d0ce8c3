//! A plan that cannot be bound on one rank, as it has no memory for a connection: the others, who
//! count on the call from its beginning, hear why it does not come.

use crate::comm::RawCalls;
use crate::comm::calling::group;
use crate::comm::{Call, Collective, CommConfig, Communicator, RedOp, Stream};
use crate::dtype::DataType;

/// Too large for the ways that need no plan.
const COUNT: usize = 1 << 16;
const WORDS: &str = "has no room: injected";

fn pair(more: &[(&str, &str)]) -> Vec<Communicator> {
    // A rank that is left waiting fails with other words.
    let usual = [("timeout", "20"), ("progress", "inline"), ("direct", "off")];
    let overrides = usual.iter().chain(more);
    let config = CommConfig {
        overrides: overrides
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        ..CommConfig::default()
    };
    Communicator::init_all(2, &config).unwrap()
}

/// Runs `calls` on both ranks, where rank 0 can bind `bound` plans and not the next one. Both must
/// hear that rank 0 cannot.
fn heard(
    comms: &[Communicator],
    bound: u32,
    calls: impl Fn(&Communicator) -> crate::base::Result<()> + Sync,
) {
    comms[0]
        .queue
        .user()
        .unwrap()
        .engine
        .refuse_to_bind_after(bound);
    let calls = &calls;
    let [own, other] = std::thread::scope(|scope| {
        let threads = [&comms[0], &comms[1]].map(|comm| scope.spawn(move || calls(comm)));
        threads.map(|thread| thread.join().unwrap().unwrap_err().to_string())
    });
    assert!(own.contains(WORDS), "{own}");
    assert!(other.contains(WORDS), "{other}");
    assert!(other.contains("rank 0"), "{other}");
    for comm in comms {
        let error = comm.barrier().unwrap_err().to_string();
        assert!(error.contains(WORDS), "{error}");
    }
}

fn reduce(comm: &Communicator) -> crate::base::Result<()> {
    let send: Vec<u32> = (0..COUNT as u32).map(|at| at ^ comm.rank()).collect();
    let mut recv = vec![u32::MAX; COUNT];
    comm.all_reduce(&send, &mut recv, RedOp::SUM)
}

/// A call of [`COUNT`] words with the other rank.
fn call(comm: &Communicator, collective: Collective, send: &[u32], recv: &mut [u32]) -> Call {
    Call {
        collective,
        send: send.as_ptr().cast(),
        recv: recv.as_mut_ptr().cast(),
        count: COUNT,
        dtype: DataType::Uint32,
        op: RedOp::SUM,
        peer: match collective.is_point_to_point() {
            true => 1 - comm.rank(),
            false => 0,
        },
    }
}

/// The calls of one communicator after each other, on streams or not.
fn all(
    comm: &Communicator,
    collectives: &[Collective],
    streams: &[Option<&Stream>],
) -> crate::base::Result<()> {
    let send = vec![comm.rank(); COUNT];
    // An all-gather gets the words of both.
    let mut recv = vec![vec![u32::MAX; 2 * COUNT]; collectives.len()];
    let grouped = group::active();
    let mut result = Ok(());
    for ((collective, stream), recv) in collectives.iter().zip(streams).zip(&mut recv) {
        let call = call(comm, *collective, &send, recv);
        // SAFETY: the buffers live until everything has ended, which is below.
        result = result.and(unsafe { comm.enqueue(&call, *stream) });
    }
    if grouped {
        result = result.and(group::end());
    }
    for stream in streams.iter().flatten() {
        result = result.and(stream.synchronize());
    }
    result
}

#[test]
fn a_blocking_call() {
    heard(&pair(&[]), 0, reduce);
}

#[test]
fn a_check_of_signatures() {
    for bound in [0, 1] {
        heard(&pair(&[("check", "1")]), bound, |comm| {
            let stream = Stream::new()?;
            all(comm, &[Collective::AllReduce], &[Some(&stream)])
        });
    }
}

#[test]
fn a_blocking_call_behind_calls_in_flight() {
    heard(&pair(&[]), 1, |comm| {
        let stream = Stream::new()?;
        let streams = [Some(&stream), None];
        all(
            comm,
            &[Collective::AllGather, Collective::AllReduce],
            &streams,
        )
    });
}

#[test]
fn a_call_on_a_stream() {
    heard(&pair(&[]), 0, |comm| {
        let stream = Stream::new()?;
        all(comm, &[Collective::AllReduce], &[Some(&stream)])
    });
}

#[test]
fn messages_of_a_group() {
    for bound in [0, 1] {
        heard(&pair(&[]), bound, |comm| {
            group::start();
            all(comm, &[Collective::Send, Collective::Recv], &[None; 2])
        });
    }
}

/// Those of the other communicator, which were made already, are told as well.
#[test]
fn a_group_on_two_communicators() {
    let first = pair(&[]);
    let second = pair(&[]);
    heard(&second, 0, |comm| {
        let before = &first[comm.rank() as usize];
        group::start();
        group::start();
        let begun = all(before, &[Collective::AllReduce], &[None]);
        begun.and(all(comm, &[Collective::AllReduce], &[None]))
    });
    for comm in &first {
        let error = comm.barrier().unwrap_err().to_string();
        assert!(error.contains(WORDS), "{error}");
    }
}

/// It is refused before anything of it begins, so the communicators go on.
#[test]
fn a_group_that_is_too_large_touches_nothing() {
    let comms = pair(&[("calls_in_flight", "2")]);
    std::thread::scope(|scope| {
        for comm in &comms {
            scope.spawn(|| {
                group::start();
                let error = all(comm, &[Collective::AllReduce; 3], &[None; 3]).unwrap_err();
                assert!(
                    error.what.contains("3 calls on one communicator"),
                    "{error}"
                );
                reduce(comm).unwrap();
                assert_eq!(comm.queue.user().unwrap().counts.calls, 1);
            });
        }
    });
}
