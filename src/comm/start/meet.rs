//! The first exchange of the ranks of a new communicator: who is there, and do all agree?
//!
//! Problem: a rank may fail before it has met anybody: a setting of its own that nobody can read, a
//! file that only its node lacks. The others are in the exchange by then and wait for it.
//!
//! Idea: such a rank takes part all the same and shows its error in the place of its facts. So
//! every rank learns in the same exchange that, where and why somebody could not begin.

use super::device;
use super::device::card::DeviceCard;
use crate::base::record::{self, Record};
use crate::base::{Code, Error, Rank, Result, hash};
use crate::bootstrap::Bootstrap;
use crate::bootstrap::report::Reported;
use crate::comm::CommDevice;
use crate::config::{self, Settings};
use crate::proxy;
use crate::topo::{self, Machine, RankPlace};
use crate::transport::cma::{Mark, MarkCard, wish};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// Facts that every rank knows after all have met.
pub(in crate::comm) struct Met {
    /// This rank's settings; those that shape plans are the same everywhere.
    pub settings: Settings,
    /// The graph file, the same on all ranks.
    pub graph: Option<GraphText>,
    /// By which peers know this rank's process; kept as long as they may read its memory.
    pub mark: Mark,
    /// Held once for all ranks of this process.
    pub known: Arc<KnownRanks>,
}

/// Facts about all ranks, the same everywhere.
pub(in crate::comm) struct KnownRanks {
    /// Where each rank runs.
    pub places: Vec<RankPlace>,
    /// Random, drawn by rank 0.
    pub nonce: u128,
    /// The marks of all ranks.
    pub marks: Vec<MarkCard>,
    /// Their devices, if they have any.
    pub devices: Option<Vec<DeviceCard>>,
}

/// A graph file as it was read.
pub(in crate::comm) struct GraphText {
    pub text: String,
    /// Its path.
    pub name: String,
}

/// First words of a rank to the others. Its version stands before them.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
enum Introduction {
    Able {
        place: Box<RankPlace>,
        /// The settings from which plans follow, as [`config::compare_shapes`] takes them.
        shape: Vec<u8>,
        /// Random, of rank 0 only.
        nonce: Option<u128>,
        /// How to recognise the process when its memory is read.
        mark: MarkCard,
        /// Its device, unless it is on the host.
        device: Option<DeviceCard>,
    },
    /// It cannot begin.
    Unable { host: String, problem: Reported },
}

impl Record for Introduction {
    const NAME: &'static str = "what a rank shows of itself";
}

/// Which kolo shows it: another version reads at least this.
fn preamble() -> Vec<u8> {
    let version = version();
    [&(version.len() as u32).to_le_bytes(), version.as_bytes()].concat()
}

impl Introduction {
    fn refusal(error: &Error) -> Introduction {
        let host = topo::host_name();
        Introduction::Unable {
            host: host.split('.').next().unwrap_or_default().into(),
            problem: Reported::of(error),
        }
    }

    /// With the version in front.
    fn encode(&self) -> Vec<u8> {
        [preamble(), record::encode(self)].concat()
    }

    /// Decodes the introduction of `rank`. It fails with the error of a rank that cannot be
    /// understood.
    fn read(rank: Rank, bytes: &[u8]) -> Result<Introduction> {
        if let Some(rest) = bytes.strip_prefix(preamble().as_slice()) {
            return record::decode(rest).map_err(|fault| Error::from(fault).with_peer(rank));
        }
        let theirs = bytes.split_first_chunk::<4>();
        let theirs = theirs.and_then(|(length, rest)| {
            let (theirs, _) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            std::str::from_utf8(theirs).ok()
        });
        Err(match theirs {
            Some(theirs) => Error::usage(
                format!("this rank runs kolo {}, the peer {theirs}", version()),
                "let all ranks load the same libkolo (check LD_LIBRARY_PATH and modules per node)",
            ),
            None => Error::internal("a rank introduced itself in a way that cannot be read"),
        }
        .with_peer(rank))
    }
}

