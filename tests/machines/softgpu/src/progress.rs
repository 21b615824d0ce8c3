//! Progress of tasks, and the failure that ends them all.

use crate::error::Code;

/// Progress of a task when it was its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Ended,
    /// It did a part.
    Moved,
    /// It goes on by itself, or waits.
    Waits,
}

impl Step {
    pub fn of_part(has_ended: bool) -> Step {
        if has_ended { Step::Ended } else { Step::Moved }
    }
}

/// Failure that ends the work of all devices.
#[derive(Debug)]
pub struct Failed {
    pub code: Code,
    pub text: String,
}

impl From<kolo_kernels_host::Failure> for Failed {
    fn from(failure: kolo_kernels_host::Failure) -> Failed {
        Failed {
            code: if failure.is_access {
                Code::ILLEGAL_ADDRESS
            } else {
                Code::LAUNCH_FAILED
            },
            text: failure.to_string(),
        }
    }
}
