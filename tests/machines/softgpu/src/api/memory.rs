//! Memory of devices and of the host.

use super::entry::{driver, live, outside};
use crate::abi::Out;
use crate::error::{Answer, Code};
use crate::memory::{Kind, Owner, host};
use crate::state::Turn;

/// Gives memory back, after all work of its device that was issued before.
fn free(base: u64, is_good: fn(Kind) -> bool) -> Answer {
    let mut turn = outside()?;
    let found = turn
        .hardware
        .memory
        .ranges
        .at(base)
        .filter(|found| is_good(found.kind));
    let device = found.ok_or(Code::INVALID_VALUE)?.device;
    turn.wait_for_device(device)?;
    free_now(&mut turn, base, is_good)
}

fn free_now(turn: &mut Turn, base: u64, is_good: fn(Kind) -> bool) -> Answer {
    let state = &mut turn.state.hardware;
    let freed = state.memory.free(&mut state.machine, base, is_good);
    freed.map_err(|trouble| turn.code(trouble))
}

/// Memory of the host: pinned or managed.
fn allocate_of_host(bytes: usize, kind: Kind) -> Answer<u64> {
    let mut turn = outside()?;
    let (context, device) = turn.current()?;
    let state = &mut turn.state.hardware;
    let (machine, ranges) = (&mut state.machine, &mut state.memory.ranges);
    let owner = Owner { device, context };
    host::allocate(ranges, machine, owner, bytes as u64, kind)
}

/// All flags of `cuMemHostAlloc`, and of `cuMemHostRegister`.
const HOST_FLAGS: u32 = 7;
const REGISTER_FLAGS: u32 = 15;

driver! {
    3_020 cuMemAlloc_v2(to: Out<u64>, bytes: usize) {
        let mut turn = outside()?;
        let (context, device) = turn.current()?;
        if !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        turn.wait_for_device(device)?;
        turn.hardware.faults.memory()?;
        let state = &mut turn.state.hardware;
        let (machine, owner) = (&mut state.machine, Owner { device, context });
        to.set(state.memory.allocate(machine, owner, bytes as u64, Kind::Device)?)
    }

    3_020 cuMemFree_v2(base: u64) {
        match base {
            0 => live().map(|_| ()),
            base => free(base, |kind| {
                matches!(kind, Kind::Device | Kind::Managed | Kind::Pooled(_))
            }),
        }
    }

    3_020 cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let turn = live()?;
        let (_, device) = turn.current()?;
        let arenas = &turn.hardware.memory.arenas;
        let (all, used) = (arenas.total, arenas.used[device as usize].bytes());
        free.set(all.saturating_sub(used) as usize)?;
        total.set(all as usize)
    }

    3_020 cuMemGetAddressRange_v2(base: Out<u64>, bytes: Out<usize>, at: u64) {
        let turn = live()?;
        let found = turn.hardware.memory.ranges.find(at).ok_or(Code::NOT_FOUND)?;
        base.set_if_asked(found.base);
        bytes.set_if_asked(found.bytes as usize);
        Ok(())
    }

    6_000 cuMemAllocManaged(to: Out<u64>, bytes: usize, flags: u32) {
        if !to.is_asked() || ![1, 2].contains(&flags) {
            return Err(Code::INVALID_VALUE);
        }
        to.set(allocate_of_host(bytes, Kind::Managed)?)
    }

    2_020 cuMemHostAlloc(to: Out<u64>, bytes: usize, flags: u32) {
        if !to.is_asked() || flags & !HOST_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        to.set(allocate_of_host(bytes, Kind::Pinned(flags))?)
    }

    3_020 cuMemAllocHost_v2(to: Out<u64>, bytes: usize) {
        if !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        to.set(allocate_of_host(bytes, Kind::Pinned(0))?)
    }

    2_000 cuMemFreeHost(base: u64) {
        free(base, |kind| matches!(kind, Kind::Pinned(_)))
    }

    6_050 cuMemHostRegister_v2(base: u64, bytes: usize, flags: u32) {
        let mut turn = outside()?;
        let (context, device) = turn.current()?;
        if flags & !REGISTER_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let state = &mut turn.state.hardware;
        let (machine, ranges) = (&mut state.machine, &mut state.memory.ranges);
        let owner = Owner { device, context };
        host::register(ranges, machine, owner, base, bytes as u64, flags)
    }

    4_000 cuMemHostUnregister(base: u64) {
        let mut turn = outside()?;
        let found = turn.hardware.memory.ranges.at(base);
        let found = found.filter(|found| matches!(found.kind, Kind::Registered(_)));
        let device = found.ok_or(Code::HOST_MEMORY_NOT_REGISTERED)?.device;
        turn.wait_for_device(device)?;
        free_now(&mut turn, base, |kind| matches!(kind, Kind::Registered(_)))
    }

    3_020 cuMemHostGetDevicePointer_v2(to: Out<u64>, at: u64, flags: u32) {
        let turn = live()?;
        let found = turn.hardware.memory.ranges.find(at).filter(|found| found.kind.is_of_host());
        if flags != 0 || found.is_none() {
            return Err(Code::INVALID_VALUE);
        }
        to.set(at)
    }

    2_030 cuMemHostGetFlags(flags: Out<u32>, at: u64) {
        let turn = live()?;
        match turn.hardware.memory.ranges.find(at).map(|found| found.kind) {
            // Everything is mapped, whether the caller asked for it or not.
            Some(Kind::Pinned(given) | Kind::Registered(given)) => flags.set(given | 2),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}
