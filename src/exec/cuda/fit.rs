//! Which sizes fit: payload of slots and lines, and what kernels can hold.

use super::launch::{MAX_LANES, MAX_OPERANDS, MAX_THREADS, WARP};
use crate::base::{Error, Result};
use crate::plan::{Geometry, Plan, Protocol};
use crate::wire::gpu::SLOTS;

/// Payload that lines of LL128 move at once: 4 lines of a warp, 120 bytes each.
const GROUP_PAYLOAD: usize = 480;
/// Memory of these lines with their flags.
const GROUP_BYTES: usize = 512;

/// Slots of a protocol are multiples of this.
pub const fn slot_unit(protocol: Protocol) -> usize {
    match protocol {
        Protocol::Simple | Protocol::Ll => 16,
        Protocol::Ll128 => GROUP_BYTES,
    }
}

/// Payload that a slot of `slot_bytes` holds.
pub const fn payload(protocol: Protocol, slot_bytes: usize) -> usize {
    match protocol {
        Protocol::Simple => slot_bytes / 16 * 16,
        Protocol::Ll => slot_bytes / 16 * 8,
        Protocol::Ll128 => slot_bytes / GROUP_BYTES * GROUP_PAYLOAD,
    }
}

/// Pieces of a packed token begin at multiples of this, in payload.
const fn piece_unit(protocol: Protocol) -> usize {
    match protocol {
        Protocol::Simple => 16,
        Protocol::Ll => 8,
        Protocol::Ll128 => GROUP_PAYLOAD,
    }
}

/// The geometry by which the windows of a launch are bound: what fits slots of `slot_bytes`.
///
/// # Errors
/// A token of so many pieces does not fit, or slots or slices are not as kernels need them.
pub fn geometry(
    protocol: Protocol,
    slot_bytes: usize,
    (chunk_steps, slice_steps): (u32, u32),
    (pieces, element_bytes): (u32, usize),
) -> Result<Geometry> {
    let fits = |steps: u32, whole: u32| steps > 0 && whole.is_multiple_of(steps);
    if !fits(slice_steps, chunk_steps) || !fits(chunk_steps, SLOTS) {
        return Err(Error::internal(format!(
            "slices of {slice_steps} slots and chunks of {chunk_steps} do not divide {SLOTS} slots"
        )));
    }
    if !slot_bytes.is_multiple_of(slot_unit(protocol)) {
        return Err(Error::internal(format!(
            "slots of {slot_bytes} bytes are no multiple of {} bytes, as {} needs",
            slot_unit(protocol),
            protocol.name()
        )));
    }
    let whole = payload(protocol, slot_bytes) * slice_steps as usize;
    let pieces = pieces.max(1) as usize;
    let unit = piece_unit(protocol);
    let piece = match pieces {
        1 => whole,
        _ => whole / pieces / unit * unit,
    };
    if piece < element_bytes {
        return Err(Error::usage(
            format!(
                "a token of {pieces} pieces does not fit {slice_steps} slots of {slot_bytes} bytes"
            ),
            "raise KOLO_BUFFSIZE, or choose another algorithm with KOLO_ALGO",
        ));
    }
    Ok(Geometry {
        slots: SLOTS,
        slot_bytes: piece * pieces / slice_steps as usize,
        chunk_steps,
        slice_steps,
    })
}

/// Whether kernels can hold what each step of a plan of pairs names.
///
/// # Errors
/// A step has too many operands.
pub fn check(plan: &Plan) -> Result<()> {
    let operands = |list| plan.lists.get(list).len();
    let most = plan
        .steps
        .iter()
        .map(|s| operands(s.srcs) + operands(s.dsts));
    match most.max().unwrap_or(0) {
        most if most <= MAX_OPERANDS => Ok(()),
        most => Err(Error::usage(
            format!(
                "a step of {} by {} has {most} operands, and a kernel holds {MAX_OPERANDS}",
                plan.shape.collective.name(),
                plan.shape.algorithm.name()
            ),
            "choose another algorithm with KOLO_ALGO",
        )),
    }
}

/// Blocks of a launch, and threads of each.
#[derive(Clone, Copy, Debug)]
pub struct LaunchGrid {
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
}

