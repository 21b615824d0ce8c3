//! Lines before the table: what is measured, and the ranks. `kolo perf` says it in its own words;
//! the programs `*_perf` say it as nccl-tests does, so that programs can read it.

use super::device;
use super::options::PerfArgs;
use super::tool;
use super::who::{SharedCores, Who};

/// The lines before the table, for sizes of up to `most` bytes that there is memory for.
pub fn lines(args: &PerfArgs, who: &Who, most: u64) -> Vec<String> {
    let mut lines = Vec::new();
    if !args.form.is_tool() {
        lines.extend(in_words(args, who, most));
    }
    if most < args.max_bytes && !args.collective.sizeless {
        lines.push(format!(
            "# Reducing maxBytes to {most} due to memory limitation"
        ));
    }
    if args.form.is_tool() {
        lines.push(parameters(args, most));
    }
    lines.push("#".to_string());
    lines.extend(if args.form.is_tool() {
        devices(args, who)
    } else {
        ranks(args, who)
    });
    let mut notes = tool::notes(args);
    notes.extend(device::left_out(args));
    if !args.form.is_tool() && !args.on_gpus() {
        notes.extend(who.crowds().iter().map(crowded));
    }
    if !notes.is_empty() {
        lines.push("#".to_string());
        lines.extend(notes.iter().map(|note| format!("# {note}")));
    }
    lines
}

/// The line of nccl-tests.
fn parameters(args: &PerfArgs, most: u64) -> String {
    let step = match args.factor {
        1 => format!("{}(bytes)", args.step_bytes),
        factor => format!("{factor}(factor)"),
    };
    let (threads, per_thread) = match args.ranks {
        Some(ranks) => (ranks, 1),
        None => (args.threads, args.per_thread),
    };
    format!(
        "# nThread {threads} nGpus {per_thread} minBytes {} maxBytes {} step: {step} warmup iters: \
         {} iters: {} agg iters: {} validation: {} graph: {}",
        args.min_bytes,
        args.max_bytes.min(most),
        args.warmup,
        args.iterations,
        args.aggregate,
        args.checks,
        args.replays()
    )
}

/// Its list of devices. A rank on host memory has cores where another one has the place of its GPU.
fn devices(args: &PerfArgs, who: &Who) -> Vec<String> {
    let mut lines = vec!["# Using devices".to_string()];
    for (rank, seen) in who.list(args.form.device).enumerate() {
        let place = match seen.pci {
            Some(pci) => pci.to_string(),
            None => format!("cores {}", seen.cores),
        };
        lines.push(format!(
            "#  Rank {rank:>2} Group {:>2} Pid {:>6} on {:>10} device {:>2} [{place}] {}",
            seen.group, seen.pid, seen.host, seen.device, seen.name
        ));
    }
    lines
}

fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// Says in words what is measured.
fn in_words(args: &PerfArgs, who: &Who, most: u64) -> Vec<String> {
    let nodes = match who.nodes() {
        1 => String::new(),
        nodes => format!(" of {nodes} nodes"),
    };
    let groups = match args.groups() {
        Some(groups) => format!(", in groups by {groups}"),
        None => String::new(),
    };
    let ranks = count(who.places.len() as u64, "rank");
    let name = args.collective.name;
    let version = env!("CARGO_PKG_VERSION");
    let mut lines = vec![format!(
        "# kolo {version}: {name} among {ranks}{nodes}{groups}"
    )];
    if !args.collective.sizeless {
        let (least, last) = (args.min_bytes, args.max_bytes.min(most));
        lines.push(match (least == last, args.factor) {
            (true, _) => format!("# {}", count(least, "byte")),
            (false, 1) => format!(
                "# {least} to {last} bytes, each size {} more than the one before",
                count(args.step_bytes, "byte")
            ),
            (false, factor) => {
                format!("# {least} to {last} bytes, each size {factor} times the one before")
            }
        });
    }
    let calls = match args.aggregate {
        1 => count(args.iterations.into(), "timed call"),
        calls => format!(
            "{} of {calls} calls",
            count(args.iterations.into(), "timed group")
        ),
    };
    let checks = match args.checks {
        0 => "results are not checked".to_string(),
        1 => "results are checked".to_string(),
        times => format!("results are checked {times} times"),
    };
    lines.push(format!(
        "# {calls} after {} to warm up; {checks}",
        args.warmup
    ));
    lines
}

/// That times are those of ranks that take turns.
fn crowded(crowd: &SharedCores) -> String {
    let cores = count(crowd.cores as u64, "core");
    format!(
        "{} ranks of {} share {cores}: some calls wait for a turn, so the mean time says little, \
         and p50 says more (--wide)",
        crowd.ranks, crowd.host
    )
}

/// The ranks, one a line.
fn ranks(args: &PerfArgs, who: &Who) -> Vec<String> {
    let split = args.groups().is_some();
    let line = |(rank, seen): (usize, super::who::Seen)| {
        let group = if split {
            format!(" Group {:>2}", seen.group)
        } else {
            String::new()
        };
        let place = match seen.pci {
            Some(pci) => format!("device {} at {pci}", seen.device),
            None => format!("cores {}", seen.cores),
        };
        format!(
            "#  Rank {rank:>2}{group} Pid {:>6} on {:>10} {place} {}",
            seen.pid, seen.host, seen.name
        )
    };
    who.list(None).enumerate().map(line).collect()
}
