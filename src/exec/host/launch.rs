//! A launch: a plan bound to buffers, sizes, a kernel and connections.

use super::kernel::Kernel;
use super::shown::{NearPlan, ShownMemory};
use super::trials::StoreTrial;
use super::wires::Wires;
use crate::base::{Error, Result, clock};
use crate::exec::reach::PeerBuffers;
use crate::plan::analysis::outlets::{self, Outlets};
use crate::plan::analysis::{direct, inlets};
use crate::plan::window::{Binding, Geometry};
use crate::plan::{Direction, Operand, Plan, Program, Protocol, Window};
use crate::wire::carrier::Carrier;
use crate::wire::ports::{PortId, Ports};
use std::sync::Arc;

/// The least size of slices that are written past the cache. A reader on another core fetches them
/// from memory up to four times as fast as from the writer's cache; where ranks share cores, the
/// writer's cache is often the reader's own, and only larger slices are better off in memory.
pub fn stream_bytes(oversubscribed: bool) -> usize {
    match oversubscribed {
        true => 32 << 10,
        false => 8 << 10,
    }
}

/// A program with the ends of its connections, looked up once per communicator.
pub struct Bound {
    program: Program,
    /// The ends of the plan's connections, in its order.
    pub ends: Vec<PortId>,
    /// The ends that each lane uses, once each.
    pub lane_ends: Vec<Vec<PortId>>,
    /// Those that it writes, with the tokens that pass in a round, for each slice.
    pub lane_written: Vec<Vec<(PortId, u64)>>,
    /// The connections of each lane whose other end may be on another node, with the tokens that
    /// pass in a round, in the order in which the plan opened them.
    pub lane_carried: Vec<Vec<(usize, u64)>>,
    /// The ends that must be empty when a lane ends: those that lead to other nodes, and where
    /// sends meet their receives, that of a message.
    pub lane_handed: Vec<Vec<PortId>>,
    /// Which connections lead to other nodes; empty where none does.
    pub is_remote: Vec<bool>,
    /// From which of them every large token may be received where the output is; empty likewise.
    pub is_inlet: Vec<bool>,
    /// Which lanes have such connections.
    pub lane_is_remote: Vec<bool>,
    /// Outlets of each lane, out of place and in place: what its steps may send straight from the
    /// caller's memory. Empty if nothing.
    pub outlets: [Outlets; 2],
    /// Connections inside the node over which steps may show where data lie.
    pub near: NearPlan,
    /// How its pair connections hand tokens over.
    pub protocol: Protocol,
    /// Whether peers may read the buffers where they lie.
    pub is_direct: bool,
    /// Whether peers may write results where they belong.
    pub may_push: bool,
    /// The ends of each lane by which it shows what is never pushed: its contributions.
    pub lane_shown: Vec<Vec<PortId>>,
    /// Whether its tokens pass over fans, whose epoch ends with the call.
    pub has_fans: bool,
}

impl std::ops::Deref for Bound {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}

impl Bound {
    /// Lowers a plan and resolves its connections.
    ///
    /// # Errors
    /// When a connection cannot be made, or the plan is too large.
    pub fn new(mut plan: Plan, protocol: Protocol, wires: &mut Wires) -> Result<Bound> {
        wires.place_folds(&mut plan);
        let used = plan.connections.iter();
        let ends = used.map(|used| wires.resolve(used, protocol));
        let ends = ends.collect::<Result<Vec<PortId>>>()?;
        let lanes = 0..plan.lanes.len();
        let lane_ends: Vec<Vec<PortId>> = lanes.map(|lane| ends_of(&plan, lane, &ends)).collect();
        let (ports, carrier) = (&wires.ports, &wires.carried);
        let is_remote =
            |end: &PortId| ports.is_of_slots(*end) && carrier.is_remote(ports.peer(*end));
        let lane_carried: Vec<Vec<(usize, u64)>> = match wires.carried.somewhere() {
            false => vec![Vec::new(); lane_ends.len()],
            true => lane_ends
                .iter()
                .map(|of| carried(&plan, ports, (&ends, of)))
                .collect(),
        };
        let handed = |of: &Vec<(usize, u64)>| {
            let handed = |index: &usize| {
                let writes = plan.connections[*index].direction == Direction::Send;
                writes && is_remote(&ends[*index])
            };
            let all = of.iter().map(|&(index, _)| index).filter(handed);
            all.map(|index| ends[index]).collect()
        };
        let far = ends.iter().filter(|_| carrier.somewhere());
        let remote: Vec<bool> = far.map(is_remote).collect();
        let lane_is_remote = lane_ends
            .iter()
            .map(|of| of.iter().any(is_remote))
            .collect();
        let takes_parts = carrier.carrier().is_some_and(Carrier::takes_parts);
        let straight = takes_parts && remote.contains(&true);
        let leads_out = |index: usize| {
            // What is sent straight leaves by a port that is written.
            let is_proxied = |it: &dyn Carrier| it.is_proxied(ports.channel(ends[index]));
            remote[index] && !carrier.carrier().is_some_and(is_proxied)
        };
        let outlets = [false, true].map(|in_place| match straight {
            true => outlets::outlets(&plan, leads_out, in_place),
            false => Outlets::new(),
        });
        let lane_handed: Vec<Vec<PortId>> = match wires.meets_receive(&plan.shape) {
            true => lane_ends.clone(),
            false => lane_carried.iter().map(handed).collect(),
        };
        let may_show = |end: &PortId| {
            wires.mates.read_each_other && ports.is_of_slots(*end) && !is_remote(end)
        };
        Ok(Bound {
            is_inlet: inlets::inlets(&plan, &remote),
            is_remote: remote,
            lane_is_remote,
            outlets,
            near: NearPlan::new(&plan, &ends, &lane_handed, may_show),
            lane_handed,
            lane_carried,
            is_direct: direct::is_possible(&plan),
            may_push: direct::may_push(&plan),
            lane_shown: (0..plan.lanes.len())
                .map(|lane| shown(&plan, lane, &ends))
                .collect(),
            has_fans: ends.iter().any(|&end| ports.is_of_fan(end)),
            protocol,
            program: Program::lower(&plan)?,
            lane_written: written(&plan, &ends),
            ends,
            lane_ends,
        })
    }
}

