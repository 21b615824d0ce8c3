//! Deeds of a stream: graphs that are replayed between calls, and an abort that ends kernels.

use crate::report::{Failure, Outcome, Verdict, hold};
use crate::world::{POISON, Rank, Setup, ranks};
use kolo::comm::{Call, Collective, RedOp};
use kolo::cuda::{DeviceGraph, copy_async};
use kolo::dtype::DataType;
use serde_json::json;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ranks of each step here.
const RANKS: u32 = 3;

fn sum(send: *mut u8, recv: *mut u8, count: usize) -> Call {
    Call {
        collective: Collective::AllReduce,
        send: send.cast_const(),
        recv,
        count,
        dtype: DataType::Uint64,
        op: RedOp::SUM,
        peer: 0,
    }
}

/// Input of a rank in a turn: it differs by rank, turn and element.
fn input(turn: u64, rank: u32, count: usize) -> Vec<u8> {
    let first = 7 * turn + 1000 * u64::from(rank);
    (0..count as u64)
        .flat_map(|i| (first + i).to_le_bytes())
        .collect()
}

fn wanted(turn: u64, count: usize) -> Vec<u8> {
    let of = |i: u64| {
        (0..u64::from(RANKS))
            .map(|rank| 7 * turn + 1000 * rank + i)
            .sum::<u64>()
    };
    (0..count as u64)
        .flat_map(|i| of(i).to_le_bytes())
        .collect()
}

/// A graph of two sums and a copy, launched again and again with calls of their own between.
pub fn graphs(setup: &Setup) -> Outcome {
    let replays = if setup.is_small { 40 } else { 1000 };
    let own = ranks(setup, RANKS, &[], |rank| replay(rank, replays));
    Ok(Verdict::Passed(
        json!({"replays": replays, "calls between": own[0]}),
    ))
}

fn replay(rank: &Rank, replays: u64) -> Result<u64, Failure> {
    let (me, few, many) = (rank.number(), 3, 2600);
    let source = rank.area(8 * many)?;
    let (small, large) = (rank.area(8 * few)?, rank.area(8 * many)?);
    let (result, single) = (rank.area(8 * many)?, rank.area(8 * 50)?);
    for (area, count) in [(&small, few), (&large, many), (&result, many)] {
        rank.load(area, &vec![POISON; 8 * count])?;
    }
    let graph = DeviceGraph::capture(&rank.context, rank.stream.id(), || {
        rank.put(&sum(source.at(0), small.at(0), few))?;
        rank.put(&sum(source.at(0), large.at(0), many))?;
        let (from, to) = (large.at(0) as u64, result.at(0) as u64);
        // SAFETY: both areas are that long, and live until the stream has ended.
        unsafe { copy_async(&rank.context, to, from, 8 * many, rank.stream.id()) }
    })?;
    let mut own = 0;
    for turn in 0..replays {
        rank.load(&source, &input(turn, me, many))?;
        graph.launch(rank.stream.id())?;
        let at = || format!("turn {turn}");
        if turn % 3 == 1 {
            // A call on its own uses the same connections.
            own += 1;
            rank.load(&single, &vec![POISON; 8 * 50])?;
            rank.put(&sum(source.at(0), single.at(0), 50))?;
            hold(rank.fetch(&single, 8 * 50)? == wanted(turn, 50), at)?;
        }
        if turn % 4 != 2 {
            hold(rank.fetch(&result, 8 * many)? == wanted(turn, many), at)?;
            hold(rank.fetch(&small, 8 * few)? == wanted(turn, few), at)?;
        }
    }
    rank.stream.synchronize()?;
    Ok(own)
}

/// Kernels that wait for a rank which never comes leave when it aborts, and write no result.
pub fn abort(setup: &Setup) -> Outcome {
    let (called, aborted) = (Barrier::new(RANKS as usize), Barrier::new(RANKS as usize));
    let has_waited = AtomicBool::new(false);
    let count = 5000;
    // Ranks do not end their communicators here: they were aborted.
    ranks_that_abort(setup, |rank| {
        let (send, recv) = (rank.area(8 * count)?, rank.area(8 * count)?);
        rank.load(&send, &input(1, rank.number(), count))?;
        rank.load(&recv, &vec![POISON; 8 * count])?;
        if rank.number() != RANKS - 1 {
            rank.put(&sum(send.at(0), recv.at(0), count))?;
            let is_over = rank.stream.id().is_over(&rank.context)?;
            has_waited.fetch_or(!is_over, Ordering::Relaxed);
        }
        called.wait();
        if rank.number() == RANKS - 1 {
            rank.comm.abort()?;
        }
        aborted.wait();
        let got = rank.fetch(&recv, 8 * count)?;
        let is_poison = got.iter().all(|&byte| byte == POISON);
        hold(is_poison, || {
            "an aborted call has written its result".into()
        })?;
        let names_it = |said: String| {
            let who = format!("rank {}", RANKS - 1);
            hold(said.contains(&who), || {
                format!("the error does not name {who}: {said}")
            })
        };
        let said = |result: kolo::base::Result<()>| match result {
            Ok(()) => "no error".to_string(),
            Err(error) => error.to_string(),
        };
        names_it(said(rank.comm.async_error()))?;
        names_it(said(rank.put(&sum(send.at(0), recv.at(0), 1))))
    });
    Ok(Verdict::Passed(
        json!({"kernels waited": has_waited.into_inner()}),
    ))
}

fn ranks_that_abort(setup: &Setup, body: impl Fn(&Rank) -> Result<(), Failure> + Sync) {
    ranks(setup, RANKS, &[], |rank| {
        body(rank)?;
        let _ = rank.comm.destroy();
        Ok(())
    });
}
