//! Plans made by hand that use what algorithms may use: packed tokens in one and in several runs,
//! kept tokens, tokens forwarded as they are, casts, scratch memory. The checker proves them, a
//! naive machine runs them with numbers, and ranks as threads run them with data.

use kolo::plan::{
    Algorithm, Collective, Emitter, Layout, Operand, POST_SCALE, PRE_SCALE, Plan, Runs, Shape,
    StepOp,
};

/// A family of plans for any number of ranks that `fits`.
pub struct Sample {
    pub name: &'static str,
    pub collective: Collective,
    pub fits: fn(u32) -> bool,
    pub plan: fn(&Shape) -> Plan,
}

pub const SAMPLES: &[Sample] = &[
    Sample {
        name: "doubling all-gather",
        collective: Collective::AllGather,
        fits: u32::is_power_of_two,
        plan: doubling_all_gather,
    },
    Sample {
        name: "halving and doubling all-reduce",
        collective: Collective::AllReduce,
        fits: u32::is_power_of_two,
        plan: halving_all_reduce,
    },
    Sample {
        name: "halving all-reduce, lowest bit first",
        collective: Collective::AllReduce,
        fits: u32::is_power_of_two,
        plan: strided_all_reduce,
    },
    Sample {
        name: "chain reduce of packed chunks",
        collective: Collective::Reduce,
        fits: |n| n > 1,
        plan: packed_chain,
    },
    Sample {
        name: "broadcast that forwards kept packed tokens",
        collective: Collective::Broadcast,
        fits: |n| n > 1,
        plan: forwarding_broadcast,
    },
    Sample {
        name: "all-gather by a hub, ranks packing differently",
        collective: Collective::AllGather,
        fits: |n| n > 1,
        plan: hub_all_gather,
    },
    Sample {
        name: "all-gather by casts",
        collective: Collective::AllGather,
        fits: |n| n > 1,
        plan: cast_all_gather,
    },
    Sample {
        name: "all-reduce by casts, in rank order",
        collective: Collective::AllReduce,
        fits: |n| n > 1,
        plan: cast_all_reduce,
    },
    Sample {
        name: "all-reduce by owners that cast",
        collective: Collective::AllReduce,
        fits: |n| n > 1,
        plan: owners_all_reduce,
    },
    Sample {
        name: "broadcast by casts of packed chunks",
        collective: Collective::Broadcast,
        fits: |n| n > 1,
        plan: cast_broadcast,
    },
    Sample {
        name: "all-to-all by Bruck",
        collective: Collective::AllToAll,
        fits: |n| n > 1,
        plan: bruck,
    },
    Sample {
        name: "binomial reduce with partial sums in scratch",
        collective: Collective::Reduce,
        fits: |n| n > 1,
        plan: binomial_reduce,
    },
    Sample {
        name: "scatter along a chain, ranks packing differently",
        collective: Collective::Scatter,
        fits: |n| n > 1,
        plan: chain_scatter,
    },
];

/// The plans of all ranks.
pub fn plans(sample: &Sample, nranks: u32, channels: u16) -> Vec<Plan> {
    let shape = |rank| Shape {
        collective: sample.collective,
        algorithm: Algorithm::Ring,
        rank,
        nranks,
        root: 0,
        channels,
    };
    (0..nranks)
        .map(|rank| (sample.plan)(&shape(rank)))
        .collect()
}

/// The bits below a power of two, from the lowest.
fn bits(n: u32) -> impl DoubleEndedIterator<Item = u32> {
    (0..n.trailing_zeros()).map(|bit| 1 << bit)
}

/// Blocks known so far are exchanged with the partner; they double.
fn doubling_all_gather(shape: &Shape) -> Plan {
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    for channel in 0..shape.channels {
        e.lane(channel).copy(i64::from(shape.rank));
        for bit in bits(shape.nranks) {
            let partner = shape.rank ^ bit;
            let (to, from) = (e.to(partner), e.from(partner));
            let group = |rank: u32| {
                let low = i64::from(rank & !(bit - 1));
                low..low + i64::from(bit)
            };
            e.send_from_output_many(to, group(shape.rank));
            e.recv_many(from, group(partner));
        }
    }
    e.finish()
}

