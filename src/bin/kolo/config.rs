//! `kolo config`: what is wrong in a settings file, what is in force, and what differs.

use crate::{launcher, out, tune_mpi};
use clap::{Args, Subcommand};
use kolo::base::{Error, Result, input_file};
use kolo::config::{self, Settings, Sources};
use kolo::tune::mpi_table::{self, StayTable};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `kolo config`.
#[derive(Args, Debug)]
#[command(after_help = HELP, disable_help_subcommand = true)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub task: Concern,
}

#[derive(Subcommand, Debug)]
pub enum Concern {
    /// Look for mistakes in settings files and tables; the exit code is 1 if there are any
    Check {
        /// Settings files, and tables of kolo tune --mpi; without one, all that are in force, and
        /// the variables of the environment
        files: Vec<PathBuf>,
    },
    /// Show the settings in force
    Show(ShowArgs),
    /// Show in what two settings files differ
    Diff {
        /// A settings file
        a: PathBuf,
        /// Another one; without it, the built-in values are compared
        b: Option<PathBuf>,
        /// Print JSON in place of text
        #[arg(long)]
        json: bool,
    },
}

/// How `kolo config show` shows the settings.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Show every setting with the layer and the file or variable it came from
    #[arg(long)]
    pub origin: bool,
    /// Print JSON in place of text
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Examples:
  kolo config check /etc/kolo/kolo.toml
      before the file goes to all nodes
  KOLO_PROFILE=big kolo config show --origin
      every setting under this profile, with the file and line it comes from
  kolo config diff /etc/kolo/kolo.toml
      what the file changes";

/// `kolo config`.
///
/// # Errors
/// Settings that cannot be read, and mistakes that a check has found.
pub fn run(args: &ConfigArgs) -> Result<()> {
    match &args.task {
        Concern::Check { files } => check(files),
        Concern::Show(args) => show(args),
        Concern::Diff { a, b, json } => diff(a, b.as_deref(), *json),
    }
}

/// The table of what MPI does faster, if the settings of this process name a file.
fn table_in_force() -> Option<PathBuf> {
    table_of(&Settings::load(&[]).ok()?)
}

/// The table of what MPI does faster, if these settings name a file.
pub fn table_of(settings: &Settings) -> Option<PathBuf> {
    let named = settings.pmpi_table()?;
    let is_file = !["built-in", "none"].contains(&named);
    is_file.then(|| PathBuf::from(named))
}

fn is_table(path: &Path) -> bool {
    let text = input_file::text(path, mpi_table::MOST_BYTES as u64);
    text.is_ok_and(|text| StayTable::is_one(&text))
}

/// How many sections a table has.
///
/// # Errors
/// It cannot be read, or is no table.
pub fn sections(path: &Path) -> Result<usize> {
    let text = input_file::text(path, mpi_table::MOST_BYTES as u64).map_err(|error| {
        let doing = format!("{} cannot be read", path.display());
        input_file::refused(
            doing,
            &error,
            "name a file that `kolo tune --mpi` has written",
        )
    })?;
    let table = StayTable::parse(&text).map_err(|why| tune_mpi::wrong(path, &why))?;
    Ok(table.sections.len())
}

/// Prints mistakes and warnings one a line. The last mistake is the error of the command.
fn check(names: &[PathBuf]) -> Result<()> {
    let sources = Sources::of_process(&[])?;
    let mut faults = Vec::new();
    let all = match names {
        [] => vec![config::check_all(&sources)],
        names => names
            .iter()
            .filter(|name| !is_table(name))
            .map(|name| config::check_file(name, &sources))
            .collect(),
    };
    let speaks = launcher::speaks_for_all();
    let tables: Vec<PathBuf> = match names {
        [] => table_in_force().into_iter().collect(),
        names => names
            .iter()
            .filter(|name| is_table(name))
            .cloned()
            .collect(),
    };
    for (path, found) in tables.iter().map(|path: &PathBuf| (path, sections(path))) {
        match found {
            Ok(sections) if speaks => {
                let path = path.display();
                out::line(&format!("{path}: {sections} sections, no mistake"));
            }
            Ok(_) => (),
            Err(fault) => faults.push(fault),
        }
    }
    let mut told: Vec<String> = Vec::new();
    for found in all {
        told.extend(found.warnings.iter().cloned());
        for warning in found.warnings.iter().filter(|_| speaks) {
            out::report(&format!("warning: {warning}"));
        }
        if found.faults.is_empty() && speaks {
            let files = found.files.iter().map(|file| file.display().to_string());
            let files = match found.files.len() {
                0 => "no file is there".to_owned(),
                _ => files.collect::<Vec<_>>().join(", "),
            };
            out::line(&format!("{files}: {} settings, no mistake", found.settings));
        }
        faults.extend(found.faults);
    }
    if names.is_empty() {
        faults.extend(variables_in_force(&sources, &faults, &told));
    }
    let Some(last) = faults.pop() else {
        return Ok(());
    };
    faults.iter().filter(|_| speaks).for_each(out::report);
    Err(launcher::told_by_one(last))
}

