//! Blocks of random sizes, scans, and neighbours on graphs, for 1 to 9 ranks: random counts
//! including 0, poisoned buffers with gaps, and every rank checks everything.

use super::support::{POISON, input, ranks, value};
use fastrand::Rng;
use kolo::comm::{Blocks, Communicator, Graph, RedOp};

/// Slots as small as elsewhere, so that larger blocks need several rounds.
const SLOTS: &[(&str, &str)] = &[("buffsize", "64K")];

/// Also as calls that are compared first, whose messages end when they were received.
const CHECKED: &[(&str, &str)] = &[("buffsize", "64K"), ("check", "true")];

/// Settings of a test by a number that differs from round to round.
fn settings(number: usize) -> &'static [(&'static str, &'static str)] {
    [SLOTS, CHECKED][number % 2]
}

/// A size: often 0, sometimes several slots.
fn size(rng: &mut Rng) -> usize {
    match rng.u8(..8) {
        0..=1 => 0,
        2..=5 => rng.usize(1..50),
        6 => rng.usize(1..3000),
        _ => rng.usize(1..5000),
    }
}

/// Places for blocks in random order with gaps, and the length that holds them.
fn places(rng: &mut Rng, counts: &[usize]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    rng.shuffle(&mut order);
    let mut places = vec![0; counts.len()];
    let mut next = 0;
    for block in order {
        next += rng.usize(..4);
        places[block] = next;
        next += counts[block];
    }
    (places, next + rng.usize(..4))
}

/// Block of a buffer of `len` elements at its place, all else poisoned.
fn spread(len: usize, blocks: impl Iterator<Item = (usize, Vec<i64>)>) -> Vec<i64> {
    let mut all = vec![POISON; len];
    for (place, block) in blocks {
        all[place..place + block.len()].copy_from_slice(&block);
    }
    all
}

#[test]
fn gathers_and_scatters_of_blocks() {
    for n in 1..=9 {
        ranks(n, settings(n as usize), |comm| {
            for round in 0..6 {
                // The same on all ranks: sizes and places are known to all.
                let mut rng = Rng::with_seed(u64::from(n) * 100 + round as u64);
                let counts: Vec<usize> = (0..n).map(|_| size(&mut rng)).collect();
                let (displs, len) = places(&mut rng, &counts);
                gathers(comm, round, &counts, (&displs, len));
            }
        });
    }
}

fn gathers(comm: &Communicator, round: usize, counts: &[usize], (displs, len): (&[usize], usize)) {
    let (rank, n) = (comm.rank() as usize, counts.len());
    let root = round as u32 % comm.nranks();
    let mine = input(rank, counts[rank], round);
    let blocks = || (0..n).map(|r| (displs[r], input(r, counts[r], round)));
    let all = spread(len, blocks());
    let at = Blocks::Placed(counts, displs);
    let mut recv = vec![POISON; len];
    comm.all_gather_v(&mine, &mut recv, at).unwrap();
    assert!(recv == all, "all_gather_v rank {rank} of {n}, {counts:?}");
    let packed: Vec<i64> = (0..n).flat_map(|r| input(r, counts[r], round)).collect();
    let mut recv = vec![POISON; packed.len()];
    comm.all_gather_v(&mine, &mut recv, Blocks::Packed(counts))
        .unwrap();
    assert!(recv == packed, "packed, rank {rank} of {n}, {counts:?}");
    let mut recv = vec![POISON; len];
    comm.gather_v(&mine, &mut recv, at, root).unwrap();
    let untouched = vec![POISON; len];
    let here = rank as u32 == root;
    assert!(
        recv == *if here { &all } else { &untouched },
        "gather_v rank {rank} of {n}"
    );
    let mut block = vec![POISON; counts[rank]];
    let send = if here { all } else { Vec::new() };
    comm.scatter_v(&send, at, &mut block, root).unwrap();
    assert!(block == mine, "scatter_v rank {rank} of {n}, {counts:?}");
    let total: usize = counts.iter().sum();
    let before: usize = counts[..rank].iter().sum();
    let send = input(rank, total, round);
    let mut block = vec![POISON; counts[rank]];
    comm.reduce_scatter_v(&send, &mut block, counts, RedOp::SUM)
        .unwrap();
    for (e, &got) in block.iter().enumerate() {
        let want: i64 = (0..n).map(|r| value(r, before + e, round)).sum();
        assert_eq!(
            got, want,
            "reduce_scatter_v rank {rank} element {e} of {counts:?}"
        );
    }
}