impl Bound {
    /// Whether a slot at this operand is read on another core: the engine of the network reads it
    /// on this one.
    pub fn is_read_elsewhere(&self, operand: &Operand) -> bool {
        let remote = |index: usize| self.is_remote.get(index).copied().unwrap_or(false);
        operand.as_connection().is_some_and(|index| !remote(index))
    }
}

/// The ends that a lane uses.
fn ends_of(plan: &Plan, lane: usize, ends: &[PortId]) -> Vec<PortId> {
    let mut seen = Vec::new();
    for step in plan.lane_steps(lane) {
        let (srcs, dsts) = (plan.lists.get(step.srcs), plan.lists.get(step.dsts));
        for index in srcs.iter().chain(dsts).filter_map(Operand::as_connection) {
            if !seen.contains(&ends[index]) {
                seen.push(ends[index]);
            }
        }
    }
    seen
}

/// The ends by which a lane publishes with steps that are not pushed.
fn shown(plan: &Plan, lane: usize, ends: &[PortId]) -> Vec<PortId> {
    let mut seen = Vec::new();
    for step in plan.lane_steps(lane) {
        let dsts = plan.lists.get(step.dsts);
        if direct::is_pushed(step, dsts) {
            continue;
        }
        for index in dsts.iter().filter_map(Operand::as_connection) {
            if !seen.contains(&ends[index]) {
                seen.push(ends[index]);
            }
        }
    }
    seen
}

/// The ends that each lane writes, with the tokens of a round.
fn written(plan: &Plan, ends: &[PortId]) -> Vec<Vec<(PortId, u64)>> {
    let of_lane = |lane: usize| {
        let mut written: Vec<(PortId, u64)> = Vec::new();
        for step in plan.lane_steps(lane) {
            let dsts = plan.lists.get(step.dsts).iter();
            for index in dsts.filter_map(Operand::as_connection) {
                let tokens = u64::from(step.tokens());
                match written.iter_mut().find(|(end, _)| *end == ends[index]) {
                    Some((_, sum)) => *sum += tokens,
                    None => written.push((ends[index], tokens)),
                }
            }
        }
        written
    };
    (0..plan.lanes.len()).map(of_lane).collect()
}

/// The pairs among the ends of a lane, with the tokens of a round.
fn carried(plan: &Plan, ports: &Ports, (ends, lane): (&[PortId], &[PortId])) -> Vec<(usize, u64)> {
    let pairs = ends
        .iter()
        .enumerate()
        .filter(|(_, end)| ports.is_of_slots(**end) && lane.contains(end));
    pairs
        .map(|(index, _)| (index, plan.touches(index)))
        .collect()
}

/// Returns the protocol that a plan runs with where `wanted` is asked for. `pieces` is the number
/// of pieces in its largest token. Flagged lines hold less than slots, and where not even one
/// element of each piece fits, slots are used. That depends only on plan and type: all ranks come
/// to the same.
pub fn protocol(
    pieces: u32,
    wanted: Protocol,
    geometry: &Geometry,
    element_bytes: usize,
) -> Protocol {
    let slot_bytes = geometry.slot_bytes.min(Wires::capacity(wanted));
    let fits = pieces as usize * element_bytes <= slot_bytes * geometry.slice_steps as usize;
    if fits { wanted } else { Protocol::Simple }
}

