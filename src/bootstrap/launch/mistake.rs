//! An MPI that does not know of the other processes of its job.
//!
//! Problem: `srun --mpi` decides how processes learn of each other. MPICH and what shares its
//! interface ask PMI-2 and take `--mpi=pmix` for no launcher at all; others do so under
//! `--mpi=pmi2` or `none`. Then N processes start, each with a world of one rank, all of them
//! "work", and every result is wrong or computed N times.
//!
//! Idea: Slurm's own variables say how many tasks the step has. A world of one rank in a step of
//! several tasks is this mistake, unless an `mpirun` inside the step says that one rank was meant.

use super::variables::{self, Get, number};
use crate::base::{Error, Result};
use crate::config::Settings;

/// An error if MPI's world, of `world` ranks, is one rank of a Slurm step that has several; unless
/// `KOLO_ALLOW_SINGLETONS` is set.
///
/// # Errors
/// One sentence that says how to start the program instead.
pub fn check_world(world: u32) -> Result<()> {
    let Some(error) = find(&variables::of_process, world) else {
        return Ok(());
    };
    // Settings that cannot be read are reported by those who need more of them.
    let allowed = Settings::load(&[]).is_ok_and(|settings| settings.allow_singletons());
    match allowed {
        true => Ok(()),
        false => Err(error),
    }
}

/// The mistake, if the variables show it.
fn find(get: Get, world: u32) -> Option<Error> {
    let of = |name| number(get, name).ok().flatten();
    let tasks = of("SLURM_STEP_NUM_TASKS").filter(|&tasks| tasks > 1)?;
    let meant = of("OMPI_COMM_WORLD_SIZE").is_some() || of("PMI_SIZE") == Some(1);
    if world != 1 || meant {
        return None;
    }
    let (given, fitting) = if get("PMIX_RANK").is_some() {
        (
            "--mpi=pmix",
            "an MPICH or Intel MPI program needs `srun --mpi=pmi2`",
        )
    } else if get("PMI_RANK").is_some() {
        ("--mpi=pmi2", "an Open MPI program needs `srun --mpi=pmix`")
    } else {
        (
            "--mpi=none",
            "a program with Open MPI needs `srun --mpi=pmix`, one with MPICH or Intel MPI \
             `srun --mpi=pmi2`",
        )
    };
    Some(Error::usage(
        format!(
            "Slurm started {tasks} tasks with {given}, but to MPI each of them is alone (its world \
             has 1 rank)"
        ),
        format!("{fitting}; set KOLO_ALLOW_SINGLETONS=1 if {tasks} separate programs are meant"),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::variables::fixed;
    use super::*;

    fn told(world: u32, set: &[(&str, &str)]) -> Option<String> {
        let all = [&[("SLURM_STEP_NUM_TASKS", "4")], set].concat();
        find(&fixed(&all), world).map(|error| error.to_string())
    }

    #[test]
    fn each_wrong_launcher_has_its_remedy() {
        let pmix = told(1, &[("PMIX_RANK", "3")]).unwrap();
        assert!(pmix.contains("4 tasks with --mpi=pmix") && pmix.contains("--mpi=pmi2"));
        let pmi2 = told(1, &[("PMI_RANK", "3"), ("PMI_SIZE", "4")]).unwrap();
        assert!(pmi2.contains("4 tasks with --mpi=pmi2") && pmi2.contains("--mpi=pmix"));
        let none = told(1, &[]).unwrap();
        assert!(none.contains("--mpi=none") && none.contains("KOLO_ALLOW_SINGLETONS=1"));
    }

    #[test]
    fn good_starts_are_left_alone() {
        assert_eq!(told(4, &[("PMIX_RANK", "3")]), None);
        assert_eq!(told(2, &[]), None);
        // An mpirun -n 1 inside the step.
        assert_eq!(told(1, &[("OMPI_COMM_WORLD_SIZE", "1")]), None);
        assert_eq!(told(1, &[("PMI_SIZE", "1"), ("PMI_RANK", "0")]), None);
        // One task, or no step at all.
        assert!(find(&fixed(&[("SLURM_STEP_NUM_TASKS", "1")]), 1).is_none());
        assert!(find(&fixed(&[("SLURM_NTASKS", "4")]), 1).is_none());
    }
}
