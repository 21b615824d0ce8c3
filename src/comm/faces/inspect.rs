//! Looks into a communicator, for tests, studies and the command: none of it is needed to use one.

use crate::base::{Error, Result};
use crate::comm::Communicator;
use crate::comm::calling::device;
use crate::comm::network::Network;
use crate::exec::Ran;
use crate::price::Costs;
use crate::proxy::net::{Rail, live};
use std::sync::Arc;

/// Looks into a communicator.
#[doc(hidden)]
pub trait Inspect {
    /// The settings it was made with.
    fn settings(&self) -> &crate::config::Settings;

    /// The table from which algorithms are chosen, as it was bound at init.
    ///
    /// # Errors
    /// `InvalidUsage` while another thread is inside a call of this communicator.
    fn tuner(&self) -> Result<crate::tune::Table>;

    /// The ring of a channel, all ranks in order from rank 0 on. Channels beyond the last begin
    /// again with the first.
    ///
    /// # Errors
    /// Those of [`Communicator::tuner`].
    fn ring_order(&self, channel: u16) -> Result<Vec<u32>>;

    /// The ranks of a node, counted from 0 in the order of their lowest ranks, as the tree of a
    /// channel passes them, from the head down.
    ///
    /// # Errors
    /// Those of [`Communicator::tuner`]; there is no such node.
    fn tree_chain(&self, channel: u16, node: u32) -> Result<Vec<u32>>;

    /// Records from now on what the engine of connections between nodes does for this rank; for
    /// tests and for studies, as the record grows until it is taken.
    fn record_network(&self);

    /// Returns the events that were recorded since the last time; none where all ranks are on one
    /// node.
    fn network_events(&self) -> Vec<crate::proxy::net::trace::Event>;

    /// Lets `profiler` hear when each step of each operation between nodes begins and ends to be
    /// posted, transmitted and done, from now on. Not of what goes through other ranks (`pxn`).
    fn profile_network(&self, profiler: Arc<dyn crate::proxy::net::profile::Profiler>);

    /// Pictures what is under way between nodes, and counts the operations that the engine has
    /// taken over since the beginning; `None` where all ranks are on one node. It may be printed.
    fn network_picture(&self) -> Option<live::Picture>;

    /// Bytes of payload to and from other nodes that kolo has copied, by way of slots; 0 for what
    /// went from and to where it lies.
    fn network_copied(&self) -> u64;

    /// Connections that this rank has made for other ranks of its node, which send through it.
    fn proxied_connections(&self) -> usize;

    /// Where kolo's own threads run for this rank, and why there.
    fn pinning(&self) -> &crate::topo::Pinning;

    /// Connections to (sending) and from (receiving) ranks of other nodes that have been made.
    fn network_connections(&self) -> (usize, usize);

    /// Connections by which this rank sends to other nodes: peer, channel, and the devices here and
    /// there.
    fn rails(&self) -> Vec<(u32, u16, Rail)>;

    /// Steps executed so far on this rank, and the steps that the plans of all its calls have:
    /// equal when nothing is in flight, because there is no path beside the plan.
    fn step_counts(&self) -> Result<(u64, u64)>;

    /// Calls so far in which the ranks have read each other's buffers where they lie.
    ///
    /// # Errors
    /// Those of [`Communicator::tuner`].
    fn direct_calls(&self) -> Result<u64>;

    /// Tokens so far that this rank has shown to ranks of its node where they lie, in no slot, in a
    /// job on several nodes.
    ///
    /// # Errors
    /// Those of [`Communicator::tuner`].
    fn tokens_shown(&self) -> Result<u64>;

    /// Counts who has carried calls on the host out so far; zeros in builds without debug
    /// assertions.
    ///
    /// # Errors
    /// Those of [`Communicator::tuner`].
    fn executors(&self) -> Result<Ran>;

    /// Returns the costs that kolo assumes of this communicator's connections where nobody has
    /// measured.
    fn assumed_costs(&self) -> Costs;
}

impl Inspect for Communicator {
    fn settings(&self) -> &crate::config::Settings {
        &self.queue.settings
    }

    fn tuner(&self) -> Result<crate::tune::Table> {
        Ok(self.queue.user()?.asked_table().clone())
    }

    fn ring_order(&self, channel: u16) -> Result<Vec<u32>> {
        let exec = self.queue.user()?;
        let natural = || (0..self.queue.nranks).collect();
        let mut order = exec
            .members
            .nodes
            .ring(channel)
            .map_or_else(natural, <[u32]>::to_vec);
        let first = order.iter().position(|&rank| rank == 0).unwrap_or(0);
        order.rotate_left(first);
        Ok(order)
    }

    fn tree_chain(&self, channel: u16, node: u32) -> Result<Vec<u32>> {
        let exec = self.queue.user()?;
        if node >= exec.members.nodes.count() {
            let what = format!("node {node} of {}", exec.members.nodes.count());
            return Err(Error::argument(what, "nodes count from 0"));
        }
        Ok(exec.members.nodes.chain(channel, node).ranks)
    }

    fn record_network(&self) {
        if let Some(links) = self.queue.links() {
            live::record(links);
        }
    }

    fn network_events(&self) -> Vec<crate::proxy::net::trace::Event> {
        let links = self.queue.links();
        links.map(live::recorded).unwrap_or_default()
    }

    fn profile_network(&self, profiler: Arc<dyn crate::proxy::net::profile::Profiler>) {
        if let Some(links) = self.queue.links() {
            live::profile(links, profiler);
        }
    }

    fn network_picture(&self) -> Option<live::Picture> {
        self.queue.links().map(live::picture)
    }

    fn network_copied(&self) -> u64 {
        self.queue.links().map(live::copied).unwrap_or_default()
    }

    fn proxied_connections(&self) -> usize {
        let network = self.queue.network.as_ref();
        let proxied = network.and_then(|network| network.proxied.as_ref());
        proxied.map_or(0, |proxied| proxied.connections())
    }

    fn pinning(&self) -> &crate::topo::Pinning {
        &self.queue.pinning
    }

    fn network_connections(&self) -> (usize, usize) {
        let links = self.queue.links();
        links.map(live::connections).unwrap_or_default()
    }

    fn rails(&self) -> Vec<(u32, u16, Rail)> {
        let rails = self.queue.links().map(|links| links.rails());
        let rails = rails.into_iter().flatten();
        rails
            .map(|(peer, channel, rail)| (peer.0, channel, rail))
            .collect()
    }

    fn step_counts(&self) -> Result<(u64, u64)> {
        let mut exec = self.queue.user()?;
        device::settle_device(&self.queue, &mut exec, "step_counts")?;
        let (done, planned) = match exec.device.as_deref() {
            None => (0, 0),
            Some(on) => (on.engine.steps_executed()?, on.steps_planned),
        };
        let (host, short) = (
            exec.engine.steps_executed(),
            exec.counts.steps_planned(&exec.members),
        );
        let of_host = short + exec.engine.steps_planned();
        Ok((host + done, of_host + planned))
    }

    fn direct_calls(&self) -> Result<u64> {
        Ok(self.queue.user()?.engine.direct_launches())
    }

    fn tokens_shown(&self) -> Result<u64> {
        Ok(self.queue.user()?.engine.tokens_shown())
    }

    fn executors(&self) -> Result<Ran> {
        Ok(self.queue.user()?.engine.ran())
    }

    fn assumed_costs(&self) -> Costs {
        let costs = Costs::default();
        match self.queue.network.as_ref().is_some_and(Network::is_socket) {
            true => costs.over_sockets(),
            false => costs,
        }
    }
}
