//! From a command line to ranks that measure: what is wrong is said once, before anything else.
//!
//! Every process finds its own mistakes: options, settings, files. Then all tell each other, and
//! process 0 says each sentence once; all end with the same code, in peace, so that no launcher
//! ends the one that is about to speak. A launcher ends all processes as soon as one fails.

use super::Verdict;
use super::options::PerfArgs;
use super::split::Groups;
use crate::launcher;
use crate::out;
use crate::world::{NotStarted, World};
use kolo::base::{Error, Result};
use kolo::config::Settings;
use std::path::Path;
use std::process::ExitCode;

/// The exit code of a mistake in the options.
const MISTAKE: u8 = 2;
/// The exit code of everything else that goes wrong.
const FAILURE: u8 = 1;

/// Why a process cannot begin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Complaint {
    code: u8,
    text: String,
}

impl Complaint {
    fn mistake(text: impl Into<String>) -> Complaint {
        let text = text.into();
        Complaint {
            code: MISTAKE,
            text,
        }
    }

    fn wrong(args: &PerfArgs, error: Error) -> Complaint {
        Complaint::mistake(error.during(args.form.name()).to_string())
    }
}

/// Measures. The exit code is 0 if all results were right, 1 if not or after an error, 2 for a
/// mistake in the options.
pub fn main(parsed: std::result::Result<PerfArgs, clap::Error>) -> ExitCode {
    if let Err(help) = &parsed
        && !help.use_stderr()
    {
        if launcher::speaks_for_all() {
            // Fails only where nobody reads it.
            let _ = help.print();
        }
        return ExitCode::SUCCESS;
    }
    let settings = Settings::load(&[]);
    let (args, early) = alone(parsed, &settings);
    let compares = args.as_ref().is_some_and(|args| args.compare.is_some());
    let world = match World::start(settings.as_ref().ok(), compares) {
        Ok(world) => world,
        Err(failed) => return not_started(early, failed),
    };
    let code = match begin(args, early, &world) {
        Ok(Ok(args)) => return finish(super::measure(&args, &world), &world),
        Ok(Err(code)) => {
            world.end();
            code
        }
        Err(error) => {
            out::report(&error);
            world.abort();
            FAILURE
        }
    };
    ExitCode::from(code)
}

/// Checks all that this process can check without the others.
fn alone(
    parsed: std::result::Result<PerfArgs, clap::Error>,
    settings: &Result<Settings>,
) -> (Option<PerfArgs>, Option<Complaint>) {
    let mut args = match parsed {
        Ok(args) => args,
        Err(error) => return (None, Some(Complaint::mistake(error.to_string().trim_end()))),
    };
    let variables = if args.form.is_tool() {
        args.form.read(launcher::variable)
    } else {
        Ok(())
    };
    let complaint = match (variables, settings) {
        (Err(text), _) => Some(Complaint::mistake(format!("kolo: {text}"))),
        (Ok(()), Err(error)) => Some(Complaint {
            code: FAILURE,
            text: error.to_string(),
        }),
        (Ok(()), Ok(all))
            if args.ranks.is_some() && launcher::has_started(all.allow_singletons()) =>
        {
            let error = Error::usage(
                "--ranks starts threads, but a launcher has started processes already",
                "use --ranks without mpirun and srun, or these without --ranks and with -t",
            );
            Some(Complaint::wrong(&args, error))
        }
        (Ok(()), Ok(_)) => None,
    };
    (Some(args), complaint)
}

/// The processes have not met: there is nobody to tell of mistakes.
fn not_started(early: Option<Complaint>, failed: NotStarted) -> ExitCode {
    let everywhere = failed.everywhere || early.is_some();
    let said = early.unwrap_or_else(|| Complaint {
        code: FAILURE,
        text: failed.error.to_string(),
    });
    if !everywhere || launcher::speaks_for_all() {
        out::report(&said.text);
    }
    ExitCode::from(said.code)
}

/// The options, if no process has found anything wrong; otherwise the exit code. The groups are
/// those that process 0 knows of: not every launcher hands variables to all nodes.
fn begin(
    args: Option<PerfArgs>,
    early: Option<Complaint>,
    world: &World,
) -> Result<std::result::Result<PerfArgs, u8>> {
    let groups = args.as_ref().and_then(PerfArgs::groups);
    let wish = world.all_say(&groups.map_or(String::new(), Groups::told))?;
    let mut args = args;
    if let Some(args) = &mut args {
        args.form.groups = wish.first().and_then(|text| Groups::heard(text));
        (args.split, args.split_mask) = (None, None);
    }
    let late = || {
        let args = args.as_ref()?;
        let check = check(args, world).and_then(|()| match world.process() {
            0 => files(args),
            _ => Ok(()),
        });
        check.err().map(|error| Complaint::wrong(args, error))
    };
    let mine = early.or_else(late);
    let told = mine.map_or(String::new(), |mine| format!("{}{}", mine.code, mine.text));
    let all = world.all_say(&told)?;
    let (code, sentences) = summary(&all);
    if world.process() == 0 {
        for sentence in sentences {
            out::report(&sentence);
        }
    }
    Ok(args.filter(|_| code == 0).ok_or(code))
}

