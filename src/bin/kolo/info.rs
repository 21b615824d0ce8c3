//! `kolo info` and `kolo version`: what kolo is, and what it sees.

use crate::algorithms;
use crate::config::ShowArgs;
use crate::facts::{self, Fact};
use crate::launcher;
use crate::out;
use crate::ways::{self, JobWays, RankWays, WayGroup};
use clap::Args;
use kolo::base::{Error, Rank, Result};
use kolo::bootstrap::{Bootstrap, NetSettings, launch};
use kolo::config::{self, Settings};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// Arguments of `kolo info`.
#[derive(Args, Debug)]
pub struct InfoArgs {
    /// Show every setting with the layer and the file or variable it came from, as
    /// `kolo config show --origin` does
    #[arg(long)]
    pub config: bool,
    /// Show what settings there are
    #[arg(long)]
    pub options: bool,
    /// Show which algorithms there are for each collective, and what each of them is
    #[arg(long, conflicts_with_all = ["config", "options"])]
    pub algorithms: bool,
    /// Show which way data take between two ranks of the job, and why not a better one
    #[arg(
        long,
        value_name = "A,B",
        value_parser = two_ranks,
        conflicts_with_all = ["config", "options", "algorithms"]
    )]
    pub ranks: Option<[u32; 2]>,
    /// Print JSON in place of text
    #[arg(long)]
    pub json: bool,
}

/// Text below the help.
pub const HELP: &str = "\
Examples:
  kolo info
      this build, this machine, and the ways of data that a job on it would have
  mpirun -n 18 kolo info
      the same of a job: which way data take between its ranks, and why not a better one
  mpirun -n 18 kolo info --ranks 3,17
      the way between these two";

fn two_ranks(text: &str) -> std::result::Result<[u32; 2], String> {
    let ranks = text
        .split_once(',')
        .map(|(a, b)| (a.trim().parse(), b.trim().parse()));
    match ranks {
        Some((Ok(a), Ok(b))) => Ok([a, b]),
        _ => Err("two ranks, as 3,17".into()),
    }
}

/// How long the processes of a job may take to find each other, before rank 0 speaks for itself.
const MEET_LIMIT: Duration = Duration::from_secs(20);

/// `kolo version`.
pub fn version() {
    out::line(&format!("kolo {}", env!("CARGO_PKG_VERSION")));
}

/// `kolo info`. Of a job rank 0 prints, what differs between its processes included.
///
/// # Errors
/// Settings that cannot be read.
pub fn info(args: &InfoArgs) -> Result<()> {
    if args.algorithms {
        match args.json {
            _ if !launcher::speaks_for_all() => {}
            true => out::json(&json!({ "algorithms": algorithms::document() })),
            false => out::write(&algorithms::text()),
        }
        return Ok(());
    }
    if args.options && launcher::speaks_for_all() {
        match args.json {
            // With the values, if those were asked for too.
            true if args.config => {}
            true => out::json(&crate::config::document(None)),
            false => out::write(&config::render_help()),
        }
    }
    if args.config {
        let (origin, json) = (true, args.json);
        return crate::config::show(&ShowArgs { origin, json });
    }
    if args.options {
        return Ok(());
    }
    let settings = Settings::load(&[]);
    let job = Job::meet();
    let (mine, mark) = RankWays::look(job.rank(), settings.as_ref().ok(), ways::opened);
    let ways = match &job.ranks {
        Some(ranks) => ways::gather(&**ranks, &mine, &mark)?,
        None => JobWays::alone(mine.clone()),
    };
    if let Some(ranks) = args.ranks {
        settings.map_err(launcher::told_by_one)?;
        return pair(&job, &ways, ranks, args.json);
    }
    let facts = facts::of_this_process(&mine.networks);
    let all = job.gather(&facts);
    if job.speaks() {
        if args.json {
            out::json(&document(&facts, &all, &job, &ways))
        } else {
            out::write(&text(&facts, &all, &job, &ways))
        }
    }
    settings.map(|_| ()).map_err(launcher::told_by_one)
}

