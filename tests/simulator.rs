//! The simulator against published closed forms, and against what must hold of any simulation.

#[path = "simulator/laws.rs"]
mod laws;
#[path = "simulator/support.rs"]
mod support;

use kolo::plan::{Algorithm, Collective};
use kolo::price::Costs;
use support::{Case, assert_close, doubling_all_reduce, one_pass};

/// Start of a message in nanoseconds, and time of a byte.
const COSTS: [(f64, f64); 3] = [(1000.0, 0.1), (100.0, 1.0), (5000.0, 0.01)];

/// Multiples of what `n` ranks split without remainder: the closed forms know no remainders.
fn sizes(n: u32) -> [usize; 4] {
    let unit = 64 * 4 * n as usize;
    [unit, 16 * unit, 256 * unit, 1024 * unit]
}

/// R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in
/// MPICH", Int. J. High Perform. Comput. Appl. 19 (2005), doi:10.1177/1094342005051521: the ring
/// takes 2(n-1)(a + S/n b), and (n-1) S/n g for folding.
#[test]
fn ring_all_reduce() {
    for n in [2, 3, 4, 7, 8, 16, 33, 64, 128] {
        for (a, b) in COSTS {
            for bytes in sizes(n) {
                for fold_ns in [0.0, 0.05] {
                    let costs = Costs {
                        fold_ns,
                        ..Costs::plain(a, b)
                    };
                    let case = Case::new(Collective::AllReduce, Algorithm::Ring, n, bytes);
                    let time = case.run(&one_pass(bytes), &costs).time_ns;
                    let (hops, chunk) = (f64::from(n - 1), bytes as f64 / f64::from(n));
                    let known = 2.0 * hops * (a + chunk * b) + hops * chunk * fold_ns;
                    assert_close(time, known, 0.01, &case);
                }
            }
        }
    }
}

/// By that paper too: (n-1)(a + B b) for blocks of B bytes.
#[test]
fn ring_all_gather_and_reduce_scatter() {
    for n in [2, 3, 5, 8, 32, 100] {
        for (a, b) in COSTS {
            for bytes in [256, 4096, 1 << 20] {
                for collective in [Collective::AllGather, Collective::ReduceScatter] {
                    let case = Case::new(collective, Algorithm::Ring, n, bytes);
                    let time = case.run(&one_pass(bytes), &Costs::plain(a, b)).time_ns;
                    let known = f64::from(n - 1) * (a + bytes as f64 * b);
                    assert_close(time, known, 0.01, &case);
                }
            }
        }
    }
}

/// A chain of n ranks and k pieces takes (n - 2 + k)(a + S/k b): P. Sanders, J. Speck, J. L.
/// Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Comput.
/// 35 (2009), doi:10.1016/j.parco.2009.09.001, section 2.
#[test]
fn pipelined_chain() {
    for n in [2, 3, 8, 31] {
        for (a, b) in COSTS {
            for pieces in [1, 4, 16, 64] {
                let bytes = pieces * 8192;
                for collective in [Collective::Broadcast, Collective::Reduce] {
                    let case = Case::new(collective, Algorithm::Ring, n, bytes);
                    let time = case.run(&one_pass(8192), &Costs::plain(a, b)).time_ns;
                    let known = (f64::from(n - 2) + pieces as f64) * (a + 8192.0 * b);
                    assert_close(time, known, 0.01, &case);
                }
            }
        }
    }
}

/// Thakur et al.: recursive doubling takes log2(n) (a + S b + S g).
#[test]
fn recursive_doubling() {
    for log in 1..=8 {
        let n = 1 << log;
        for (a, b) in COSTS {
            for bytes in [256, 4096, 1 << 20] {
                for fold_ns in [0.0, 0.05] {
                    let costs = Costs {
                        fold_ns,
                        ..Costs::plain(a, b)
                    };
                    let case = Case::new(Collective::AllReduce, Algorithm::Ring, n, bytes);
                    let plan = |rank| Ok(doubling_all_reduce(rank, n));
                    let time = case.run_plans(&one_pass(bytes), &costs, &plan).time_ns;
                    let known = f64::from(log) * (a + bytes as f64 * (b + fold_ns));
                    assert_close(time, known, 0.01, &case);
                    let own = Case {
                        algorithm: Algorithm::RecursiveDoubling,
                        ..case
                    };
                    let time = own.run(&one_pass(bytes), &costs).time_ns;
                    assert_close(time, known, 0.01, &own);
                }
            }
        }
    }
}

/// One rank that sends n-1 messages, and everybody sending to everybody in turn: (n-1)(a + B b).
#[test]
fn direct_exchange() {
    for n in [2, 3, 8, 20] {
        for (a, b) in COSTS {
            for bytes in [256, 1 << 16] {
                for collective in [
                    Collective::AllToAll,
                    Collective::Scatter,
                    Collective::Gather,
                ] {
                    let case = Case::new(collective, Algorithm::Bundle, n, bytes);
                    let time = case.run(&one_pass(bytes), &Costs::plain(a, b)).time_ns;
                    let known = f64::from(n - 1) * (a + bytes as f64 * b);
                    assert_close(time, known, 0.01, &case);
                }
            }
        }
    }
}

/// Thakur et al.: a binomial tree takes ceil(log2 n) (a + S b).
#[test]
fn binomial_tree() {
    for n in [2u32, 3, 4, 7, 8, 16, 33, 64, 100] {
        let log = f64::from(n).log2().ceil();
        for (a, b) in COSTS {
            for bytes in [256, 8192, 1 << 20] {
                for collective in [Collective::Broadcast, Collective::Reduce] {
                    let case = Case::new(collective, Algorithm::Binomial, n, bytes);
                    let time = case.run(&one_pass(bytes), &Costs::plain(a, b)).time_ns;
                    assert_close(time, log * (a + bytes as f64 * b), 0.01, &case);
                }
            }
        }
    }
}

/// Sanders, Speck and Träff: in one binary tree over 2^d ranks an inner rank sends each of k pieces
/// twice, so that a broadcast takes (2d - 1 + 2(k - 1))(a + S/k b); two trees, each for half of the
/// pieces, take about 2d + k instead: the full bandwidth of a rank.
#[test]
fn binary_and_double_binary_trees() {
    const PIECE: usize = 8192;
    for d in [2u32, 3, 4, 5, 6, 8] {
        for (a, b) in COSTS {
            let run = |channels: u16, pieces: usize| {
                let bytes = pieces * PIECE;
                let case = Case {
                    channels,
                    ..Case::new(Collective::Broadcast, Algorithm::Tree, 1 << d, bytes)
                };
                let time = case.run(&one_pass(PIECE), &Costs::plain(a, b)).time_ns;
                (time / (a + PIECE as f64 * b), case)
            };
            for pieces in [1, 2, 16, 64] {
                let (slots, case) = run(1, pieces);
                let known = f64::from(2 * d - 1) + 2.0 * (pieces as f64 - 1.0);
                assert_close(slots, known, 0.01, &case);
            }
            let (slots, case) = run(2, 1024);
            assert_close(slots, f64::from(2 * d) + 1024.0, 0.01, &case);
        }
    }
}
