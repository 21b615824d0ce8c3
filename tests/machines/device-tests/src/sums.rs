//! All-reduces of 8 bytes to 1 GiB with 1, 2, 4 and 8 ranks, beside NCCL where it is there.
//!
//! The two libraries take turns, so that what changes meanwhile changes for both. A time is that of
//! the slowest rank, from a meeting of all to the end of its stream, for one of several calls
//! behind each other.

use crate::case::Case;
use crate::clock::{REPETITIONS, median, rounded, spread};
use crate::nccl::{Id, Nccl, NcclRank};
use crate::report::{Failure, Outcome, Verdict, note};
use crate::world::{Area, Rank, Setup, ranks};
use kolo::comm::{Call, RedOp};
use kolo::cuda::Driver;
use kolo::dtype::known::Data;
use kolo::dtype::{DataType, ReduceOp};
use kolo::plan::Collective;
use serde_json::json;
use std::sync::Barrier;
use std::time::Instant;

/// Bytes of the calls: each size is 8 times the one before.
const SIZES: [usize; 10] = [
    8,
    64,
    512,
    4 << 10,
    32 << 10,
    256 << 10,
    2 << 20,
    16 << 20,
    128 << 20,
    1 << 30,
];
/// Of small runs.
const SMALL_SIZES: usize = 5;
/// Results are checked up to here: it is the host that checks.
const CHECKED: usize = 16 << 20;

/// Settings of NCCL that let so many ranks share a device, for the step's process.
pub fn settings(nranks: u32) -> Vec<(String, String)> {
    let mut all = vec![("NCCL_MULTI_RANK_GPU_ENABLE".to_string(), "1".to_string())];
    if nranks >= 4 {
        // All blocks of all ranks must fit a device of 108 multiprocessors.
        all.push(("NCCL_MAX_CTAS".into(), (96 / nranks).to_string()));
    }
    all
}

/// Times of one size on one rank: kolo's and NCCL's.
struct Times {
    kolo: Vec<f64>,
    nccl: Vec<f64>,
}

/// All sizes with so many ranks.
pub fn run(setup: &Setup, nranks: u32) -> Outcome {
    let sizes = if setup.is_small {
        &SIZES[..SMALL_SIZES]
    } else {
        &SIZES
    };
    let nccl = Nccl::find()?;
    let known = match &nccl {
        Some(nccl) => Some((nccl, nccl.unique_id()?)),
        None => None,
    };
    let meeting = Barrier::new(nranks as usize);
    let all = ranks(setup, nranks, &[], |rank| {
        one_rank(setup, rank, (known, &meeting), sizes)
    });
    let mut rows = Vec::new();
    for (at, bytes) in sizes.iter().enumerate() {
        let of = |pick: fn(&Times) -> &Vec<f64>| slowest(all.iter().map(|times| pick(&times[at])));
        let (kolo, nccl) = (of(|times| &times.kolo), of(|times| &times.nccl));
        let mut row = json!({"bytes": bytes, "kolo us": spread(&kolo, 1e6)});
        if !nccl.is_empty() {
            row["NCCL us"] = spread(&nccl, 1e6);
            row["kolo/NCCL"] = json!(rounded(median(&kolo) / median(&nccl)));
        }
        rows.push(row);
    }
    let is_timed = all.iter().flatten().any(|times| !times.nccl.is_empty());
    let version = match &nccl {
        Some(nccl) if is_timed => json!(nccl.version()?),
        Some(nccl) => json!(format!("{} lets no ranks share a device", nccl.version()?)),
        None => json!("libnccl.so.2 was not there"),
    };
    Ok(Verdict::Passed(
        json!({"ranks": nranks, "NCCL": version, "sizes": rows}),
    ))
}

/// The most of all ranks, repetition by repetition.
fn slowest<'t>(mut ranks: impl Iterator<Item = &'t Vec<f64>>) -> Vec<f64> {
    let first = ranks.next().cloned().unwrap_or_default();
    ranks.fold(first, |most, times| {
        let pairs = most.iter().zip(times);
        pairs.map(|(a, b)| a.max(*b)).collect()
    })
}

