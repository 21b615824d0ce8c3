//! The check of MPI: the program's, the launcher's, and the one that kolo was built for.

use super::facts::{Gathered, LinkedFacts, MpiFacts, StartFacts};
use super::finding::{Finding, WithFix, list, on_nodes};
use crate::launcher::{StartedBy, other_library};
use kolo::bootstrap::mpi_library::VARIABLE;

/// A program, or a library of kolo, that does not fit the launcher; two MPIs in one program.
pub fn mpi(job: &Gathered) -> Vec<Finding> {
    on_nodes(job, "MPI", |node| {
        let starts = job.ranks_of(node).map(|rank| &rank.start);
        starts.flat_map(of_start).collect()
    })
}

/// Files whose MPI is not known, and why: no faults, and no answers either.
pub fn notes(job: &Gathered) -> Vec<String> {
    let mut lines = Vec::new();
    for one in job.ranks.iter().flat_map(|rank| &rank.start.linked) {
        let line = one
            .untold
            .as_ref()
            .map(|why| format!("MPI: {}: {why}", one.file));
        lines.extend(line.filter(|line| !lines.contains(line)));
    }
    lines
}

fn of_start(start: &StartFacts) -> Vec<WithFix> {
    let mut faults: Vec<WithFix> = Vec::new();
    for one in &start.linked {
        faults.extend(of_file(one));
        faults.extend(missing(one));
        faults.extend(several(one));
        if let [mpi] = one.mpis.as_slice() {
            faults.extend(of_kolo(one, mpi));
            faults.extend(mismatch(start.by, one, mpi));
        }
    }
    let wanted = match start.by {
        StartedBy::OpenMpi => "openmpi",
        StartedBy::Mpich => "mpich",
        _ => return faults,
    };
    if let Some(installed) = start.installed.as_ref().filter(|it| !it.is_empty())
        && !installed.iter().any(|family| family == wanted)
    {
        faults.push((
            format!(
                "the mpirun is that of {wanted}, and kolo is installed for {}",
                installed.join(", ")
            ),
            format!(
                "use the mpirun of {0}, or make install MPI={wanted}",
                installed[0]
            ),
        ));
    }
    faults
}

fn of_file(one: &LinkedFacts) -> Option<WithFix> {
    let why = one.fault.as_ref()?;
    Some((
        format!("{} cannot be read: {why}", one.file),
        "name a file that all nodes see".into(),
    ))
}

/// One line for all of them: they mostly lie in one folder.
fn missing(one: &LinkedFacts) -> Option<WithFix> {
    let (_, by) = one.missing.first()?;
    let names: Vec<&String> = one.missing.iter().map(|(name, _)| name).collect();
    let needs = match by.as_str() {
        "" => one.file.clone(),
        by => format!("{} (its {by})", one.file),
    };
    Some((
        format!(
            "{needs} needs {}, which the loader does not find",
            list(&names)
        ),
        "load the modules that it was built with, or name the folder in LD_LIBRARY_PATH".into(),
    ))
}

/// Two MPIs in one process end badly, even two of one family.
fn several(one: &LinkedFacts) -> Option<WithFix> {
    let [first, second, ..] = one.mpis.as_slice() else {
        return None;
    };
    let shown = |mpi: &MpiFacts| {
        let family = mpi.family.as_deref().unwrap_or("an unknown one");
        format!("{family} ({})", brought(mpi))
    };
    Some((
        format!(
            "{} loads two MPIs: {} and {}",
            one.file,
            shown(first),
            shown(second)
        ),
        "build the program and all its libraries with one MPI".into(),
    ))
}

/// `libmpi.so.40, which libsolver.so needs`.
fn brought(mpi: &MpiFacts) -> String {
    match (mpi.library.as_str(), mpi.by.as_str()) {
        ("", _) => "a part of the program".into(),
        (library, "") => library.to_owned(),
        (library, by) => format!("{library}, which {by} needs"),
    }
}

