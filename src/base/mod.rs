//! What every other module stands on: errors, identifiers, checked arithmetic, atomics, the clock,
//! files that a user names, network interfaces, who may enter at a door, and manners inside the
//! program of others.

pub mod caught;
pub mod checked;
pub mod clock;
pub mod door;
pub mod error;
pub mod float_env;
pub mod fork;
pub mod hash;
pub mod ids;
pub mod input_file;
pub mod interfaces;
pub mod knock;
pub mod own_thread;
pub mod privilege;
pub mod proof;
pub mod quiet;
pub mod shortage;
pub mod starts;
pub mod sync;

pub use caught::caught;
pub use error::{Code, Error, Result};
pub use ids::{ChannelId, Rank};
