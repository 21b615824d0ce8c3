//! Two processes: memory of a device that one of them made and both map, and a communicator whose
//! ranks they are.
//!
//! Where both use one device, it runs their kernels by turns, so each answer takes as long as a
//! turn. The second process is this program again (`peer`), which gets the memory as its standard
//! input, or the id of the communicator as a word.

use crate::case::Case;
use crate::litmus::Side;
use crate::report::{Failure, Outcome, Verdict};
use crate::world::{Rank, Setup, device_of};
use clap::Subcommand;
use kolo::bootstrap::UniqueId;
use kolo::comm::{CommConfig, CommDevice, Communicator, RedOp};
use kolo::dtype::known::Data;
use kolo::dtype::{DataType, ReduceOp};
use kolo::plan::Collective;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

/// Work of the second process.
#[derive(Subcommand, Debug)]
pub enum PeerWork {
    /// Answers over the memory that is its standard input
    Answers { rounds: u64, patience: u64 },
    /// Is rank 1 of 2 of the communicator with this id
    Rank { id: String },
}

/// Elements of the calls of a communicator of processes.
const COUNTS: [usize; 2] = [1000, 50_023];

/// As the second process.
///
/// # Errors
/// Why it has failed, which the first process reads.
pub fn work(work: &PeerWork) -> Result<(), Failure> {
    match work {
        PeerWork::Answers { rounds, patience } => {
            let side = Side::imported(std::io::stdin().as_fd())?;
            // The first process waits for this with its kernel.
            writeln!(std::io::stdout(), "ready")?;
            side.answer((1, *rounds, *patience))
        }
        PeerWork::Rank { id } => calls(&unique_id(id)?, 1).map(|_| ()),
    }
}

/// Answers between two processes.
pub fn answers(setup: &Setup) -> Outcome {
    let (rounds, patience) = match setup.is_small {
        true => (20, 1 << 20),
        false => (50, 1 << 24),
    };
    let side = Side::shared()?;
    let words = ["answers", &rounds.to_string(), &patience.to_string()];
    let mut peer = Peer::start(&words, side.export()?.into())?;
    peer.is_ready()?;
    side.answer((0, rounds, patience))?;
    peer.ends_well()?;
    side.all_answered(rounds)?;
    Ok(Verdict::Passed(json!({"rounds": rounds})))
}

/// A communicator of two processes.
pub fn communicator(_: &Setup) -> Outcome {
    let id = Communicator::unique_id()?;
    let text: String = id
        .as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let mut peer = Peer::start(&["rank", &text], Stdio::null())?;
    let calls = calls(&id, 0)?;
    peer.ends_well()?;
    let devices = [device_of(0)?, device_of(1)?];
    Ok(Verdict::Passed(json!({"calls": calls, "devices": devices})))
}

fn unique_id(text: &str) -> Result<UniqueId, Failure> {
    let bytes: Option<Vec<u8>> = text
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    let bytes = bytes.ok_or_else(|| Failure(format!("{text} is no id")))?;
    Ok(UniqueId::from_bytes(bytes)?)
}

/// The calls of one of two ranks; how many they are.
fn calls(id: &UniqueId, number: u32) -> Result<u64, Failure> {
    let device = device_of(number)?;
    let config = CommConfig {
        device: CommDevice::Cuda(device),
        ..CommConfig::default()
    };
    let rank = Rank::of(Communicator::init_rank(2, id, number, &config)?, device)?;
    let bytes = 2 * 4 * COUNTS[1];
    let areas = (rank.area(bytes)?, rank.area(bytes)?);
    let mut made = 0;
    for collective in [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
        Collective::AllToAll,
    ] {
        for count in COUNTS {
            made += 1;
            let case = Case {
                collective,
                data: Data {
                    dtype: DataType::Float32,
                    op: collective.reduces().then_some(ReduceOp::Sum),
                    nranks: 2,
                    repetition: made,
                },
                count,
                root: (made % 2) as u32,
                in_place: false,
            };
            let checked = case.check(&rank, (&areas.0, &areas.1), RedOp::SUM);
            checked.map_err(|Failure(why)| Failure(format!("rank {number}, {case:?}: {why}")))?;
        }
    }
    rank.has_done_its_steps()?;
    rank.comm.destroy()?;
    Ok(made)
}

/// The second process.
struct Peer(Child);

impl Peer {
    fn start(words: &[&str], input: Stdio) -> Result<Peer, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("peer").args(words).stdin(input);
        // What it says in vain, it says as a note of this step.
        command.stdout(Stdio::piped());
        Ok(Peer(command.spawn()?))
    }

    /// Until it says so, or has ended.
    fn is_ready(&mut self) -> Result<(), Failure> {
        let mut line = String::new();
        if let Some(out) = &mut self.0.stdout {
            BufReader::new(out).read_line(&mut line)?;
        }
        match line.trim() {
            "ready" => Ok(()),
            _ => self.ends_well(),
        }
    }

    fn ends_well(&mut self) -> Result<(), Failure> {
        let status = self.0.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure(format!("the second process: {status}"))),
        }
    }
}
