//! Which algorithms compute which collective, for `kolo info`: the table of `algo`, told.

use kolo::algo::{self, REGISTRY};
use kolo::plan::{Algorithm, Collective};
use serde_json::{Value, json};
use std::fmt::Write;

/// Line of a collective that has no algorithm to choose.
const NONE: &str = "messages of all pairs; there is nothing to choose";

/// The algorithms of a collective, in the order of the table.
fn of(collective: Collective) -> Vec<Algorithm> {
    let entries = REGISTRY.iter().filter(|it| it.collective == collective);
    entries.map(|entry| entry.algorithm).collect()
}

/// A line for each collective that has algorithms.
pub fn lines() -> Vec<String> {
    let line = |collective: Collective| {
        let names: Vec<&str> = of(collective).into_iter().map(Algorithm::name).collect();
        let told = !names.is_empty();
        told.then(|| format!("{}: {}", collective.word(), names.join(" ")))
    };
    Collective::ALL.into_iter().filter_map(line).collect()
}

/// All collectives, and what each of their algorithms is.
pub fn text() -> String {
    let mut text = String::new();
    for collective in Collective::ALL {
        let _ = writeln!(text, "{}", collective.word());
        let algorithms = of(collective);
        if algorithms.is_empty() {
            let _ = writeln!(text, "  {NONE}");
        }
        for algorithm in algorithms {
            let _ = writeln!(
                text,
                "  {:<14} {}",
                algorithm.name(),
                algo::purpose(algorithm)
            );
        }
    }
    text.push_str("\n`kolo explain` says which of them kolo chooses for a call, and why.\n");
    text
}

/// Lists the algorithms of every collective, for programs.
pub fn document() -> Value {
    let told = |collective: Collective| {
        let one = |it: Algorithm| json!({"algorithm": it.name(), "purpose": algo::purpose(it)});
        let all: Vec<Value> = of(collective).into_iter().map(one).collect();
        (collective.word().to_owned(), all.into())
    };
    Value::Object(Collective::ALL.into_iter().map(told).collect())
}
