//! `kolo sim`: how long a collective takes on a machine that need not be there, what its links
//! carry, and which chain of steps decides it.

use crate::out;
use crate::plot;
use crate::question::{self, Question, bytes_text, time_text};
use clap::Args;
use kolo::base::{Result, clock};
use kolo::config::Settings;
use kolo::exec::sim::{Cause, PathStep, Report};
use kolo::plan::Collective;
use kolo::price::{Cluster, Level, LinkPlace};
use kolo::tune::{self, Choice, Table};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;

/// Arguments of `kolo sim`.
#[derive(Args, Debug)]
pub struct SimArgs {
    #[command(flatten)]
    question: Question,
    /// The algorithm; without it the one that kolo would choose
    #[arg(short = 'a', long, value_name = "NAME")]
    algorithm: Option<String>,
    /// Buffers are of koloMemAlloc or registered, and read where they lie
    #[arg(long)]
    mapped: bool,
    /// Draw time against size for all algorithms into this file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Greatest size of the drawing
    #[arg(long, value_name = "SIZE", default_value = "64M",
          value_parser = crate::perf::options::size)]
    plot_max: u64,
    /// Print JSON in place of text: times in nanoseconds, sizes in bytes
    #[arg(long, conflicts_with = "plot")]
    json: bool,
}

/// Links that are listed.
const LINKS_SHOWN: usize = 8;
/// Steps of the critical path that are listed at each end.
const STEPS_SHOWN: usize = 6;

/// Simulates and prints.
///
/// # Errors
/// Settings that cannot be used, questions without an answer, a file that cannot be written.
pub fn run(args: &SimArgs) -> Result<()> {
    let question = &Question {
        mapped: args.mapped,
        ..args.question.clone()
    };
    let collective = question.collective()?;
    let settings = Settings::load(&[])?;
    let table = question.table(&settings)?;
    if let Some(file) = &args.plot {
        return plot::run(question, collective, &table, file, args.plot_max);
    }
    let choice = match &args.algorithm {
        Some(name) => question.forced(collective, name, &table)?,
        None => table.choose(collective, question.bytes()),
    };
    if args.json {
        out::json(&document(question, collective, (&choice, &table))?);
        return Ok(());
    }
    if choice.composed {
        let mut text = question.head(collective.name(), &table);
        text.push_str("chosen are two collectives in a row, each simulated by itself:\n");
        let names = tune::parts(collective).iter().map(|(part, _)| part.name());
        let _ = writeln!(text, "  {}", names.collect::<Vec<_>>().join(", "));
        out::write(&text);
        return Ok(());
    }
    let nodes = question.nodes(&table)?;
    let begun = clock::now();
    let report = question.simulate(collective, &choice, &table, &nodes)?;
    let took = begun.elapsed();
    let mut text = question.head(collective.name(), &table);
    summary(&mut text, question, collective, (&choice, &table), &report);
    let _ = writeln!(
        text,
        "simulated   {} slices of steps in {:.2} s, {} of memory",
        report.actions,
        took.as_secs_f64(),
        bytes_text(report.memory_bytes as f64)
    );
    loads(&mut text, &report);
    path(&mut text, &table.inputs().setting.machine, &report);
    out::write(&text);
    Ok(())
}

/// Shows what the text shows, for programs.
fn document(
    question: &Question,
    collective: Collective,
    (choice, table): (&Choice, &Table),
) -> Result<Value> {
    let mut document = json!({
        "question": question.document(collective.name()),
        "chosen": question::choice_document(collective, choice),
    });
    if choice.composed {
        return Ok(document);
    }
    let report = question.simulate(collective, choice, table, &question.nodes(table)?)?;
    document["time_ns"] = question::number(report.time_ns);
    document["first_end_ns"] = question::number(report.first_end_ns);
    document["estimate_ns"] = json!(estimate(question, collective, choice, table));
    document["slices_of_steps"] = report.actions.into();
    document["levels"] = Level::ALL
        .into_iter()
        .zip(&report.levels)
        .filter(|(_, load)| load.tokens > 0)
        .map(|(level, load)| {
            json!({"level": level.name(), "tokens": load.tokens, "bytes": load.bytes})
        })
        .collect();
    document["links"] = report
        .links
        .iter()
        .map(|link| {
            json!({
                "kind": link.kind.name(),
                "index": link.index,
                "tokens": link.tokens,
                "bytes": link.bytes,
                "busy_ns": question::number(link.busy_ns),
            })
        })
        .collect();
    document["critical_path"] = causes(&table.inputs().setting.machine, &report)
        .into_iter()
        .map(|(cause, steps, ns)| json!({"cause": cause, "steps": steps, "time_ns": ns}))
        .collect();
    Ok(document)
}

/// The time that the tuner's closed form gives.
fn estimate(
    question: &Question,
    collective: Collective,
    choice: &Choice,
    table: &Table,
) -> Option<f64> {
    tune::predict(
        collective,
        (choice.algorithm, choice.protocol),
        question.bytes(),
        choice.channels,
        &table.inputs().setting,
    )
}

fn summary(
    text: &mut String,
    question: &Question,
    collective: Collective,
    (choice, table): (&Choice, &Table),
    report: &Report,
) {
    let channels = if choice.channels == 1 { "" } else { "s" };
    let _ = writeln!(
        text,
        "algorithm   {}, protocol {}, {} channel{channels}",
        choice.algorithm.name(),
        choice.protocol.name(),
        choice.channels
    );
    let speed = if question.collective.row.sizeless {
        String::new()
    } else {
        format!(" ({:.2} GB/s)", question.size as f64 / report.time_ns)
    };
    let _ = writeln!(
        text,
        "time        {}{speed}; the first rank is done after {}",
        time_text(report.time_ns),
        time_text(report.first_end_ns)
    );
    if let Some(estimate) = estimate(question, collective, choice, table) {
        let _ = writeln!(
            text,
            "estimate    {}, {:.2} times the simulated time",
            time_text(estimate),
            estimate / report.time_ns
        );
    }
}

