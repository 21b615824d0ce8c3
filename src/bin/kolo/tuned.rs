//! Words and files of `kolo tune`: a bar while it measures, the file, and at the end where the
//! times are, how to use them, and, for programs, the times themselves.

use crate::out;
use indicatif::{ProgressBar, ProgressStyle};
use kolo::base::{Error, Result};
use kolo::tune::Measured;
use kolo::tune::measured::Series;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Writes a file whole: a run that is killed meanwhile leaves the one that was there.
///
/// # Errors
/// The system's.
pub fn replace(path: &Path, text: &str) -> Result<()> {
    let refused = |error: std::io::Error| {
        Error::system(
            format!("{} cannot be written", path.display()),
            &error,
            "name a file in a directory that you may write to, with -o",
        )
    };
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    std::fs::write(&draft, text).map_err(refused)?;
    std::fs::rename(&draft, path).map_err(refused)
}

/// A bar where a person watches.
pub fn bar(points: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(points);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {eta} left  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Says it, as JSON or in words. `file`: where the times are; `place`: nodes and ranks of a node
/// that were measured.
pub fn report(file: &Path, as_json: bool, measured: &Measured, place: (u32, u32)) {
    if as_json {
        out::json(&document(file, measured, place));
        return;
    }
    let points: usize = measured.series.iter().map(|s| s.points.len()).sum();
    out::line(&format!(
        "{}: {points} times in {} series; latency {:.2} times, bytes {:.2} times what is built in",
        file.display(),
        measured.series.len(),
        measured.factors.latency,
        measured.factors.bytes
    ));
    out::line(&format!(
        "Set tuner_file = \"{}\" in a kolo.toml, or KOLO_TUNER_FILE, to choose by it.",
        absolute(file).display()
    ));
}

fn document(file: &Path, measured: &Measured, (nodes, per_node): (u32, u32)) -> Value {
    let points = |series: &Series| -> Vec<Value> {
        let point = |&(bytes, time_ns): &(usize, f64)| json!({"bytes": bytes, "time_ns": time_ns});
        series.points.iter().map(point).collect()
    };
    let series = measured.series.iter().map(|one| {
        json!({
            "collective": one.collective.name(),
            "algorithm": one.algorithm.name(),
            "protocol": one.protocol.name(),
            "channels": one.channels,
            "nodes": one.nodes,
            "ranks_per_node": one.per_node,
            "points": points(one),
        })
    });
    json!({
        "file": absolute(file).display().to_string(),
        "nodes": nodes,
        "ranks_per_node": per_node,
        "latency_factor": measured.factors.latency,
        "bytes_factor": measured.factors.bytes,
        "series": series.collect::<Vec<_>>(),
    })
}

/// A path that holds wherever the reader is.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}
