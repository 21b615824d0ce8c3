//! The printed table and the JSON file. Layout and number formats are those of nccl-tests, so that
//! programs that read its output read this one.

use super::bench::{Case, Outcome, Versus, median};
use super::options::PerfArgs;
use crate::out;
use indicatif::{ProgressBar, ProgressStyle};
use kolo::base::{Code, Error, Result};
use serde_json::{Value, json};
use std::io::IsTerminal;

/// What one rank prints: the table, a progress bar, and at last the file.
pub struct Report<'a> {
    args: &'a PerfArgs,
    bar: Option<ProgressBar>,
    rows: Vec<Value>,
    busbw: Vec<f64>,
    wrong: u64,
    /// What is known about the run, for the file.
    pub environment: Value,
}

impl<'a> Report<'a> {
    /// A report over `measurements` measurements.
    pub fn new(args: &'a PerfArgs, measurements: usize, environment: Value) -> Report<'a> {
        let watched = std::io::stderr().is_terminal();
        let bar = watched.then(|| {
            let bar = match args.cycles {
                0 => ProgressBar::new_spinner(),
                cycles => ProgressBar::new(measurements as u64 * cycles),
            };
            let template = "{bar:30} {pos}/{len} {msg} ({eta} left)";
            let style = ProgressStyle::with_template(template);
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Report {
            args,
            bar,
            rows: Vec::new(),
            busbw: Vec::new(),
            wrong: 0,
            environment,
        }
    }

    /// Prints a line above the progress bar.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| out::line(text)),
            None => out::line(text),
        }
    }

    /// Tells the progress bar what is going on.
    pub fn measuring(&self, case: &Case) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} {} bytes", case.dtype, case.bytes));
            bar.inc(1);
        }
    }

    /// The column heads.
    pub fn heads(&self) {
        // Below each other: what stands over one side, its columns, and their units.
        let mut side = [
            "",
            "   time   algbw   busbw #wrong",
            "   (us)  (GB/s)  (GB/s)",
        ]
        .map(|text| format!("{text:<30}"));
        if self.args.compare.is_some() {
            side[0].push_str(&" ".repeat(25));
            side[1].push_str("   mpi-us  ratio spread%");
            side[2].push_str("     (us)               ");
        }
        let width = side[1].len();
        let left = |[size, count, dtype, op, root]: [&str; 5]| {
            format!("# {size:>12}  {count:>12}  {dtype:>8}  {op:>6}  {root:>6}")
        };
        self.line("#");
        let (apart, same) = ("out-of-place", "in-place");
        let blank = left([""; 5]);
        self.line(&format!("{blank}  {apart:^width$}  {same:^width$}"));
        let columns = left(["size", "count", "type", "redop", "root"]);
        self.line(&format!("{columns}  {0}  {0}", side[1]));
        let units = left(["(B)", "(elements)", "", "", ""]);
        self.line(&format!("{units}  {0}  {0}", side[2]));
    }

    /// One line; `shown` is (bytes, count).
    pub fn row(&mut self, case: &Case, shown: (usize, usize), sides: [Option<Outcome>; 2]) {
        let (size, count) = shown;
        let op = case.op.map_or("none", |op| op.name());
        let root = case.root.map_or(-1, i64::from);
        let dtype = case.dtype.name();
        let mut line = format!("  {size:>12}  {count:>12}  {dtype:>8}  {op:>6}  {root:>6}");
        for side in &sides {
            line.push_str("  ");
            line.push_str(&cells(side.as_ref(), self.args.compare.is_some()));
        }
        if self.args.timestamps == 1 {
            line.push_str("  ");
            line.push_str(&time_of_day());
        }
        self.line(&line);
        for side in sides.iter().flatten() {
            self.busbw.push(side.busbw);
            self.wrong += side.wrong.unwrap_or(0);
        }
        let [out_of_place, in_place] = sides.map(|side| side.as_ref().map(side_json));
        self.rows.push(json!({
            "size": size, "count": count, "type": dtype, "redop": op, "root": root,
            "out_of_place": out_of_place, "in_place": in_place,
        }));
    }

    /// The last lines, and the file. Says whether all was right.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(self, steps: &[(u64, u64)]) -> Result<bool> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let verdict = if self.wrong == 0 { "OK" } else { "FAILED" };
        let average = match self.busbw.len() {
            0 => 0.0,
            length => self.busbw.iter().sum::<f64>() / length as f64,
        };
        out::line(&format!(
            "# Out of bounds values : {} {verdict}",
            self.wrong
        ));
        out::line(&format!("# Avg bus bandwidth    : {average:.6}"));
        let executed: u64 = steps.iter().map(|(executed, _)| executed).sum();
        let planned: u64 = steps.iter().map(|(_, planned)| planned).sum();
        let equal = steps.iter().all(|(executed, planned)| executed == planned);
        let sign = if equal { "==" } else { "!=" };
        out::line(&format!(
            "# steps: executed {sign} planned ({executed}, {planned})"
        ));
        out::line("#");
        if let Some(path) = &self.args.json {
            let document = json!({
                "kolo": env!("CARGO_PKG_VERSION"),
                "collective": self.args.collective.name,
                "environment": self.environment,
                "results": self.rows,
                "out_of_bounds": self.wrong,
                "average_bus_bandwidth": average,
                "steps": { "executed": executed, "planned": planned, "equal": equal },
            });
            let text = serde_json::to_string_pretty(&document).unwrap_or_default() + "\n";
            std::fs::write(path, text).map_err(|error| {
                let doing = format!("the results cannot be written to {}", path.display());
                Error::system(doing, &error, "choose another file with --json")
            })?;
        }
        match equal {
            true => Ok(self.wrong == 0),
            false => Err(Error::new(
                Code::InternalError,
                format!("{executed} steps were executed, but the plans have {planned}"),
                "this is a fault in kolo: please report it with the output of `kolo info`",
            )),
        }
    }
}

