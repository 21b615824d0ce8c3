//! `kolo sim --plot`: time against size for several algorithms, as an SVG with logarithmic axes.

use crate::chart::{self, Curve, Panel};
use crate::out;
use crate::perf::words;
use crate::question::{Question, time_text};
use kolo::base::{Error, Result};
use kolo::plan::{Collective, Nodes};
use kolo::tune::{self, Choice, Table};
use std::path::Path;

/// Simulations of more steps than this are left to the closed form.
const MOST_STEPS: f64 = 3e6;

/// A time at an axis.
pub fn time_label(ns: f64) -> String {
    time_text(ns).replace(".00", "").replace(".0", "")
}

/// Draws, and says what was drawn.
///
/// # Errors
/// A collective without sizes, a file that cannot be written.
pub fn run(
    question: &Question,
    collective: Collective,
    table: &Table,
    file: &Path,
    most: u64,
) -> Result<()> {
    if let Some(name) = file.to_str() {
        let right = words::picture(name).map(drop);
        right
            .map_err(|error| Error::argument(format!("--plot {name}: {error}"), "use that name"))?;
    }
    if question.collective.row.sizeless {
        return Err(Error::argument(
            format!("{} has no size to draw", collective.name()),
            "use kolo sim without --plot",
        ));
    }
    let least =
        (question.place.nranks() as u64 * question.dtype.size_bytes() as u64).next_power_of_two();
    let least = match question.bytes() as u64 == question.size {
        // A size is that of all data, however many ranks there are.
        true => question.dtype.size_bytes() as u64,
        false => least,
    };
    let sizes: Vec<u64> = std::iter::successors(Some(least), |size| size.checked_mul(2))
        .take_while(|&size| size <= most.max(least * 16))
        .collect();
    let (mut curves, chosen) = curves(question, collective, table, &sizes)?;
    curves.sort_by(|a, b| a.name.cmp(&b.name));
    let title = question.sized(sizes[0]).text(collective.name());
    let title = title.split(" of ").next().unwrap_or(&title).to_string();
    let place = question.text(collective.name());
    let place = place.rsplit(" on ").next().unwrap_or_default();
    let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
    let names = names.join(", ");
    let panel = Panel {
        curves,
        circles: chosen,
        values: "time",
        label: time_label,
    };
    chart::write(file, &format!("{title} on {place}"), &[panel])?;
    out::line(&format!("{}: {names}", file.display()));
    Ok(())
}

/// Curves, and points (size, time) of what would be chosen.
type Drawn = (Vec<Curve>, Vec<(f64, f64)>);

/// The curve of each algorithm, and the points of those that would be chosen.
fn curves(
    question: &Question,
    collective: Collective,
    table: &Table,
    sizes: &[u64],
) -> Result<Drawn> {
    let nodes = question.nodes(table)?;
    let mut curves: Vec<Curve> = Vec::new();
    let mut chosen = Vec::new();
    for &size in sizes {
        let question = question.sized(size);
        let bytes = question.bytes();
        let mut drawn = Vec::new();
        for candidate in table.candidates(collective, bytes) {
            let name = candidate.choice.algorithm.name();
            // Candidates come fastest first: an algorithm is drawn over its best protocol.
            if drawn.contains(&name) {
                continue;
            }
            drawn.push(name);
            let Some(point) = point(&question, collective, &candidate.choice, table, &nodes) else {
                continue;
            };
            let point = (size as f64, point.0, point.1);
            match curves.iter_mut().find(|curve| curve.name == name) {
                Some(curve) => curve.points.push(point),
                None => curves.push(Curve {
                    name: name.to_string(),
                    points: vec![point],
                }),
            }
            if candidate.choice.algorithm == table.choose(collective, bytes).algorithm {
                chosen.push((size as f64, point.1));
            }
        }
    }
    Ok((curves, chosen))
}

/// The simulated time, or the estimated one where simulating takes long.
fn point(
    question: &Question,
    collective: Collective,
    choice: &Choice,
    table: &Table,
    nodes: &Nodes,
) -> Option<(f64, bool)> {
    let n = question.place.nranks();
    let job = question.job(collective, choice, table);
    let steps = |rank: u32| {
        let plan = question.plan(collective, choice, rank, nodes).ok()?;
        let (rounds, slices) = question.rounds(&plan, &job).ok()?;
        Some(plan.steps_per_round() as f64 * rounds as f64 * f64::from(slices))
    };
    let expected = steps(n / 2)? * f64::from(n);
    if expected <= MOST_STEPS {
        let report = question.simulate(collective, choice, table, nodes).ok()?;
        return Some((report.time_ns, true));
    }
    let setting = &table.inputs().setting;
    let (bytes, channels) = (question.bytes(), choice.channels);
    let way = (choice.algorithm, choice.protocol);
    tune::predict(collective, way, bytes, channels, setting).map(|ns| (ns, false))
}
