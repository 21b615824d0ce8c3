//! The printed table and the JSON file. Number formats are those of nccl-tests, and so is the whole
//! layout of the programs `*_perf`, so that programs that read its output read this one. `kolo
//! perf --wide` has more columns, at the end of a line: percentiles of single calls, and the
//! algorithm. Without it a line has at most 120 characters: beside another library, those of both
//! libraries' times take the place of bandwidths.

use super::case::Case;
use super::memory;
use super::options::PerfArgs;
use super::outcome::{Outcome, Single, Versus, median};
use super::picture;
use crate::out;
use indicatif::{ProgressBar, ProgressStyle};
use kolo::base::{Code, Error, Result};
use serde_json::{Value, json};
use std::io::IsTerminal;

/// Output of one rank: the table, a progress bar, and at last the file.
pub struct Report<'a> {
    args: &'a PerfArgs,
    bar: Option<ProgressBar>,
    rows: Vec<Value>,
    busbw: Vec<f64>,
    wrong: u64,
    /// Facts about the run, for the file.
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
        for line in heads(self.args) {
            self.line(&line);
        }
    }

    /// One line; `shown` is (bytes, count).
    pub fn row(&mut self, case: &Case, shown: (usize, usize), sides: [Option<Outcome>; 2]) {
        let (size, count) = shown;
        let op = case.op.map_or("none", |op| op.name());
        let root = case.root.map_or(-1, i64::from);
        let dtype = case.dtype.name();
        let indent = if self.args.form.is_tool() { "" } else { "  " };
        let mut line = if is_brief(self.args) {
            format!("{indent}{size:>12}  {dtype:>8}  {op:>6}")
        } else {
            format!("{indent}{size:>12}  {count:>12}  {dtype:>8}  {op:>6}  {root:>6}")
        };
        for side in &sides {
            line.push_str("  ");
            line.push_str(&cells(side.as_ref(), self.args));
        }
        if has_more(self.args) {
            line.push_str(&more_cells(&sides));
        }
        if self.args.timestamps == 1 {
            line.push_str("  ");
            line.push_str(&time_of_day());
        }
        self.line(&line);
        if self.args.single_times == 1 {
            self.single_times(&sides);
        }
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

    /// A line for each side below the one of the table.
    fn single_times(&self, sides: &[Option<Outcome>; 2]) {
        for (name, side) in ["out-of-place", "in-place"].into_iter().zip(sides) {
            let Some(single) = side.as_ref().and_then(|side| side.single) else {
                continue;
            };
            let counted = self.args.iterations.saturating_sub(self.args.skipped);
            self.line(&format!(
                "#   {name}: {counted} single iterations, us: least {} p50 {} p99 {} most {}",
                time_cell(single.least).trim_start(),
                time_cell(single.p50).trim_start(),
                time_cell(single.p99).trim_start(),
                time_cell(single.most).trim_start()
            ));
        }
    }

    /// The last lines, and the files. `taken` is the memory of each rank's process, if it is
    /// wanted. Says whether all was right.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn end(self, steps: &[(u64, u64)], taken: &[[u64; 4]]) -> Result<bool> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let average = match self.busbw.len() {
            0 => 0.0,
            length => self.busbw.iter().sum::<f64>() / length as f64,
        };
        let fast = fast_enough(average, self.args.form.least_busbw);
        let executed: u64 = steps.iter().map(|(executed, _)| executed).sum();
        let planned: u64 = steps.iter().map(|(_, planned)| planned).sum();
        let equal = steps.iter().all(|(executed, planned)| executed == planned);
        if !taken.is_empty() {
            for line in memory::report(taken) {
                out::line(&line);
            }
        }
        let verdict = if self.wrong == 0 { "OK" } else { "FAILED" };
        out::line(&format!(
            "# Out of bounds values : {} {verdict}",
            self.wrong
        ));
        let verdict = match fast {
            None => "",
            Some(true) => " OK",
            Some(false) => " FAILED",
        };
        out::line(&format!("# Avg bus bandwidth    : {average:.6}{verdict}"));
        if !self.args.form.is_tool() {
            let sign = if equal { "==" } else { "!=" };
            out::line(&format!(
                "# steps: executed {sign} planned ({executed}, {planned})"
            ));
        }
        out::line("#");
        let document = json!({
            "kolo": env!("CARGO_PKG_VERSION"),
            "collective": self.args.collective.name,
            "environment": self.environment,
            "results": self.rows,
            "out_of_bounds": self.wrong,
            "average_bus_bandwidth": average,
            "steps": { "executed": executed, "planned": planned, "equal": equal },
            "memory": taken,
        });
        self.files(&document)?;
        match equal {
            true => Ok(self.wrong == 0 && fast != Some(false)),
            false => Err(Error::new(
                Code::InternalError,
                format!("{executed} steps were executed, but the plans have {planned}"),
                "this is a fault in kolo: please report it with the output of `kolo info`",
            )),
        }
    }

    /// Writes the results as numbers and as a picture.
    fn files(&self, document: &Value) -> Result<()> {
        if let Some(path) = &self.args.json {
            let text = serde_json::to_string_pretty(document).unwrap_or_default() + "\n";
            std::fs::write(path, text).map_err(|error| {
                let doing = format!("the results cannot be written to {}", path.display());
                Error::system(doing, &error, "choose another file with --json")
            })?;
        }
        match &self.args.plot {
            Some(path) => picture::of_one(document, path),
            None => Ok(()),
        }
    }
}

/// Whether the average is what was expected, of which a tenth may lack; `None` if nobody expects
/// anything.
fn fast_enough(average: f64, least: Option<f64>) -> Option<bool> {
    least.map(|least| average >= 0.9 * least)
}

