//! `kolo topo`: the machine, its graph, the ways in it, and the rings and trees that fit it.

use crate::arrangement;
use crate::drawing::render::render;
use crate::drawing::{self, Sheet, report};
use crate::gpus::ShownGpus;
use crate::out;
use clap::Args;
use kolo::algo;
use kolo::base::{Error, Rank, Result};
use kolo::comm::orders;
use kolo::config::Settings;
use kolo::topo::channels::{ChannelLimits, Channels, merge};
use kolo::topo::graph::{Description, NodeKind, TopoFile};
use kolo::topo::node_graph::NodeGraph;
use kolo::topo::search::Found;
use kolo::topo::seats::{self, Seated};
use kolo::topo::{CpuSet, Machine, Notes, RankPlace, graph_file};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Arguments of `kolo topo`.
#[derive(Args, Debug)]
pub struct TopoArgs {
    /// Show the machine of this file: one that `lstopo --whole-io --of xml FILE` wrote, or one of
    /// the form of GPU libraries, which begins with `<system>`
    #[arg(long, value_name = "FILE", visible_aliases = ["xml", "topo-file"])]
    pub file: Option<PathBuf>,
    /// Nodes and ranks on each; without it one node, with a rank on each GPU, cache or core
    #[arg(short = 'n', long, value_name = "NODES[xRANKS]")]
    pub nodes: Option<String>,
    /// Make an error of the first thing in the file that is unknown or contradicts itself, in place
    /// of a warning for each
    #[arg(long)]
    pub strict: bool,
    /// Write a picture of the machine with its rings and trees
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Use the rings and trees of this file in place of a search
    #[arg(long, value_name = "FILE")]
    pub graph_file: Option<PathBuf>,
    /// Write the rings and trees to this file
    #[arg(long, value_name = "FILE")]
    pub graph_dump_file: Option<PathBuf>,
    /// Print JSON in place of text
    #[arg(long)]
    pub json: bool,
}

/// Text below the help.
pub const HELP: &str = "\
Examples:
  kolo topo                                   this machine
  kolo topo -n 1x16                           with 16 ranks, spread over its cores
  kolo topo --file box.xml -n 8x8 --svg box.svg
      eight nodes like the one in box.xml, eight ranks on each, and a picture of it
  kolo topo --graph-dump-file rings.toml      write the rings down, to be changed and loaded

docs/topology.md explains the words, the search and the forms of the files.";

/// More nodes than this are not planned here.
const MOST_NODES: u32 = 16_384;

/// `kolo topo`.
///
/// # Errors
/// A file that cannot be used or written; hwloc's; ranks that the machine has no place for.
pub fn run(args: &TopoArgs) -> Result<()> {
    let settings = Settings::load(&[])?;
    let file = args.file.as_deref().or(settings.topo_file());
    let mut description = match file {
        Some(file) => read(file, args.strict)?.describe()?,
        None => Description::here()?,
    };
    // A file that is named here may be of any machine, one that the settings name is of this one.
    let gpus = match args.file {
        Some(_) => ShownGpus::described(),
        None => ShownGpus::here(&mut description),
    };
    for line in &gpus.warnings {
        eprintln!("kolo: warning: {line}");
    }
    if !args.json {
        out::write(&machine_text(&description, file.is_none())?);
    }
    let (nodes, count) = counts(args.nodes.as_deref(), &description)?;
    let seats = seats::spread(&description, count)?;
    let seated = Seated::new(&description.graph, &seats, nodes > 1)?;
    let plan = plan(args, &settings, &seated, nodes)?;
    match args.json {
        true => {
            let mut document = document(&description, &seated, &plan, (nodes, count));
            document["gpus"] = gpus.document(&description.graph);
            out::json(&document);
        }
        false => {
            out::write(&gpus.text(&description.graph));
            out::write(&format!("\n{}", report::graph_text(&seated.graph)));
            out::write(&format!("\n{}", report::paths_text(&seated)));
            if let Some(machine) = &description.machine {
                out::write(&format!("\n{}", levels_text(machine, nodes, &seats)));
            }
            let text = report::channels_text(&seated, &plan.found, &plan.channels);
            out::write(&format!("\n{text}"));
        }
    }
    if let Some(path) = &args.svg {
        let name = description.graph.source.rsplit('/').next().unwrap_or("");
        let title = title(name, nodes, count);
        let picture = Sheet {
            title: &title,
            seated: &seated,
            found: &plan.found,
            channels: &plan.channels,
            parent: &|is_second, node, nodes| algo::btree::double(nodes, node, is_second, false).0,
        };
        write(path, &drawing::draw(&picture))?;
    }
    let dump = args.graph_dump_file.as_deref();
    if let Some(path) = dump.or(settings.graph_dump_file()) {
        write(
            path,
            &graph_file::to_text(&plan.found.graph, &|member| seated.name(member)),
        )?;
    }
    Ok(())
}

/// Levels that ranks bound so share, and plans climb.
fn levels_text(machine: &Machine, nodes: u32, seats: &[seats::Seat]) -> String {
    let bound: Option<Vec<CpuSet>> = seats
        .iter()
        .map(|seat| match seat {
            seats::Seat::Cpus(cpus) => Some(cpus.clone()),
            seats::Seat::Gpu(_) => None,
        })
        .collect();
    let parts = bound.and_then(|bound| arrangement::on(machine, nodes, &bound).parts_text());
    match parts {
        Some(parts) => format!("Levels: {parts}\n"),
        None => "Levels: each node counts as one cache\n".to_string(),
    }
}

