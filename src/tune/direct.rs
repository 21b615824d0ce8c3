//! When a call asks whether all ranks can read each other's buffers where they lie.
//!
//! Asking is a hand-over more, so small calls do not. Neither do calls on a node with many caches
//! and sockets for which direct reads would not pay: there every rank reads every other, so the
//! links between the parts carry much more than in a call that goes level by level.

use super::Choice;
use super::grid::{CLASSES, Grid};
use super::inputs::Inputs;
use super::predict::Predictor;
use crate::algo;
use crate::plan::{Algorithm, Collective};
use crate::price::parts;

/// Most ranks that read each other directly: each needs a connection with every other.
pub(super) const MOST_RANKS: u32 = 256;
/// From this size on, asking where buffers lie costs little beside what it may save.
const LEAST_BYTES: usize = 64 << 10;
/// From this size of a block on, asking pays for collectives that consist of messages.
const LEAST_BLOCK_BYTES: usize = 128 << 10;
/// Up to so many ranks direct reads were measured.
const MEASURED_RANKS: u32 = 16;
/// Direct reads take about this part of the time of the same plan over slots: a copy less, but the
/// links between parts carry as much.
const PART: f64 = 0.75;

/// The least size of a call that asks. Where ranks take turns on their cores the hand-over costs
/// much more, above all beside a call in which a root need wait for nobody.
pub(super) fn least_bytes(inputs: &Inputs, collective: Collective, algorithm: Algorithm) -> usize {
    let usual = match algorithm {
        Algorithm::Bundle => LEAST_BLOCK_BYTES,
        _ => LEAST_BYTES,
    };
    match (inputs.oversubscribed, collective.has_root()) {
        (false, _) => usual,
        (true, false) => 4 * usual,
        (true, true) => 32 * usual,
    }
}

/// The size classes, as bits, in which direct reads may pay beside what the grid has chosen.
pub(super) fn paying(
    inputs: &Inputs,
    predictor: &Predictor,
    grid: &Grid,
    collective: Collective,
) -> u64 {
    let setting = &inputs.setting;
    let crosses = parts::are_seen(&setting.machine) && inputs.nranks > MEASURED_RANKS;
    let Some(algorithm) = algo::direct(collective).filter(|_| crosses) else {
        return u64::MAX;
    };
    let flat = Choice::plain(collective, algorithm, 1);
    let pays = |class: usize| {
        let flat = predictor.time_ns(collective, &flat, 1 << class);
        let chosen = grid.rows[collective as usize][class].time_ns;
        flat.is_none_or(|flat| flat * PART <= chosen)
    };
    let bits = (0..CLASSES).filter(|&class| pays(class));
    bits.fold(0, |bits, class| bits | 1 << class)
}
