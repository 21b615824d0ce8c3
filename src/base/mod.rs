//! What every other module stands on: errors, identifiers, checked arithmetic, atomics, the clock,
//! network interfaces, and manners inside the program of others.

pub mod checked;
pub mod clock;
pub mod error;
pub mod float_env;
pub mod hash;
pub mod ids;
pub mod interfaces;
pub mod own_thread;
pub mod sync;

pub use error::{Code, Error, Result};
pub use ids::{ChannelId, Rank};
