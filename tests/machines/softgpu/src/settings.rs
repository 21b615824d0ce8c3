//! The variables: the only file that reads the environment.

use crate::error::{Answer, Code};
use crate::places::{self, Place};
use std::str::FromStr;
use std::sync::OnceLock;

const USUAL_DRIVER: i32 = 13_000;

/// Settings of the devices of this process.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Devices of the machine, before `CUDA_VISIBLE_DEVICES` picks of them.
    pub devices: u32,
    /// `CUDA_VISIBLE_DEVICES`.
    pub visible: Option<String>,
    /// Seed of all draws of the run.
    pub seed: u64,
    pub is_weak: bool,
    /// Blocks that are resident on a device at a time.
    pub blocks: u32,
    /// Bytes of a device.
    pub memory: u64,
    pub has_peers: bool,
    /// Where the devices are; empty if no file says it.
    pub places: Vec<Place>,
    /// As `cuDriverGetVersion` gives it.
    pub driver: i32,
    /// Faults on request: see fault.rs.
    pub fault: String,
}

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A number of a range; without the variable, or if it is empty, `usual`.
fn number<T: FromStr + PartialOrd + Copy + std::fmt::Display>(
    name: &str,
    usual: T,
    (least, most): (T, T),
) -> Answer<T> {
    let Some(given) = text(name).filter(|text| !text.is_empty()) else {
        return Ok(usual);
    };
    let read = given.trim().parse().ok();
    read.filter(|number| (least..=most).contains(number))
        .ok_or_else(|| {
            eprintln!("kolo software GPU: {name}={given} is no number from {least} to {most}");
            Code::INVALID_VALUE
        })
}

/// A seed that no other process has.
fn entropy() -> u64 {
    // The draws of a run need not be secret: without entropy, the process id will do.
    getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()))
}

/// The version of the pretended driver, which some calls tell without `cuInit`.
pub fn driver() -> i32 {
    static VERSION: OnceLock<i32> = OnceLock::new();
    *VERSION.get_or_init(|| read_driver().unwrap_or(USUAL_DRIVER))
}

fn read_driver() -> Answer<i32> {
    number("KOLO_SOFTGPU_DRIVER", USUAL_DRIVER, (10_000, 99_000))
}

/// Faults on request.
pub fn fault() -> String {
    text("KOLO_SOFTGPU_FAULT").unwrap_or_default()
}

/// The places of so many devices.
fn places(devices: u32) -> Answer<Vec<Place>> {
    const NAME: &str = "KOLO_SOFTGPU_TOPOLOGY";
    let Some(file) = text(NAME).filter(|text| !text.is_empty()) else {
        return Ok(Vec::new());
    };
    let read = std::fs::read_to_string(&file).map_err(|error| error.to_string());
    let read = read.and_then(|text| places::read(&text));
    let enough = |places: Vec<Place>| match places.len() >= devices as usize {
        true => Ok(places),
        false => Err(format!(
            "it has {} GPUs for {devices} devices",
            places.len()
        )),
    };
    read.and_then(enough).map_err(|fault| {
        eprintln!("kolo software GPU: {NAME}={file}: {fault}");
        Code::INVALID_VALUE
    })
}

/// Everything, as the environment has it now.
///
/// # Errors
/// A variable that cannot be read, which is named on standard error.
pub fn read() -> Answer<Settings> {
    let devices = number("KOLO_SOFTGPU_DEVICES", 1, (1, 32))?;
    Ok(Settings {
        devices,
        places: places(devices)?,
        visible: text("CUDA_VISIBLE_DEVICES"),
        seed: number("KOLO_SOFTGPU_SEED", entropy(), (0, u64::MAX))?,
        is_weak: number("KOLO_SOFTGPU_WEAK", 1, (0, 1))? == 1,
        blocks: number("KOLO_SOFTGPU_BLOCKS", 16, (1, 1024))?,
        memory: number("KOLO_SOFTGPU_MEMORY", 1 << 30, (1 << 21, 1 << 40))?,
        has_peers: number("KOLO_SOFTGPU_PEERS", 1, (0, 1))? == 1,
        driver: read_driver()?,
        fault: fault(),
    })
}
