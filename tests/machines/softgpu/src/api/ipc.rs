//! Memory of other processes by handles.

use super::entry::{driver, live, outside};
use crate::abi::Out;
use crate::error::Code;
use crate::memory::Owner;
use crate::memory::ipc::{self, Handle};

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`: the only flag.
const LAZY_PEERS: u32 = 1;

driver! {
    4_010 cuIpcGetMemHandle(to: Out<Handle>, at: u64) {
        let turn = live()?;
        let numbers: Vec<u32> = turn.devices.iter().map(|device| device.number).collect();
        let memory = &turn.hardware.memory;
        let number_of = |device: u32| numbers[device as usize];
        to.set(ipc::handle(&memory.ranges, &memory.arenas, at, number_of)?)
    }

    11_000 cuIpcOpenMemHandle_v2(to: Out<u64>, handle: Handle, flags: u32) {
        let mut turn = live()?;
        let (context, device) = turn.current()?;
        if flags & !LAZY_PEERS != 0 || !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        let number = handle.device()?;
        let owner = turn.devices.iter().position(|known| known.number == number);
        let owner = owner.ok_or(Code::INVALID_DEVICE)? as u32;
        if owner != device && !turn.reaches(device, owner) {
            return Err(Code::PEER_ACCESS_UNSUPPORTED);
        }
        let state = &mut turn.state.hardware;
        let user = Owner { device, context };
        let (memory, machine) = (&mut state.memory, &mut state.machine);
        to.set(memory.opened.open(&mut memory.ranges, machine, user, &handle, owner)?)
    }

    4_010 cuIpcCloseMemHandle(base: u64) {
        let mut turn = outside()?;
        let (_, device) = turn.current()?;
        turn.wait_for_device(device)?;
        let state = &mut turn.state.hardware;
        let closed = state.memory.close(&mut state.machine, base);
        closed.map_err(|trouble| turn.code(trouble))
    }

    4_010 cuIpcGetEventHandle(_to: Out<Handle>, _event: u64) {
        live().map(|_| ())?;
        Err(Code::NOT_SUPPORTED)
    }

    4_010 cuIpcOpenEventHandle(_to: Out<u64>, _handle: Handle) {
        live().map(|_| ())?;
        Err(Code::NOT_SUPPORTED)
    }
}
