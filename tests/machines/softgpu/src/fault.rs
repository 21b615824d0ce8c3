//! Faults on request: `KOLO_SOFTGPU_FAULT`, with commas between them.
//!
//! `launch:5` the 5th launch fails on the device; `memory:3` the 3rd `cuMemAlloc` or `cuMemCreate`
//! finds no memory; `lost:10` after 10 calls all devices are lost; `missing:cuMemCreate`
//! `cuGetProcAddress` does not know this one.

use crate::error::{Answer, Code};

/// Counts what was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    launch: Option<u64>,
    memory: Option<u64>,
    lost: Option<u64>,
    is_lost: bool,
    missing: Vec<String>,
}

fn count(number: &mut Option<u64>) -> bool {
    match number {
        Some(left) if *left > 0 => {
            *left -= 1;
            *left == 0
        }
        _ => false,
    }
}

impl Faults {
    /// # Errors
    /// A fault that there is not: it is named on standard error.
    pub fn read(text: &str) -> Answer<Faults> {
        let mut faults = Faults::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (what, which) = part.split_once(':').unwrap_or((part, ""));
            let number = which.parse().ok().filter(|number| *number > 0);
            match (what, number) {
                ("launch", Some(number)) => faults.launch = Some(number),
                ("memory", Some(number)) => faults.memory = Some(number),
                ("lost", Some(number)) => faults.lost = Some(number),
                ("missing", None) if !which.is_empty() => faults.missing.push(which.to_owned()),
                _ => {
                    eprintln!(
                        "kolo software GPU: KOLO_SOFTGPU_FAULT has `{part}`: give launch:N, \
                         memory:N, lost:N or missing:NAME"
                    );
                    return Err(Code::INVALID_VALUE);
                }
            }
        }
        Ok(faults)
    }

    /// Whether this launch fails.
    pub fn hits_launch(&mut self) -> bool {
        count(&mut self.launch)
    }

    /// # Errors
    /// This is the one that finds no memory.
    pub fn memory(&mut self) -> Answer {
        match count(&mut self.memory) {
            true => Err(Code::OUT_OF_MEMORY),
            false => Ok(()),
        }
    }

    /// Counts a call; whether the devices are lost from this one on.
    pub fn is_lost_now(&mut self) -> bool {
        match &mut self.lost {
            Some(0) => {
                self.is_lost = true;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    /// Whether the devices have been lost before.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    pub fn is_missing(&self, symbol: &str) -> bool {
        self.missing.iter().any(|missing| missing == symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_counted() {
        let mut faults = Faults::read("launch:2,missing:cuMemCreate").expect("faults");
        let hits: Vec<bool> = (0..4).map(|_| faults.hits_launch()).collect();
        assert_eq!(hits, [false, true, false, false]);
        assert!(faults.memory().is_ok() && faults.lost.is_none());
        assert!(faults.is_missing("cuMemCreate") && !faults.is_missing("cuMemMap"));
        for wrong in ["launch", "launch:0", "memory:x", "fire:1", "missing:"] {
            assert_eq!(Faults::read(wrong), Err(Code::INVALID_VALUE), "{wrong}");
        }
    }
}