#[test]
fn all_to_all_of_blocks() {
    for n in 1..=9usize {
        ranks(n as u32, settings(n / 2), |comm| {
            let rank = comm.rank() as usize;
            for round in 0..5 {
                let mut shared = Rng::with_seed(n as u64 * 1000 + round as u64);
                let sizes: Vec<Vec<usize>> = (0..n)
                    .map(|_| (0..n).map(|_| size(&mut shared)).collect())
                    .collect();
                let mut own = Rng::with_seed(rank as u64 * 77 + round as u64);
                let out = &sizes[rank];
                let into: Vec<usize> = (0..n).map(|from| sizes[from][rank]).collect();
                let (out_at, out_len) = places(&mut own, out);
                let (into_at, into_len) = places(&mut own, &into);
                let data = |from: usize, to: usize| input(from * 16 + to, sizes[from][to], round);
                let send = spread(out_len, (0..n).map(|to| (out_at[to], data(rank, to))));
                let wanted = spread(
                    into_len,
                    (0..n).map(|from| (into_at[from], data(from, rank))),
                );
                let mut recv = vec![POISON; into_len];
                let blocks = (
                    Blocks::Placed(out, &out_at),
                    Blocks::Placed(&into, &into_at),
                );
                comm.all_to_all_v(&send, blocks.0, &mut recv, blocks.1)
                    .unwrap();
                assert!(recv == wanted, "rank {rank} of {n}, round {round}");
            }
        });
    }
}

#[test]
fn scans_of_all_sizes() {
    for n in 1..=9 {
        ranks(n, SLOTS, |comm| {
            let rank = comm.rank() as usize;
            for (i, &count) in [0, 1, 3, 500, 3000, 9000, 40_001].iter().enumerate() {
                let prefix = |ranks: usize, e: usize| (0..ranks).map(|r| value(r, e, i)).sum();
                let inclusive: Vec<i64> = (0..count).map(|e| prefix(rank + 1, e)).collect();
                let exclusive: Vec<i64> = (0..count).map(|e| prefix(rank, e)).collect();
                let exclusive = if rank == 0 {
                    vec![POISON; count]
                } else {
                    exclusive
                };
                let send = input(rank, count, i);
                let mut recv = vec![POISON; count];
                comm.scan(&send, &mut recv, RedOp::SUM).unwrap();
                assert!(recv == inclusive, "scan rank {rank} of {n}, {count}");
                let mut recv = vec![POISON; count];
                comm.exscan(&send, &mut recv, RedOp::SUM).unwrap();
                assert!(recv == exclusive, "exscan rank {rank} of {n}, {count}");
                let mut data = send.clone();
                comm.scan_in_place(&mut data, RedOp::SUM).unwrap();
                assert!(
                    data == inclusive,
                    "scan in place rank {rank} of {n}, {count}"
                );
                let mut data = send.clone();
                comm.exscan_in_place(&mut data, RedOp::SUM).unwrap();
                let wanted = if rank == 0 { &send } else { &exclusive };
                assert!(
                    data == *wanted,
                    "exscan in place rank {rank} of {n}, {count}"
                );
            }
        });
    }
}

/// Random edges, several between the same ranks and to oneself among them: for each rank its
/// destinations, and its sources in the order that the edges between two ranks have.
fn random_graph(seed: u64, n: u32) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
    let mut rng = Rng::with_seed(seed);
    let outs: Vec<Vec<u32>> = (0..n)
        .map(|_| (0..rng.usize(..6)).map(|_| rng.u32(..n)).collect())
        .collect();
    let mut ins: Vec<Vec<u32>> = vec![Vec::new(); n as usize];
    for (from, list) in outs.iter().enumerate() {
        list.iter()
            .for_each(|&to| ins[to as usize].push(from as u32));
    }
    ins.iter_mut().for_each(|list| rng.shuffle(list));
    (outs, ins)
}

/// Which of the edges from `from` to `to` block `slot` of the sources of `to` is, as a block of the
/// destinations of `from`.
fn other_end(outs: &[u32], ins: &[u32], to: u32, slot: usize) -> usize {
    let from = ins[slot];
    let before = ins[..slot].iter().filter(|&&other| other == from).count();
    let edges = outs.iter().enumerate().filter(|(_, other)| **other == to);
    edges
        .map(|(at, _)| at)
        .nth(before)
        .expect("the graph has both ends")
}