/// Writes the traffic of each level, and the busiest links.
fn loads(text: &mut String, report: &Report) {
    text.push_str("\nlevel           tokens       bytes\n");
    for (level, load) in Level::ALL.into_iter().zip(&report.levels) {
        if load.tokens > 0 {
            let bytes = bytes_text(load.bytes as f64);
            let _ = writeln!(text, "  {:<10}{:>10}{bytes:>12}", level.name(), load.tokens);
        }
    }
    text.push_str("\nkind of link     links    bytes each (least to most)    busy, of the time\n");
    for kind in LinkPlace::ALL {
        let of: Vec<_> = report
            .links
            .iter()
            .filter(|link| link.kind == kind)
            .collect();
        let Some(least) = of.iter().map(|link| link.bytes).min() else {
            continue;
        };
        let most = of.iter().map(|link| link.bytes).max().unwrap_or(least);
        let busy = of.iter().map(|link| link.busy_ns).fold(0.0, f64::max);
        let range = format!(
            "{} to {}",
            bytes_text(least as f64),
            bytes_text(most as f64)
        );
        let part = 100.0 * busy / report.time_ns;
        let _ = writeln!(
            text,
            "  {:<12}{:>8}    {range:<30}{part:>5.1} %",
            kind.name(),
            of.len()
        );
    }
    text.push_str("\nbusiest links        tokens       bytes       busy\n");
    for link in report.links.iter().take(LINKS_SHOWN) {
        let name = format!("{} {}", link.kind.name(), link.index);
        let bytes = bytes_text(link.bytes as f64);
        let busy = 100.0 * link.busy_ns / report.time_ns;
        let _ = writeln!(
            text,
            "  {name:<16}{:>10}{bytes:>12}{busy:>9.1} %",
            link.tokens
        );
    }
}

/// Writes the critical path, as sums and as a short list.
fn path(text: &mut String, machine: &Cluster, report: &Report) {
    let steps = &report.path;
    if steps.is_empty() && report.actions > 0 {
        let _ = writeln!(text, "\ncritical path: not kept of so many steps");
        return;
    }
    let _ = writeln!(text, "\ncritical path: {} steps", steps.len());
    for (kind, count, sum) in causes(machine, report) {
        let part = 100.0 * sum / report.time_ns;
        let _ = writeln!(
            text,
            "  {part:>5.1} %  {:>9}  {count:>7} x {kind}",
            time_text(sum)
        );
    }
    text.push('\n');
    for (index, step) in steps.iter().enumerate() {
        if index == STEPS_SHOWN && steps.len() > 2 * STEPS_SHOWN + 1 {
            let _ = writeln!(text, "       ...  {} more", steps.len() - 2 * STEPS_SHOWN);
        }
        if (STEPS_SHOWN..steps.len().saturating_sub(STEPS_SHOWN)).contains(&index)
            && steps.len() > 2 * STEPS_SHOWN + 1
        {
            continue;
        }
        let before = index.checked_sub(1).map(|before| &steps[before]);
        let place = format!(
            "rank {} lane {} step {}.{} round {} slice {}",
            step.rank, step.lane, step.step, step.repetition, step.round, step.slice
        );
        let end = time_text(step.end_ns);
        let why = because(machine, before, step);
        let _ = writeln!(text, "  {end:>9}  {place:<46}{why}");
    }
}

/// Sums the waits on the critical path: a cause, how many steps, and their time.
fn causes(machine: &Cluster, report: &Report) -> Vec<(String, usize, f64)> {
    let steps = &report.path;
    let mut sums: Vec<(String, usize, f64)> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| &steps[before]);
        let passed = step.end_ns - before.map_or(0.0, |before| before.end_ns);
        let kind = kind(machine, before, step);
        match sums.iter_mut().find(|(known, ..)| *known == kind) {
            Some((_, count, sum)) => {
                *count += 1;
                *sum += passed;
            }
            None => sums.push((kind, 1, passed)),
        }
    }
    sums.sort_by(|a, b| b.2.total_cmp(&a.2));
    sums
}

fn kind(machine: &Cluster, before: Option<&PathStep>, step: &PathStep) -> String {
    match (step.cause, before) {
        (Cause::Call, _) | (_, None) => "begin".to_string(),
        (Cause::Core, Some(before)) if before.rank != step.rank => {
            "work, behind another rank of the core".to_string()
        }
        (Cause::Core, _) => "work, behind the step before".to_string(),
        (cause, Some(before)) => {
            let level = machine.level(before.rank, step.rank).name();
            match cause {
                Cause::Token => format!("hand-over ({level})"),
                _ => format!("wait for a slot ({level})"),
            }
        }
    }
}

fn because(machine: &Cluster, before: Option<&PathStep>, step: &PathStep) -> String {
    match (step.cause, before) {
        (Cause::Call, _) | (_, None) => "begins".to_string(),
        (Cause::Core, Some(before)) if before.rank == step.rank => "goes on".to_string(),
        (Cause::Core, Some(before)) => format!("takes the core after rank {}", before.rank),
        (cause, Some(before)) => {
            let level = machine.level(before.rank, step.rank).name();
            match cause {
                Cause::Token => format!("token of rank {} ({level})", before.rank),
                _ => format!("slot back from rank {} ({level})", before.rank),
            }
        }
    }
}
