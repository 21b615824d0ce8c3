//! Which connections of a plan lead to other nodes, and how many slots a launch passes over them:
//! what whoever moves these wants to know beforehand.

use crate::base::{Error, Result};
use crate::plan::{ConnectionUse, Direction, Link, Operand, Plan, Window};
use crate::wire::carrier::{CarriedSlots, DeviceCarrier};

/// A connection of a plan to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StagedUse {
    peer: u32,
    channel: u16,
    is_send: bool,
    /// The lane whose steps use it.
    pub lane: usize,
    /// Tokens of a round.
    tokens: u64,
}

impl StagedUse {
    /// Returns the slots of a launch in which its lane has this window: each slice takes one.
    pub fn slots(&self, window: &Window) -> CarriedSlots {
        CarriedSlots {
            peer: self.peer,
            channel: self.channel,
            is_send: self.is_send,
            slots: self.tokens * window.rounds() * u64::from(window.slices()),
            wished: false,
        }
    }
}

/// Whether ranks of several nodes can run a plan.
///
/// # Errors
/// It uses memory that all ranks have in common.
pub(super) fn check(plan: &Plan) -> Result<()> {
    let is_pair = |used: &ConnectionUse| matches!(used.link, Link::Pair { .. });
    if plan.connections.iter().all(is_pair) {
        return Ok(());
    }
    Err(Error::usage(
        format!(
            "{} by {} uses memory that all ranks have in common, and these are on several nodes",
            plan.shape.collective.name(),
            plan.shape.algorithm.name()
        ),
        "name another algorithm in KOLO_ALGO, or none",
    ))
}

/// Whether a pair connects ranks of different nodes. One of them is this rank.
pub(super) fn is_between(carrier: &dyn DeviceCarrier, link: Link) -> bool {
    match link {
        Link::Pair { writer, reader, .. } => carrier.is_remote(writer) || carrier.is_remote(reader),
        // `plan::pairs` has left none of these.
        Link::Fan { .. } | Link::Cast { .. } => false,
    }
}

/// The connections of a plan of pairs to other nodes.
pub(super) fn of_plan(plan: &Plan, carrier: &dyn DeviceCarrier) -> Vec<StagedUse> {
    let mut found = Vec::new();
    for (index, used) in plan.connections.iter().enumerate() {
        let Link::Pair {
            writer,
            reader,
            channel,
        } = used.link
        else {
            continue;
        };
        let is_send = used.direction == Direction::Send;
        let peer = if is_send { reader } else { writer };
        if !carrier.is_remote(peer) {
            continue;
        }
        let uses = |lane: &usize| {
            let mut steps = plan.lane_steps(*lane).iter();
            steps.any(|step| {
                let (srcs, dsts) = (plan.lists.get(step.srcs), plan.lists.get(step.dsts));
                let mut used = srcs.iter().chain(dsts).filter_map(Operand::as_connection);
                used.any(|other| other == index)
            })
        };
        if let Some(lane) = (0..plan.lanes.len()).find(uses) {
            found.push(StagedUse {
                peer,
                channel,
                is_send,
                lane,
                tokens: plan.touches(index),
            });
        }
    }
    found
}