#[test]
fn neighbours_on_random_graphs() {
    for n in 1..=9u32 {
        for seed in 0..3 {
            let (outs, ins) = random_graph(seed * 100 + u64::from(n), n);
            ranks(n, SLOTS, |comm| {
                let me = comm.rank() as usize;
                let some = |list: &[u32]| list.iter().copied().map(Some).collect::<Vec<_>>();
                let graph = comm.graph(&some(&ins[me]), &some(&outs[me])).unwrap();
                assert_eq!(graph.degrees(), (outs[me].len(), ins[me].len()));
                along(comm, &graph, &outs, &ins, seed as usize);
            });
        }
    }
}

fn along(comm: &Communicator, graph: &Graph, outs: &[Vec<u32>], ins: &[Vec<u32>], round: usize) {
    let me = comm.rank() as usize;
    let count_of = |rank: u32, slot: usize| (rank as usize * 37 + slot * 11 + round) % 5 * 700;
    // Equal blocks.
    let send = input(me, 60, round);
    let wanted: Vec<i64> = ins[me]
        .iter()
        .flat_map(|&r| input(r as usize, 60, round))
        .collect();
    let mut recv = vec![POISON; wanted.len()];
    comm.neighbor_all_gather(&send, &mut recv, graph).unwrap();
    assert!(recv == wanted, "all_gather, rank {me}");
    // Inputs of different sizes.
    let send = input(me, count_of(me as u32, 0), round);
    let counts: Vec<usize> = ins[me].iter().map(|&r| count_of(r, 0)).collect();
    let wanted: Vec<i64> = ins[me]
        .iter()
        .zip(&counts)
        .flat_map(|(&r, &c)| input(r as usize, c, round))
        .collect();
    let mut recv = vec![POISON; wanted.len()];
    comm.neighbor_all_gather_v(&send, &mut recv, Blocks::Packed(&counts), graph)
        .unwrap();
    assert!(recv == wanted, "all_gather_v, rank {me}");
    // A block for each edge.
    let block = |from: u32, slot: usize, count| input(from as usize * 8 + slot, count, round);
    let arriving = |slot: usize| {
        let from = ins[me][slot];
        (
            from,
            other_end(&outs[from as usize], &ins[me], me as u32, slot),
        )
    };
    let send: Vec<i64> = (0..outs[me].len())
        .flat_map(|s| block(me as u32, s, 33))
        .collect();
    let slots = 0..ins[me].len();
    let wanted: Vec<i64> = slots
        .clone()
        .map(arriving)
        .flat_map(|(from, slot)| block(from, slot, 33))
        .collect();
    let mut recv = vec![POISON; wanted.len()];
    comm.neighbor_all_to_all(&send, &mut recv, graph).unwrap();
    assert!(recv == wanted, "all_to_all, rank {me}");
    // And each of its size.
    let out: Vec<usize> = (0..outs[me].len())
        .map(|s| count_of(me as u32, s))
        .collect();
    let send: Vec<i64> = (0..out.len())
        .flat_map(|s| block(me as u32, s, out[s]))
        .collect();
    let into: Vec<usize> = slots
        .clone()
        .map(arriving)
        .map(|(f, s)| count_of(f, s))
        .collect();
    let wanted: Vec<i64> = slots
        .map(|slot| (arriving(slot), into[slot]))
        .flat_map(|((from, slot), count)| block(from, slot, count))
        .collect();
    let mut recv = vec![POISON; wanted.len()];
    let blocks = (Blocks::Packed(&out), Blocks::Packed(&into));
    comm.neighbor_all_to_all_v(&send, blocks.0, &mut recv, blocks.1, graph)
        .unwrap();
    assert!(recv == wanted, "all_to_all_v, rank {me}");
}

#[test]
fn halos_on_grids() {
    for (dims, periodic) in [
        (vec![6], vec![false]),
        (vec![2], vec![true]),
        (vec![1], vec![true]),
        (vec![2, 3], vec![true, false]),
        (vec![2, 2, 2], vec![true, true, true]),
        (vec![3, 3], vec![true, true]),
    ] {
        let n: u32 = dims.iter().product();
        ranks(n, &[], |comm| {
            let graph = comm.cartesian(&dims, &periodic).unwrap();
            let blocks = 2 * dims.len();
            // Block b of rank r is r * 10 + b: what goes down arrives from above.
            let send: Vec<i64> = (0..blocks)
                .map(|b| i64::from(comm.rank()) * 10 + b as i64)
                .collect();
            let mut recv = vec![POISON; blocks];
            comm.neighbor_all_to_all(&send, &mut recv, &graph).unwrap();
            for (slot, source) in graph.sources().iter().enumerate() {
                let sent_as = slot as i64 ^ 1;
                let wanted = source.map_or(POISON, |r| i64::from(r) * 10 + sent_as);
                assert_eq!(
                    recv[slot],
                    wanted,
                    "rank {} of {dims:?}, slot {slot}",
                    comm.rank()
                );
            }
        });
    }
}

