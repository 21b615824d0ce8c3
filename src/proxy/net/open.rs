//! The listeners of a rank.

use super::ends::{Handles, Setup};
use super::meet::Arrivals;
use crate::base::Result;
use crate::transport::net::Net;

/// The listeners of a rank, before it knows the others.
pub struct Open {
    pub(super) setup: Setup,
    pub(super) arrivals: Arrivals,
    handles: Handles,
}

impl Open {
    /// Listens on every device.
    ///
    /// # Errors
    /// Of the network.
    pub fn new(setup: Setup) -> Result<Open> {
        let (handles, arrivals) = Arrivals::open(&*setup.net)?;
        Ok(Open {
            setup,
            arrivals,
            handles,
        })
    }

    /// The network.
    pub fn net(&self) -> &dyn Net {
        &*self.setup.net
    }

    /// Handles by which the other ranks reach this one.
    pub fn handles(&self) -> &Handles {
        &self.handles
    }
}
