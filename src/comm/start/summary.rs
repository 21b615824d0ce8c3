//! Tells what was found and chosen for a communicator. Its rank 0 does, at `KOLO_DEBUG=info`.
//!
//! One block of lines a communicator, each with the communicator's name: who is in it, how data
//! pass, how ranks wait, rings, the algorithm for each size, and which settings somebody has set.

use crate::base::Rank;
use crate::comm::CommConfig;
use crate::comm::identity::WaitSetup;
use crate::comm::logging::Acting;
use crate::comm::owned::OnDevice;
use crate::comm::queue::Queue;
use crate::config::{Layer, Settings, Value};
use crate::plan::{Collective, Nodes};
use crate::price::parts;
use crate::tune::messages::MOST_MESSAGE_BYTES;
use crate::tune::{Asked, Route, Table, ToldRoute, device};
use std::fmt::Write;
use std::sync::Arc;

/// Ranks of a ring that are shown.
const MOST_SHOWN: usize = 64;
/// Sizes are told up to 2 to this power.
const LARGEST_CLASS: u32 = 32;

/// Tells it, on rank 0, unless the communicator serves another one.
pub(in crate::comm) fn tell(queue: &Arc<Queue>, config: &CommConfig) {
    if queue.rank != 0 || config.is_inner || !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    let _acting = Acting::rank(Rank(queue.rank));
    let Ok(lines) = lines(queue) else { return };
    for line in lines {
        tracing::info!("communicator {}: {line}", queue.name);
    }
}

fn lines(queue: &Queue) -> crate::base::Result<Vec<String>> {
    let exec = queue.user()?;
    let mut lines = vec![
        ranks(queue, &exec.members.nodes),
        levels(&exec.table),
        transports(queue),
        network(queue),
        waiting(queue),
        threads(queue),
    ];
    let on = exec.device.as_deref();
    lines.extend(on.map(on_device));
    let table = on.map_or(&exec.table, |on| &on.table);
    lines.push(channels(table, &exec.members.nodes));
    lines.extend(algorithms(table, on.map(|on| on.has_ll128)));
    lines.push(settings(&queue.settings));
    Ok(lines)
}

/// `device: rank 0 is on CUDA device 3, with LL128`.
fn on_device(on: &OnDevice) -> String {
    let number = on.engine.device();
    let ll128 = match on.has_ll128 {
        true => "with LL128",
        false => "without LL128",
    };
    format!("device: rank 0 is on CUDA device {number}, {ll128}")
}

/// `4 ranks on 2 nodes: 2 on node1, 2 on node2`.
fn ranks(queue: &Queue, nodes: &Nodes) -> String {
    let mut text = match (queue.nranks, nodes.count()) {
        (1, _) => "1 rank".to_owned(),
        (ranks, 1) => format!("{ranks} ranks on 1 node"),
        (ranks, nodes) => format!("{ranks} ranks on {nodes} nodes"),
    };
    let host = |rank: u32| {
        queue
            .place(rank)
            .split(' ')
            .next()
            .unwrap_or("?")
            .to_owned()
    };
    for node in 0..nodes.count().min(MOST_SHOWN as u32) {
        let (first, many) = (nodes.leader(node, 0), nodes.ranks_of(node).len());
        let before = if node == 0 { ": " } else { ", " };
        let _ = write!(text, "{before}{many} on {}", host(first));
    }
    if nodes.count() > MOST_SHOWN as u32 {
        text.push_str(", ...");
    }
    text
}

/// Sockets and caches that the tuner tells apart inside a node.
fn levels(table: &Table) -> String {
    let inputs = table.inputs();
    let machine = &inputs.setting.machine;
    match machine.parts_text() {
        Some(parts) if !parts::are_seen(machine) => {
            format!("levels: {parts}; KOLO_LEVELS leaves them out of plans")
        }
        Some(parts) if !parts::are_even(machine) => {
            format!(
                "levels: {parts}, of different numbers of ranks: large calls see nodes only; give \
                 each cache and socket as many ranks as the others"
            )
        }
        Some(parts) => format!("levels: {parts}"),
        None if inputs.nranks < 2 => "levels: none, it is alone".to_owned(),
        None => "levels: each node counts as one cache; where it has several, bind each rank to a \
             core (docs/guide/large.md)"
            .to_owned(),
    }
}

fn transports(queue: &Queue) -> String {
    let mut text = String::from("transports: ");
    let (own, all) = (queue.process_mates.len() + 1, queue.nranks as usize);
    text.push_str(match (own, all) {
        (_, 1) => "none, it is alone",
        (own, all) if own == all => "memory of one process",
        _ => "memory of each node",
    });
    if let Some(name) = queue.links().map(|links| links.net().name()) {
        let _ = write!(text, ", {name} between nodes");
    }
    text
}

fn network(queue: &Queue) -> String {
    match &queue.network {
        None => "network: none, as no rank is on another node".to_owned(),
        Some(network) => format!("network: {}", network.why),
    }
}

fn waiting(queue: &Queue) -> String {
    let wait = &queue.wait;
    let crowding = wait.crowding;
    let plural = |count: u32, word: &str| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    let then = match wait.yields {
        WaitSetup::NO_SLEEP => "yields".to_owned(),
        yields => format!("{yields} yields, then sleep"),
    };
    format!(
        "waiting: {} ({} of this node on {}), {} polls, then {then}",
        wait.policy.name(),
        plural(crowding.ranks, "rank"),
        plural(crowding.cores, "core"),
        wait.spins,
    )
}

fn threads(queue: &Queue) -> String {
    match queue.thread_progress {
        true => format!("calls in flight are moved by a thread: {}", queue.pinning),
        false => "calls in flight move inside calls only".to_owned(),
    }
}

