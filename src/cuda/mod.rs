//! NVIDIA's driver API, typed: devices, memory, streams, events, kernels.
//!
//! **Problem.** The driver is a library of C functions that may be missing, older than what kolo
//! was written for, or newer, with result codes that nobody here has heard of. Its calls depend on
//! a *current context* of the thread, which belongs to the program. And some of its calls wait
//! until a device has done all its work: such a call never ends while a kernel of kolo's waits for
//! what the same thread does next.
//!
//! **Idea.** [`Driver`] opens the library by itself, once in a process; results are plain numbers,
//! and each failure is a sentence. Every object holds the [`Context`] that it belongs to and makes
//! it current for the length of each call only. What is said not to wait for a device does not, its
//! end included: memory of a device is mapped rather than allocated ([`DeviceMemory`]), pinned
//! memory is kept for the next who wants some ([`PinnedMemory`]), loaded kernels stay loaded
//! ([`DeviceKernels`]).
//!
//! **Terms.** *Context*: what a process has on a device; the *primary* one is that which CUDA's
//! runtime uses. *Stream*: a queue of work of a device. *Mapped memory*: addresses, and what lies
//! behind them, are made apart and can be shared one by one. *Pinned memory*: memory of the host
//! that devices reach. *Capture*: calls on a stream are written into a graph in place of running.
//!
//! **Files.** [`functions`], [`failure`] and [`driver`]: calls and what they say. [`context`],
//! [`stream`]. [`memory`], [`pinned`], [`mapping`] (of the program's own memory), [`pointer`] (what
//! an address is). [`copy`], [`event`], [`kernels`],
//! [`graph`], [`capture`] (what kolo's calls leave in graphs of the program). What is there before
//! it is used: [`listing`], and [`nvml`] (NVIDIA's library for management, which knows the links
//! between devices).
//!
//! Reference: NVIDIA, "CUDA Driver API", sections 6.3 to 6.21; "CUDA C++ Programming Guide",
//! section "Implicit Synchronization".

pub mod capture;
pub mod context;
pub mod copy;
pub mod driver;
pub mod event;
pub mod failure;
pub mod functions;
pub mod graph;
pub mod kernels;
pub mod listing;
pub mod mapping;
pub mod memory;
pub mod nvml;
pub mod pinned;
pub mod pointer;
pub mod stream;

pub use capture::{GraphKeeps, StreamCapture, drop_unused};
pub use context::{Context, InContext};
pub use copy::{copy_async, copy_from_device, copy_to_device, fill_async};
pub use cudarc::driver::sys::CUdevice_attribute as DeviceAttribute;
pub use driver::Driver;
pub use event::DeviceEvent;
pub use graph::DeviceGraph;
pub use kernels::{DeviceKernels, Function};
pub use listing::ListedDevice;
pub use mapping::HostMapping;
pub use memory::DeviceMemory;
pub use nvml::{NvmlFacts, NvmlLink};
pub use pinned::PinnedMemory;
pub use pointer::{PointerKind, is_pinned, kind_in, kind_of};
pub use stream::{OwnStream, RelaxedCapture, StreamId, exchange_capture_mode_relaxed};
