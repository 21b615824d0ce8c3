//! Trials of what the protocols take for granted: lines and vectors that arrive whole, messages
//! between mappings and between processes, grids that run at once.
//!
//! The kernels are those of `kernels/litmus.cu`, in a file of their own beside kolo's; a GPU made
//! of software has them with the others.

use crate::report::{Failure, Outcome, Verdict, hold, note};

use crate::world::{QUEUES, Setup};
use kolo::config::Settings;
use kolo::cuda::{
    Context, DeviceKernels, DeviceMemory, OwnStream, StreamId, copy_from_device, fill_async,
};
use serde_json::{Value, json};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// The file of these kernels.
const FILE: &str = "kolo_litmus.fatbin";
/// Names as `litmus.cu` has them.
const KERNELS: [&str; 3] = ["kolo_litmus_lines", "kolo_litmus_answer", MEET];
/// The kernel whose blocks wait for each other.
pub const MEET: &str = "kolo_litmus_meet";
/// Bytes of memory of a trial: what is tried, then the word `ready`, then results.
const BYTES: usize = 1 << 20;
const READY: u64 = 64 << 10;
const RESULT: u64 = 128 << 10;
/// Threads of a block where all of them answer.
const THREADS: u32 = 256;
/// Grids that run at once, at most.
const GRIDS: u32 = 16;
/// Threads of a block that is as large as kolo's largest.
const MOST_THREADS: u32 = 640;

/// How sides of `kolo_litmus_lines` store and load.
#[derive(Clone, Copy, Debug)]
enum How {
    Vectors = 0,
    Lines = 1,
    Lines128 = 2,
    Lines128ByVectors = 3,
}

/// The argument of each kernel.
#[derive(Clone, Copy)]
pub struct Trial {
    place: u64,
    ready: u64,
    result: u64,
    side: u64,
    rounds: u64,
    patience: u64,
    how: u64,
}

impl Trial {
    /// A block that waits for so many words behind `place`, its own first one among them.
    pub fn meeting(place: u64, result: u64, rounds: u64, patience: u64) -> Trial {
        Trial {
            place,
            ready: 0,
            result,
            side: 0,
            rounds,
            patience,
            how: 0,
        }
    }

