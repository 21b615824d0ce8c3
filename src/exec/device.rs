//! The device that a communicator belongs to.

use crate::base::{Error, Result};

/// Where the buffers of a communicator lie, and who moves its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommDevice {
    /// Memory of the host, moved by its processors.
    #[default]
    Host,
    /// The CUDA device of this number among those that the process sees.
    Cuda(u32),
}

impl CommDevice {
    /// Refuses a device that the process cannot drive.
    ///
    /// # Errors
    /// No driver, or no such device, with what to do.
    pub fn check(self) -> Result<()> {
        let CommDevice::Cuda(number) = self else {
            return Ok(());
        };
        let there = crate::cuda::Driver::get()?.devices()?;
        if number < there {
            return Ok(());
        }
        Err(Error::usage(
            format!("CUDA device {number}, and this process sees {there}"),
            "give a number from 0 on, below that of the devices in CUDA_VISIBLE_DEVICES",
        ))
    }
}