/// Geometry of a plan between nodes, where a slice of several slots is moved in parts. A token of
/// many pieces is not.
pub fn between_nodes(mut geometry: Geometry, pieces: u32, element_bytes: usize) -> Geometry {
    if pieces > 1 || geometry.slot_bytes < element_bytes {
        geometry.slice_steps = 1;
    }
    geometry
}

/// One call on its way.
pub struct Launch {
    /// Plan and connections that it runs over.
    pub plan: Arc<Bound>,
    /// The caller's send buffer.
    pub send: *const u8,
    /// The caller's receive buffer.
    pub recv: *mut u8,
    /// How data is folded.
    pub kernel: Kernel,
    /// Travels with every token.
    pub signature: u64,
    /// Its number among launches.
    pub number: u64,
    /// Slots and slices.
    pub geometry: Geometry,
    /// How results are written where they belong, and when the launch began; none for small calls
    /// over slots, which write them in the ordinary way.
    pub trial: Option<(StoreTrial, clock::Moment)>,
    /// Nothing is scaled.
    pub is_plain: bool,
    /// Payload may go straight from and to the caller's memory.
    pub straight: bool,
    /// This rank and its mates may show each other where the data lie.
    pub near: Option<ShownMemory>,
    /// Send and receive buffers coincide as the collective allows.
    pub in_place: bool,
    /// Slices from this size on are written to their slots past the cache.
    pub stream_bytes: usize,
    /// Where the buffers of all ranks are read and written; `None` over slots.
    pub direct: Option<PeerBuffers>,
}

// SAFETY: the buffers belong to the call until it completes (contract of the entry points), and
// one driver at a time runs a launch.
unsafe impl Send for Launch {}

impl Launch {
    /// One call over a bound plan. Flagged lines hold less than slots, so with LL and LL128 chunks
    /// shrink to fit.
    ///
    /// # Errors
    /// When a packed token cannot hold its chunks.
    pub fn new(
        plan: Arc<Bound>,
        (send, recv): (*const u8, *mut u8),
        kernel: Kernel,
        signature: u64,
        mut geometry: Geometry,
    ) -> Result<Launch> {
        let least_bytes = plan.pieces() as usize * kernel.element_bytes;
        geometry.slot_bytes = geometry.slot_bytes.min(Wires::capacity(plan.protocol));
        if !plan.is_remote.is_empty() && geometry.slice_steps > 1 {
            // Each part of a slice fits a slot.
            geometry.slot_bytes -= geometry.slot_bytes % kernel.element_bytes;
        }
        if least_bytes > geometry.slice_bytes() {
            return Err(Error::usage(
                format!(
                    "tokens of {} chunks need {least_bytes} bytes, and those of this communicator \
                     hold {}",
                    plan.pieces(),
                    geometry.slice_bytes()
                ),
                "raise KOLO_BUFFSIZE, or choose another algorithm with KOLO_ALGO",
            ));
        }
        let is_plain = !kernel.pre_scaled && kernel.divisor.is_none();
        Ok(Launch {
            is_plain,
            straight: !plan.outlets[0].is_empty() && is_plain,
            near: None,
            in_place: true,
            plan,
            send,
            recv,
            kernel,
            signature,
            number: 0,
            geometry,
            trial: None,
            stream_bytes: stream_bytes(true),
            direct: None,
        })
    }

    /// The ends of a lane that must be empty before it ends, which `has_shown` data in no slot.
    pub fn shown(&self, lane: usize, has_shown: bool) -> &[PortId] {
        match &self.direct {
            // Nobody reads what was pushed.
            Some(reached) if reached.pushed.is_all && self.plan.may_push => {
                &self.plan.lane_shown[lane]
            }
            // What this rank has shown must not be touched before the peers are done with it.
            Some(_) => &self.plan.lane_ends[lane],
            // What goes to other nodes is handed to the network, which nobody may drive later; a
            // message that meets its receive was taken.
            None if !has_shown => &self.plan.lane_handed[lane],
            None => &self.plan.near.lane_settled[lane],
        }
    }

    /// Parts in which a lane moves each slice.
    pub fn parts(&self, lane: usize) -> u32 {
        if self.plan.lane_is_remote[lane] {
            return self.geometry.slice_steps;
        }
        1
    }

    /// The window of one lane for `count` elements (of the data, or of a block): lanes of one
    /// channel share a window, and channels share the data.
    pub fn window(&self, lane: usize, count: usize, (input, output): (u32, u32)) -> Window {
        let binding = Binding {
            count,
            element_bytes: self.kernel.element_bytes,
            input_blocks: input,
            output_blocks: output,
            lane: self.plan.lanes()[lane].channel,
            lanes: self.plan.header().channels,
            pieces: self.plan.pieces(),
        };
        let (layout, chunks) = (self.plan.header().layout, self.plan.chunks());
        Window::bind(layout, chunks, &self.geometry, &binding)
    }
}