    /// As kernels take it.
    pub fn bytes(self) -> Vec<u8> {
        let words = [
            self.place,
            self.ready,
            self.result,
            self.side,
            self.rounds,
            self.patience,
            self.how,
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

/// The file with the litmus kernels: beside kolo's, or that file itself.
///
/// # Errors
/// There are no kernels.
pub fn file() -> Result<PathBuf, Failure> {
    let kernels = Settings::load(&[])?.kernels()?;
    let own = kernels.with_file_name(FILE);
    Ok(if own.is_file() { own } else { kernels })
}

/// A device that is tried.
struct Place {
    context: Arc<Context>,
    kernels: DeviceKernels,
    stream: OwnStream,
    memory: DeviceMemory,
}

impl Place {
    fn new(
        memory: impl FnOnce(&Arc<Context>) -> Result<DeviceMemory, Failure>,
    ) -> Result<Place, Failure> {
        let context = Context::of(0)?;
        let names = KERNELS.map(str::to_string);
        let stream = OwnStream::new(&context)?;
        Ok(Place {
            kernels: DeviceKernels::load(&context, &file()?, &names)?,
            stream,
            memory: memory(&context)?,
            context,
        })
    }

    /// With memory of its own, which holds zeros.
    fn alone() -> Result<Place, Failure> {
        let place =
            Place::new(|context| Ok(DeviceMemory::new(context, "a litmus test", BYTES, &[])?))?;
        place.clear()?;
        Ok(place)
    }

    fn clear(&self) -> Result<(), Failure> {
        let (at, on) = (self.memory.address(), self.stream.id());
        // SAFETY: the memory is that long, and no kernel uses it now.
        unsafe { fill_async(&self.context, at, 0, BYTES, on) }?;
        Ok(self.stream.synchronize()?)
    }

    /// A trial in this memory, as the mapping that begins at `at` has it.
    fn trial(&self, at: u64, rounds: u64, patience: u64) -> Trial {
        Trial {
            place: at,
            ready: at + READY,
            result: self.memory.address() + RESULT,
            side: 0,
            rounds,
            patience,
            how: 0,
        }
    }

    fn launch(
        &self,
        kernel: &str,
        (blocks, threads): (u32, u32),
        trial: Trial,
        on: StreamId,
    ) -> Result<(), Failure> {
        let kernel = self.kernels.get(kernel)?;
        // SAFETY: the structure is the kernel's; the memory that it names stays until the stream
        // was waited for.
        Ok(unsafe { kernel.launch(blocks, threads, &trial.bytes(), on) }?)
    }

    /// Words of the results.
    fn results(&self, count: usize) -> Result<Vec<u64>, Failure> {
        let mut bytes = vec![0; 8 * count];
        let at = self.memory.address() + RESULT;
        // SAFETY: the memory is that long.
        unsafe { copy_from_device(&self.context, &mut bytes, at, self.stream.id()) }?;
        let words = bytes.as_chunks::<8>().0.iter();
        Ok(words.map(|word| u64::from_le_bytes(*word)).collect())
    }
}

/// Rounds and patience of a trial.
fn sizes(setup: &Setup) -> (u64, u64) {
    match setup.is_small {
        true => (400, 1 << 20),
        false => (1_000_000, 1 << 24),
    }
}

/// Lines and vectors: whole where another block of the grid looks, and where one looks that has
/// another mapping of the memory.
pub fn lines(setup: &Setup) -> Outcome {
    let place = Place::alone()?;
    let fd = place.memory.export()?;
    let twin = DeviceMemory::import(&place.context, fd.as_fd(), BYTES)?;
    let hows = [
        How::Lines128,
        How::Lines,
        How::Lines128ByVectors,
        How::Vectors,
    ];
    let mut figures = serde_json::Map::new();
    for how in hows {
        for (path, at) in [
            ("block", place.memory.address()),
            ("mapping", twin.address()),
        ] {
            let seen = trials(setup, &place, how, at);
            let seen = seen.and_then(|seen| judge(how, path, &seen).map(|()| seen));
            let seen = seen.map_err(|Failure(why)| Failure(format!("{how:?}: {why}")))?;
            figures.insert(format!("{how:?}, other {path}"), seen.figures());
        }
    }
    Ok(Verdict::Passed(Value::Object(figures)))
}

/// Sums over the threads that looked.
#[derive(Debug, Default)]
struct Seen {
    torn: u64,
    broken: u64,
    changes: u64,
}

impl Seen {
    fn figures(&self) -> Value {
        json!({"torn": self.torn, "broken words": self.broken, "changes": self.changes})
    }
}

/// Trials until enough was seen, at most so many.
const TRIALS: u32 = 20;
/// Sums over the threads: a reader that sees the last number only has tried nothing.
const CHANGES: u64 = 4 * 32;

fn trials(setup: &Setup, place: &Place, how: How, reader: u64) -> Result<Seen, Failure> {
    let mut seen = Seen::default();
    for _ in 0..TRIALS {
        let words = one_trial(setup, place, how, reader)?;
        let sum = |at: usize| words.iter().skip(at).step_by(4).sum::<u64>();
        seen.torn += sum(0);
        seen.broken += sum(1);
        seen.changes += sum(2);
        hold(sum(3) == 32, || {
            "the reader has not seen the last number".into()
        })?;
        if seen.changes >= CHANGES {
            return Ok(seen);
        }
    }
    Err(Failure(format!("too little was seen: {seen:?}")))
}

fn one_trial(setup: &Setup, place: &Place, how: How, reader: u64) -> Result<Vec<u64>, Failure> {
    let (rounds, patience) = sizes(setup);
    place.clear()?;
    let writes = Trial {
        how: how as u64,
        ..place.trial(place.memory.address(), rounds, patience)
    };
    let looks = Trial {
        place: reader,
        ready: reader + READY,
        side: 1,
        ..writes
    };
    let other = OwnStream::new(&place.context)?;
    place.launch(KERNELS[0], (1, 32), looks, other.id())?;
    place.launch(KERNELS[0], (1, 32), writes, place.stream.id())?;
    other.synchronize()?;
    place.stream.synchronize()?;
    place.results(4 * 32)
}

/// Judges what was seen by the needs of the protocols.
fn judge(how: How, path: &str, seen: &Seen) -> Result<(), Failure> {
    let is_right = match how {
        // Nothing takes 16 bytes for whole: they are told, and not judged.
        How::Vectors | How::Lines | How::Lines128ByVectors => seen.broken == 0,
        How::Lines128 => seen.broken == 0 && seen.torn == 0,
    };
    hold(is_right, || {
        format!("seen through the other {path}, it came in parts: {seen:?}")
    })
}

/// Answers between two mappings of the memory in one process.
pub fn answers(setup: &Setup) -> Outcome {
    let place = Place::alone()?;
    let fd = place.memory.export()?;
    let twin = DeviceMemory::import(&place.context, fd.as_fd(), BYTES)?;
    let (_, patience) = sizes(setup);
    let rounds = if setup.is_small { 50 } else { 20_000 };
    let first = place.trial(place.memory.address(), rounds, patience);
    let second = Trial {
        side: 1,
        ..place.trial(twin.address(), rounds, patience)
    };
    let other = OwnStream::new(&place.context)?;
    place.launch(KERNELS[1], (1, THREADS), first, place.stream.id())?;
    place.launch(KERNELS[1], (1, THREADS), second, other.id())?;
    place.stream.synchronize()?;
    other.synchronize()?;
    let results = place.results(4 * THREADS as usize)?;
    all_answered(&results, rounds)?;
    Ok(Verdict::Passed(json!({"rounds": rounds})))
}

/// One of two processes that answer each other over memory which both have mapped.
pub struct Side(Place);

impl Side {
    /// The side that makes the memory.
    ///
    /// # Errors
    /// The driver's; there are no kernels.
    pub fn shared() -> Result<Side, Failure> {
        Ok(Side(Place::alone()?))
    }

    /// The side that gets it.
    ///
    /// # Errors
    /// The driver's; there are no kernels.
    pub fn imported(fd: BorrowedFd<'_>) -> Result<Side, Failure> {
        let import = |context: &Arc<Context>| Ok(DeviceMemory::import(context, fd, BYTES)?);
        Ok(Side(Place::new(import)?))
    }

    /// The memory, for the other process.
    ///
    /// # Errors
    /// The device cannot share memory.
    pub fn export(&self) -> Result<OwnedFd, Failure> {
        Ok(self.0.memory.export()?)
    }

    /// Answers as side `number`, until all rounds are over or nobody answers.
    ///
    /// # Errors
    /// The driver's.
    pub fn answer(&self, (number, rounds, patience): (u64, u64, u64)) -> Result<(), Failure> {
        let place = &self.0;
        let trial = Trial {
            side: number,
            ..place.trial(place.memory.address(), rounds, patience)
        };
        place.launch(KERNELS[1], (1, THREADS), trial, place.stream.id())?;
        Ok(place.stream.synchronize()?)
    }

    /// Whether both sides have seen all answers of the other one, once both have ended.
    ///
    /// # Errors
    /// They have not.
    pub fn all_answered(&self, rounds: u64) -> Result<(), Failure> {
        all_answered(&self.0.results(4 * THREADS as usize)?, rounds)
    }
}

/// Pairs of wrong words and rounds that were done, of each thread.
fn all_answered(results: &[u64], rounds: u64) -> Result<(), Failure> {
    let pairs = results.as_chunks::<2>().0;
    let wrong: u64 = pairs.iter().map(|pair| pair[0]).sum();
    let done = pairs.iter().map(|pair| pair[1]).min().unwrap_or(0);
    hold(wrong == 0 && done == rounds, || {
        format!("{wrong} words were wrong, and {done} rounds of {rounds} were answered")
    })
}

/// One to 16 grids that wait for each other, and fill the device together.
pub fn grids(setup: &Setup) -> Outcome {
    let (resident, failed) = all_grids(setup)?;
    hold(failed.is_empty(), || {
        format!(
            "grids that did not run at once, by their number: {failed:?} (of {resident} blocks)"
        )
    })?;
    let figures = json!({"grids": GRIDS, "resident blocks": resident});
    Ok(Verdict::Passed(figures))
}

/// Runs as many grids with the driver's usual queues, which need not be enough: a fact, and no
/// fault.
pub fn usual_grids(setup: &Setup) -> Outcome {
    let (resident, failed) = all_grids(setup)?;
    let queues = std::env::var(QUEUES).ok();
    let figures = json!({"grids": GRIDS, "resident blocks": resident, "not at once": failed,
        QUEUES: queues});
    Ok(Verdict::Passed(figures))
}

/// How many blocks run at once, and the numbers of grids that do not.
fn all_grids(setup: &Setup) -> Result<(u32, Vec<u32>), Failure> {
    let place = Place::alone()?;
    let resident = place.kernels.resident_blocks(MOST_THREADS)?;
    // Blocks that run at once may begin late. A GPU made of software may leave one waiting while
    // others look many times, so it is asked again, with more patience.
    let patiences = match setup.is_small {
        true => [50_000, 300_000],
        false => [1 << 21, 1 << 22],
    };
    let streams: Vec<OwnStream> = (0..GRIDS)
        .map(|_| OwnStream::new(&place.context))
        .collect::<Result<_, _>>()?;
    let mut failed = Vec::new();
    for grids in 1..=GRIDS {
        let streams = &streams[..grids as usize];
        let blocks = (resident / grids).max(1);
        note(format_args!("{grids} grids of {blocks} blocks"));
        let mut do_meet = false;
        for patience in patiences {
            do_meet = do_meet || meet(&place, streams, (blocks, patience))?;
        }
        if !do_meet {
            failed.push(grids);
        }
    }
    Ok((resident, failed))
}

/// Whether all blocks of grids on these streams meet.
fn meet(
    place: &Place,
    streams: &[OwnStream],
    (blocks, patience): (u32, u64),
) -> Result<bool, Failure> {
    let all = streams.len() as u64 * u64::from(blocks);
    place.clear()?;
    for (first, stream) in (0..).step_by(blocks as usize).zip(streams) {
        let trial = Trial {
            side: first,
            ..place.trial(place.memory.address(), all, patience)
        };
        place.launch(KERNELS[2], (blocks, MOST_THREADS), trial, stream.id())?;
    }
    for stream in streams {
        stream.synchronize()?;
    }
    let seen = place.results(all as usize)?;
    Ok(seen.iter().all(|&seen| seen == all))
}
