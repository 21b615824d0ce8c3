//! Transports construct connections.

pub mod futex;
pub mod node;
pub mod shm;
