//! Name of the job, as its launcher calls it.

use super::variables::{Get, of_process};

/// The job of this process: of Slurm's `JOB.STEP`, of others their number or name; nothing where
/// no launcher says one.
pub fn job() -> Option<String> {
    named(&of_process)
}

fn named(get: Get) -> Option<String> {
    if let Some(job) = get("SLURM_JOB_ID") {
        let step = get("SLURM_STEP_ID");
        return Some(step.map_or(job.clone(), |step| format!("{job}.{step}")));
    }
    let names = ["PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "PMIX_NAMESPACE"];
    names.into_iter().find_map(get)
}

#[cfg(test)]
mod tests {
    use super::super::variables::fixed;
    use super::*;

    #[test]
    fn launchers_name_their_jobs() {
        let job = |set: &[(&str, &str)]| named(&fixed(set));
        assert_eq!(job(&[]), None);
        assert_eq!(job(&[("SLURM_JOB_ID", "7")]).as_deref(), Some("7"));
        let step = [
            ("SLURM_JOB_ID", "7"),
            ("SLURM_STEP_ID", "0"),
            ("PBS_JOBID", "9"),
        ];
        assert_eq!(job(&step).as_deref(), Some("7.0"));
        let pmix = [("PMIX_NAMESPACE", "prte-1"), ("PMIX_RANK", "0")];
        assert_eq!(job(&pmix).as_deref(), Some("prte-1"));
    }
}