/// Mistakes in the variables of this process that are not `known`; prints their number where there
/// are none, and what else is to be known and was not `told`.
fn variables_in_force(sources: &Sources, known: &[Error], told: &[String]) -> Vec<Error> {
    let mut found = config::check_variables(sources);
    found.faults.retain(|fault| !known.contains(fault));
    if !launcher::speaks_for_all() {
        return found.faults;
    }
    let warnings = Settings::load_from(sources).map(|settings| settings.warnings().to_vec());
    let warnings = warnings.unwrap_or_default();
    for warning in warnings.iter().filter(|one| !told.contains(one)) {
        out::report(&format!("warning: {warning}"));
    }
    if found.faults.is_empty() && found.count > 0 {
        let count = out::counted(found.count, "variable");
        out::line(&format!("environment: {count}, no mistake"));
    }
    found.faults
}

/// `kolo config show`, and `kolo info --config`.
///
/// # Errors
/// Settings that cannot be read.
pub fn show(args: &ShowArgs) -> Result<()> {
    let (settings, mut faults) = config::load_with_faults();
    if let Some(last) = faults.pop() {
        let speaks = launcher::speaks_for_all();
        faults.iter().filter(|_| speaks).for_each(out::report);
        return Err(launcher::told_by_one(last));
    }
    if !launcher::speaks_for_all() {
        return Ok(());
    }
    // A warning is told where the log would tell it.
    for warning in settings.warnings() {
        out::report(&format!("warning: {warning}"));
    }
    match (args.json, args.origin) {
        (true, _) => out::json(&document(Some(&settings))),
        (false, true) => out::write(&config::render_table(&settings)),
        (false, false) => match config::render_settings(&settings) {
            text if text.is_empty() => out::line("# all settings are as built in"),
            text => out::write(&text),
        },
    }
    Ok(())
}

/// Every option, with its value where there are settings.
pub fn document(settings: Option<&Settings>) -> serde_json::Value {
    let options = config::OPTIONS.iter().map(|option| {
        let entry = settings.and_then(|settings| settings.entry(option.key));
        json!({
            "key": option.key,
            "variable": option.variable(),
            "value": entry.map(|entry| entry.value.to_string()),
            "layer": entry.map(|entry| entry.source.layer.text()),
            "from": entry.map(|entry| entry.source.origin.to_string()),
            "line": entry.and_then(|entry| entry.at).map(|at| at.line),
            "locked": entry.and_then(|entry| entry.locked),
            "default": option.default,
        })
    });
    json!({ "settings": options.collect::<Vec<_>>() })
}

/// Where a file does not say something.
const NOTHING: &str = "-";

fn diff(a: &Path, b: Option<&Path>, json: bool) -> Result<()> {
    let sources = Sources::of_process(&[])?;
    let built_in = "built in".to_owned();
    // What a file changes reads from the old to the new.
    let (left, right) = match b {
        Some(b) => (Some(a), Some(b)),
        None => (None, Some(a)),
    };
    let name = |path: Option<&Path>| path.map_or(built_in.clone(), |p| p.display().to_string());
    let contents = |path| config::contents(path, &sources).map_err(launcher::told_by_one);
    let (before, after) = (contents(left)?, contents(right)?);
    if !launcher::speaks_for_all() {
        return Ok(());
    }
    let rows = differences(&before, &after);
    if json {
        let rows = rows
            .iter()
            .map(|[key, a, b]| json!({"key": key, "a": a, "b": b}));
        out::json(&json!({
            "a": name(left), "b": name(right), "differences": rows.collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    if rows.is_empty() {
        out::line("no difference");
        return Ok(());
    }
    let mut all = vec![["option".to_owned(), name(left), name(right)]];
    all.extend(rows);
    out::write(&config::render_columns(&all));
    Ok(())
}

/// Settings that differ between both sides, in the order of the left one and then of the right one.
fn differences(before: &[(String, String)], after: &[(String, String)]) -> Vec<[String; 3]> {
    let find = |all: &[(String, String)], key: &str| {
        let found = all.iter().find(|(name, _)| name == key);
        found.map_or(NOTHING.to_owned(), |(_, value)| value.clone())
    };
    let known = |key: &str| before.iter().any(|(name, _)| name == key);
    let new = after.iter().filter(|(key, _)| !known(key));
    before
        .iter()
        .chain(new)
        .map(|(key, _)| [key.clone(), find(before, key), find(after, key)])
        .filter(|[_, a, b]| a != b)
        .collect()
}
