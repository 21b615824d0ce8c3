//! The first exchange of the ranks of a new communicator: who is there, and do all agree?
//!
//! Problem: a rank may fail before it has met anybody: a setting of its own that nobody can read, a
//! file that only its node lacks. The others are in the exchange by then and wait for it.
//!
//! Idea: such a rank takes part all the same and shows its error in the place of its facts. So
//! every rank learns in the same exchange that, where and why somebody could not begin.

use crate::base::{Code, Error, Rank, Result, hash};
use crate::bootstrap::{Bootstrap, report};
use crate::config::{self, Settings};
use crate::proxy;
use crate::topo::{self, Machine, RankPlace};
use crate::transport::cma::Mark;
use std::sync::Mutex;

/// Bytes of the number that tells communicators apart.
const NONCE_BYTES: usize = 16;

/// What the ranks know after they have met.
pub(in crate::comm) struct Met {
    /// This rank's settings; those that shape plans are the same everywhere.
    pub settings: Settings,
    /// Where each rank runs.
    pub places: Vec<RankPlace>,
    /// Random, drawn by rank 0.
    pub nonce: u128,
    /// The graph file, the same on all ranks.
    pub graph: Option<GraphText>,
    /// By which peers know this rank's process; kept as long as they may read its memory.
    pub mark: Mark,
    /// The marks of all ranks, as they showed them.
    pub marks: Vec<Vec<u8>>,
}

/// A graph file as it was read.
pub(in crate::comm) struct GraphText {
    pub text: String,
    /// Its path.
    pub name: String,
}

/// What a rank shows. One that cannot begin shows its version, its host as the place, and its
/// problem; another version of kolo reads at least the version.
#[derive(Default)]
struct Hello {
    version: String,
    place: Vec<u8>,
    shape: Vec<u8>,
    /// Of rank 0 only.
    nonce: Vec<u8>,
    /// How to recognise the process when its memory is read.
    mark: Vec<u8>,
    /// A report; empty when all is well.
    problem: Vec<u8>,
}

impl Hello {
    fn refusal(error: &Error) -> Hello {
        let host = topo::host_name();
        Hello {
            version: version(),
            place: host.split('.').next().unwrap_or_default().into(),
            problem: report::encode(error),
            ..Hello::default()
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let version = self.version.as_bytes();
        let parts = [
            version,
            &self.place,
            &self.shape,
            &self.nonce,
            &self.mark,
            &self.problem,
        ];
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend((part.len() as u32).to_le_bytes());
            bytes.extend(part);
        }
        bytes
    }

    /// What rank `rank` showed, or the error of a rank that cannot begin or be understood.
    fn read(rank: Rank, bytes: &[u8]) -> Result<Hello> {
        let garbled = || {
            Error::internal("a rank introduced itself in a way that cannot be read").with_peer(rank)
        };
        let mut rest = bytes;
        let mut part = || {
            let (length, behind) = rest.split_first_chunk::<4>()?;
            let length = u32::from_le_bytes(*length) as usize;
            let (part, behind) = behind.split_at_checked(length)?;
            rest = behind;
            Some(part.to_vec())
        };
        let theirs = part().and_then(|bytes| String::from_utf8(bytes).ok());
        let theirs = theirs.ok_or_else(garbled)?;
        if theirs != version() {
            return Err(Error::usage(
                format!("this rank runs kolo {}, the peer {theirs}", version()),
                "let all ranks load the same libkolo (check LD_LIBRARY_PATH and modules per node)",
            )
            .with_peer(rank));
        }
        let mut needed = || part().ok_or_else(garbled);
        let hello = Hello {
            version: theirs,
            place: needed()?,
            shape: needed()?,
            nonce: needed()?,
            mark: needed()?,
            problem: needed()?,
        };
        if hello.problem.is_empty() {
            return Ok(hello);
        }
        let place = format!(" on {}", String::from_utf8_lossy(&hello.place));
        Err(report::decode(rank, &place, &hello.problem).told_elsewhere(true))
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
pub(in crate::comm) fn meet(bootstrap: &dyn Bootstrap, settings: Result<Settings>) -> Result<Met> {
    let begun = settings.and_then(|settings| {
        let graph = graph_text(&settings)?;
        let mark = Mark::new(draw()?);
        let hello = introduce(bootstrap, &settings, &mark, graph.as_ref())?;
        Ok((hello, settings, mark, graph))
    });
    let mine = match &begun {
        Ok((hello, ..)) => hello.to_bytes(),
        Err(error) => Hello::refusal(error).to_bytes(),
    };
    // The own error says more than that of an exchange that failed because of it.
    let shown = bootstrap.all_gather(&mine);
    let is_told = shown.as_ref().is_ok_and(|shown| {
        let before = &shown[..bootstrap.rank().index().min(shown.len())];
        before.iter().any(|theirs| says_the_same(theirs, &mine))
    });
    let begun = begun.map_err(|error| error.told_elsewhere(is_told));
    let (_, settings, mark, graph) = begun?;
    let hellos: Vec<Hello> = (0..)
        .map(Rank)
        .zip(&shown?)
        .map(|(rank, bytes)| Hello::read(rank, bytes))
        .collect::<Result<_>>()?;
    let gathered: Vec<Vec<u8>> = hellos.iter().map(|hello| hello.place.clone()).collect();
    let places = topo::gathered(&gathered)?;
    let shapes: Vec<(Rank, &str, &[u8])> = places
        .iter()
        .zip(&hellos)
        .map(|(place, hello)| (place.rank, place.host.as_str(), hello.shape.as_slice()))
        .collect();
    let is_told = bootstrap.rank() != Rank(0);
    config::compare_shapes(&shapes).map_err(|error| error.told_elsewhere(is_told))?;
    let nonce: [u8; NONCE_BYTES] = hellos[0].nonce.as_slice().try_into().map_err(|_| {
        Error::internal("the nonce of the communicator has a wrong length").with_peer(Rank(0))
    })?;
    Ok(Met {
        settings,
        places,
        nonce: u128::from_le_bytes(nonce),
        graph,
        mark,
        marks: hellos.into_iter().map(|hello| hello.mark).collect(),
    })
}

/// Whether two ranks that cannot begin have the same reason, which stands at the end of what they
/// show: a mistake in a setting is often that of the whole job.
fn says_the_same(one: &[u8], other: &[u8]) -> bool {
    let reason = |bytes: &[u8]| {
        let at = bytes.len().checked_sub(report::REPORT_BYTES)?;
        Some(bytes[at..].to_vec())
    };
    reason(one).is_some_and(|one| Some(one) == reason(other))
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
    config::shape_bytes(&shape)
}

fn introduce(
    bootstrap: &dyn Bootstrap,
    settings: &Settings,
    mark: &Mark,
    graph: Option<&GraphText>,
) -> Result<Hello> {
    super::cma::admit(settings);
    let host_id = host_id(settings)?;
    let place = RankPlace::here(bootstrap.rank(), host_id.as_deref(), machine(settings)?)?;
    Ok(Hello {
        version: version(),
        place: place.to_bytes(),
        shape: shape(settings, graph),
        nonce: match bootstrap.rank() {
            Rank(0) => draw()?.to_le_bytes().to_vec(),
            _ => Vec::new(),
        },
        mark: mark.to_bytes().to_vec(),
        problem: Vec::new(),
    })
}

/// What stands for this rank's node instead of the name of the host, if anything does.
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
    let mut bytes = [0; NONCE_BYTES];
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