/// `kolo info --ranks A,B`.
fn pair(job: &Job, ways: &JobWays, ranks: [u32; 2], is_json: bool) -> Result<()> {
    let found = ways.pair(ranks);
    let told = |error: Error| {
        let what = match &job.problem {
            Some(problem) => format!("{}; the others were not asked: {problem}", error.what),
            None => error.what.clone(),
        };
        Error::new(error.code, what, error.remedy.clone()).told_elsewhere(!job.speaks())
    };
    let found = found.map_err(told)?;
    if !job.speaks() {
        return Ok(());
    }
    if is_json {
        out::json(&json!({ "ranks": ranks, "way": found }));
        return Ok(());
    }
    let [a, b] = ranks;
    let lines = found.lines();
    let first = lines[0]
        .split_once("): ")
        .map_or(&*lines[0], |(_, way)| way);
    let nodes = if found.nodes.is_empty() {
        String::new()
    } else {
        format!(" (on {})", found.nodes.join(" and "))
    };
    out::line(&format!("ranks {a} and {b}{nodes}: {first}"));
    lines[1..].iter().for_each(|line| out::line(line));
    Ok(())
}

/// The processes that were started together, as far as they find each other.
struct Job {
    ranks: Option<Box<dyn Bootstrap>>,
    /// Why they did not.
    problem: Option<String>,
}

/// Facts of one process.
struct Said {
    host: String,
    facts: Map<String, Value>,
}

impl Job {
    fn meet() -> Job {
        let settings = Settings::load(&[]).map_or_else(
            |_| NetSettings::default(),
            |settings| NetSettings::from(&settings),
        );
        let limit = settings.meet_limit.unwrap_or(MEET_LIMIT);
        let settings = NetSettings {
            meet_limit: Some(limit.min(MEET_LIMIT)),
            ..settings
        };
        let met = launch::from_environment(&settings).and_then(|one| one.connect(&settings));
        match met {
            Ok(ranks) => Job {
                ranks: Some(ranks),
                problem: None,
            },
            Err(error) => Job {
                ranks: None,
                problem: Some(error.into_what()),
            },
        }
    }

    /// This process among them.
    fn rank(&self) -> Rank {
        self.ranks.as_ref().map_or(Rank(0), |ranks| ranks.rank())
    }

    /// Whether this process prints.
    fn speaks(&self) -> bool {
        match &self.ranks {
            Some(ranks) => ranks.rank() == Rank(0),
            None => launcher::speaks_for_all(),
        }
    }

    /// Gathers the facts of all processes, in the order of ranks; of this one alone where they have
    /// not met.
    fn gather(&self, facts: &[Fact]) -> Vec<Said> {
        let common = facts.iter().filter(|fact| fact.is_common).cloned();
        let mine = json!({
            "host": facts::host(),
            "facts": facts::document(&common.collect::<Vec<_>>()),
        });
        let ranks = self.ranks.as_ref();
        let all = ranks.and_then(|ranks| ranks.all_gather(mine.to_string().as_bytes()).ok());
        let said = |bytes: &Vec<u8>| {
            let mut value: Value = serde_json::from_slice(bytes).unwrap_or_default();
            Said {
                host: value["host"].as_str().unwrap_or("?").to_owned(),
                facts: match value["facts"].take() {
                    Value::Object(facts) => facts,
                    _ => Map::new(),
                },
            }
        };
        all.map_or_else(Vec::new, |all| all.iter().map(said).collect())
    }
}

/// A fact that some processes see otherwise than rank 0.
struct Difference {
    name: String,
    value: Value,
    /// The hosts, each with the ranks on it that do.
    hosts: BTreeMap<String, Vec<usize>>,
}

fn differences(all: &[Said]) -> Vec<Difference> {
    let mut found: Vec<Difference> = Vec::new();
    let Some((first, others)) = all.split_first() else {
        return found;
    };
    for (rank, said) in (1..).zip(others) {
        let names: BTreeSet<&String> = first.facts.keys().chain(said.facts.keys()).collect();
        for name in names {
            let value = said.facts.get(name).unwrap_or(&Value::Null);
            if Some(value) == first.facts.get(name) {
                continue;
            }
            let known = found
                .iter_mut()
                .find(|d| d.name == *name && d.value == *value);
            let difference = match known {
                Some(difference) => difference,
                None => {
                    found.push(Difference {
                        name: name.clone(),
                        value: value.clone(),
                        hosts: BTreeMap::new(),
                    });
                    let last = found.len() - 1;
                    &mut found[last]
                }
            };
            let ranks = difference.hosts.entry(said.host.clone()).or_default();
            ranks.push(rank);
        }
    }
    found
}