/// Half of the chunks in each step, a run; then the same way back.
fn halving_all_reduce(shape: &Shape) -> Plan {
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Split);
    for channel in 0..shape.channels {
        e.lane(channel);
        let group = |rank: u32, bit: u32| {
            let low = i64::from(rank & !(bit - 1));
            Runs::from(low..low + i64::from(bit))
        };
        halve_and_double(&mut e, shape, bits(shape.nranks).rev().collect(), &group);
    }
    e.finish()
}

/// As above, but chunks that agree in their lowest bits stay together: runs of one, far apart.
fn strided_all_reduce(shape: &Shape) -> Plan {
    let n = shape.nranks;
    let mut e = Emitter::new(*shape, n, Layout::Split);
    for channel in 0..shape.channels {
        e.lane(channel);
        let group = |rank: u32, bit: u32| Runs {
            first: i64::from(rank % (2 * bit)),
            length: 1,
            count: n / (2 * bit),
            distance: i64::from(2 * bit),
        };
        halve_and_double(&mut e, shape, bits(n).collect(), &group);
    }
    e.finish()
}

/// Reduce-scatter by exchanging, for each bit, the chunks of the partner's group for the own ones;
/// and all-gather by going back.
fn halve_and_double(
    e: &mut Emitter,
    shape: &Shape,
    bits: Vec<u32>,
    group: &dyn Fn(u32, u32) -> Runs,
) {
    let (first, last) = (bits.first().copied(), bits.last().copied());
    for &bit in &bits {
        let partner = shape.rank ^ bit;
        let (to, from) = (e.to(partner), e.from(partner));
        let (own, flags) = match Some(bit) == first {
            true => (Operand::INPUT, PRE_SCALE),
            false => (Operand::OUTPUT, 0),
        };
        let end = if Some(bit) == last { POST_SCALE } else { 0 };
        e.pack(
            (StepOp::Copy, flags),
            &[own],
            &[to.operand()],
            group(partner, bit),
        );
        e.pack(
            (StepOp::Fold, flags | end),
            &[from.operand(), own],
            &[Operand::OUTPUT],
            group(shape.rank, bit),
        );
    }
    for &bit in bits.iter().rev() {
        let partner = shape.rank ^ bit;
        let (to, from) = (e.to(partner), e.from(partner));
        e.send_from_output_many(to, group(shape.rank, bit));
        e.recv_many(from, group(partner, bit));
    }
    if bits.is_empty() {
        e.copy_many(0..i64::from(shape.nranks));
    }
}

/// Even chunks in one token, odd ones in another, towards rank 0.
fn packed_chain(shape: &Shape) -> Plan {
    let mut e = Emitter::new(*shape, 6, Layout::Split);
    for channel in 0..shape.channels {
        e.lane(channel);
        let last = shape.nranks - 1;
        for first in 0..2 {
            let runs = Runs {
                first,
                length: 1,
                count: 3,
                distance: 2,
            };
            if shape.rank == last {
                let next = e.to(last - 1);
                e.send_many(next, runs);
                continue;
            }
            let prev = e.from(shape.rank + 1);
            match shape.rank {
                0 => e.recv_reduce_copy_many(prev, runs),
                rank => {
                    let next = e.to(rank - 1);
                    e.recv_reduce_send_many(prev, next, runs);
                }
            }
        }
    }
    e.finish()
}

/// Each token goes on as it came, and is unpacked only then.
fn forwarding_broadcast(shape: &Shape) -> Plan {
    let mut e = Emitter::new(*shape, 5, Layout::Split);
    for channel in 0..shape.channels {
        e.lane(channel);
        let last = shape.rank + 1 == shape.nranks;
        for runs in [Runs::from(3..7), Runs::from(2..3)] {
            if shape.rank == 0 {
                let next = e.to(1);
                e.copy_send_many(next, runs);
                continue;
            }
            let prev = e.from(shape.rank - 1);
            if !last {
                let next = e.to(shape.rank + 1);
                let kept = Operand {
                    keep: true,
                    ..prev.operand()
                };
                e.pack((StepOp::Copy, 0), &[kept], &[next.operand()], runs);
            }
            e.recv_many(prev, runs);
        }
    }
    e.finish()
}