/// How many channels there may be, and in which order the ring of the first passes the ranks.
fn channels(table: &Table, nodes: &Nodes) -> String {
    let (least, most) = table.inputs().channels;
    let mut text = format!("channels: {least} to {most}");
    if nodes.nranks() < 2 {
        return text;
    }
    for channel in 0..most {
        let Some(ring) = nodes.ring(channel) else {
            text.push_str("; rings in the order of ranks");
            return text;
        };
        let shown = ring.iter().take(MOST_SHOWN).map(u32::to_string);
        let rest = if ring.len() > MOST_SHOWN { " ..." } else { "" };
        let order = shown.collect::<Vec<_>>().join(" ");
        let _ = write!(text, "; ring {channel}: {order}{rest}");
    }
    text
}

/// One line a collective: which algorithm takes which sizes of a rank's contribution.
fn algorithms(table: &Table, on_device: Option<bool>) -> Vec<String> {
    if table.inputs().nranks < 2 {
        return Vec::new();
    }
    // Those of one block for each rank, which have a choice that depends on the size.
    let told = |collective: &Collective| {
        let without = collective.is_vector() || collective.is_point_to_point();
        !without && !collective.is_scan() && *collective != Collective::Barrier
    };
    let line = |collective: Collective| {
        let mut text = format!("{}: ", collective.name());
        let mut from = None;
        let mut last: Option<String> = None;
        // The one-shot limit may lie inside a class: it ends one range and begins the next.
        for bytes in sizes(table.oneshot_limit(collective)) {
            let way = way(table, &Asked::plain(collective, bytes), on_device);
            if last.as_ref() != Some(&way) {
                if from.replace(bytes).is_some() {
                    let _ = write!(text, "; from {} ", size(bytes));
                }
                text.push_str(&way);
                last = Some(way);
            }
        }
        text
    };
    Collective::ALL.into_iter().filter(told).map(line).collect()
}

/// The way of a blocking call.
fn way(table: &Table, asked: &Asked, on_device: Option<bool>) -> String {
    let Some(has_ll128) = on_device else {
        return ToldRoute::of(Route::of(asked, table), asked, table).words();
    };
    let mut told = ToldRoute::of(device::route(asked, table), asked, table);
    let call = (asked.collective, asked.bytes);
    let fit = |choice| device::choice(table, call, choice, has_ll128);
    told.choice = told.choice.map(fit);
    told.words()
}

/// Sizes at which the choice or the form may change.
fn sizes(limit: usize) -> Vec<usize> {
    let mut sizes: Vec<usize> = (3..LARGEST_CLASS).map(|class| 1 << class).collect();
    sizes.extend([limit.max(8), MOST_MESSAGE_BYTES + 1]);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// `4 KiB`, or plain bytes where no unit fits.
fn size(bytes: usize) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} bytes")
}

/// Whether the fault that the settings name comes in no call.
fn is_never(settings: &Settings) -> bool {
    settings
        .fault_flip()
        .is_some_and(|flip| flip.call == u64::MAX)
}

/// All settings that are not as they are built in, with where they come from.
fn settings(settings: &Settings) -> String {
    let set = settings
        .entries()
        .filter(|entry| entry.source.layer != Layer::Default)
        // `kolo perf` prepares every rank for a flip, which may never come.
        .filter(|entry| entry.option.key != "fault_flip" || !is_never(settings));
    let told = set.map(|entry| {
        let value = match entry.value {
            Value::Unset => "unset".to_owned(),
            value => value.to_string(),
        };
        format!("{} = {value} ({})", entry.option.key, entry.source.origin)
    });
    let told: Vec<String> = told.collect();
    match told.is_empty() {
        true => "settings: all as they are built in".to_owned(),
        false => format!("settings: {}", told.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Communicator;
    use crate::comm::calling::handles::RedOp;
    use crate::comm::calling::query;
    use crate::dtype::DataType;

    #[test]
    fn a_summary_says_what_was_chosen_and_set() {
        let config = CommConfig {
            name: Some("halo".into()),
            overrides: vec![
                ("algo".into(), "allreduce:ring".into()),
                ("buffsize".into(), "128K".into()),
            ],
            ..CommConfig::default()
        };
        let comms = Communicator::init_all(3, &config).unwrap();
        let lines = lines(&comms[0].queue).unwrap();
        let has = |words: &str| assert!(lines.iter().any(|l| l.contains(words)), "{lines:#?}");
        has("3 ranks on 1 node: 3 on ");
        has("transports: memory of one process");
        has("network: none");
        has("waiting: ");
        has("polls, then");
        has("channels: 1 to 2; ring");
        has("AllReduce: ring, protocol simple");
        has("algo = allreduce:ring (the calling program)");
        has("buffsize = 128");
        // What a line says is what would run.
        let broadcast = lines
            .iter()
            .find(|line| line.starts_with("Broadcast: "))
            .unwrap();
        for bytes in [8, 1 << 12, 1 << 20, 1 << 26] {
            let (queue, dtype) = (&comms[0].queue, DataType::Uint8);
            let asked = query::way(queue, Collective::Broadcast, bytes, dtype, RedOp::SUM);
            let way = asked.unwrap().words;
            assert!(broadcast.contains(&way), "{broadcast}: {way}");
        }
    }

    #[test]
    fn ranges_begin_where_the_choice_changes() {
        assert_eq!(size(8), "8 bytes");
        assert_eq!(size(24 << 10), "24 KiB");
        assert_eq!(size(1 << 20), "1 MiB");
        let sizes = sizes(5000);
        assert!(sizes.contains(&5000) && sizes.is_sorted(), "{sizes:?}");
    }
}
