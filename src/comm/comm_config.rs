//! Settings that a program gives when it makes a communicator.

use crate::base::Error;
use crate::exec::CommDevice;

/// Settings that the caller gives for one communicator: they win over all other layers.
#[derive(Clone, Debug, Default)]
pub struct CommConfig {
    /// Name in messages; a number if absent.
    pub name: Option<String>,
    /// Least channels.
    pub min_channels: Option<u32>,
    /// Most channels.
    pub max_channels: Option<u32>,
    /// Where the buffers of its calls lie, and who moves its data. It is fixed by the call that
    /// makes the communicator, whichever thread makes it. A device that this build cannot drive is
    /// refused with a sentence, and the other ranks hear of it.
    pub device: CommDevice,
    /// Options by key, as in a settings file.
    pub overrides: Vec<(String, String)>,
    /// Why this rank cannot say what it wants: it takes part in the first exchange only, so that
    /// making the communicator fails with this error here, and on the others with one that names
    /// this rank.
    #[doc(hidden)]
    pub refused: Option<Error>,
    /// It serves another communicator of the same ranks: at `info` nothing is told of it.
    #[doc(hidden)]
    pub is_inner: bool,
}

impl CommConfig {
    /// The part of a rank whose own arguments were wrong.
    #[doc(hidden)]
    pub fn refused(error: Error) -> CommConfig {
        CommConfig {
            refused: Some(error),
            ..CommConfig::default()
        }
    }
}