/// Rank 0 takes all blocks and hands them to rank 1 in one token, to the others one by one: only
/// ranks 0 and 1 pack, and all must know.
fn hub_all_gather(shape: &Shape) -> Plan {
    let n = i64::from(shape.nranks);
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    e.pieces(shape.nranks);
    for channel in 0..shape.channels {
        e.lane(channel);
        if shape.rank > 0 {
            let (hub, back) = (e.to(0), e.from(0));
            e.send(hub, i64::from(shape.rank));
            match shape.rank {
                1 => e.recv_many(back, 0..n),
                _ => (0..n).for_each(|block| e.recv(back, block)),
            }
            continue;
        }
        e.copy(0);
        for rank in 1..shape.nranks {
            let from = e.from(rank);
            e.recv(from, i64::from(rank));
        }
        for rank in 1..shape.nranks {
            let to = e.to(rank);
            match rank {
                1 => e.send_from_output_many(to, 0..n),
                _ => (0..n).for_each(|block| e.send_from_output(to, block)),
            }
        }
    }
    e.finish()
}

/// Every rank casts its block.
fn cast_all_gather(shape: &Shape) -> Plan {
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    for channel in 0..shape.channels {
        let mine = e.lane(channel).cast(shape.rank);
        e.copy_send(mine, i64::from(shape.rank));
        for rank in (0..shape.nranks).filter(|&rank| rank != shape.rank) {
            let theirs = e.cast(rank);
            e.recv(theirs, i64::from(rank));
        }
    }
    e.finish()
}

/// Every rank casts its input, and everybody folds everything in rank order.
fn cast_all_reduce(shape: &Shape) -> Plan {
    let mut e = Emitter::new(*shape, 1, Layout::Blocks);
    for channel in 0..shape.channels {
        let mine = e.lane(channel).cast(shape.rank);
        e.send(mine, 0);
        let srcs: Vec<Operand> = (0..shape.nranks)
            .map(|rank| match rank == shape.rank {
                true => Operand::INPUT,
                false => e.cast(rank).operand(),
            })
            .collect();
        e.fold(&srcs, 0);
    }
    e.finish()
}

/// Chunk c is folded by rank c, which casts the result.
fn owners_all_reduce(shape: &Shape) -> Plan {
    let n = shape.nranks;
    let mut e = Emitter::new(*shape, n, Layout::Split);
    let mine = i64::from(shape.rank);
    for channel in 0..shape.channels {
        e.lane(channel);
        for owner in (0..n).filter(|&owner| owner != shape.rank) {
            let to = e.to(owner);
            e.send(to, i64::from(owner));
        }
        let srcs: Vec<Operand> = (0..n)
            .map(|rank| match rank == shape.rank {
                true => Operand::INPUT,
                false => e.from(rank).operand(),
            })
            .collect();
        let cast = e.cast(shape.rank).operand();
        let flags = PRE_SCALE | POST_SCALE;
        e.step(StepOp::Fold, flags, &srcs, &[Operand::OUTPUT, cast], mine);
        for owner in (0..n).filter(|&owner| owner != shape.rank) {
            let from = e.cast(owner);
            e.recv(from, i64::from(owner));
        }
    }
    e.finish()
}

/// Rank 0 casts the even and the odd chunks.
fn cast_broadcast(shape: &Shape) -> Plan {
    let mut e = Emitter::new(*shape, 6, Layout::Split);
    for channel in 0..shape.channels {
        let cast = e.lane(channel).cast(0);
        for first in 0..2 {
            let runs = Runs {
                first,
                length: 1,
                count: 3,
                distance: 2,
            };
            match shape.rank {
                0 => e.copy_send_many(cast, runs),
                _ => e.recv_many(cast, runs),
            }
        }
    }
    e.finish()
}

