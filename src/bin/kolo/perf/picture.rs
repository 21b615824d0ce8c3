//! Time and bandwidth against size: of one run, or of several from their JSON files.

use crate::chart::{self, Curve, Panel};
use crate::out;
use crate::plot::time_label;
use clap::Args;
use kolo::base::{Error, Result, input_file};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Arguments of `kolo plot`.
#[derive(Args, Clone, Debug)]
pub struct PlotArgs {
    /// Files that `kolo perf --json` has written
    #[arg(required = true, value_name = "FILE.json")]
    files: Vec<PathBuf>,
    /// The picture
    #[arg(short = 'o', long = "output", value_name = "FILE.svg", default_value = "perf.svg",
          value_parser = super::words::picture)]
    output: PathBuf,
}

/// A file of results is not larger.
const MOST_BYTES: u64 = 256 << 20;

/// One curve before it is one: name, and for each size microseconds and GB/s.
struct Run {
    name: String,
    points: Vec<[f64; 3]>,
}

/// Draws several runs into one picture.
///
/// # Errors
/// Files that cannot be read or are none of `kolo perf`; a picture that cannot be written.
pub fn run(args: &PlotArgs) -> Result<()> {
    let mut runs = Vec::new();
    let mut collectives = Vec::new();
    for path in &args.files {
        let document = read(path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let of = runs_of(&document, &name, &["out_of_place"])
            .ok_or_else(|| no_results(&path.display().to_string()))?;
        runs.extend(of);
        collectives.push(document["collective"].as_str().unwrap_or("?").to_string());
    }
    collectives.dedup();
    draw(&args.output, &collectives.join(", "), runs)?;
    out::line(&format!("{} is drawn", args.output.display()));
    Ok(())
}

/// Draws the run of a document.
///
/// # Errors
/// A picture that cannot be written.
pub fn of_one(document: &Value, path: &Path) -> Result<()> {
    let sides = ["out_of_place", "in_place"];
    let runs = runs_of(document, "", &sides).ok_or_else(|| Error::internal("no results"))?;
    let collective = document["collective"].as_str().unwrap_or("?");
    let ranks = &document["environment"]["nranks"];
    draw(path, &format!("{collective}, {ranks} ranks"), runs)
}

fn read(path: &Path) -> Result<Value> {
    let text = input_file::text(path, MOST_BYTES).map_err(|error| {
        let doing = format!("{} cannot be read", path.display());
        input_file::refused(
            doing,
            &error,
            "name a file that `kolo perf --json` has written",
        )
    })?;
    serde_json::from_str(&text).map_err(|_| no_results(&path.display().to_string()))
}

fn no_results(name: &str) -> Error {
    Error::argument(
        format!("{name} holds no results of `kolo perf`"),
        "name a file that `kolo perf --json` has written",
    )
}

/// The curves of a document: one for each side, type, operation and root. What all have in common
/// is not in their names. Of several cycles the last one counts.
fn runs_of(document: &Value, file: &str, sides: &[&str]) -> Option<Vec<Run>> {
    let results = document["results"].as_array()?;
    let kinds = ["type", "redop", "root"];
    let differs = |kind: &&&str| results.iter().any(|row| row[**kind] != results[0][**kind]);
    let told: Vec<&&str> = kinds.iter().filter(differs).collect();
    let mut runs: Vec<Run> = Vec::new();
    for side in sides {
        for row in results {
            let mut words: Vec<String> = Vec::new();
            words.extend((!file.is_empty()).then(|| file.to_string()));
            words.extend((sides.len() > 1).then(|| side.replace('_', " ")));
            words.extend(told.iter().map(|kind| match &row[**kind] {
                Value::String(text) => text.clone(),
                other => format!("root {other}"),
            }));
            let name = words.join(" ");
            let size = row["size"].as_f64()?;
            add(&mut runs, &name, size, &row[*side]);
            if !row[*side]["mpi"].is_null() {
                let time = row[*side]["mpi"]["time_us"].as_f64()?;
                let rate = row[*side]["busbw"].as_f64()? * row[*side]["time_us"].as_f64()? / time;
                point(&mut runs, &format!("MPI {name}"), [size, time, rate]);
            }
        }
    }
    Some(runs)
}

fn add(runs: &mut Vec<Run>, name: &str, size: f64, side: &Value) {
    let numbers = side["time_us"].as_f64().zip(side["busbw"].as_f64());
    if let Some((time, rate)) = numbers {
        point(runs, name, [size, time, rate]);
    }
}

fn point(runs: &mut Vec<Run>, name: &str, point: [f64; 3]) {
    // An axis of powers has no place for nothing.
    if point.iter().any(|number| *number <= 0.0) {
        return;
    }
    let found = runs.iter().position(|run| run.name == name);
    let index = found.unwrap_or_else(|| {
        runs.push(Run {
            name: name.to_string(),
            points: Vec::new(),
        });
        runs.len() - 1
    });
    let points = &mut runs[index].points;
    match points.iter_mut().find(|known| known[0] == point[0]) {
        Some(known) => *known = point,
        None => points.push(point),
    }
}

fn draw(path: &Path, title: &str, runs: Vec<Run>) -> Result<()> {
    let curves = |of: usize, scale: f64| {
        let curve = |run: &Run| Curve {
            name: run.name.clone(),
            points: run
                .points
                .iter()
                .map(|p| (p[0], p[of] * scale, true))
                .collect(),
        };
        runs.iter().map(curve).collect()
    };
    let panels = [
        Panel {
            curves: curves(1, 1e3),
            circles: Vec::new(),
            values: "time of a call",
            label: time_label,
        },
        Panel {
            curves: curves(2, 1.0),
            circles: Vec::new(),
            values: "bus bandwidth",
            label: rate_label,
        },
    ];
    chart::write(path, title, &panels)
}

/// A bandwidth in the unit in which it is one or more: labels have little room.
fn rate_label(gigabytes: f64) -> String {
    let units = [(1.0, "GB/s"), (1e-3, "MB/s"), (1e-6, "kB/s")];
    let fits = |unit: &&(f64, &str)| gigabytes >= unit.0 * (1.0 - 1e-9);
    let (unit, name) = units.iter().find(fits).unwrap_or(&(1e-9, "B/s"));
    // Powers of ten are not exact.
    format!("{} {name}", (gigabytes / unit * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_bandwidths_are_short() {
        let label = |decade| rate_label(10f64.powi(decade));
        let shown: Vec<String> = (-10..=3).map(label).collect();
        assert_eq!(shown[0], "0.1 B/s");
        assert_eq!(shown[3..7], ["100 B/s", "1 kB/s", "10 kB/s", "100 kB/s"]);
        assert_eq!(shown[7..10], ["1 MB/s", "10 MB/s", "100 MB/s"]);
        assert_eq!(shown[10..], ["1 GB/s", "10 GB/s", "100 GB/s", "1000 GB/s"]);
    }
    use serde_json::json;

    fn row(size: u64, dtype: &str, time: f64) -> Value {
        json!({
            "size": size, "type": dtype, "redop": "sum", "root": -1,
            "out_of_place": { "time_us": time, "busbw": size as f64 / time },
            "in_place": null,
        })
    }

    #[test]
    fn curves_are_told_apart_by_what_differs() {
        let names = |rows: &[Value], file| -> Vec<String> {
            let document = json!({ "results": rows });
            let runs = runs_of(&document, file, &["out_of_place"]).unwrap();
            runs.into_iter().map(|run| run.name).collect()
        };
        let one = [row(8, "float", 1.0), row(16, "float", 2.0)];
        assert_eq!(names(&one, "a"), ["a"]);
        let two = [row(8, "float", 1.0), row(8, "double", 2.0)];
        assert_eq!(names(&two, "a"), ["a float", "a double"]);
        assert!(runs_of(&json!({}), "a", &["out_of_place"]).is_none());
    }

    #[test]
    fn the_last_cycle_counts_and_nothing_is_left_out() {
        let rows = [
            row(8, "float", 1.0),
            row(0, "float", 1.0),
            row(16, "float", 3.0),
            row(8, "float", 2.0),
        ];
        let document = json!({ "results": rows });
        let runs = runs_of(&document, "", &["out_of_place", "in_place"]).unwrap();
        assert_eq!(runs.len(), 1);
        assert_eq!(runs[0].name, "out of place");
        assert_eq!(runs[0].points, [[8.0, 2.0, 4.0], [16.0, 3.0, 16.0 / 3.0]]);
    }
}
