//! `kolo explain`: what kolo would do, how long it expects it to take, and why.

use crate::deciding;
use crate::explain_device;
use crate::out::{self, counted};
use crate::perf::operation::Operation;
use crate::perf::options::MemoryOf;
use crate::question::{self, Question, bytes_text, time_text};
use crate::routes::{self, Routed};
use clap::Args;
use kolo::algo;
use kolo::base::Result;
use kolo::comm::orders;
use kolo::config::{Layer, Settings};
use kolo::plan::{Algorithm, Collective, Nodes};
use kolo::tune::{Candidate, Choice, Table, parts};
use serde_json::{Value, json};
use std::fmt::Write;

/// Arguments of `kolo explain`.
#[derive(Args, Debug)]
pub struct ExplainArgs {
    #[command(flatten)]
    question: Question,
    /// Operation of reductions, as in `kolo perf`: exactsum asks for exact sums
    #[arg(short = 'o', long = "op", value_name = "OP", default_value = "sum",
          value_parser = routes::operation)]
    op: Operation,
    /// Whose memory the buffers are, and who moves the data
    #[arg(long, value_name = "WHERE", value_enum, default_value = "host")]
    device: MemoryOf,
    /// Print JSON in place of text: times in nanoseconds, sizes in bytes
    #[arg(long)]
    json: bool,
}

/// Prints the choice.
///
/// # Errors
/// Settings that cannot be used, and questions without an answer.
pub fn run(args: &ExplainArgs) -> Result<()> {
    let question = &args.question;
    if args.device == MemoryOf::Cuda {
        return explain_device::run(question, args.op, args.json);
    }
    let collective = question.call()?;
    let settings = Settings::load(&[])?;
    let table = question.table(&settings)?;
    let routed = Routed::of(question, collective, args.op, &table);
    if args.json {
        let known = (&table, &settings);
        out::json(&document(question, collective, &routed, known)?);
        return Ok(());
    }
    let mut text = question.head(question.name(collective), &table);
    let routed = match &routed {
        Ok(routed) => routed,
        Err(error) => {
            let _ = writeln!(text, "route       refused: {}", error.what);
            let _ = writeln!(text, "remedy      {}", error.remedy);
            out::write(&text);
            return Ok(());
        }
    };
    let _ = writeln!(text, "route       {}", routed.text(&table));
    for line in routes::lines(question, routed, &table) {
        let _ = writeln!(text, "launch      {line}");
    }
    if let Some(choice) = routed.choice(&table) {
        let known = (&table, &settings);
        by_choice(&mut text, (question, collective), (routed, &choice), known)?;
    }
    deciding::tell(&mut text, &settings);
    out::write(&text);
    Ok(())
}

/// Explains a call that goes by one plan, or by several collectives.
fn by_choice(
    text: &mut String,
    (question, collective): (&Question, Collective),
    (routed, choice): (&Routed, &Choice),
    (table, settings): (&Table, &Settings),
) -> Result<()> {
    chosen(text, question, collective, choice, (table, settings))?;
    let _ = writeln!(
        text,
        "why         {}",
        why(question, collective, choice, table, settings)
    );
    if routed.may_be_direct() {
        let algorithm = algo::direct(collective).map_or("", Algorithm::name);
        let _ = writeln!(
            text,
            "direct      {algorithm} reads and writes the buffers where they lie if all ranks are \
             threads of one\n            process or all buffers come from koloMemAlloc; the above \
             is for others"
        );
    }
    runners_up(text, question, collective, choice, table);
    Ok(())
}

/// Explains a call as the text does, for programs.
fn document(
    question: &Question,
    collective: Collective,
    routed: &Result<Routed>,
    (table, settings): (&Table, &Settings),
) -> Result<Value> {
    let mut document = match routed {
        Err(error) => routes::refusal(error),
        Ok(routed) => {
            let mut document = match routed.choice(table) {
                Some(choice) => chosen_document(question, collective, &choice, table, settings)?,
                None => json!({}),
            };
            document["route"] = routed.route.name().into();
            document["words"] = routed.words(table).into();
            document["form"] = routed.route.form().name().into();
            document["may_be_direct"] = routed.may_be_direct().into();
            document["launches"] = routes::document(question, routed, table).into();
            document
        }
    };
    document["question"] = question.document(question.name(collective));
    document["settings"] = deciding::document(settings);
    Ok(document)
}