/// Whether a grid can pass the lanes of a plan.
///
/// # Errors
/// `InvalidUsage`: the rank has too few blocks for so many lanes. Threads that are no warps.
pub fn check_grid(plan: &Plan, grid: LaunchGrid) -> Result<()> {
    let LaunchGrid { blocks, threads } = grid;
    let is_of_warps = threads.is_multiple_of(WARP) && (2 * WARP..=MAX_THREADS).contains(&threads);
    if blocks == 0 || !is_of_warps {
        return Err(Error::internal(format!(
            "a grid of {blocks} blocks of {threads} threads: a block has {} to {MAX_THREADS}, in \
             warps of {WARP}",
            2 * WARP
        )));
    }
    let lanes = plan.lanes.len().div_ceil(blocks as usize);
    match lanes <= MAX_LANES {
        true => Ok(()),
        false => Err(Error::usage(
            format!(
                "{} has {} lanes, and this rank has {blocks} blocks of its CUDA device for them, \
                 each of which holds {MAX_LANES}",
                plan.shape.collective.name(),
                plan.lanes.len()
            ),
            "destroy communicators that have blocks of the device, lower KOLO_MAX_NCHANNELS, or \
             put fewer messages into a group",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every piece of a full token fits its part, filled up to where the next one begins.
    #[test]
    fn packed_tokens_fit_their_slots() {
        use crate::plan::window::Binding;
        use crate::plan::{Layout, Space, Window};
        for protocol in [Protocol::Simple, Protocol::Ll, Protocol::Ll128] {
            for (pieces, element_bytes) in [(1, 8), (2, 1), (3, 4), (5, 2), (8, 8)] {
                for slot_bytes in [4096, 8192, 65_536] {
                    let sizes = (pieces, element_bytes);
                    let geometry = geometry(protocol, slot_bytes, (4, 2), sizes).expect("fits");
                    let binding = Binding {
                        count: 1 << 20,
                        element_bytes,
                        input_blocks: 1,
                        output_blocks: 8,
                        lane: 0,
                        lanes: 1,
                        pieces,
                    };
                    let window = Window::bind(Layout::Blocks, 8, &geometry, &binding);
                    let slice = window.region(Space::Output, 0, 0, 0);
                    let bytes = slice.count * element_bytes;
                    let filled = bytes.next_multiple_of(piece_unit(protocol)) * pieces as usize;
                    let whole = payload(protocol, slot_bytes) * 2;
                    assert!(bytes > 0 && filled <= whole.next_multiple_of(piece_unit(protocol)));
                    assert!(pieces == 1 || filled <= whole);
                }
            }
        }
    }

    #[test]
    fn a_token_that_does_not_fit_is_refused() {
        let error = geometry(Protocol::Ll128, 512, (1, 1), (2, 1)).expect_err("480 bytes for 960");
        let refused = [(512, (3, 1)), (512, (4, 3)), (500, (4, 2))];
        for (slot_bytes, steps) in refused {
            assert!(
                geometry(Protocol::Ll128, slot_bytes, steps, (1, 4)).is_err(),
                "{steps:?}"
            );
        }
        assert!(error.what.contains("2 pieces"), "{error}");
        assert!(error.remedy.contains("KOLO_BUFFSIZE"), "{error}");
    }

    #[test]
    fn grids_that_cannot_be_are_refused() {
        use crate::plan::{Algorithm, Collective, Emitter, Layout, Shape};
        let shape = Shape {
            collective: Collective::AllToAll,
            algorithm: Algorithm::Bundle,
            rank: 0,
            nranks: 514,
            root: 0,
            channels: 1,
        };
        let mut e = Emitter::new(shape, 514, Layout::Blocks);
        for peer in 1..514 {
            let to = e.lane(0).to(peer);
            e.send(to, i64::from(peer));
        }
        let plan = e.finish();
        let check = |blocks, threads| check_grid(&plan, LaunchGrid { blocks, threads });
        assert!(check(3, 64).is_ok());
        for (blocks, threads) in [(2, 64), (0, 64), (3, 32), (3, 65), (3, 672)] {
            assert!(check(blocks, threads).is_err(), "{blocks} {threads}");
        }
        let error = check(2, 64).expect_err("257 lanes for one block");
        assert_eq!(error.code, crate::base::Code::InvalidUsage);
        assert!(error.what.contains("513 lanes") && error.what.contains("2 blocks"));
        assert!(error.remedy.contains("KOLO_MAX_NCHANNELS"), "{error}");
    }
}
