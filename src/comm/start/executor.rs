//! Puts together the engine, tables and queue of a communicator from the facts on which its ranks
//! have agreed.

use super::cma::Private;
use super::layout::{EAGER_BYTES, slot_bytes};
use super::party::{Party, plain_channels};
use super::{net, tuning};
use crate::base::Result;
use crate::comm::failing::stood::Stood;
use crate::comm::flight::direct::Direct;
use crate::comm::network::Network;
use crate::comm::owned::Exec;
use crate::comm::owned::{self, Faults, Members, Reused, Sizes, Totals};
use crate::config::{self, Settings};
use crate::exec::host::cards::CardExchange;
use crate::exec::host::shown::Mates;
use crate::exec::host::trials::{LEAST_OVER_SLOTS, StoreTrials};
use crate::exec::host::{HostEngine, Wires, launch};
use crate::exec::order::OwnPlanner;
use crate::plan::{Algorithm, Collective, Geometry, Nodes};
use crate::proxy::service::Address;
use crate::topo;
use crate::transport::cma::{Mark, MarkCard, wish};
use crate::transport::segment::Nonce;
use crate::tune::form::WAITED_BELOW;
use crate::tune::stores::Stores;
use crate::tune::{self, Choice, Inputs, Table};
use std::collections::VecDeque;
use std::sync::Arc;

// Launches try kinds of store from this size on, and a message that is waited for does not.
const _: () = assert!(WAITED_BELOW == LEAST_OVER_SLOTS);

/// Connections, tables and kernels of a rank.
pub(in crate::comm) fn exec(
    party: &Party,
    (mut inputs, nodes, kind): (Inputs, Nodes, Stores),
    direct: Direct,
    network: Option<&Network>,
) -> Exec {
    if network.is_some_and(Network::is_socket) {
        tuning::over_sockets(&mut inputs);
    }
    let (settings, node, rank) = (party.settings, party.node, party.bootstrap.rank());
    let (nranks, layout) = (inputs.nranks, *node.layout());
    let (me, places, all) = (rank.index(), party.places, nranks as usize);
    let here = places.iter().filter(|it| it.shares_process(&places[me]));
    let bounded = node.clone();
    let bounded = bounded.bounded_by(settings.slot_memory() as usize, here.count());
    let (source, bell) = (Box::new(bounded), Box::new(node.clone()));
    let mut wires = Wires::new((me, all, layout.channels), node.fans(), source, bell);
    wires.place_on(plain_channels(settings, layout.channels));
    wires.carried = network.map_or_else(Default::default, |it| net::carried(&it.links));
    wires.mates = mates(party, network, direct);
    wires.sends_meet = settings.check();
    let flip = settings.fault_flip().filter(|flip| flip.rank == rank.0);
    let turns = match network.is_some_and(|network| network.takes_turns) {
        true => wires.channels(),
        false => 1,
    };
    let stream_bytes = match kind {
        Stores::Cached => usize::MAX,
        Stores::Streamed => launch::stream_bytes(inputs.oversubscribed),
    };
    let trials = StoreTrials::new(told_to_stream(settings));
    // A plan whose connections take channels in turn is there once for each.
    let plans = (owned::PLANS + owned::PLANS_PER_RANK * nranks as usize) * usize::from(turns);
    let memory = (slot_bytes(settings) * Geometry::SLOTS as usize, EAGER_BYTES);
    let cards = CardExchange::new(card_geometry(memory));
    let nodes = Arc::new(nodes);
    let planner = planner(&nodes);
    Exec {
        engine: HostEngine::new(wires, plans, stream_bytes, trials, planner, cards),
        sizes: Sizes {
            buffer: memory.0,
            eager: memory.1,
        },
        table: Table::remembered(inputs),
        in_flight: VecDeque::new(),
        scratch: Reused {
            exact: Default::default(),
            spare: None,
            barrier_word: vec![0],
        },
        counts: Totals {
            calls: 0,
            steps_planned: 0,
            small_calls: Default::default(),
        },
        members: Members {
            rank: rank.0,
            nranks,
            nodes,
            turns,
            folds: network.and_then(|network| network.folds),
        },
        past: Default::default(),
        cards: None,
        device: None,
        stalled: Stood::default(),
        faults: Faults::new(flip.map(|flip| (flip.call, flip.slot))),
    }
}

/// The ranks of this node, which read each other's buffers unless the settings forbid it.
fn mates(party: &Party, network: Option<&Network>, direct: Direct) -> Mates {
    let me = party.bootstrap.rank();
    let here = topo::local_places(me, party.places);
    let mine = &party.places[me.index()];
    let mut others = here.iter().filter(|place| place.rank != me);
    Mates {
        has_threads: others.any(|place| place.shares_process(mine)),
        buffers: Box::new(direct),
        read_each_other: network.is_some() && party.settings.direct() && here.len() > 1,
        ..Mates::default()
    }
}

/// The planner of an engine whose ranks are so on their nodes.
fn planner(nodes: &Arc<Nodes>) -> OwnPlanner {
    let nodes = Arc::clone(nodes);
    Box::new(move |shape| crate::algo::plan(shape, &nodes))
}

/// Slots and slices of the tokens that hold cards, which go over fans.
fn card_geometry(memory: (usize, usize)) -> Geometry {
    let (collective, algorithm) = (Collective::AllGather, Algorithm::OneShot);
    let protocol = Choice::plain(collective, algorithm, 1).protocol;
    tune::geometry(collective, algorithm, protocol, memory)
}

/// Whether the settings say that results are written past the cache, or that they are not.
fn told_to_stream(settings: &Settings) -> Option<bool> {
    match settings.stores() {
        config::Stores::Cached => Some(false),
        config::Stores::Streamed => Some(true),
        config::Stores::Auto => None,
    }
}

/// How the buffers of the other ranks of the node are reached.
pub(in crate::comm) fn reach(
    party: &Party,
    services: Vec<Address>,
    mark: Mark,
    marks: &[MarkCard],
) -> Result<Direct> {
    let Party {
        bootstrap,
        settings,
        places,
        ..
    } = *party;
    let private = match wish::serves(services.len(), places.len()) {
        true => super::cma::agree(bootstrap, settings, places, marks, &services)?,
        false => None,
    };
    Ok(direct(party, services, mark, private))
}

/// Makes the [`Direct`] of ranks that have agreed on `private` already.
pub(in crate::comm) fn direct(
    party: &Party,
    services: Vec<Address>,
    mark: Mark,
    private: Option<Private>,
) -> Direct {
    let me = party.bootstrap.rank();
    let mates = topo::local_places(me, party.places).into_iter();
    let processes = mates.map(|place| place.rank).zip(services).collect();
    Direct::new(me, Nonce(party.nonce), processes, mark, private)
}
