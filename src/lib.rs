//! **kolo**: collective communication for batch HPC jobs, on host memory and on GPUs.
//!
//! A collective is a *plan*: a pure function emits *steps*, and the host executor, the checker and
//! the simulator all read the same steps. Read the modules in this order:
//!
//! 1. [`base`]: errors, identifiers, checked arithmetic, atomics, the clock.
//! 2. [`plan`]: steps, operand lists, lanes, plans, windows; the checker that proves a plan.
//! 3. [`algo`]: ring, one-shot, bundles: pure functions from a shape to steps.
//! 4. [`dtype`]: data types, reduction operations, and the SIMD kernels that fold them.
//! 5. [`wire`]: connections: slots, eager lines, fans; how bytes change hands.
//! 6. [`exec`]: executors of plans: `host` moves bytes.
//! 7. [`config`]: one table of options; every value knows the layer it came from.
//! 8. [`topo`]: the machine as hwloc sees it; pinning and the waiting policy.
//! 9. [`bootstrap`]: unique id, TCP ring, tables of functions (MPI): how ranks first meet.
//! 10. [`transport`]: constructs connections: shared memory and in-process memory.
//! 11. [`proxy`]: the service thread (hand-over of memory, death of peers), the progress engine.
//! 12. [`tune`]: which plan for which size.
//! 13. [`comm`]: communicators, groups, streams: what the bindings call.

pub mod algo;
pub mod base;
pub mod bootstrap;
pub mod comm;
pub mod config;
pub mod dtype;
pub mod exec;
pub mod plan;
pub mod proxy;
pub mod topo;
pub mod transport;
pub mod tune;
pub mod wire;