fn one_rank(
    setup: &Setup,
    rank: &Rank,
    (nccl, meeting): (Option<(&Nccl, Id)>, &Barrier),
    sizes: &[usize],
) -> Result<Vec<Times>, Failure> {
    let largest = sizes.last().copied().unwrap_or(0);
    let areas = (rank.area(largest)?, rank.area(largest)?);
    let who = (rank.number(), rank.comm.nranks());
    let joined = nccl.map(|(nccl, id)| nccl.join(&rank.context, id, who));
    // A release that lets no two ranks share a device refuses all of them, and kolo is timed alone.
    let nccl = match joined {
        Some(Err(Failure(why))) if who.1 > Driver::get()?.devices()? => {
            note(format_args!("rank {}: NCCL is not timed: {why}", who.0));
            None
        }
        joined => joined.transpose()?,
    };
    let mut all = Vec::new();
    for &bytes in sizes {
        if rank.number() == 0 {
            note(format_args!("{} ranks, {bytes} bytes", who.1));
        }
        let runs = match setup.is_small {
            true => 2,
            false => ((64 << 20) / bytes).clamp(1, 200),
        };
        check(rank, (&areas.0, &areas.1), bytes)?;
        all.push(times(
            rank,
            (nccl.as_ref(), meeting),
            (&areas.0, &areas.1),
            (bytes, runs),
        )?);
    }
    meeting.wait();
    Ok(all)
}

/// One call whose result is held against what it must be.
fn check(rank: &Rank, areas: (&Area, &Area), bytes: usize) -> Result<(), Failure> {
    if bytes > CHECKED {
        return Ok(());
    }
    let case = Case {
        collective: Collective::AllReduce,
        data: Data {
            dtype: DataType::Float32,
            op: Some(ReduceOp::Sum),
            nranks: rank.comm.nranks(),
            repetition: bytes as u64,
        },
        count: bytes / 4,
        root: 0,
        in_place: false,
    };
    let checked = case.check(rank, areas, RedOp::SUM);
    checked.map_err(|Failure(why)| Failure(format!("{bytes} bytes: {why}")))
}

fn times(
    rank: &Rank,
    (nccl, meeting): (Option<&NcclRank<'_>>, &Barrier),
    (send, recv): (&Area, &Area),
    (bytes, runs): (usize, usize),
) -> Result<Times, Failure> {
    let count = bytes / 4;
    let call = Call {
        collective: Collective::AllReduce,
        send: send.at(0),
        recv: recv.at(0),
        count,
        dtype: DataType::Float32,
        op: RedOp::SUM,
        peer: 0,
    };
    let kolo = || Ok(rank.put(&call)?);
    let other = |nccl: &NcclRank<'_>| {
        let (buffers, on) = ((call.send, call.recv), rank.stream.id());
        // SAFETY: the areas have that many floats, and live until the stream was waited for.
        unsafe { nccl.sum(buffers, count, on) }
    };
    let mut times = Times {
        kolo: Vec::new(),
        nccl: Vec::new(),
    };
    timed(rank, meeting, 1, kolo)?;
    if let Some(nccl) = nccl {
        timed(rank, meeting, 1, || other(nccl))?;
    }
    for _ in 0..REPETITIONS {
        times.kolo.push(timed(rank, meeting, runs, kolo)?);
        if let Some(nccl) = nccl {
            times.nccl.push(timed(rank, meeting, runs, || other(nccl))?);
        }
    }
    Ok(times)
}

/// Seconds of one of so many calls, which all ranks begin together.
fn timed(
    rank: &Rank,
    meeting: &Barrier,
    runs: usize,
    put: impl Fn() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    meeting.wait();
    let begin = Instant::now();
    (0..runs).try_for_each(|_| put())?;
    rank.stream.synchronize()?;
    Ok(begin.elapsed().as_secs_f64() / runs as f64)
}
