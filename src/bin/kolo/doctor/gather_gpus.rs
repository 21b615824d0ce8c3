//! Reads from the driver which GPUs this process sees. Nothing here judges.

use super::facts::{DriverState, GpuFacts};
use crate::gpus::{DriverGpus, VISIBLE};
use crate::{kernels_file, launcher};
use kolo::base::Error;
use kolo::config::Settings;
use kolo::cuda::driver::{Driver, DriverFault};
use std::sync::mpsc;
use std::time::Duration;

/// A driver that has not answered by then may never do: it starts devices that nobody uses, and one
/// of them may be broken.
const LIMIT: Duration = Duration::from_secs(8);

/// Variables of Slurm in a task that was started with an option for GPUs, and that option.
const OPTIONS: [(&str, &str); 3] = [
    ("SLURM_GPUS_PER_TASK", "--gpus-per-task"),
    ("SLURM_TRES_PER_TASK", "--tres-per-task"),
    ("SLURM_GPU_BIND", "--gpu-bind"),
];

/// Looks at the GPUs that this process sees.
pub fn look(settings: &Settings) -> GpuFacts {
    let (say, heard) = mpsc::channel();
    let ask = move || {
        let asked = DriverGpus::get().map_err(|error| (Driver::fault(), error));
        // Nobody may listen any more.
        let _ = say.send(asked);
    };
    let thread = std::thread::Builder::new().name("kolo driver".into());
    let started = thread.spawn(ask).is_ok();
    let mut facts = match heard.recv_timeout(LIMIT) {
        Ok(Ok(seen)) => of_devices(&seen, settings),
        Ok(Err((fault, error))) => of_fault(fault, error),
        Err(_) if !started => GpuFacts::default(),
        Err(_) => GpuFacts {
            state: DriverState::Failing,
            why: format!(
                "the CUDA driver has not answered within {} s",
                LIMIT.as_secs()
            ),
            fix: "see `nvidia-smi`; start nvidia-persistenced, so that devices need not be \
                  started for each job"
                .into(),
            ..GpuFacts::default()
        },
    };
    facts.visible = launcher::raw_variable(VISIBLE);
    let is_set = |variable: &str| match launcher::variable(variable) {
        // This one is the cure.
        Some(value) => value != "none" && (variable != OPTIONS[1].0 || value.contains("gpu")),
        None => false,
    };
    let options = OPTIONS.iter().filter(|(variable, _)| is_set(variable));
    facts.slurm = options.map(|(_, option)| (*option).to_owned()).collect();
    facts
}

fn of_fault(fault: Option<DriverFault>, error: Error) -> GpuFacts {
    let parts = error.into_parts();
    GpuFacts {
        state: match fault {
            Some(DriverFault::Missing) => DriverState::Missing,
            Some(DriverFault::NoDevice) => DriverState::NoDevice,
            Some(DriverFault::Failing) | None => DriverState::Failing,
        },
        why: parts.what,
        fix: parts.remedy.into_owned(),
        ..GpuFacts::default()
    }
}

fn of_devices(seen: &DriverGpus, settings: &Settings) -> GpuFacts {
    let mut far = Vec::new();
    for (at, one) in seen.devices.iter().enumerate() {
        for other in &seen.devices[at + 1..] {
            let there = one.reaches[other.number as usize];
            if !(there && other.reaches[at]) {
                far.push(format!("{} and {}", one.number, other.number));
            }
        }
    }
    let kernels = kernels_file::find(settings, seen.is_software());
    GpuFacts {
        state: DriverState::Ready,
        devices: seen.devices.iter().map(|one| one.uuid_text()).collect(),
        far,
        kernels: kernels.err().map(|fault| (fault.what, fault.fix)),
        ..GpuFacts::default()
    }
}
