//! Facts about this machine: driver, devices, kernels.

use crate::litmus;
use crate::report::{Failure, Outcome, Verdict};
use crate::world::QUEUES;

use kolo::config::Settings;
use kolo::cuda::{Context, DeviceAttribute, DeviceKernels, Driver};
use kolo::exec::cuda::names;
use serde_json::{Value, json};
use std::sync::Arc;

/// Threads of a block as communicators use them where nobody sets another number.
const THREADS: u32 = 544;

/// The facts, and that all kernels load on each device.
pub fn run() -> Outcome {
    let driver = Driver::get()?;
    let count = driver.devices()?;
    let contexts = (0..count).map(Context::of);
    let contexts: Vec<Arc<Context>> = contexts.collect::<Result<_, _>>()?;
    let devices: Vec<Value> = contexts
        .iter()
        .map(|context| device(context, &contexts))
        .collect::<Result<_, _>>()?;
    if devices.is_empty() {
        return Err(Failure("the driver sees no device".into()));
    }
    Ok(Verdict::Passed(json!({
        "driver": driver.version(),
        QUEUES: std::env::var(QUEUES).ok(),
        "devices": devices,
        "kernels": Settings::load(&[])?.kernels()?,
        "litmus kernels": litmus::file()?,
    })))
}

/// The architecture of a device: 90 for 9.0.
///
/// # Errors
/// The driver's.
pub fn architecture(context: &Context) -> Result<i32, Failure> {
    use DeviceAttribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };
    Ok(10 * context.attribute(MAJOR)? + context.attribute(MINOR)?)
}

fn device(context: &Arc<Context>, all: &[Arc<Context>]) -> Result<Value, Failure> {
    let kernels = DeviceKernels::load(context, &Settings::load(&[])?.kernels()?, &names::all())?;
    let reached = all.iter().map(|other| context.reaches(other));
    let (free, memory) = context.memory()?;
    Ok(json!({
        "name": context.name(),
        "architecture": architecture(context)?,
        "pci": context.pci(),
        "multiprocessors": context.multiprocessors(),
        "memory": memory,
        "free": free,
        "reaches": reached.collect::<Result<Vec<bool>, _>>()?,
        "kernels": names::all().len(),
        "resident blocks": kernels.resident_blocks(THREADS)?,
    }))
}