/// J. Bruck et al., IEEE Trans. Parallel Distrib. Syst. 8 (1997): block i of scratch is on its way
/// to the rank i ahead of where it came from, and moves by the bits of i.
fn bruck(shape: &Shape) -> Plan {
    let n = shape.nranks;
    let mut e = Emitter::new(*shape, n, Layout::Blocks);
    let (rank, how) = (shape.rank as i32, (StepOp::Copy, 0));
    for channel in 0..shape.channels {
        e.lane(channel);
        let turned = Operand::SCRATCH.at(-rank);
        e.pack(
            how,
            &[Operand::INPUT],
            &[turned],
            Runs::from(0..i64::from(n)),
        );
        for bit in (0..32).map(|bit| 1u32 << bit).take_while(|&bit| bit < n) {
            let to = e.to((shape.rank + bit) % n).operand();
            let from = e.from((shape.rank + n - bit) % n).operand();
            let moved = (0..n).filter(|block| block & bit != 0);
            let moved: Vec<i64> = moved.map(i64::from).collect();
            e.pack_list(how, &[Operand::SCRATCH], &[to], &moved);
            e.pack_list(how, &[from], &[Operand::SCRATCH], &moved);
        }
        for block in 0..n as i32 {
            let source = (rank - block).rem_euclid(n as i32);
            let scratch = Operand::SCRATCH.at(block - source);
            e.step(
                StepOp::Copy,
                0,
                &[scratch],
                &[Operand::OUTPUT],
                i64::from(source),
            );
        }
    }
    e.finish()
}

/// Ranks other than the root have no output: what they have folded so far lies in scratch, one
/// chunk for all chunks of the data in turn.
fn binomial_reduce(shape: &Shape) -> Plan {
    let (n, chunks) = (shape.nranks, 3);
    let mut e = Emitter::new(*shape, chunks, Layout::Split);
    e.scratch(1);
    for channel in 0..shape.channels {
        e.lane(channel);
        for chunk in 0..i64::from(chunks) {
            let step = (StepOp::Copy, PRE_SCALE);
            e.step(
                step.0,
                step.1,
                &[Operand::INPUT],
                &[Operand::SCRATCH],
                chunk,
            );
            let mut bit = 1;
            while bit < n && shape.rank & bit == 0 {
                if shape.rank + bit < n {
                    let from = e.from(shape.rank + bit).operand();
                    let srcs = [Operand::SCRATCH, from];
                    e.step(StepOp::Fold, 0, &srcs, &[Operand::SCRATCH], chunk);
                }
                bit *= 2;
            }
            let (dst, flags) = match shape.rank {
                0 => (Operand::OUTPUT, POST_SCALE),
                rank => (e.to(rank - bit).operand(), 0),
            };
            e.step(StepOp::Copy, flags, &[Operand::SCRATCH], &[dst], chunk);
        }
    }
    e.finish()
}

/// Rank r takes the blocks r.. in one token, keeps its own and hands on the others.
fn chain_scatter(shape: &Shape) -> Plan {
    let (n, rank) = (i64::from(shape.nranks), i64::from(shape.rank));
    let mut e = Emitter::new(*shape, shape.nranks, Layout::Blocks);
    e.pieces(shape.nranks - 1);
    for channel in 0..shape.channels {
        e.lane(channel);
        let source = match shape.rank {
            0 => Operand::INPUT,
            _ => {
                let prev = e.from(shape.rank - 1).operand();
                let how = (StepOp::Copy, 0);
                e.pack(how, &[prev], &[Operand::SCRATCH], Runs::from(rank..n));
                Operand::SCRATCH
            }
        };
        if rank + 1 < n {
            let next = e.to(shape.rank + 1).operand();
            e.pack(
                (StepOp::Copy, 0),
                &[source],
                &[next],
                Runs::from(rank + 1..n),
            );
        }
        e.step(StepOp::Copy, 0, &[source], &[Operand::OUTPUT], rank);
    }
    e.finish()
}
