//! From a checked call to the order that an engine is handed.

use crate::algo;
use crate::comm::calling::checked::Checked;
use crate::comm::calling::placing;
use crate::comm::owned::Exec;
use crate::exec::combine::Combine;
use crate::exec::order::{DirectOrder, LaunchOrder};
use crate::plan::{Algorithm, Geometry, Shape};
use crate::tune::Choice;

/// Bytes that a token of a direct call stands for, at most: large enough to cost nothing beside
/// the data, small enough that folding begins early.
const DIRECT_SLICE_BYTES: usize = 256 << 10;

fn shape(exec: &Exec, checked: &Checked, choice: Choice) -> Shape {
    let call = &checked.call;
    let rooted = call.collective.has_root() || call.collective.is_point_to_point();
    // What a rank does for itself only is the plan of one rank alone.
    let (rank, nranks) = match choice.algorithm {
        Algorithm::Local => (0, 1),
        _ => (exec.members.rank, exec.members.nranks),
    };
    Shape {
        collective: call.collective,
        algorithm: choice.algorithm,
        rank,
        nranks,
        root: if rooted { call.peer } else { 0 },
        channels: choice.channels,
    }
}

/// The numbers by which the network folds a call, if it does.
fn folding(
    exec: &Exec,
    checked: &Checked,
    combine: &Combine,
    choice: Choice,
) -> Option<(i32, i32)> {
    let asks = choice.algorithm == Algorithm::CollNet && checked.made.is_none();
    let folds = exec
        .members
        .folds
        .filter(|_| asks && !combine.is_by_program())?;
    folds.numbers(checked.call.dtype, checked.op?)
}

/// The order for a call that goes by one plan, over slots.
pub(in crate::comm) fn order(
    exec: &Exec,
    checked: &Checked,
    combine: Combine,
    choice: Choice,
) -> LaunchOrder {
    let call = &checked.call;
    let collective = call.collective;
    let folding = folding(exec, checked, &combine, choice);
    let mut shape = shape(exec, checked, choice);
    if folding.is_some() {
        shape.algorithm = Algorithm::Switch;
    }
    let memory = (exec.sizes.buffer, exec.sizes.eager);
    let usual = Choice::plain(collective, choice.algorithm, 1).protocol;
    LaunchOrder {
        shape,
        placing: placing::placing(exec, checked, choice.algorithm, choice.channels),
        protocol: choice.protocol.of_pairs(),
        geometry: crate::tune::geometry(collective, choice.algorithm, usual, memory),
        send: call.send,
        recv: call.recv,
        in_place: call.in_place(exec.members.rank, checked.bytes),
        count: call.count,
        blocks: (
            collective.input_blocks(exec.members.nranks),
            collective.output_blocks(exec.members.nranks),
        ),
        combine,
        signature: checked.signature,
        folding,
        reach: None,
        follows: false,
        meets: false,
    }
}

/// The order for a call whose ranks read each other's buffers where they lie, if all can.
pub(in crate::comm) fn direct_order(
    exec: &Exec,
    checked: &Checked,
    combine: Combine,
    choice: Choice,
) -> DirectOrder {
    let otherwise = order(exec, checked, combine, choice);
    let algorithm = algo::direct(checked.call.collective).unwrap_or(Algorithm::TwoShot);
    DirectOrder {
        shape: Shape {
            algorithm,
            channels: 1,
            ..otherwise.shape
        },
        geometry: Geometry::bundle(DIRECT_SLICE_BYTES * Geometry::SLOTS as usize),
        is_decided: false,
        otherwise,
    }
}
