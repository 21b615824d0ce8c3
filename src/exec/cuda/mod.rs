//! The engine of CUDA devices: it turns orders into launches of kernels on a caller's stream.
//!
//! **Problem.** A kernel knows no pointer of the host, no list and no type of Rust. It gets one
//! structure of at most 4 KB, and the device memory that it names.
//!
//! **Idea.** [`engine`] binds a plan to the device once, prepares a launch of it by the sizes of a
//! call, and puts it on a stream or into a graph. [`image`] writes a program
//! ([`crate::plan::program`]) and the window of each lane behind each other; a small image travels
//! in the launch itself, so that nothing has to be copied to the device first. [`launch`] is the
//! structure, [`names`] says which kernel gets it, [`fit`] which sizes a protocol's lines and slots
//! allow. The kernels are in `kernels/`; [`layout`] holds both sides to the same places.
//!
//! **Terms.** *Launch*: one kernel of one rank. *Grid*, *block*: CUDA's words; a block passes one
//! or more lanes. *Share*: the blocks that a rank has of its device ([`blocks`]).
//!
//! Reference: NVIDIA, "CUDA C++ Programming Guide", chapter "Kernel parameters".

pub mod blocks;
mod bound;
mod choice;
pub mod engine;
pub mod fit;
pub mod image;
mod kernel_table;
pub mod launch;
pub mod layout;
mod messages;
pub mod names;
mod passing;
mod places;
mod seats;
mod shelf;
mod sized;

mod staged;
mod starting;
mod underway;

pub use blocks::BlockShare;
pub use engine::CudaEngine;
pub use image::Image;
pub use launch::DeviceLaunch;
pub use messages::DeviceMessage;
pub use places::LaunchPlace;
pub use seats::DeviceSeat;
pub use starting::CudaSetup;
