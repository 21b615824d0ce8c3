//! Answers of `Communicator::way`: the same on all ranks, what then runs, and nothing disturbed.

use super::support::{POISON, input, on_nodes, ranks, sum};
use kolo::base::Code;
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Collective, Communicator, RedOp, Way};
use kolo::dtype::DataType;
use kolo::exec::host::ran::Executor;
use kolo::plan::Algorithm;
use kolo::tune::{CallForm, Route};

const SIZES: [usize; 6] = [1, 7, 300, 5000, 70_000, 1 << 20];

fn asked(comm: &Communicator, collective: Collective, count: usize, op: RedOp) -> Way {
    comm.way(collective, count, DataType::Int64, op).unwrap()
}

/// The answers of a rank in numbers that can be compared: words and expected time.
fn answers(comm: &Communicator, ops: &[RedOp]) -> Vec<String> {
    let mut all = Vec::new();
    for collective in Collective::ALL {
        for count in SIZES {
            for &op in ops {
                let answer = comm.way(collective, count, DataType::Int64, op);
                all.push(match answer {
                    Ok(way) => format!("{:?} {} {:?}", way.route, way.words, way.expected_ns),
                    Err(error) => error.into_what(),
                });
            }
        }
    }
    all
}

#[test]
fn every_rank_gets_the_same_answer_whatever_the_others_ask() {
    for n in [1, 2, 5] {
        let all = std::sync::Mutex::new(Vec::new());
        // Ranks that ask different things would disagree, if anything was sent or counted.
        ranks(n, &[("check", "true"), ("timeout", "60")], |comm| {
            let me = comm.rank() as usize;
            let first = comm.user_op(false, |a: &[i64], b: &mut [i64]| b.copy_from_slice(a));
            let ops = [RedOp::SUM, RedOp::AVG, RedOp::SUM_EXACT, first.unwrap()];
            for iteration in 0..4 {
                for _ in 0..me * iteration {
                    asked(comm, Collective::Reduce, 10 + me, RedOp::SUM);
                }
                let mine: Vec<i64> = (0..300)
                    .map(|i| i + me as i64 * 7 + iteration as i64)
                    .collect();
                let mut sums = vec![-1; 300];
                comm.all_reduce(&mine, &mut sums, RedOp::SUM).unwrap();
                let n = i64::from(comm.nranks());
                let of_ranks = n * (n - 1) / 2 * 7 + n * iteration as i64;
                let right = (0..300).map(|i| n * i + of_ranks);
                assert!(right.eq(sums), "rank {me}, iteration {iteration}");
            }
            all.lock().unwrap().push(answers(comm, &ops));
        });
        let all = all.into_inner().unwrap();
        assert_eq!(all.len(), n as usize);
        assert!(all.iter().all(|one| *one == all[0]), "of {n} ranks");
    }
}

#[test]
fn the_answer_is_what_runs() {
    let settings = [("algo", "allreduce:ring"), ("eager_limit", "0")];
    ranks(3, &settings, |comm| {
        let way = asked(comm, Collective::AllReduce, 5000, RedOp::SUM);
        assert!(matches!(way.route, Route::Plan { .. }), "{way:?}");
        assert_eq!(way.choice.unwrap().algorithm, Algorithm::Ring);
        assert!(way.words.starts_with("ring, protocol "), "{}", way.words);
        assert!(way.expected_ns.unwrap() > 0.0);
    });
    ranks(3, &[], |comm| {
        let route = |collective, count| asked(comm, collective, count, RedOp::SUM).route;
        let small = route(Collective::AllReduce, 1);
        match on_nodes() {
            false => assert_eq!(small.form(), CallForm::OneShot),
            true => assert!(matches!(small, Route::Plan { .. })),
        }
        assert!(matches!(
            route(Collective::Gather, 1),
            Route::Messages { .. }
        ));
        assert!(matches!(
            route(Collective::Send, 512),
            Route::Messages { .. }
        ));
        assert!(matches!(route(Collective::Send, 513), Route::Plan { .. }));
        assert_eq!(route(Collective::AllGatherV, 0).form(), CallForm::Blocks);
        assert_eq!(route(Collective::Reduce, 0), Route::Nothing);
        // A direct call is one only where it may be.
        let before = comm.direct_calls().unwrap();
        let way = asked(comm, Collective::AllReduce, 1 << 17, RedOp::SUM);
        let mut data = vec![1_i64; 1 << 17];
        comm.all_reduce_in_place(&mut data, RedOp::SUM).unwrap();
        assert!(data.iter().all(|&sum| sum == 3));
        let was_direct = comm.direct_calls().unwrap() > before;
        assert_eq!(was_direct, matches!(way.route, Route::MayDirect { .. }));
        assert_eq!(was_direct, !on_nodes(), "threads read each other's buffers");
        // In the order of ranks, and never over the buffers of others.
        let ordered = comm.user_op(false, |a: &[i64], b: &mut [i64]| b.copy_from_slice(a));
        let way = asked(comm, Collective::Reduce, 1 << 17, ordered.unwrap());
        assert_eq!(way.choice.unwrap().algorithm, Algorithm::Ordered);
        let exact = comm.way(
            Collective::AllReduce,
            3,
            DataType::Float64,
            RedOp::SUM_EXACT,
        );
        assert!(matches!(exact.unwrap().route, Route::Exact { .. }));
    });
    ranks(1, &[], |comm| {
        let route = |collective| asked(comm, collective, 70_000, RedOp::SUM).route;
        assert_eq!(route(Collective::AllToAll).form(), CallForm::Copy);
        assert!(matches!(route(Collective::Exscan), Route::Plan { .. }));
    });
}

