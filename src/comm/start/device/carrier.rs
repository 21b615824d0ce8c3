//! Who moves what devices send to other nodes: the connections of the communicator, driven by
//! kolo's own thread, because a call on a stream returns at once.

use crate::base::clock;
use crate::base::turns;
use crate::base::{Code, Error, Result};
use crate::comm::network::Network;
use crate::config::{Progress, Settings};
use crate::cuda;
use crate::proxy::net::Links;
use crate::proxy::net::live::OF_DEVICES;
use crate::proxy::progress::{Engine, Work};
use crate::transport::gpu::Stages;
use crate::wire::carrier::{CarriedSlots, Carrier, DeviceCarrier};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Who has the carrier besides graphs: the communicator and its engine.
const KEEPERS: usize = 2;
/// How long the end of a graph may take to be told.
const GRAPH_LIMIT: Duration = Duration::from_secs(2);

/// The connections of devices to other nodes.
pub(in crate::comm) struct StageCarrier {
    links: Arc<Links>,
    stages: Arc<Stages>,
    /// Channels of the host, which come before those of devices.
    on_host: u16,
    launches: AtomicU64,
    /// The communicator, once there is one.
    work: OnceLock<Weak<dyn Work>>,
}

impl StageCarrier {
    /// Of a communicator on several nodes.
    ///
    /// # Errors
    /// `InvalidUsage`: no thread of kolo may use the network.
    pub fn new(
        (network, stages): (&Network, &Arc<Stages>),
        (settings, on_host): (&Settings, usize),
    ) -> Result<StageCarrier> {
        if !network.links.net().any_thread() {
            return Err(Error::usage(
                format!(
                    "the network {} may be used by threads of the program only, and what devices \
                     send moves while these do other things",
                    network.links.net().name()
                ),
                "choose another network with KOLO_NET, such as socket, or start MPI with \
                 MPI_THREAD_MULTIPLE",
            ));
        }
        if settings.progress() == Progress::Inline {
            return Err(Error::usage(
                "devices of several nodes need kolo's own thread, and KOLO_PROGRESS=inline \
                 forbids it",
                "unset KOLO_PROGRESS, or make the communicator on the host",
            ));
        }
        Ok(StageCarrier {
            links: Arc::clone(&network.links),
            stages: Arc::clone(stages),
            on_host: on_host as u16,
            launches: AtomicU64::new(OF_DEVICES),
            work: OnceLock::new(),
        })
    }

    /// Refuses the end of the communicator while graphs have its calls: nobody would move their
    /// data, and their kernels would wait for ever.
    ///
    /// # Errors
    /// `InvalidUsage`, with how many there are.
    pub fn refuse_graphs(self: &Arc<StageCarrier>) -> Result<()> {
        let calls = || {
            cuda::drop_unused();
            Arc::strong_count(self).saturating_sub(KEEPERS)
        };
        // A driver tells of the end of a graph on a thread of its own, some time after it.
        let since = clock::now();
        while calls() > 0 && !since.past(GRAPH_LIMIT) {
            turns::sleep(Duration::from_millis(1));
        }
        match calls() {
            0 => Ok(()),
            calls => Err(Error::usage(
                format!(
                    "CUDA graphs have {calls} calls of this communicator that go to other nodes, \
                     and it moves their data"
                ),
                "destroy these graphs (cudaGraphExecDestroy, cudaGraphDestroy), and then the \
                 communicator",
            )),
        }
    }

    /// The communicator is made, and kolo has its thread or not.
    ///
    /// # Errors
    /// It has none.
    pub fn bind(&self, work: Weak<dyn Work>, has_thread: bool) -> Result<()> {
        let _ = self.work.set(work);
        match has_thread {
            true => Ok(()),
            false => Err(Error::new(
                Code::SystemError,
                "kolo's own thread, which devices of several nodes need, cannot be started",
                "raise the limit on processes (ulimit -u) or on memory",
            )),
        }
    }
}

impl DeviceCarrier for StageCarrier {
    fn is_remote(&self, rank: u32) -> bool {
        self.links.is_remote(rank as usize)
    }

    fn expect(&self, launch: &[CarriedSlots]) {
        let number = self.launches.fetch_add(1, Ordering::Relaxed);
        for slots in launch {
            // Plans have no other channels than the stages: an end was made for each.
            let Ok(channel) = self.stages.number(slots.channel) else {
                continue;
            };
            let channel = self.on_host + channel;
            self.links
                .expect(number, CarriedSlots { channel, ..*slots });
        }
        if let Some(work) = self.work.get().and_then(Weak::upgrade) {
            Engine::global().add(work);
        }
    }
}
