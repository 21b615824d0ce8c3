//! The card on which a rank describes its device to the others.

use serde::{Deserialize, Serialize};

/// Facts about a rank's device that every rank is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::comm) struct DeviceCard {
    /// Among those that its process sees.
    pub number: u32,
    /// Identifies the device for all processes.
    pub uuid: [u8; 16],
    /// Its architecture, 90 for 9.0.
    pub architecture: u32,
    /// Blocks of kernels that it runs at a time.
    pub resident: u32,
}
