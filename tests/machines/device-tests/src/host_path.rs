//! Time that the host takes to put calls on a stream, and that they take in a graph.

use crate::clock::{REPETITIONS, median, rounded};
use crate::report::{Failure, Outcome, Verdict};
use crate::world::{Rank, Setup, ranks};
use kolo::comm::{Call, Collective, RedOp};
use kolo::cuda::DeviceGraph;
use kolo::dtype::DataType;
use serde_json::json;
use std::sync::Barrier;
use std::time::Instant;

/// Bytes of the calls.
const SIZES: [usize; 3] = [8, 1024, 65_536];

/// Microseconds of a call: to put it, until it is over, and until it is over in a graph.
pub fn run(setup: &Setup, nranks: u32) -> Outcome {
    let calls = if setup.is_small { 4 } else { 400 };
    let meeting = Barrier::new(nranks as usize);
    let all = ranks(setup, nranks, &[], |rank| {
        SIZES
            .iter()
            .map(|&bytes| one_size(rank, &meeting, bytes, calls))
            .collect::<Result<Vec<_>, _>>()
    });
    let most = |at: usize, of: fn(&Times) -> f64| {
        let times = all.iter().map(|rank| of(&rank[at]));
        rounded(times.fold(0.0, f64::max) * 1e6)
    };
    let row = |(at, bytes): (usize, &usize)| {
        json!({
            "bytes": bytes,
            "us to put": most(at, |times| times.put),
            "us a call": most(at, |times| times.call),
            "us in a graph": most(at, |times| times.in_graph),
        })
    };
    let rows: Vec<_> = SIZES.iter().enumerate().map(row).collect();
    Ok(Verdict::Passed(
        json!({"ranks": nranks, "calls": calls, "sizes": rows}),
    ))
}

/// Seconds of a call.
struct Times {
    put: f64,
    call: f64,
    in_graph: f64,
}

fn one_size(rank: &Rank, meeting: &Barrier, bytes: usize, calls: usize) -> Result<Times, Failure> {
    let (send, recv) = (rank.area(bytes)?, rank.area(bytes)?);
    let call = Call {
        collective: Collective::AllReduce,
        send: send.at(0).cast_const(),
        recv: recv.at(0),
        count: bytes / 4,
        dtype: DataType::Float32,
        op: RedOp::SUM,
        peer: 0,
    };
    rank.put(&call)?;
    rank.stream.synchronize()?;
    let (mut put, mut whole, mut in_graph) = (Vec::new(), Vec::new(), Vec::new());
    let of = |begin: Instant| begin.elapsed().as_secs_f64() / calls as f64;
    for _ in 0..REPETITIONS {
        meeting.wait();
        let begin = Instant::now();
        (0..calls).try_for_each(|_| rank.put(&call))?;
        put.push(of(begin));
        rank.stream.synchronize()?;
        whole.push(of(begin));
    }
    let graph = DeviceGraph::capture(&rank.context, rank.stream.id(), || {
        (0..calls).try_for_each(|_| rank.put(&call))
    })?;
    for _ in 0..=REPETITIONS {
        meeting.wait();
        let begin = Instant::now();
        graph.launch(rank.stream.id())?;
        rank.stream.synchronize()?;
        in_graph.push(of(begin));
    }
    meeting.wait();
    Ok(Times {
        put: median(&put),
        call: median(&whole),
        // The first launch of a graph also puts it on the device.
        in_graph: median(&in_graph[1..]),
    })
}
