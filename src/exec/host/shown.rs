//! Buffers that a rank shows to ranks of its node in jobs on several nodes: which ones, and which
//! steps of a plan may. The tokens that do are those of [`super::near`].

use crate::base::Result;
use crate::exec::order::LaunchOrder;
use crate::exec::reach::{CardPlace, Copied, NodeBuffers, Unreached};
use crate::plan::analysis::outlets::{self, Outlets};
use crate::plan::{Operand, Plan, Space};
use crate::wire::ports::PortId;

/// Calls of fewer bytes, for each block, are copied: where data are in the cache a copy costs less
/// than to find the memory of another process.
const LEAST_BYTES: usize = 64 << 10;

/// The ranks of this node and their buffers.
pub struct Mates {
    /// How this rank reaches the buffers.
    pub buffers: Box<dyn NodeBuffers>,
    /// In jobs on several nodes: the ranks read each other's buffers where they lie.
    pub read_each_other: bool,
    /// Some of them are threads of this process.
    pub has_threads: bool,
    /// Tokens so far that this rank has shown in no slot.
    pub tokens_shown: u64,
    /// It was said that buffers which could be read are copied.
    pub told_of_copies: bool,
}

impl Default for Mates {
    fn default() -> Mates {
        Mates {
            buffers: Box::new(Unreached),
            read_each_other: false,
            has_threads: false,
            tokens_shown: 0,
            told_of_copies: false,
        }
    }
}

impl Mates {
    /// The buffers of a launch that scales nothing if `is_plain`, if its ranks read those of their
    /// mates: as all ranks know alike.
    ///
    /// # Errors
    /// When the service of this process is gone.
    pub fn show(
        &mut self,
        order: &LaunchOrder,
        plan: &NearPlan,
        is_plain: bool,
    ) -> Result<Option<ShownMemory>> {
        let shape = &order.shape;
        // A send ends when its data are in slots, as far as these reach.
        let is_message = shape.collective.is_point_to_point();
        if !plan.is_near.contains(&true) || is_message || order.bytes() < LEAST_BYTES {
            return Ok(None);
        }
        let (sent, received) = order.buffer_bytes(shape.rank);
        let mut copies = Vec::new();
        let freed = self.buffers.freed();
        let send = self.buffers.find(order.send, sent, &mut copies)?;
        let recv = self
            .buffers
            .find(order.recv.cast_const(), received, &mut copies)?;
        self.buffers.hear(shape.rank as usize, freed);
        let places = [send, recv];
        let may_show = is_plain && plan.may_show(order.in_place);
        let is_mappable = places.iter().any(is_mappable);
        if !may_show && is_mappable {
            self.tell_of_copies(order);
        }
        Ok(Some(ShownMemory {
            may_be_shown: may_show && (is_mappable || self.has_threads),
            places,
            freed,
            copies,
        }))
    }

    /// Says once why buffers that could be read are copied.
    fn tell_of_copies(&mut self, order: &LaunchOrder) {
        if std::mem::replace(&mut self.told_of_copies, true) {
            return;
        }
        tracing::info!(
            "{} by {}{}: registered buffers, and those of koloMemAlloc, are not read where they \
             lie inside the nodes, as its steps fold into what they have sent, or scale it",
            order.shape.collective.name(),
            order.shape.algorithm.name(),
            if order.in_place { " in place" } else { "" },
        );
    }
}

/// The near connections of a bound plan, and memory that its steps may show over them.
pub struct NearPlan {
    /// Which connections are near; none but in jobs on several nodes.
    pub is_near: Vec<bool>,
    /// Memory that the steps of each lane may show, out of place and in place; empty if none is
    /// near.
    pub outlets: [Outlets; 2],
    /// The ends that must be empty when a lane ends that has shown something.
    pub lane_settled: Vec<Vec<PortId>>,
}

impl NearPlan {
    /// Of a plan whose connections have these ends. `handed` are the ends of each lane that must be
    /// empty whatever it has shown.
    pub fn new(
        plan: &Plan,
        ends: &[PortId],
        handed: &[Vec<PortId>],
        is_near: impl Fn(&PortId) -> bool,
    ) -> NearPlan {
        let near: Vec<bool> = ends.iter().map(is_near).collect();
        let outlets = [false, true].map(|in_place| {
            if !near.contains(&true) {
                return Outlets::new();
            }
            outlets::shown(plan, |index| near[index], in_place)
        });
        let mut lane_settled = handed.to_vec();
        for (lane, settled) in lane_settled.iter_mut().enumerate() {
            for step in plan.lane_steps(lane) {
                let dsts = plan.lists.get(step.dsts).iter();
                let dsts = dsts.filter_map(Operand::as_connection);
                for index in dsts.filter(|&index| near[index]) {
                    if !settled.contains(&ends[index]) {
                        settled.push(ends[index]);
                    }
                }
            }
        }
        NearPlan {
            is_near: near,
            outlets,
            lane_settled,
        }
    }

    /// Whether some step may show memory of the caller.
    fn may_show(&self, in_place: bool) -> bool {
        let mut steps = self.outlets[usize::from(in_place)].iter().flatten();
        steps.any(Option::is_some)
    }
}

/// Buffers of a launch of this rank, as mates may be shown parts of them.
pub struct ShownMemory {
    /// Those of the send and of the receive buffer.
    places: [CardPlace; 2],
    /// Some mates can read one of them, and some step may let them.
    pub may_be_shown: bool,
    /// [`NodeBuffers::freed`] of this process.
    pub freed: u64,
    /// Bytes of them that mates read in copies.
    pub copies: Vec<Copied>,
}

impl ShownMemory {
    /// The place of the send or of the receive buffer.
    pub fn place(&self, space: Space) -> &CardPlace {
        &self.places[usize::from(space != Space::Input)]
    }
}

/// Whether processes of the node can map a buffer.
pub fn is_mappable(place: &CardPlace) -> bool {
    place.is_known() && place.number != CardPlace::NO_BUFFER
}