fn chosen_document(
    question: &Question,
    collective: Collective,
    choice: &Choice,
    table: &Table,
    settings: &Settings,
) -> Result<Value> {
    let (time_ns, is_measured) = expected(question, collective, choice, table);
    let mut document = json!({
        "chosen": question::choice_document(collective, choice),
        "time_ns": question::number(time_ns),
        "measured": is_measured,
        "why": why(question, collective, choice, table, settings),
        "candidates": table
            .candidates(collective, question.bytes())
            .iter()
            .map(|candidate| {
                let mut one = question::choice_document(collective, &candidate.choice);
                one["time_ns"] = question::number(candidate.time_ns);
                one["measured"] = candidate.measured.into();
                one
            })
            .collect::<Vec<_>>(),
    });
    if !choice.composed {
        let nodes = nodes(question, table, settings)?;
        let plan = question.plan(collective, choice, question.root, &nodes)?;
        let job = question.job(collective, choice, table);
        let (rounds, slices) = question.rounds(&plan, &job)?;
        document["ring"] = json!(nodes.ring(0));
        document["rounds"] = rounds.into();
        document["steps_per_round"] = plan.steps_per_round().into();
        document["slices_per_chunk"] = slices.into();
        document["chunk_bytes"] = job.geometry.chunk_bytes().into();
        document["slice_bytes"] = job.geometry.slice_bytes().into();
        document["slots"] = job.geometry.slots.into();
        document["slot_bytes"] = job.geometry.slot_bytes.into();
    }
    Ok(document)
}

/// Algorithm, protocol, channels, chunking and time.
fn chosen(
    text: &mut String,
    question: &Question,
    collective: Collective,
    choice: &Choice,
    (table, settings): (&Table, &Settings),
) -> Result<()> {
    let bytes = question.bytes();
    if choice.composed {
        let names: Vec<&str> = parts(collective)
            .iter()
            .map(|(part, _)| part.name())
            .collect();
        let _ = writeln!(
            text,
            "chosen      {}, one after the other",
            names.join(" and ")
        );
        let expected = time_text(table.expected_ns(collective, bytes));
        let _ = writeln!(text, "time        {expected} expected");
        return Ok(());
    }
    let channels = match choice.channels {
        1 => "1 channel".to_string(),
        many => format!("{many} channels"),
    };
    let (algorithm, protocol) = (choice.algorithm.name(), choice.protocol.name());
    let _ = writeln!(
        text,
        "chosen      {algorithm}, protocol {protocol}, {channels}"
    );
    let nodes = nodes(question, table, settings)?;
    ring_line(text, &nodes);
    let plan = question.plan(collective, choice, question.root, &nodes)?;
    let job = question.job(collective, choice, table);
    let (rounds, slices) = question.rounds(&plan, &job)?;
    let geometry = job.geometry;
    let piece = match plan.pieces {
        0 | 1 => String::new(),
        pieces => format!(", up to {pieces} chunks in a token"),
    };
    let _ = writeln!(
        text,
        "chunking    chunks of up to {} in {} of up to {}{piece}; {} slots of {}",
        bytes_text(geometry.chunk_bytes() as f64),
        counted(u64::from(slices), "slice"),
        bytes_text(geometry.slice_bytes() as f64),
        geometry.slots,
        bytes_text(geometry.slot_bytes as f64),
    );
    let steps = plan.steps_per_round();
    let whose = if collective.has_root() {
        format!("rank {}", question.root)
    } else {
        "each rank".to_string()
    };
    let _ = writeln!(
        text,
        "steps       {} of {} for {whose}, {} in all",
        counted(rounds, "round"),
        counted(steps, "step"),
        rounds * steps
    );
    time_line(text, question, collective, choice, table);
    Ok(())
}

/// The nodes of the question, or where the settings name a machine or a graph, of that.
fn nodes(question: &Question, table: &Table, settings: &Settings) -> Result<Nodes> {
    match settings.topo_file().or(settings.graph_file()) {
        Some(_) => orders::imagined(settings, question.place.ranks.0, question.place.ranks.1),
        None => question.nodes(table),
    }
}

/// The order in which rings pass the ranks.
fn ring_line(text: &mut String, nodes: &Nodes) {
    /// Ranks that are shown.
    const MOST: usize = 32;
    let Some(order) = nodes.ring(0) else {
        return;
    };
    let shown: Vec<String> = order.iter().take(MOST).map(u32::to_string).collect();
    let rest = if order.len() > MOST { " ..." } else { "" };
    let _ = writeln!(text, "ring        {}{rest}", shown.join(" "));
}

/// The expected time, and where it comes from.
fn time_line(
    text: &mut String,
    question: &Question,
    collective: Collective,
    choice: &Choice,
    table: &Table,
) {
    let (time_ns, is_measured) = expected(question, collective, choice, table);
    let how = if is_measured { "measured" } else { "estimated" };
    let speed = if time_ns > 0.0 && !question.collective.row.sizeless {
        format!(", {:.2} GB/s", question.size as f64 / time_ns)
    } else {
        String::new()
    };
    let _ = writeln!(text, "time        {} {how}{speed}", time_text(time_ns));
}