#[test]
fn blocks_progress_together_in_a_scope() {
    ranks(4, SLOTS, |comm| {
        let rank = comm.rank() as usize;
        let counts = [2000, 0, 7, 9000];
        let mine = input(rank, counts[rank], 1);
        let (mut all, mut sum) = (vec![POISON; 11_007], vec![POISON; 5000]);
        let data = input(rank, 5000, 2);
        comm.scope(|scope| {
            scope.all_gather_v(&mine, &mut all, Blocks::Packed(&counts))?;
            scope.scan(&data, &mut sum, RedOp::MAX)
        })
        .unwrap();
        let packed: Vec<i64> = (0..4).flat_map(|r| input(r, counts[r], 1)).collect();
        assert!(all == packed);
        let wanted = |e| (0..=rank).map(|r| value(r, e, 2)).max().unwrap();
        assert!(sum.iter().enumerate().all(|(e, &got)| got == wanted(e)));
    });
}

#[test]
fn ranks_that_disagree_about_a_size_are_named() {
    // Also if one of them expects nothing.
    for wrong in [4usize, 0] {
        let comms = super::support::made(3, &[]);
        let errors: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = comms
                .iter()
                .map(|comm| {
                    scope.spawn(move || {
                        let mut counts = [5usize, 5, 5];
                        if comm.rank() == 2 {
                            counts[0] = wrong;
                        }
                        let mut recv = vec![0i64; 15];
                        comm.all_gather_v(&[1i64; 5], &mut recv, Blocks::Packed(&counts))
                    })
                })
                .collect();
            threads
                .into_iter()
                .filter_map(|t| t.join().unwrap().err())
                .collect()
        });
        assert!(!errors.is_empty());
        let text = format!("{}", errors[0]);
        assert!(
            text.contains("disagree") && text.contains("AllGatherV"),
            "{text}"
        );
        assert!(
            errors.iter().any(|e| e.to_string().contains("rank 2")),
            "{text}"
        );
    }
}

#[test]
fn wrong_blocks_are_refused_before_anything_moves() {
    ranks(2, &[], |comm| {
        let data = [0i64; 8];
        let mut recv = [0i64; 8];
        let mut what = |blocks: Blocks, words: &str| {
            let error = comm
                .all_gather_v(&data[..2], &mut recv, blocks)
                .unwrap_err();
            assert!(error.what.contains(words), "{error}");
        };
        what(Blocks::Packed(&[2]), "1 receive counts");
        what(
            Blocks::Packed(&[2, usize::MAX]),
            "count 1 is negative or too large (-1)",
        );
        what(
            Blocks::Placed(&[2, 2], &[0, usize::MAX - 7]),
            "displacement 1 is negative",
        );
        what(Blocks::Placed(&[2, 2], &[0, 7]), "its blocks end at 9");
        what(Blocks::Placed(&[2, 2], &[0, 1]), "overlaps receive block 0");
        let other = if comm.rank() == 0 { [3, 2] } else { [2, 3] };
        what(Blocks::Packed(&other), "sends itself 2 elements");
        let error = comm.graph(&[Some(2)], &[]).unwrap_err();
        assert!(error.what.contains("neighbour 2") || error.what.contains("rank 0 found"));
        // Rank 0 wants to hear of rank 1, which does not know.
        let sources: &[Option<u32>] = if comm.rank() == 0 { &[Some(1)] } else { &[] };
        let error = comm.graph(sources, &[]).unwrap_err();
        let words = [
            "0 times among its destinations",
            "rank 0 found its neighbours",
        ];
        assert!(error.what.contains(words[comm.rank() as usize]), "{error}");
        let error = comm.cartesian(&[3], &[true]).unwrap_err();
        assert!(error.what.contains("a grid of [3]"), "{error}");
        let error = comm.scan(&data, &mut recv, RedOp::AVG).unwrap_err();
        assert!(error.what.contains("no average"), "{error}");
    });
}