/// The exit code, 0 if nobody complains, and each sentence once. Who says it is named, unless all
/// processes do.
fn summary(all: &[String]) -> (u8, Vec<String>) {
    let parse = |told: &String| {
        let (code, text) = told.split_at_checked(1)?;
        Some((code.parse::<u8>().ok()?, text.to_string()))
    };
    let complaints: Vec<_> = all.iter().map(parse).collect();
    let code = complaints.iter().flatten().map(|(code, _)| *code).max();
    let mut sentences: Vec<(&String, Vec<String>)> = Vec::new();
    for (process, complaint) in complaints.iter().enumerate() {
        let Some((_, text)) = complaint else { continue };
        match sentences.iter_mut().find(|(known, _)| *known == text) {
            Some((_, who)) => who.push(process.to_string()),
            None => sentences.push((text, vec![process.to_string()])),
        }
    }
    let said = sentences.into_iter().map(|(text, who)| {
        // What process 0 finds in its own files concerns it alone, and all know it.
        if who.len() == all.len() || who == ["0"] {
            text.clone()
        } else {
            format!("process {}: {text}", who.join(", "))
        }
    });
    (code.unwrap_or(0), said.collect())
}

/// Checks the options together, and with the way the program was started.
fn check(args: &PerfArgs, world: &World) -> Result<()> {
    let nranks = args.per_process() * world.processes();
    let groups = args.groups().map_or(vec![nranks], |groups| {
        let color = |rank| groups.color(rank, args.per_process());
        let mut colors: Vec<u32> = (0..nranks).map(color).collect();
        colors.sort_unstable();
        let sizes = colors.chunk_by(|a, b| a == b);
        sizes.map(|group| group.len() as u32).collect()
    });
    groups.iter().try_for_each(|&group| args.check(group))?;
    if args.on_gpus() {
        super::device::count()?;
    }
    if args.compare.is_none() {
        return Ok(());
    }
    if world.mpi().is_none() {
        return Err(Error::usage(
            "there is no MPI to compare with: no launcher of MPI has started this program",
            "start it with mpirun, as mpirun -n 2 kolo perf all_reduce --compare mpi",
        ));
    }
    if args.per_process() > 1 || args.groups().is_some() {
        return Err(Error::usage(
            "MPI has one rank per process, and its world is not split",
            "use --compare without -t, -g and --split",
        ));
    }
    Ok(())
}

/// Whether the files can be written, before hours of measuring.
fn files(args: &PerfArgs) -> Result<()> {
    let try_one = |path: &Path, option: &str| {
        let mut way = std::fs::OpenOptions::new();
        let opened = way.create(true).append(true).open(path);
        opened.map(|_| ()).map_err(|error| {
            let doing = format!("{option} {} cannot be written", path.display());
            Error::system(
                doing,
                &error,
                "name a file in a folder that you may write to",
            )
        })
    };
    let (json, plot) = (args.json.as_deref(), args.plot.as_deref());
    json.map_or(Ok(()), |path| try_one(path, "--json"))?;
    plot.map_or(Ok(()), |path| try_one(path, "--plot"))
}

/// The end of a measurement.
fn finish(result: Result<Verdict>, world: &World) -> ExitCode {
    match result {
        Ok(verdict) => {
            world.end();
            ExitCode::from(match verdict {
                Verdict::Right => 0,
                Verdict::Wrong => FAILURE,
                Verdict::Mistake => MISTAKE,
            })
        }
        Err(error) => {
            out::report(&error);
            // The other processes may wait for this one for ever.
            world.abort();
            ExitCode::from(FAILURE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sentence_is_said_once() {
        let all = |told: &[&str]| {
            let told: Vec<String> = told.iter().map(|text| text.to_string()).collect();
            summary(&told)
        };
        assert_eq!(all(&["", "", ""]), (0, vec![]));
        assert_eq!(all(&["2no", "2no"]), (2, vec!["no".to_string()]));
        assert_eq!(all(&["2no", "", ""]), (2, vec!["no".to_string()]));
        assert_eq!(
            all(&["", "1dark", "", "2wrong", "1dark"]),
            (
                2,
                vec![
                    "process 1, 4: dark".to_string(),
                    "process 3: wrong".to_string()
                ]
            )
        );
    }
}
