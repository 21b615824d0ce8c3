//! Devices that use each other's memory.

use super::entry::{driver, live, present};
use crate::abi::Out;
use crate::error::Code;

/// `CU_DEVICE_P2P_ATTRIBUTE_*` that are 1 between peers: access, atomics.
const P2P_ACCESS: i32 = 2;
const P2P_ATOMICS: i32 = 3;

driver! {
    4_000 cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) {
        let turn = present()?;
        let (device, peer) = (turn.device(device)?, turn.device(peer)?);
        can.set(i32::from(turn.settings.has_peers && device != peer))
    }

    8_000 cuDeviceGetP2PAttribute(value: Out<i32>, attribute: i32, device: i32, peer: i32) {
        let turn = present()?;
        let (device, peer) = (turn.device(device)?, turn.device(peer)?);
        if device == peer || !(1..=5).contains(&attribute) {
            return Err(Code::INVALID_VALUE);
        }
        let is_one = turn.settings.has_peers && [P2P_ACCESS, P2P_ATOMICS].contains(&attribute);
        value.set(i32::from(is_one))
    }

    4_000 cuCtxEnablePeerAccess(peer: u64, flags: u32) {
        let mut turn = live()?;
        let (_, who) = turn.current()?;
        let whose = turn.context(peer)?.device;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if !turn.settings.has_peers || who == whose {
            return Err(Code::PEER_ACCESS_UNSUPPORTED);
        }
        let state = &mut *turn.state;
        state.memory.enable_peer(&mut state.machine, who, whose)
    }

    4_000 cuCtxDisablePeerAccess(peer: u64) {
        let mut turn = live()?;
        let (_, who) = turn.current()?;
        let whose = turn.context(peer)?.device;
        let state = &mut *turn.state;
        state.memory.disable_peer(&mut state.machine, who, whose)
    }
}