#[test]
fn what_no_rank_may_call_is_refused_with_the_reason() {
    ranks(2, &[], |comm| {
        let refused = |collective, count, dtype, op, word: &str| {
            let error = comm.way(collective, count, dtype, op).unwrap_err();
            assert_eq!(error.code, Code::InvalidArgument);
            assert!(error.to_string().contains(word), "{error}");
        };
        let (int, double) = (DataType::Int64, DataType::Float64);
        refused(
            Collective::Scan,
            1,
            double,
            RedOp::AVG,
            "a scan has no average",
        );
        refused(
            Collective::AllReduce,
            1,
            int,
            RedOp::SUM_EXACT,
            "no exact sum of",
        );
        refused(
            Collective::ReduceScatter,
            1,
            double,
            RedOp::SUM_EXACT,
            "exact sums",
        );
        refused(Collective::AllReduce, 1, int, RedOp(77), "operation");
        refused(
            Collective::AllReduce,
            usize::MAX / 2,
            int,
            RedOp::SUM,
            "bytes",
        );
        refused(
            Collective::AllGather,
            usize::MAX / 16,
            int,
            RedOp::SUM,
            "bytes",
        );
    });
}

/// The executor that is counted for a form, where there is one for the host.
fn executor(form: CallForm) -> Option<Executor> {
    Some(match form {
        CallForm::Copy => Executor::Copy,
        CallForm::OneShot => Executor::OneShot,
        CallForm::Message => Executor::Message,
        CallForm::Exchange => Executor::Exchange,
        CallForm::Rooted => Executor::Rooted,
        CallForm::Cast => Executor::Cast,
        CallForm::Bundle => Executor::Bundle,
        CallForm::Interpreted => Executor::Interpreted,
        CallForm::Direct => Executor::Direct,
        _ => return None,
    })
}

/// One blocking call of these collectives; its data differ by rank and element.
fn call(comm: &Communicator, collective: Collective, count: usize) {
    let (rank, n) = (comm.rank() as usize, comm.nranks() as usize);
    let all = count * n;
    let (mine, mut theirs) = (input(rank, all, 3), vec![POISON; all]);
    let (one, root) = (&mine[..count], n as u32 - 1);
    let at_root = if rank == n - 1 { all } else { 0 };
    match collective {
        Collective::AllReduce => comm.all_reduce(one, &mut theirs[..count], RedOp::SUM),
        Collective::Broadcast => comm.broadcast(&mut theirs[..count], root),
        Collective::Reduce => {
            let place = &mut theirs[..count * usize::from(at_root > 0)];
            comm.reduce(one, place, RedOp::SUM, root)
        }
        Collective::AllGather => comm.all_gather(one, &mut theirs),
        Collective::AllToAll => comm.all_to_all(&mine, &mut theirs),
        Collective::Gather => comm.gather(one, &mut theirs[..at_root], root),
        Collective::Scatter => comm.scatter(&mine[..at_root], &mut theirs[..count], root),
        Collective::Barrier => comm.barrier(),
        _ => match (rank, n) {
            // From the first to the last.
            (0, 2..) => comm.send(one, root),
            _ if rank + 1 == n && n > 1 => comm.recv(&mut theirs[..count], 0),
            _ => Ok(()),
        },
    }
    .unwrap();
    if collective == Collective::AllReduce {
        let right = (0..count).map(|element| sum(n, element, 3));
        assert!(right.eq(theirs[..count].iter().copied()));
    }
}

/// Of each form that `way` names, the executor has counted the call, and no other one has.
#[test]
fn the_form_is_who_runs() {
    let seen = std::sync::Mutex::new(Vec::new());
    for n in [1, 2, 3] {
        ranks(n, &[], |comm| {
            for collective in [
                Collective::AllReduce,
                Collective::Broadcast,
                Collective::Reduce,
                Collective::AllGather,
                Collective::AllToAll,
                Collective::Gather,
                Collective::Scatter,
                Collective::Barrier,
                Collective::Send,
            ] {
                for count in [1, 500, 6000] {
                    let way = asked(comm, collective, count, RedOp::SUM);
                    let before = comm.executors().unwrap();
                    call(comm, collective, count);
                    let after = comm.executors().unwrap();
                    let ran = |one: &Executor| after.of(*one) > before.of(*one);
                    let ran: Vec<_> = Executor::ALL.into_iter().filter(ran).collect();
                    let takes_part = collective != Collective::Send
                        || (n > 1 && [0, n - 1].contains(&comm.rank()));
                    let is_known = takes_part && (collective, n) != (Collective::Barrier, 1);
                    if let Some(wanted) = executor(way.route.form()).filter(|_| is_known) {
                        assert_eq!(ran, [wanted], "{collective:?} {count} of {n}: {way:?}");
                        seen.lock().unwrap().push(wanted);
                    }
                }
            }
        });
    }
    let seen = seen.into_inner().unwrap();
    let mut wanted = vec![Executor::Copy, Executor::Bundle, Executor::Interpreted];
    if !on_nodes() {
        wanted.extend([Executor::OneShot, Executor::Message, Executor::Rooted]);
    }
    for one in wanted {
        assert!(seen.contains(&one), "{one:?}");
    }
}
