//! Choices of a communicator of devices: the table of the host, with other limits.
//!
//! **Problem.** On a device every call is a launch that interprets a plan; there are no shorter
//! ways, each connection is a pair with any protocol, and a channel is a block of threads that
//! costs little.
//!
//! **Idea.** The table is bound from inputs without the host's short cuts ([`inputs`]); which
//! algorithm runs is its answer. The protocol then follows from the size ([`choice`]): flags in
//! each word (LL) while a launch costs more than the data, lines of 128 bytes (LL128) where all
//! paths keep these together, slots (Simple) for the rest. Its limits are guesses until a device
//! has been measured: `docs/gpu.md`.

use super::{Asked, Choice, Inputs, ProtocolChoice, Route, Rule, Table};
use crate::algo::REGISTRY;
use crate::plan::{Algorithm, Collective};

/// Up to here every word carries a flag.
pub const LL_BYTES: usize = 16 << 10;
/// Up to here lines carry flags.
pub const LL128_BYTES: usize = 256 << 10;
/// A token of that many pieces fits the slots of LL128.
const LL128_RANKS: u32 = 32;
/// A further channel pays from this size on.
const CHANNEL_BYTES: usize = 64 << 10;

/// Algorithms whose gain is memory that all ranks have in common: over pairs they are many
/// messages, and each device has slots for each other one. They run where they are named.
const OF_SHARED_MEMORY: [Algorithm; 3] = [Algorithm::Nvls, Algorithm::NvlsTree, Algorithm::TwoShot];

/// The inputs of a communicator of devices, from those of its ranks on the host. One-shot tokens
/// are at most `eager_bytes` long.
pub fn inputs(host: &Inputs, channels: (u16, u16), eager_bytes: usize) -> Inputs {
    let mut inputs = Inputs {
        oversubscribed: false,
        eager_limit: Some(0),
        direct: false,
        channels,
        channel_bytes: CHANNEL_BYTES,
        ..host.clone()
    };
    inputs.setting.eager_bytes = eager_bytes;
    let named = |&collective: &Collective| host.allowed.is_restricted(collective);
    if !Collective::ALL.iter().any(named) {
        let without = |collective, names| Rule {
            collective,
            exclude: true,
            names,
        };
        let mut rules = vec![without(None, OF_SHARED_MEMORY.to_vec())];
        // Over pairs, each rank would be sent the blocks of all.
        for entry in REGISTRY.iter().filter(|entry| entry.all_blocks) {
            let mut names = OF_SHARED_MEMORY.to_vec();
            names.push(entry.algorithm);
            rules.push(without(Some(entry.collective), names));
        }
        // The others compute every collective.
        let _ = inputs.allowed.restrict_algorithms(&rules);
    }
    inputs
}

/// The route of a call on devices: each is a launch, or several.
pub fn route(asked: &Asked, table: &Table) -> Route {
    Route::of(asked, table).on_device(asked.collective)
}

/// A choice of the table, with the protocol that a device takes for a rank's contribution of
/// `bytes`. `has_ll128`: all paths keep lines of 128 bytes together.
pub fn choice(
    table: &Table,
    (collective, bytes): (Collective, usize),
    chosen: Choice,
    has_ll128: bool,
) -> Choice {
    use ProtocolChoice::{Ll, Ll128, Simple};
    let inputs = table.inputs();
    let has_ll128 = has_ll128 && inputs.nranks <= LL128_RANKS;
    let wanted = match bytes {
        0..=LL_BYTES => [Ll, Ll128, Simple],
        _ if bytes <= LL128_BYTES => [Ll128, Simple, Ll],
        _ => [Simple, Ll128, Ll],
    };
    let is_allowed = |&protocol: &ProtocolChoice| {
        (protocol != Ll128 || has_ll128) && inputs.allowed.allows_protocol(collective, protocol)
    };
    let protocol = wanted.into_iter().find(is_allowed);
    Choice {
        protocol: protocol.unwrap_or(Simple),
        ..chosen
    }
}
