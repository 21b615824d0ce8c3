//! kolo's GPU kernels on the host: each thread of a grid is a fiber, run in an order that is
//! drawn from a seed, over memory that is as weak as a GPU may make it. `README.md` says what is
//! modelled.
//!
//! A [`Machine`] has devices, ranges of memory and grids. What runs is the kernels' own source,
//! compiled for the host. Nothing that a kernel does wrong with device memory or with barriers is
//! more than a [`Failure`], whose text names the seed: the same seed makes the same run.

mod interface;
mod machine;
pub mod probe;
mod table;

pub use interface::{Counts, KernelFunction};
pub use machine::{Access, Failure, Grid, Kernel, Machine, Memory, Options, Range, State};
pub use table::{kernel, kernels, litmus};