/// A time in microseconds, in seven columns.
fn time_cell(time_us: f64) -> String {
    if time_us >= 10_000.0 {
        format!("{time_us:7.0}")
    } else if time_us >= 100.0 {
        format!("{time_us:7.1}")
    } else {
        format!("{time_us:7.2}")
    }
}

fn cells(side: Option<&Outcome>, compares: bool) -> String {
    let Some(side) = side else {
        let na = "N/A";
        let more = if compares {
            "        -      -       -"
        } else {
            ""
        };
        return format!("{na:>7}  {na:>6}  {na:>6}  {na:>5}{more}");
    };
    let (time, algbw, busbw) = (time_cell(side.time_us), side.algbw, side.busbw);
    let wrong = side
        .wrong
        .map_or("N/A".to_string(), |wrong| wrong.to_string());
    let mut text = format!("{time}  {algbw:6.2}  {busbw:6.2}  {wrong:>5}");
    if compares {
        text.push_str(&match &side.rival {
            Some(versus) => format!(
                "  {} {:6.2} {:7.0}",
                time_cell(median(&versus.rival_us)),
                versus.ratio(),
                100.0 * versus.spread()
            ),
            None => format!("  {:>7} {:>6} {:>7}", "-", "-", "-"),
        });
    }
    text
}

fn side_json(side: &Outcome) -> Value {
    let versus = |versus: &Versus| {
        json!({
            "time_us": median(&versus.rival_us),
            "ratio": versus.ratio(),
            "spread": versus.spread(),
            "samples_us": versus.rival_us,
            "kolo_samples_us": versus.kolo_us,
        })
    };
    json!({
        "time_us": side.time_us, "algbw": side.algbw, "busbw": side.busbw, "wrong": side.wrong,
        "mpi": side.rival.as_ref().map(versus),
    })
}

/// The local time as `2025-01-31 13:05:59`.
pub fn time_of_day() -> String {
    // SAFETY: a null argument only asks for the result.
    let now = unsafe { libc::time(std::ptr::null_mut()) };
    let mut parts = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both places are valid; all members of the result may be zero.
    let parts = unsafe {
        libc::localtime_r(&now, parts.as_mut_ptr());
        parts.assume_init()
    };
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
        parts.tm_year + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_of_times() {
        assert_eq!(time_cell(12345.6), "  12346");
        assert_eq!(time_cell(123.45), "  123.5");
        assert_eq!(time_cell(1.234), "   1.23");
    }

    #[test]
    fn ratios_above_one_mean_that_kolo_is_faster() {
        let versus = Versus {
            kolo_us: vec![1.0, 2.0, 1.0],
            rival_us: vec![2.0, 2.0, 3.0],
        };
        assert_eq!(versus.ratio(), 2.0);
        assert_eq!(versus.spread(), 1.0);
    }
}