pub(in crate::comm) fn version() -> String {
    env!("CARGO_PKG_VERSION").into()
}

/// Gathers and compares what all ranks show. `settings` may be an error: it is then shown to the
/// others, and returned.
///
/// # Errors
/// On every rank, if any: the own one, else that of the lowest rank that cannot begin, else what
/// the ranks disagree about.
pub(in crate::comm) fn meet(
    bootstrap: &dyn Bootstrap,
    settings: Result<Settings>,
    device: CommDevice,
) -> Result<Met> {
    let begun = settings.and_then(|settings| {
        let graph = graph_text(&settings)?;
        let mark = Mark::new(draw()?);
        let hello = introduce(bootstrap, &settings, (&mark, device), graph.as_ref())?;
        Ok((hello, settings, mark, graph))
    });
    let mine = match &begun {
        Ok((introduction, ..)) => introduction.clone(),
        Err(error) => Introduction::refusal(error),
    };
    // The own error says more than that of an exchange that failed because of it.
    let shown = bootstrap.all_gather(&mine.encode());
    let is_told = shown.as_ref().is_ok_and(|shown| {
        let before = &shown[..bootstrap.rank().index().min(shown.len())];
        before.iter().any(|theirs| says_the_same(theirs, &mine))
    });
    let begun = begun.map_err(|error| error.told_elsewhere(is_told));
    let (_, settings, mark, graph) = begun?;
    let is_told = bootstrap.rank() != Rank(0);
    let known = shown?.once(|shown| known(shown, is_told))?;
    Ok(Met {
        settings,
        graph,
        mark,
        known,
    })
}

/// Reads and compares what all ranks have shown. `is_told` says that another rank prints what they
/// disagree about.
fn known(shown: &[Vec<u8>], is_told: bool) -> Result<KnownRanks> {
    let all = Introduced::read(shown)?;
    let places = topo::gathered(all.places)?;
    let shapes: Vec<(Rank, &str, &[u8])> = places
        .iter()
        .zip(&all.shapes)
        .map(|(place, shape)| (place.rank, place.host.as_str(), shape.as_slice()))
        .collect();
    config::compare_shapes(&shapes).map_err(|error| error.told_elsewhere(is_told))?;
    let nonce = all.nonce.ok_or_else(|| {
        Error::internal("rank 0 did not show the nonce of the communicator").with_peer(Rank(0))
    })?;
    Ok(KnownRanks {
        nonce,
        marks: all.marks,
        devices: device::agree(&all.devices)?,
        places,
    })
}

/// Introductions of all ranks, sorted by kind of fact.
#[derive(Default)]
struct Introduced {
    places: Vec<RankPlace>,
    shapes: Vec<Vec<u8>>,
    nonce: Option<u128>,
    marks: Vec<MarkCard>,
    devices: Vec<Option<DeviceCard>>,
}

impl Introduced {
    /// An error is that of the lowest rank that cannot begin or be understood.
    fn read(shown: &[Vec<u8>]) -> Result<Introduced> {
        let mut all = Introduced::default();
        for (rank, bytes) in (0..).map(Rank).zip(shown) {
            match Introduction::read(rank, bytes)? {
                Introduction::Able {
                    place,
                    shape,
                    nonce,
                    mark,
                    device,
                } => {
                    all.places.push(*place);
                    all.shapes.push(shape);
                    all.nonce = all.nonce.or(nonce.filter(|_| rank == Rank(0)));
                    all.marks.push(mark);
                    all.devices.push(device);
                }
                Introduction::Unable { host, problem } => {
                    let place = format!(" on {host}");
                    return Err(problem.by(rank, &place).told_elsewhere(true));
                }
            }
        }
        Ok(all)
    }
}

/// Whether two ranks that cannot begin have the same reason: a mistake in a setting is often that
/// of the whole job.
fn says_the_same(theirs: &[u8], mine: &Introduction) -> bool {
    let theirs = Introduction::read(Rank(0), theirs);
    match (theirs, mine) {
        (
            Ok(Introduction::Unable { problem: one, .. }),
            Introduction::Unable { problem: other, .. },
        ) => one == *other,
        _ => false,
    }
}

