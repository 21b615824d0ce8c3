//! Devices that use each other's memory.

use super::entry::{driver, live, present};
use crate::abi::Out;
use crate::error::Code;
use crate::places::Joint;

/// `CU_DEVICE_P2P_ATTRIBUTE_*`: how far a peer is (the nearest have 0), whether its memory can be
/// used, and whether atomics on it are the link's own.
const P2P_RANK: i32 = 1;
const P2P_ACCESS: i32 = 2;
const P2P_ATOMICS: i32 = 3;

driver! {
    4_000 cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) {
        let turn = present()?;
        let (device, peer) = (turn.device(device)?, turn.device(peer)?);
        can.set(i32::from(device != peer && turn.reaches(device, peer)))
    }

    8_000 cuDeviceGetP2PAttribute(value: Out<i32>, attribute: i32, device: i32, peer: i32) {
        let turn = present()?;
        let (device, peer) = (turn.device(device)?, turn.device(peer)?);
        if device == peer || !(1..=5).contains(&attribute) {
            return Err(Code::INVALID_VALUE);
        }
        let (reaches, joint) = (turn.reaches(device, peer), turn.joint(device, peer));
        // Without a file nobody says what joins devices: all is as over NVLink.
        let is_near = joint == Joint::NvLink || turn.settings.places.is_empty();
        value.set(match attribute {
            P2P_RANK => i32::from(!is_near),
            P2P_ACCESS => i32::from(reaches),
            P2P_ATOMICS => i32::from(reaches && is_near),
            _ => 0,
        })
    }

    4_000 cuCtxEnablePeerAccess(peer: u64, flags: u32) {
        let mut turn = live()?;
        let (_, who) = turn.current()?;
        let whose = turn.context(peer)?.device;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if who == whose || !turn.reaches(who, whose) {
            return Err(Code::PEER_ACCESS_UNSUPPORTED);
        }
        let state = &mut turn.state.hardware;
        let (memory, machine) = (&mut state.memory, &mut state.machine);
        memory.peers.enable(&mut memory.ranges, machine, who, whose)
    }

    4_000 cuCtxDisablePeerAccess(peer: u64) {
        let mut turn = live()?;
        let (_, who) = turn.current()?;
        let whose = turn.context(peer)?.device;
        let state = &mut turn.state.hardware;
        let (memory, machine) = (&mut state.memory, &mut state.machine);
        memory.peers.disable(&mut memory.ranges, machine, who, whose)
    }
}