/// A `libkolo_mpi` of another family: kolo would refuse to start.
fn of_kolo(one: &LinkedFacts, mpi: &MpiFacts) -> Option<WithFix> {
    let family = mpi.family.as_deref()?;
    let wrong = one.kolo.iter().find(|kolo| kolo.family != family)?;
    Some((
        format!(
            "{} loads the libkolo_mpi of {} ({}), and its MPI is {family} ({}): kolo refuses it",
            one.file,
            wrong.family,
            wrong.file,
            brought(mpi)
        ),
        format!(
            "link it with the libkolo_mpi of its own MPI (pkg-config --libs kolo-mpi-{family}, or \
             the folder lib/kolo/{family} of the installation)"
        ),
    ))
}

/// Debian has both launchers under names of their own, clusters have modules.
const MPICH_STARTS: &str = "the mpirun of MPICH (its module, or mpirun.mpich)";
const OPEN_MPI_STARTS: &str = "the mpirun of Open MPI (its module, or mpirun.openmpi)";

/// Each process of the wrong family believes that it is alone.
fn mismatch(by: StartedBy, one: &LinkedFacts, mpi: &MpiFacts) -> Option<WithFix> {
    let family = mpi.launcher.as_deref()?;
    let is_open = family == "openmpi";
    let (by, fix) = match by {
        StartedBy::OpenMpi if !is_open => ("the mpirun of Open MPI", MPICH_STARTS),
        StartedBy::Mpich if is_open => ("the mpirun of MPICH", OPEN_MPI_STARTS),
        StartedBy::SlurmPmix if !is_open => ("srun --mpi=pmix", "srun --mpi=pmi2"),
        StartedBy::SlurmPmi2 if is_open => ("srun --mpi=pmi2", "srun --mpi=pmix"),
        StartedBy::SlurmNone if is_open => ("srun --mpi=none", "srun --mpi=pmix"),
        StartedBy::SlurmNone => ("srun --mpi=none", "srun --mpi=pmi2"),
        _ => return None,
    };
    let (file, how) = (&one.file, brought(mpi));
    if one.is_named {
        let other = if is_open { "mpich" } else { "openmpi" };
        return Some((
            format!(
                "{VARIABLE} names {file}, which is linked to {family} ({how}), and {by} started \
                 this: each rank would be alone"
            ),
            format!(
                "{}; or start it with {fix}",
                other_library(one.module.as_deref(), other)
            ),
        ));
    }
    Some((
        format!(
            "{file} is linked to {family} ({how}), and {by} started it: each rank would be alone"
        ),
        format!("start it with {fix}, or build it with the other MPI"),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{healthy, lines};
    use super::*;

    fn mpi_of(family: &str, library: &str, by: &str) -> MpiFacts {
        MpiFacts {
            library: library.into(),
            by: by.into(),
            family: Some(family.into()),
            launcher: Some(family.into()),
        }
    }

    fn program(mpis: &[MpiFacts]) -> LinkedFacts {
        LinkedFacts {
            file: "./a.out".into(),
            mpis: mpis.to_vec(),
            ..LinkedFacts::default()
        }
    }

    fn job_with(by: StartedBy, linked: LinkedFacts) -> Gathered {
        let mut job = healthy(2, 2);
        for rank in &mut job.ranks {
            rank.start.by = by;
            rank.start.linked = vec![linked.clone()];
        }
        job
    }

    /// The program is right, and only the library that kolo itself would load is not.
    #[test]
    fn the_library_that_a_variable_names_is_told_with_the_variable() {
        let linked = |module: Option<&str>| LinkedFacts {
            file: "/opt/kolo/lib/kolo/mpich/libkolo_mpi.so".into(),
            is_named: true,
            module: module.map(str::to_owned),
            ..program(&[mpi_of("mpich", "libmpich.so.12", "")])
        };
        let text = lines(&mpi(&job_with(StartedBy::OpenMpi, linked(None))));
        let begin = "KOLO_MPI_LIBRARY names /opt/kolo/lib/kolo/mpich/libkolo_mpi.so, which is";
        assert!(text.contains(begin), "{text}");
        let fix = "fix: load kolo's module for openmpi in place of one that sets";
        assert!(
            text.contains(fix) && text.contains("or unset the variable; or"),
            "{text}"
        );
        let module = linked(Some("kolo/0.1.0-mpich"));
        let text = lines(&mpi(&job_with(StartedBy::OpenMpi, module)));
        assert!(
            text.contains("in place of kolo/0.1.0-mpich, which sets"),
            "{text}"
        );
        assert_eq!(lines(&mpi(&job_with(StartedBy::Mpich, linked(None)))), "");
    }

    #[test]
    fn the_wrong_family_has_its_launcher() {
        let found = |by, family: &str| {
            let linked = program(&[mpi_of(family, "libx.so", "")]);
            lines(&mpi(&job_with(by, linked)))
        };
        let text = found(StartedBy::OpenMpi, "mpich");
        assert!(
            text.starts_with("MPI: node1, node2: ./a.out is linked to mpich (libx.so), and"),
            "{text}"
        );
        let fix = "start it with the mpirun of MPICH (its module, or mpirun.mpich), or build";
        assert!(text.contains(fix), "{text}");
        let text = found(StartedBy::Mpich, "openmpi");
        let fix = "start it with the mpirun of Open MPI (its module, or mpirun.openmpi), or build";
        assert!(text.contains(fix), "{text}");
        assert!(found(StartedBy::SlurmPmix, "mpich").contains("--mpi=pmi2"));
        assert!(found(StartedBy::SlurmPmi2, "openmpi").contains("--mpi=pmix"));
        assert!(found(StartedBy::SlurmNone, "openmpi").contains("--mpi=pmix"));
        assert_eq!(found(StartedBy::OpenMpi, "openmpi"), "");
        assert_eq!(found(StartedBy::Mpich, "mpich"), "");
        assert_eq!(found(StartedBy::Nobody, "mpich"), "");
    }

    #[test]
    fn an_installation_for_another_mpi_is_told() {
        let mut job = healthy(1, 1);
        job.ranks[0].start.by = StartedBy::OpenMpi;
        job.ranks[0].start.installed = Some(vec!["mpich".into()]);
        assert!(lines(&mpi(&job)).contains("make install MPI=openmpi"));
        job.ranks[0].start.installed = Some(vec!["mpich".into(), "openmpi".into()]);
        assert_eq!(mpi(&job), []);
        job.ranks[0].start.linked = vec![LinkedFacts {
            file: "./b".into(),
            fault: Some("no such file".into()),
            ..LinkedFacts::default()
        }];
        assert!(lines(&mpi(&job)).contains("./b cannot be read: no such file"));
    }

    #[test]
    fn two_mpis_and_libraries_that_are_away_are_one_line_each() {
        let mut linked = program(&[
            mpi_of("openmpi", "libmpi.so.40", "libsolver.so"),
            mpi_of("mpich", "libmpich.so.12", ""),
        ]);
        linked.missing = vec![
            ("liba.so".into(), "libb.so".into()),
            ("libc.so".into(), "".into()),
        ];
        let text = lines(&mpi(&job_with(StartedBy::Mpich, linked)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        let away = "./a.out (its libb.so) needs liba.so, libc.so, which the loader does not find";
        assert!(lines[0].contains(away), "{text}");
        let two = "./a.out loads two MPIs: openmpi (libmpi.so.40, which libsolver.so needs) and \
                   mpich (libmpich.so.12); fix: build";
        assert!(lines[1].contains(two), "{text}");
    }

    #[test]
    fn a_start_up_library_of_another_family_is_told() {
        let mut linked = program(&[mpi_of("openmpi", "libmpi.so.40", "")]);
        linked.kolo = vec![super::super::facts::KoloFacts {
            file: "/opt/kolo/lib/kolo/mpich/libkolo_mpi.so".into(),
            family: "mpich".into(),
        }];
        let text = lines(&mpi(&job_with(StartedBy::OpenMpi, linked.clone())));
        assert!(
            text.contains("loads the libkolo_mpi of mpich (/opt/kolo"),
            "{text}"
        );
        assert!(
            text.contains("pkg-config --libs kolo-mpi-openmpi"),
            "{text}"
        );
        linked.kolo[0].family = "openmpi".into();
        assert_eq!(mpi(&job_with(StartedBy::OpenMpi, linked)), []);
    }

    #[test]
    fn what_cannot_be_told_is_a_note_of_one_line() {
        let mut linked = program(&[]);
        linked.untold = Some("it is a script".into());
        let job = job_with(StartedBy::OpenMpi, linked);
        assert_eq!(mpi(&job), []);
        assert_eq!(notes(&job), ["MPI: ./a.out: it is a script"]);
    }
}
