//! One number for where every field lies that host and kernels share: `layout_hash` of
//! `kernels/plan.h` computes the same, in the same order.

use super::launch::{DeviceLaunch, MAX_LANES, MAX_OPERANDS};
use crate::plan::program::{ConnectionEntry, LaneEntry, ListEntry, ProgramHeader};
use crate::plan::{
    Direction, Layout, Operand, PACKED, POST_SCALE, PRE_SCALE, Space, Step, StepOp, window,
};
use crate::wire::gpu::{self, DeviceEnd};
use std::mem::offset_of;

/// Sizes and places, in the order of the kernels' declaration.
fn places() -> Vec<usize> {
    let mut places = vec![
        size_of::<ProgramHeader>(),
        offset_of!(ProgramHeader, bytes),
        offset_of!(ProgramHeader, chunks),
        offset_of!(ProgramHeader, pieces),
        offset_of!(ProgramHeader, scratch),
        offset_of!(ProgramHeader, layout),
        offset_of!(ProgramHeader, steps),
        offset_of!(ProgramHeader, connections),
        offset_of!(ProgramHeader, lanes),
        offset_of!(ProgramHeader, lists),
        offset_of!(ProgramHeader, operands),
        size_of::<Step>(),
        offset_of!(Step, flags),
        offset_of!(Step, srcs),
        offset_of!(Step, dsts),
        offset_of!(Step, chunks),
        offset_of!(Step, chunk),
        offset_of!(Step, repeat),
        offset_of!(Step, stride),
        size_of::<Operand>(),
        offset_of!(Operand, space),
        offset_of!(Operand, keep),
        offset_of!(Operand, index),
        offset_of!(Operand, offset),
        size_of::<ConnectionEntry>(),
        offset_of!(ConnectionEntry, direction),
        offset_of!(ConnectionEntry, lane),
        size_of::<LaneEntry>(),
        offset_of!(LaneEntry, first),
        offset_of!(LaneEntry, count),
        size_of::<ListEntry>(),
        offset_of!(ListEntry, count),
    ];
    places.extend(window::PLACES);
    places.extend([
        size_of::<DeviceEnd>(),
        offset_of!(DeviceEnd, tail),
        offset_of!(DeviceEnd, head),
        offset_of!(DeviceEnd, area),
        offset_of!(DeviceEnd, sizes),
        offset_of!(DeviceEnd, position),
        offset_of!(DeviceEnd, wiped),
        offset_of!(DeviceEnd, slot_bytes),
        offset_of!(DeviceEnd, counted),
        size_of::<DeviceLaunch>(),
        offset_of!(DeviceLaunch, connections),
        offset_of!(DeviceLaunch, input),
        offset_of!(DeviceLaunch, output),
        offset_of!(DeviceLaunch, scratch),
        offset_of!(DeviceLaunch, scratch_bytes),
        offset_of!(DeviceLaunch, abort),
        offset_of!(DeviceLaunch, steps),
        offset_of!(DeviceLaunch, scalar),
        offset_of!(DeviceLaunch, divisor),
        offset_of!(DeviceLaunch, pre_scaled),
        offset_of!(DeviceLaunch, slice_slots),
        offset_of!(DeviceLaunch, windows),
        offset_of!(DeviceLaunch, bytes),
        offset_of!(DeviceLaunch, inlined),
    ]);
    places.extend(meanings());
    places
}

/// Numbers in these structures: operations, flags, spaces and limits.
fn meanings() -> [usize; 17] {
    [
        StepOp::Copy as usize,
        StepOp::Fold as usize,
        StepOp::Token as usize,
        PRE_SCALE.into(),
        POST_SCALE.into(),
        PACKED.into(),
        Space::Input as usize,
        Space::Output as usize,
        Space::Scratch as usize,
        Space::Connection as usize,
        Layout::Split as usize,
        Layout::Blocks as usize,
        Direction::Recv as usize,
        gpu::SLOTS as usize,
        gpu::WIPE_EVERY as usize,
        MAX_OPERANDS,
        MAX_LANES,
    ]
}

/// FNV-1a of all sizes and places, each as 8 bytes.
pub fn hash() -> u64 {
    let places = places().into_iter();
    let bytes: Vec<u8> = places.flat_map(|p| (p as u64).to_le_bytes()).collect();
    crate::base::hash::fnv1a(&bytes)
}