/// How many processes are on each host.
fn hosts(all: &[Said]) -> BTreeMap<&str, usize> {
    let mut hosts = BTreeMap::new();
    for said in all {
        *hosts.entry(said.host.as_str()).or_default() += 1;
    }
    hosts
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "unlimited or none".into(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Facts, one a line; what differs between processes behind them, and the ways of data.
fn text(facts: &[Fact], all: &[Said], job: &Job, ways: &JobWays) -> String {
    let mut text = String::new();
    for fact in facts {
        for line in &fact.lines {
            let _ = writeln!(text, "{:<20}{line}", fact.name);
        }
    }
    if let Some(problem) = &job.problem {
        let _ = writeln!(text, "{:<20}the others were not asked: {problem}", "job");
    }
    if all.len() > 1 {
        let hosts: Vec<String> = hosts(all)
            .into_iter()
            .map(|(host, count)| format!("{count} on {host}"))
            .collect();
        let (many, hosts) = (all.len(), hosts.join(", "));
        let _ = writeln!(text, "{:<20}{many} processes: {hosts}", "job");
        let found = differences(all);
        if found.is_empty() {
            let _ = writeln!(text, "{:<20}all of them see the same", "");
        }
        for one in found {
            let whose = one.hosts.iter().map(|(host, ranks)| {
                let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
                format!("{host} (rank {})", ranks.join(", "))
            });
            let (whose, name) = (
                whose.collect::<Vec<_>>().join(", "),
                one.name.replace('_', " "),
            );
            let here = plain(all[0].facts.get(&one.name).unwrap_or(&Value::Null));
            let there = plain(&one.value);
            let _ = writeln!(
                text,
                "{:<20}{name} on {whose}: {there}; on rank 0: {here}",
                "differs"
            );
        }
    }
    let ways = match ways.problem() {
        Some(problem) => vec![problem],
        None => ways.groups().iter().flat_map(WayGroup::lines).collect(),
    };
    for line in ways {
        let _ = writeln!(text, "{:<20}{line}", "ways");
    }
    text.push_str(
        "\n`kolo config show --origin` shows the settings in force, `kolo info --options` what \
         there are, `kolo info --algorithms` what computes each collective.\n",
    );
    text
}

/// Shows the facts for programs.
fn document(facts: &[Fact], all: &[Said], job: &Job, ways: &JobWays) -> Value {
    let mut document = facts::document(facts);
    document.insert("ways".into(), json!(ways.groups()));
    let differing = differences(all)
        .into_iter()
        .map(|one| json!({"fact": one.name, "value": one.value, "hosts": one.hosts}));
    document.insert(
        "job".into(),
        json!({
            "processes": all.len().max(1),
            "hosts": hosts(all),
            "problem": job.problem,
            "differences": differing.collect::<Vec<_>>(),
        }),
    );
    document.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told_with_its_hosts() {
        let said = |host: &str, files: u64, kernel: &str| Said {
            host: host.into(),
            facts: match json!({"open_files": files, "kernel": kernel}) {
                Value::Object(facts) => facts,
                _ => unreachable!(),
            },
        };
        let all = [
            said("node1", 1024, "6.1"),
            said("node1", 1024, "6.1"),
            said("node2", 512, "6.1"),
            said("node3", 512, "6.8"),
            said("node2", 512, "6.1"),
        ];
        let found = differences(&all);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].name.as_str(), &found[0].value),
            ("open_files", &json!(512))
        );
        let hosts: Vec<_> = found[0].hosts.clone().into_iter().collect();
        assert_eq!(
            hosts,
            [("node2".into(), vec![2, 4]), ("node3".into(), vec![3])]
        );
        assert_eq!(
            (found[1].name.as_str(), &found[1].value),
            ("kernel", &json!("6.8"))
        );
        assert_eq!(differences(&all[..2]).len(), 0);
        let job = Job {
            ranks: None,
            problem: None,
        };
        let text = text(&[], &all, &job, &JobWays::default());
        let line = "open files on node2 (rank 2, 4), node3 (rank 3): 512; on rank 0: 1024";
        assert!(text.contains(line), "{text}");
        assert!(
            text.contains("5 processes: 2 on node1, 2 on node2, 1 on node3"),
            "{text}"
        );
    }
}
