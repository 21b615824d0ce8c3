//! Devices.

use super::entry::{driver, present};
use crate::abi::{In, Out, Uuid};
use crate::device;
use crate::error::Code;
use std::ffi::c_char;

driver! {
    2_000 cuDeviceGet(device: Out<i32>, ordinal: i32) {
        let turn = present()?;
        device.set(turn.device(ordinal)? as i32)
    }

    2_000 cuDeviceGetCount(count: Out<i32>) {
        let turn = present()?;
        count.set(turn.devices.len() as i32)
    }

    2_000 cuDeviceGetName(name: Out<c_char>, most: i32, device: i32) {
        let turn = present()?;
        turn.device(device)?;
        name.set_text(device::NAME, most)
    }

    9_020 cuDeviceGetUuid(uuid: Out<Uuid>, device: i32) {
        let turn = present()?;
        let at = turn.device(device)?;
        uuid.set(turn.devices[at as usize].uuid)
    }

    11_040 cuDeviceGetUuid_v2(uuid: Out<Uuid>, device: i32) {
        let turn = present()?;
        let at = turn.device(device)?;
        uuid.set(turn.devices[at as usize].uuid)
    }

    3_020 cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) {
        let turn = present()?;
        turn.device(device)?;
        bytes.set(turn.settings.memory as usize)
    }

    2_000 cuDeviceGetAttribute(value: Out<i32>, attribute: i32, device: i32) {
        let turn = present()?;
        let at = turn.device(device)?;
        if attribute < 1 {
            return Err(Code::INVALID_VALUE);
        }
        value.set(device::attribute(&turn.devices[at as usize], &turn.settings, attribute))
    }

    2_000 cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) {
        let turn = present()?;
        turn.device(device)?;
        major.set(9)?;
        minor.set(0)
    }

    4_010 cuDeviceGetPCIBusId(to: Out<c_char>, most: i32, device: i32) {
        let turn = present()?;
        let at = turn.device(device)?;
        to.set_text(&turn.devices[at as usize].bus_id(), most)
    }

    4_010 cuDeviceGetByPCIBusId(device: Out<i32>, id: In<c_char>) {
        let turn = present()?;
        device.set(device::by_bus_id(&turn.devices, &id.text()?)? as i32)
    }
}