/// Whether the columns behind those of nccl-tests are wanted.
fn has_more(args: &PerfArgs) -> bool {
    args.wide && !args.form.is_tool()
}

/// Whether columns make room for those of the rival, so that a line keeps to 120 characters.
fn is_brief(args: &PerfArgs) -> bool {
    args.compare.is_some() && !args.wide && !args.form.is_tool()
}

/// The lines of column heads: what stands over each side, its columns, and their units.
fn heads(args: &PerfArgs) -> Vec<String> {
    let time = if args.cpu_time == 1 {
        "cputime"
    } else {
        "time"
    };
    let brief = is_brief(args);
    let side = match brief {
        true => [
            String::new(),
            format!("{time:>7} #wrong"),
            "   (us)       ".to_string(),
        ],
        false => [
            String::new(),
            format!("{time:>7}   algbw   busbw #wrong"),
            "   (us)  (GB/s)  (GB/s)".to_string(),
        ],
    };
    let own = if brief { 14 } else { 30 };
    let mut side = side.map(|text| format!("{text:<own$}"));
    if args.compare.is_some() {
        side[0].push_str(&" ".repeat(25));
        side[1].push_str("   mpi-us  ratio spread%");
        side[2].push_str("     (us)               ");
    }
    let width = side[1].len();
    let first = if args.form.is_tool() { 10 } else { 12 };
    let left = |[size, count, dtype, op, root]: [&str; 5]| {
        if brief {
            format!("# {size:>first$}  {dtype:>8}  {op:>6}")
        } else {
            format!("# {size:>first$}  {count:>12}  {dtype:>8}  {op:>6}  {root:>6}")
        }
    };
    // The word over two columns stands in their middle.
    let more = match has_more(args) {
        false => [""; 3].map(str::to_string),
        true => [
            format!("  {:^16}  {:^16}  ", "out-of-place", "in-place"),
            format!("  {0:>7}  {1:>7}  {0:>7}  {1:>7}  algorithm", "p50", "p99"),
            format!("  {0:>7}  {0:>7}  {0:>7}  {0:>7}", "(us)"),
        ],
    };
    let (apart, same) = ("out-of-place", "in-place");
    let lines = [
        "#".to_string(),
        format!(
            "{}  {apart:^width$}  {same:^width$}{}",
            left([""; 5]),
            more[0]
        ),
        format!(
            "{}  {1}  {1}{2}",
            left(["size", "count", "type", "redop", "root"]),
            side[1],
            more[1]
        ),
        format!(
            "{}  {1}  {1}{2}",
            left(["(B)", "(elements)", "", "", ""]),
            side[2],
            more[2]
        ),
    ];
    lines.map(|line| line.trim_end().to_string()).into()
}

/// Percentiles of both sides, and what did the work.
fn more_cells(sides: &[Option<Outcome>; 2]) -> String {
    let mut text = String::new();
    for side in sides {
        let single = side.as_ref().and_then(|side| side.single);
        let cells = single.map(|single| [single.p50, single.p99].map(time_cell));
        for cell in cells.unwrap_or([(); 2].map(|()| format!("{:>7}", "-"))) {
            text.push_str("  ");
            text.push_str(&cell);
        }
    }
    let mut names: Vec<&str> = sides
        .iter()
        .flatten()
        .map(|side| side.algorithm.as_str())
        .collect();
    names.dedup();
    text.push_str("  ");
    text.push_str(&names.join(","));
    text
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

/// One side of a line; its time is that until calls were issued, where this is asked for.
fn cells(side: Option<&Outcome>, args: &PerfArgs) -> String {
    let (compares, of_issuing) = (args.compare.is_some(), args.cpu_time == 1);
    let Some(side) = side else {
        let na = "N/A";
        let more = if compares {
            "        -      -       -"
        } else {
            ""
        };
        return if is_brief(args) {
            format!("{na:>7}  {na:>5}{more}")
        } else {
            format!("{na:>7}  {na:>6}  {na:>6}  {na:>5}{more}")
        };
    };
    let shown = if of_issuing {
        side.took.issued_us
    } else {
        side.took.time_us
    };
    let (time, algbw, busbw) = (time_cell(shown), side.algbw, side.busbw);
    let wrong = side
        .wrong
        .map_or("N/A".to_string(), |wrong| wrong.to_string());
    let mut text = if is_brief(args) {
        format!("{time}  {wrong:>5}")
    } else {
        format!("{time}  {algbw:6.2}  {busbw:6.2}  {wrong:>5}")
    };
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
            "kolo_samples_us": versus.kolo_us(),
        })
    };
    let single = |single: Single| {
        let Single {
            least,
            p50,
            p99,
            most,
        } = single;
        json!({ "least": least, "p50": p50, "p99": p99, "most": most })
    };
    json!({
        "time_us": side.took.time_us, "cputime_us": side.took.issued_us,
        "ranks_us": side.took.ranks_us,
        "algbw": side.algbw, "busbw": side.busbw, "wrong": side.wrong,
        "algorithm": side.algorithm, "single_us": side.single.map(single),
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
        // The widths change where the rule says, not where the number would be rounded to.
        assert_eq!(time_cell(99.994), "  99.99");
        assert_eq!(time_cell(100.0), "  100.0");
        assert_eq!(time_cell(9999.94), " 9999.9");
        assert_eq!(time_cell(10000.0), "  10000");
    }

    #[test]
    fn a_tenth_may_lack_of_what_is_expected() {
        assert_eq!(fast_enough(1.0, None), None);
        assert_eq!(fast_enough(9.1, Some(10.0)), Some(true));
        assert_eq!(fast_enough(8.9, Some(10.0)), Some(false));
    }
}
