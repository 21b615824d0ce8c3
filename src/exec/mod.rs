//! Executors of plans: what moves bytes, or only counts time.
//!
//! **Problem.** The same plan runs on memory of the host, on a GPU, and in a model that only
//! counts time. What binds it to a device (connections, fold functions, memory, threads) must not
//! show in communicators, nor in algorithms.
//!
//! **Idea.** A communicator hands over orders ([`order`]: a plan's shape, buffers, sizes, and how
//! elements combine, [`combine`]) to one of two engines. [`HostEngine`] is that of host memory,
//! which calling threads drive. A plan is *begun* ([`HostEngine::add`], [`HostEngine::add_direct`])
//! and *passed* until it is done; short calls are one function each. The program may combine
//! elements itself there ([`operation`]).
//! [`CudaEngine`] is that of a CUDA device, which runs launches by itself: an order goes to a
//! stream, and the call returns. A communicator on a device ([`device`]) has both, because words
//! between its ranks (of a split, of a check) lie in memory of the host. Rooms [`host`] and
//! [`cuda`] have one engine each; of them `comm` names no more than the engine, but where engines
//! are made. [`sim`] runs the plans of all ranks on a model of a machine.
//!
//! Data path of a call: `comm` fills in an order -> the engine binds its plan and moves what can
//! move -> `wire` hands the line over. Waiting itself (spin, yield, sleep, abort) belongs to the
//! caller, through [`Waiting`].
//!
//! **Terms.** *Engine*: what carries out plans on one device. *Order*: one launch, as every
//! engine understands it. *Flight*: launches on their way together. *Direct*: buffers of other
//! ranks are read where they lie ([`reach`]).
//!
//! References: T. Hoefler, C. Siebert, A. Lumsdaine, "Group Operation Assembly Language: a
//! flexible way to express collective communication", ICPP 2009; T. Hoefler, T. Schneider, A.
//! Lumsdaine, "LogGOPSim: simulating large-scale applications in the LogGOPS model", HPDC 2010,
//! doi:10.1145/1851476.1851564.

pub mod combine;
pub mod cuda;
pub mod device;
pub mod host;
pub mod operation;
pub mod order;
mod pushed;
pub mod reach;
pub mod sim;
pub mod stop;
pub mod trace;

pub use crate::cuda::StreamId as DeviceStream;
pub use cuda::{CudaEngine, DeviceMessage, LaunchPlace};
pub use device::CommDevice;
pub use host::ran::Ran;
pub use host::{HostEngine, HostFlight};
pub use stop::{Progress, Stop};

use crate::base::Result;

/// A hook for an executor that cannot move. The communicator implements it. It also hears of every
/// token that moves.
pub trait Waiting: trace::Tracer {
    /// Passes a moment. `peer` is the local rank whose token or credit is missing.
    ///
    /// # Errors
    /// When the communicator was aborted, a peer died, or a limit ran out.
    fn pause(&mut self, peer: usize) -> Result<()>;

    /// A part has moved, and there is more: waiting begins anew.
    ///
    /// # Errors
    /// When the communicator was aborted, or a peer died.
    fn moved(&mut self) -> Result<()> {
        Ok(())
    }
}
