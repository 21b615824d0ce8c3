//! Sources of kolo's room `base` that hold no state, compiled a second time: errors, the choice of
//! interfaces, the clock, who may enter at a door, threads of one's own, writing without a signal.
//! Linking kolo itself would double what it keeps.

#![allow(dead_code, reason = "this library uses a part of each file")]

#[path = "../../../src/base/clock.rs"]
pub mod clock;
#[path = "../../../src/base/door.rs"]
pub mod door;
#[path = "../../../src/base/error.rs"]
pub mod error;
#[path = "../../../src/base/float_env.rs"]
pub mod float_env;
#[path = "../../../src/base/ids.rs"]
pub mod ids;
#[path = "../../../src/base/interfaces.rs"]
pub mod interfaces;
#[path = "../../../src/base/knock.rs"]
pub mod knock;
#[path = "../../../src/base/own_thread.rs"]
pub mod own_thread;
#[path = "../../../src/base/privilege.rs"]
pub mod privilege;
#[path = "../../../src/base/proof.rs"]
pub mod proof;
#[path = "../../../src/base/quiet.rs"]
pub mod quiet;
#[path = "../../../src/base/shortage.rs"]
pub mod shortage;

pub use error::{Code, Error, Result};