/// Decodes `bytes` as an introduction, for `tests/fuzz`.
pub(in crate::comm) fn fuzz(bytes: &[u8]) -> (&'static str, bool) {
    if let Ok(shown) = Introduced::read(&[[preamble(), bytes.to_vec()].concat()]) {
        let _ = topo::gathered(shown.places);
    }
    let _ = Introduction::read(Rank(0), bytes);
    record::fuzz::<Introduction>(bytes)
}

fn graph_text(settings: &Settings) -> Result<Option<GraphText>> {
    let Some(path) = settings.graph_file() else {
        return Ok(None);
    };
    Ok(Some(GraphText {
        text: topo::graph_file::file_text(path)?,
        name: path.display().to_string(),
    }))
}

/// The settings from which plans follow. Of a graph file the contents count: its path may differ
/// from node to node, and equal paths may lead to different files.
pub(in crate::comm) fn shape(settings: &Settings, graph: Option<&GraphText>) -> Vec<u8> {
    let mut shape = settings.shape();
    if let Some(entry) = settings.entry("graph_file") {
        let source = entry.source.origin.to_string();
        shape.push(config::ShapeEntry {
            key: entry.option.key.into(),
            value: match graph {
                None => "none".into(),
                Some(graph) => {
                    let digest = hash::fnv1a(graph.text.as_bytes());
                    format!("{} bytes with digest {digest:016x}", graph.text.len())
                }
            },
            source: match graph {
                None => source,
                Some(graph) => format!("{source}: {}", graph.name),
            },
        });
    }
    record::encode(&shape)
}

fn introduce(
    bootstrap: &dyn Bootstrap,
    settings: &Settings,
    (mark, device): (&Mark, CommDevice),
    graph: Option<&GraphText>,
) -> Result<Introduction> {
    wish::admit(settings);
    let place = place(bootstrap.rank(), settings)?;
    Ok(Introduction::Able {
        place: Box::new(place),
        shape: shape(settings, graph),
        nonce: match bootstrap.rank() {
            Rank(0) => Some(draw()?),
            _ => None,
        },
        mark: mark.card(),
        device: device::card(device, settings)?,
    })
}

/// Place of the calling thread, which is to be `rank`, as the settings let others see it.
///
/// # Errors
/// A machine that cannot be read.
pub fn place(rank: Rank, settings: &Settings) -> Result<RankPlace> {
    RankPlace::here(rank, host_id(settings)?.as_deref(), machine(settings)?)
}

/// Returns the name that stands for this rank's node instead of the name of its host, if any does.
fn host_id(settings: &Settings) -> Result<Option<String>> {
    let named = settings.hostid().map(str::to_string);
    if !settings.shm_disable() {
        return Ok(named);
    }
    // Nobody else shares the address of a process's service.
    let process = proxy::service::get()?.address();
    Ok(Some(format!("{} {process}", named.unwrap_or_default())))
}

/// A random number that nobody can guess.
pub(in crate::comm) fn draw() -> Result<u128> {
    let mut bytes = [0; size_of::<u128>()];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(
            Code::SystemError,
            format!("no random numbers: {error}"),
            "check the system",
        )
    })?;
    Ok(u128::from_le_bytes(bytes))
}

/// The machine that `settings` name: this one, or that of a file.
pub(in crate::comm) fn machine(settings: &Settings) -> Result<&'static Machine> {
    static FROM_FILE: Mutex<Vec<(std::path::PathBuf, &'static Machine)>> = Mutex::new(Vec::new());
    let Some(path) = settings.topo_file() else {
        return Machine::detect();
    };
    let mut known = FROM_FILE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((_, machine)) = known.iter().find(|(name, _)| name == path) {
        return Ok(machine);
    }
    let machine: &'static Machine = match topo::graph::TopoFile::machine(path)? {
        Some(machine) => Box::leak(Box::new(machine)),
        None => Machine::detect()?,
    };
    known.push((path.to_path_buf(), machine));
    Ok(machine)
}
