//! An MPI that does not know of the other processes of its job.
//!
//! Problem: a program of one MPI that is started by the mpirun of another finds no launcher that it
//! understands, and every process is alone; `srun` has the same trap:
//!
//! `srun --mpi` decides how processes learn of each other. MPICH and what shares its
//! interface ask PMI-2 and take `--mpi=pmix` for no launcher at all; others do so under
//! `--mpi=pmi2` or `none`. Then N processes start, each with a world of one rank, all of them
//! "work", and every result is wrong or computed N times.
//!
//! Idea: the variables of mpirun and of Slurm say how many processes they started. A world of one
//! rank among several is this mistake, unless an `mpirun` inside a Slurm step says that one rank
//! was meant.

use super::variables::{self, Get, number};
use crate::base::{Error, Result};
use crate::config::Settings;

/// An error if MPI's world, of `world` ranks, is one rank of several that were started together;
/// unless `KOLO_ALLOW_SINGLETONS` is set. One of them is to print it.
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
        false => Err(error.told_elsewhere(!is_first(&variables::of_process))),
    }
}

/// Whether this process is the first of those that were started together.
fn is_first(get: Get) -> bool {
    let ranks = [
        "OMPI_COMM_WORLD_RANK",
        "PMI_RANK",
        "PMIX_RANK",
        "SLURM_PROCID",
    ];
    let rank = ranks.into_iter().find_map(get);
    rank.is_none_or(|rank| rank == "0")
}

/// The mistake, if the variables show it.
fn find(get: Get, world: u32) -> Option<Error> {
    if world != 1 {
        return None;
    }
    of_mpirun(get).or_else(|| of_srun(get))
}

/// The mpirun of another MPI than the program's.
fn of_mpirun(get: Get) -> Option<Error> {
    let of = |name| number(get, name).ok().flatten().filter(|&count| count > 1);
    let is_slurm = of("SLURM_STEP_NUM_TASKS").is_some() && get("HYDI_CONTROL_FD").is_none();
    let (count, whose, others) = if let Some(count) = of("OMPI_COMM_WORLD_SIZE") {
        (count, "Open MPI", "MPICH, Intel MPI")
    } else {
        // Under srun --mpi=pmi2 the same variable is Slurm's.
        let count = of("PMI_SIZE").filter(|_| !is_slurm)?;
        (count, "MPICH or Intel MPI", "Open MPI")
    };
    Some(Error::usage(
        format!(
            "the mpirun of {whose} started {count} processes, but to the MPI of this program each \
             of them is alone (its world has 1 rank): it is another MPI"
        ),
        format!(
            "start the program with the mpirun of the MPI that it was compiled with ({others} or \
             another version of it; both are often installed as mpirun.openmpi and mpirun.mpich), \
             or compile it with the mpicc beside this mpirun; set KOLO_ALLOW_SINGLETONS=1 if \
             {count} separate programs are meant"
        ),
    ))
}

/// An `srun --mpi` that the program's MPI does not understand.
fn of_srun(get: Get) -> Option<Error> {
    let of = |name| number(get, name).ok().flatten();
    let tasks = of("SLURM_STEP_NUM_TASKS").filter(|&tasks| tasks > 1)?;
    let meant = of("OMPI_COMM_WORLD_SIZE").is_some() || of("PMI_SIZE") == Some(1);
    if meant {
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
    fn the_mpirun_of_another_mpi_has_its_remedy() {
        let of = |set: &[(&str, &str)]| find(&fixed(set), 1).map(|error| error.to_string());
        let open_mpi = of(&[("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "0")]).unwrap();
        assert!(
            open_mpi.contains("mpirun of Open MPI started 4"),
            "{open_mpi}"
        );
        let mpich = of(&[("PMI_SIZE", "3"), ("PMI_RANK", "2")]).unwrap();
        assert!(
            mpich.contains("mpirun of MPICH or Intel MPI started 3"),
            "{mpich}"
        );
        for text in [open_mpi, mpich] {
            assert!(text.contains("KOLO_ALLOW_SINGLETONS=1"), "{text}");
        }
        // Within a step of Slurm too, where mpirun was started by srun or a job script.
        let step = told(1, &[("OMPI_COMM_WORLD_SIZE", "2")]).unwrap();
        assert!(step.contains("mpirun of Open MPI started 2"), "{step}");
    }

    #[test]
    fn the_first_process_speaks() {
        let of = |set: &[(&str, &str)]| is_first(&fixed(set));
        assert!(of(&[]) && of(&[("PMI_RANK", "0")]) && of(&[("OMPI_COMM_WORLD_RANK", "0")]));
        assert!(!of(&[("PMI_RANK", "2")]) && !of(&[("SLURM_PROCID", "1")]));
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