/// The expected time in nanoseconds, and whether it was measured.
fn expected(
    question: &Question,
    collective: Collective,
    choice: &Choice,
    table: &Table,
) -> (f64, bool) {
    let bytes = question.bytes();
    let found = table.candidates(collective, bytes);
    let found = found.iter().find(|c| is_same(&c.choice, choice));
    match found.filter(|_| !choice.composed) {
        Some(found) => (found.time_ns, found.measured),
        None => (table.expected_ns(collective, bytes), false),
    }
}

/// The reason, in a sentence.
fn why(
    question: &Question,
    collective: Collective,
    choice: &Choice,
    table: &Table,
    settings: &Settings,
) -> String {
    let bytes = question.bytes();
    let inputs = table.inputs();
    if inputs.nranks == 1 {
        return "one rank alone copies".to_string();
    }
    let origin = |key: &str| {
        let entry = settings.entry(key);
        entry.map_or(String::new(), |entry| entry.source.origin.to_string())
    };
    let set = |key: &str| {
        let entry = settings.entry(key);
        entry.is_some_and(|entry| entry.source.layer != Layer::Default)
    };
    if inputs.allowed.is_restricted(collective) {
        let keys = ["algo", "proto"].into_iter().filter(|key| set(key));
        let named: Vec<String> = keys
            .filter_map(|key| {
                let value = settings.entry(key)?.value.to_string();
                Some(format!("{key} = {value} ({})", origin(key)))
            })
            .collect();
        let named = named.join(" and ");
        let allowed = &inputs.allowed;
        return if allowed.allows(collective, choice.algorithm, choice.protocol) {
            format!("the fastest of what {named} allows")
        } else {
            format!("nothing that {named} allows can do this, so all were considered")
        };
    }
    let cell = table.cell(collective, bytes);
    if choice.composed || cell.mended {
        return format!(
            "the measured times contradict each other, and this is the way out ({})",
            origin("tuner_file")
        );
    }
    if cell.measured {
        return format!("measured here as the fastest ({})", origin("tuner_file"));
    }
    if table.is_oneshot(collective, bytes) && choice.algorithm == Algorithm::OneShot {
        let limit = table.oneshot_limit(collective) - 1;
        let set = if set("eager_limit") {
            origin("eager_limit")
        } else {
            "built in for so many ranks".to_string()
        };
        return format!(
            "up to {} ({limit} bytes) a rank one-shot is taken ({set})",
            bytes_text(limit as f64)
        );
    }
    match &table.candidates(collective, bytes)[..] {
        [_] => "nothing else computes it".to_string(),
        _ => cell.decided.to_string(),
    }
}

fn runners_up(
    text: &mut String,
    question: &Question,
    collective: Collective,
    choice: &Choice,
    table: &Table,
) {
    let candidates = table.candidates(collective, question.bytes());
    let is_chosen = |c: &&Candidate| is_same(&c.choice, choice);
    let own = candidates.iter().find(is_chosen);
    let own = own.map_or(f64::NAN, |c| c.time_ns);
    // Each algorithm over its best protocol, and the chosen one over its other protocols.
    let mut shown: Vec<&Candidate> = Vec::new();
    for candidate in &candidates {
        let algorithm = candidate.choice.algorithm;
        let is_chosen = !choice.composed && is_chosen(&candidate);
        let is_known = algorithm != choice.algorithm || choice.composed;
        let is_known = is_known && shown.iter().any(|c| c.choice.algorithm == algorithm);
        if !is_chosen && !is_known {
            shown.push(candidate);
        }
    }
    if shown.is_empty() {
        return;
    }
    text.push_str("\nrunners-up      protocol  time        times the chosen\n");
    for candidate in shown {
        let how = if candidate.measured { "measured" } else { "" };
        let is_known = candidate.time_ns < f64::MAX && own < f64::MAX;
        let ratio = if is_known {
            format!("{:.2}", candidate.time_ns / own)
        } else {
            "-".to_string()
        };
        let line = format!(
            "  {:<14}{:<10}{:<12}{ratio:<8}{how}",
            candidate.choice.algorithm.name(),
            candidate.choice.protocol.name(),
            time_text(candidate.time_ns),
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// Whether two choices are the same algorithm over the same protocol.
fn is_same(a: &Choice, b: &Choice) -> bool {
    (a.algorithm, a.protocol) == (b.algorithm, b.protocol)
}
