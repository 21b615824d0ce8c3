//! Sources that the models of this folder are made of: kolo's two lowest layers, with loom's
//! atomics, and those files of higher layers that are a state machine and need no more than `base`.

#[path = "../../src/base/mod.rs"]
pub mod base;
#[path = "../../src/wire/mod.rs"]
pub mod wire;

#[path = "../../src/comm/flight/completion.rs"]
pub mod completion;
#[path = "../../src/comm/flight/lock.rs"]
pub mod lock;
#[path = "../../src/proxy/net/wanted.rs"]
pub mod wanted;