/// The machine, and the rings and trees of one node, for programs.
fn document(
    description: &Description,
    seated: &Seated,
    plan: &Planned,
    (nodes, count): (u32, usize),
) -> Value {
    let graph = &description.graph;
    let number = |kind| graph.of_kind(kind).len();
    let names = |members: &[u32]| -> Vec<String> {
        members.iter().map(|&member| seated.name(member)).collect()
    };
    let found = &plan.found.graph;
    let port = |index: u32| found.nets.get(index as usize);
    json!({
        "machine": {
            "source": graph.source,
            "numa_nodes": number(NodeKind::Cpu),
            "gpus": number(NodeKind::Gpu),
            "network_ports": number(NodeKind::Net),
            "cores": description.machine.as_ref().map(|machine| machine.cores.len()),
        },
        "nodes": nodes,
        "ranks_per_node": count,
        "seats": names(&(0..count as u32).collect::<Vec<_>>()),
        "ports": found.nets,
        "network": report::ports_document(graph),
        "channels": plan.channels.count(),
        "ring_megabytes_per_s": found.ring_megabytes_per_s,
        "rings": found
            .rings
            .iter()
            .map(|ring| {
                json!({
                    "ranks": ring.order,
                    "seats": names(&ring.order),
                    "enters_by": ring.entry.and_then(port),
                    "leaves_by": ring.exit.and_then(|exit| port(exit.net)),
                })
            })
            .collect::<Vec<_>>(),
        "tree_megabytes_per_s": found.tree_megabytes_per_s,
        "trees": found
            .trees
            .iter()
            .map(|tree| json!({"chain": tree.chain, "second": tree.second}))
            .collect::<Vec<_>>(),
    })
}

/// The machine of a file, with a warning on standard error for each thing that is left out.
fn read(path: &Path, is_strict: bool) -> Result<TopoFile> {
    let notes = if is_strict {
        Notes::strict()
    } else {
        Notes::lenient()
    };
    let file = TopoFile::read_noting(path, &notes)?;
    for line in notes.lines() {
        eprintln!("kolo: warning: {line}");
    }
    Ok(file)
}

fn machine_text(description: &Description, is_live: bool) -> Result<String> {
    let Some(machine) = &description.machine else {
        let graph = &description.graph;
        let count = |kind| graph.of_kind(kind).len();
        return Ok(format!(
            "Machine ({}): {} NUMA nodes, {} GPUs, {} network ports\n",
            graph.source,
            count(NodeKind::Cpu),
            count(NodeKind::Gpu),
            count(NodeKind::Net)
        ));
    };
    if !is_live {
        return Ok(render(machine, None));
    }
    let place = RankPlace::here(Rank(0), None, Machine::detect_with_devices()?)?;
    Ok(render(machine, Some(&place)))
}

/// Nodes, and ranks on each.
fn counts(text: Option<&str>, description: &Description) -> Result<(u32, usize)> {
    let usual = seats::usual_count(description);
    let Some(text) = text else {
        return Ok((1, usual));
    };
    let (nodes, ranks) = match text.split_once(['x', 'X']) {
        Some((nodes, ranks)) => (nodes.parse().ok(), ranks.parse().ok()),
        None => (text.parse().ok(), Some(usual)),
    };
    match (nodes, ranks) {
        (Some(nodes), Some(ranks)) if (1..=MOST_NODES).contains(&nodes) && ranks > 0 => {
            Ok((nodes, ranks))
        }
        _ => Err(Error::argument(
            format!("-n {text}: this is no number of nodes and ranks on each"),
            format!("write `-n 8x4` for 8 nodes with 4 ranks each; at most {MOST_NODES} nodes"),
        )),
    }
}

/// The rings and trees that one node found, and the channels of all.
struct Planned {
    found: Found,
    channels: Channels,
}

fn plan(args: &TopoArgs, settings: &Settings, seated: &Seated, nodes: u32) -> Result<Planned> {
    let count = seated.members.len();
    let ranks = |node: usize| -> Vec<Rank> {
        (node * count..(node + 1) * count)
            .map(|rank| Rank(rank as u32))
            .collect()
    };
    let file = match args.graph_file.as_deref().or(settings.graph_file()) {
        Some(path) => Some(graph_file::from_file(path, &ranks(0))?),
        None => None,
    };
    let request = orders::request(settings, nodes > 1);
    let found = seated.choose(&ranks(0), &request, file)?;
    let node = |node: usize| NodeGraph {
        ranks: ranks(node),
        ..found.graph.clone()
    };
    let all: Vec<NodeGraph> = (0..nodes as usize).map(node).collect();
    let channels = merge(&all, ChannelLimits::default())?;
    Ok(Planned { found, channels })
}

fn title(source: &str, nodes: u32, count: usize) -> String {
    let ranks = |count: usize| match count {
        1 => "1 rank".to_owned(),
        count => format!("{count} ranks"),
    };
    match nodes {
        1 => format!("{source}: {}", ranks(count)),
        _ => {
            let all = nodes as usize * count;
            format!(
                "{source}: {nodes} nodes with {}, {all} in all",
                ranks(count)
            )
        }
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| {
        let doing = format!("{} cannot be written", path.display());
        Error::system(doing, &error, "check the path and its permissions")
    })
}
