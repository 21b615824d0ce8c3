//! How long things take: medians of five, with the least and the most.

use serde_json::{Value, json};
use std::time::Instant;

/// Measurements of one thing.
pub const REPETITIONS: usize = 5;

/// Seconds that `body` takes.
///
/// # Errors
/// Those of `body`.
pub fn seconds<E>(body: impl FnOnce() -> Result<(), E>) -> Result<f64, E> {
    let begin = Instant::now();
    body()?;
    Ok(begin.elapsed().as_secs_f64())
}

/// Time in the middle.
pub fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A figure with its spread, in another unit: seconds times `factor`.
pub fn spread(times: &[f64], factor: f64) -> Value {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    let figure = |seconds: f64| json!(rounded(seconds * factor));
    json!({"median": figure(median(times)), "least": figure(least), "most": figure(most)})
}

/// Four digits are more than a measurement has.
pub fn rounded(value: f64) -> f64 {
    match value.is_finite() && value != 0.0 {
        false => value,
        true => {
            let digits = 10f64.powi(3 - value.abs().log10().floor() as i32);
            (value * digits).round() / digits
        }
    }
}
