//! Virtual memory. None of it waits for a device.

use super::entry::{driver, live};
use crate::abi::{AccessDesc, AllocationProp, In, Location, ON_DEVICE, Out, PINNED, POSIX_FD};
use crate::error::{Answer, Code};
use crate::memory::GRANULARITY;
use crate::memory::physical::OfDevice;
use crate::memory::virtual_memory::{self, Stretch};
use crate::state::Turn;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

fn device_of(turn: &Turn, location: Location) -> Answer<u32> {
    match location.kind {
        ON_DEVICE => turn.device(location.id),
        // Memory of the host by these calls: newer than what is modelled.
        2..=4 => Err(Code::NOT_SUPPORTED),
        _ => Err(Code::INVALID_VALUE),
    }
}

fn check(turn: &Turn, prop: &AllocationProp) -> Answer<u32> {
    if prop.kind != PINNED {
        return Err(Code::INVALID_VALUE);
    }
    if ![0, POSIX_FD].contains(&prop.handle_types) {
        return Err(Code::NOT_SUPPORTED);
    }
    device_of(turn, prop.location)
}

/// A device that wants to use memory of another one must be its peer.
fn check_peers(turn: &Turn, of: Stretch, device: u32, flags: i32) -> Answer {
    let mut others = turn
        .hardware
        .memory
        .ranges
        .within(of.at, of.bytes)
        .filter(|one| one.device != device && !turn.reaches(device, one.device));
    match flags != 0 && others.next().is_some() {
        true => Err(Code::INVALID_DEVICE),
        false => Ok(()),
    }
}

driver! {
    10_020 cuMemGetAllocationGranularity(
        to: Out<usize>,
        prop: In<AllocationProp>,
        option: i32,
    ) {
        let turn = live()?;
        check(&turn, &prop.get()?)?;
        if ![0, 1].contains(&option) {
            return Err(Code::INVALID_VALUE);
        }
        to.set(GRANULARITY as usize)
    }

    10_020 cuMemAddressReserve(
        to: Out<u64>,
        bytes: usize,
        alignment: usize,
        wish: u64,
        flags: u64,
    ) {
        let mut turn = live()?;
        if flags != 0 || !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        let memory = &mut turn.state.hardware.memory;
        let (bytes, alignment) = (bytes as u64, alignment as u64);
        to.set(memory.reservations.reserve(&mut memory.ranges, bytes, alignment, wish)?)
    }

    10_020 cuMemAddressFree(base: u64, bytes: usize) {
        let mut turn = live()?;
        let memory = &mut turn.state.hardware.memory;
        memory.reservations.unreserve(&mut memory.ranges, base, bytes as u64)
    }

    10_020 cuMemCreate(to: Out<u64>, bytes: usize, prop: In<AllocationProp>, flags: u64) {
        let mut turn = live()?;
        let prop = prop.get()?;
        let device = check(&turn, &prop)?;
        if flags != 0 || !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        turn.hardware.faults.memory()?;
        let of = OfDevice { device, number: turn.devices[device as usize].number };
        to.set(turn.hardware.memory.create(of, bytes as u64, prop.handle_types)?)
    }

    10_020 cuMemRelease(handle: u64) {
        live()?.hardware.memory.physicals.release(handle)
    }

    10_020 cuMemMap(at: u64, bytes: usize, offset: usize, handle: u64, flags: u64) {
        let mut turn = live()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let state = &mut turn.state.hardware;
        let (machine, memory) = (&mut state.machine, &mut state.memory);
        let to = Stretch { at, bytes: bytes as u64 };
        let physical = Arc::clone(memory.physicals.get(handle)?);
        memory.reservations.map(&mut memory.ranges, machine, to, offset as u64, physical)
    }

    10_020 cuMemUnmap(at: u64, bytes: usize) {
        let mut turn = live()?;
        let state = &mut turn.state.hardware;
        let of = Stretch { at, bytes: bytes as u64 };
        let unmapped = virtual_memory::unmap(&mut state.memory.ranges, &mut state.machine, of);
        unmapped.map_err(|trouble| turn.code(trouble))
    }

    10_020 cuMemSetAccess(at: u64, bytes: usize, list: In<AccessDesc>, count: usize) {
        let mut turn = live()?;
        let place = Stretch { at, bytes: bytes as u64 };
        let mut wanted = Vec::new();
        for one in list.list(count)? {
            let device = device_of(&turn, one.location)?;
            check_peers(&turn, place, device, one.flags)?;
            wanted.push((device, one.flags));
        }
        let state = &mut turn.state.hardware;
        for (device, flags) in wanted {
            virtual_memory::set_access(
                &mut state.memory.ranges,
                &mut state.machine,
                place,
                device,
                flags,
            )?;
        }
        Ok(())
    }

    10_020 cuMemGetAccess(flags: Out<u64>, location: In<Location>, at: u64) {
        let turn = live()?;
        let device = device_of(&turn, location.get()?)?;
        flags.set(virtual_memory::get_access(&turn.hardware.memory.ranges, at, device)?)
    }

    11_000 cuMemRetainAllocationHandle(to: Out<u64>, at: u64) {
        let mut turn = live()?;
        if !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        to.set(turn.hardware.memory.retain(at)?)
    }

    10_020 cuMemGetAllocationPropertiesFromHandle(to: Out<AllocationProp>, handle: u64) {
        let turn = live()?;
        let physical = turn.hardware.memory.physicals.get(handle)?;
        to.set(AllocationProp {
            kind: PINNED,
            handle_types: physical.handle_types,
            location: Location { kind: ON_DEVICE, id: physical.device as i32 },
            win32: std::ptr::null(),
            flags: [0; 8],
        })
    }

    10_020 cuMemExportToShareableHandle(
        to: Out<i32>,
        handle: u64,
        kind: i32,
        flags: u64,
    ) {
        let turn = live()?;
        if flags != 0 || !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        if kind != POSIX_FD {
            return Err(Code::NOT_SUPPORTED);
        }
        to.set(turn.hardware.memory.physicals.export(handle)?)
    }

    10_020 cuMemImportFromShareableHandle(to: Out<u64>, descriptor: usize, kind: i32) {
        let mut turn = live()?;
        if kind != POSIX_FD {
            return Err(Code::NOT_SUPPORTED);
        }
        let descriptor = i32::try_from(descriptor).map_err(|_| Code::INVALID_VALUE)?;
        // The number travels as a pointer, and a driver refuses the null pointer: number 0.
        if descriptor <= 0 || !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller keeps it open during the call; a wrong number is an error of the copy.
        let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let numbers: Vec<u32> = turn.devices.iter().map(|device| device.number).collect();
        let device_of = |number| numbers.iter().position(|n| *n == number).map(|at| at as u32);
        to.set(turn.hardware.memory.import(file, device_of)?)
    }
}
