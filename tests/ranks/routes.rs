//! Answers of `Communicator::way`: the same on all ranks, what then runs, and nothing disturbed.

use super::support::{on_nodes, ranks};
use kolo::base::Code;
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Collective, Communicator, RedOp, Way};
use kolo::dtype::DataType;
use kolo::plan::Algorithm;
use kolo::tune::Route;

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
        assert!(matches!(way.route, Route::Plan(_)), "{way:?}");
        assert_eq!(way.choice.unwrap().algorithm, Algorithm::Ring);
        assert!(way.words.starts_with("ring, protocol "), "{}", way.words);
        assert!(way.expected_ns.unwrap() > 0.0);
    });
    ranks(3, &[], |comm| {
        let route = |collective, count| asked(comm, collective, count, RedOp::SUM).route;
        match on_nodes() {
            false => assert_eq!(route(Collective::AllReduce, 1), Route::Small),
            true => assert!(matches!(route(Collective::AllReduce, 1), Route::Plan(_))),
        }
        assert!(matches!(route(Collective::Gather, 1), Route::Messages(_)));
        assert!(matches!(route(Collective::Send, 512), Route::Messages(_)));
        assert!(matches!(route(Collective::Send, 513), Route::Plan(_)));
        assert_eq!(route(Collective::AllGatherV, 0), Route::Parts);
        assert_eq!(route(Collective::Reduce, 0), Route::Nothing);
        // A direct call is one only where it may be.
        let before = comm.direct_calls().unwrap();
        let way = asked(comm, Collective::AllReduce, 1 << 17, RedOp::SUM);
        let mut data = vec![1_i64; 1 << 17];
        comm.all_reduce_in_place(&mut data, RedOp::SUM).unwrap();
        assert!(data.iter().all(|&sum| sum == 3));
        let was_direct = comm.direct_calls().unwrap() > before;
        assert_eq!(was_direct, matches!(way.route, Route::MayDirect(_)));
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
        assert_eq!(exact.unwrap().route, Route::Exact);
    });
    ranks(1, &[], |comm| {
        let route = |collective| asked(comm, collective, 70_000, RedOp::SUM).route;
        assert_eq!(route(Collective::AllToAll), Route::Alone);
        assert!(matches!(route(Collective::Exscan), Route::Plan(_)));
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
