//! Memory in the order of a stream, and the pools that it comes from.

use super::entry::{driver, live};
use crate::abi::{AccessDesc, In, Location, ON_DEVICE, Out, PINNED, PoolProps};
use crate::error::{Answer, Code};
use crate::memory::pool::{self, Pool};
use crate::memory::{Kind, Owner};
use crate::task::Task;
use kolo_kernels_host::Access;

fn allocate(to: &Out<u64>, bytes: usize, pool: Option<u64>, stream: u64) -> Answer {
    let mut turn = live()?;
    let stream = turn.stream(stream)?;
    // Nodes of memory are not modelled.
    turn.captures.forbid_of(stream)?;
    if !to.is_asked() {
        return Err(Code::INVALID_VALUE);
    }
    let device = turn.streams.get(stream)?.device;
    let pool = pool.unwrap_or(turn.devices[device as usize].pool);
    let device = turn.hardware.memory.pools.get(pool)?.device;
    turn.hardware.faults.memory()?;
    // The address can be used at once: whoever frees memory does so in the order of a stream.
    let state = &mut turn.state.hardware;
    let (machine, kind) = (&mut state.machine, Kind::Pooled(pool));
    to.set(
        state
            .memory
            .allocate(machine, Owner { device, context: 0 }, bytes as u64, kind)?,
    )
}

// CU_MEMPOOL_ATTR_*: the first three are flags of reuse, then the threshold, then what is there.
const FLAGS: std::ops::RangeInclusive<i32> = 1..=3;
const THRESHOLD: i32 = 4;
const RESERVED: std::ops::RangeInclusive<i32> = 5..=8;

driver! {
    11_020 cuDeviceGetDefaultMemPool(to: Out<u64>, device: i32) {
        let turn = live()?;
        let at = turn.device(device)?;
        to.set(turn.devices[at as usize].default_pool)
    }

    11_020 cuDeviceGetMemPool(to: Out<u64>, device: i32) {
        let turn = live()?;
        let at = turn.device(device)?;
        to.set(turn.devices[at as usize].pool)
    }

    11_020 cuDeviceSetMemPool(device: i32, pool: u64) {
        let mut turn = live()?;
        let at = turn.device(device)?;
        if turn.hardware.memory.pools.get(pool)?.device != at {
            return Err(Code::INVALID_VALUE);
        }
        turn.devices[at as usize].pool = pool;
        Ok(())
    }

    11_020 cuMemPoolCreate(to: Out<u64>, props: In<PoolProps>) {
        let mut turn = live()?;
        let props = props.get()?;
        if props.kind != PINNED || props.location.kind != ON_DEVICE || !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        // A pool whose memory other processes import is not modelled.
        if props.handle_types != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let device = turn.device(props.location.id)?;
        to.set(turn.hardware.memory.pools.add(Pool::new(device, false)))
    }

    11_020 cuMemPoolDestroy(pool: u64) {
        let mut turn = live()?;
        if turn.hardware.memory.pools.get(pool)?.is_default {
            return Err(Code::INVALID_VALUE);
        }
        for device in &mut turn.devices {
            if device.pool == pool {
                device.pool = device.default_pool;
            }
        }
        turn.hardware.memory.pools.remove(pool).map(|_| ())
    }

    11_020 cuMemPoolTrimTo(pool: u64, _least: usize) {
        live()?.hardware.memory.pools.get(pool).map(|_| ())
    }

    11_020 cuMemPoolSetAttribute(pool: u64, attribute: i32, value: In<u64>) {
        let mut turn = live()?;
        let pool = turn.hardware.memory.pools.get_mut(pool)?;
        match attribute {
            THRESHOLD => pool.threshold = value.get()?,
            other if FLAGS.contains(&other) || RESERVED.contains(&other) => {}
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    11_020 cuMemPoolGetAttribute(pool: u64, attribute: i32, to: Out<u64>) {
        let turn = live()?;
        let known = turn.hardware.memory.pools.get(pool)?;
        match attribute {
            THRESHOLD => to.set(known.threshold),
            other if FLAGS.contains(&other) => to.cast::<i32>().set(1),
            other if RESERVED.contains(&other) => {
                to.set(pool::bytes(&turn.hardware.memory.ranges, pool))
            },
            _ => Err(Code::INVALID_VALUE),
        }
    }

    11_020 cuMemPoolSetAccess(pool: u64, list: In<AccessDesc>, count: usize) {
        let mut turn = live()?;
        for one in list.list(count)? {
            let who = turn.device(one.location.id)?;
            let known = turn.hardware.memory.pools.get(pool)?;
            let is_own = known.device == who;
            let Access { loads, stores } = known.access;
            if is_own && one.flags != 3 || one.location.kind != ON_DEVICE {
                return Err(Code::INVALID_VALUE);
            }
            if !is_own && !turn.reaches(who, known.device) {
                return Err(Code::INVALID_DEVICE);
            }
            let bit = 1 << who;
            let access = match one.flags {
                0 => Access { loads: loads & !bit, stores: stores & !bit },
                1 => Access { loads: loads | bit, stores: stores & !bit },
                3 => Access { loads: loads | bit, stores: stores | bit },
                _ => return Err(Code::INVALID_VALUE),
            };
            let state = &mut turn.state.hardware;
            let memory = &mut state.memory;
            let (pools, ranges) = (&mut memory.pools, &mut memory.ranges);
            pool::allow(pools, ranges, &mut state.machine, pool, access)?;
        }
        Ok(())
    }

    11_020 cuMemPoolGetAccess(flags: Out<i32>, pool: u64, location: In<Location>) {
        let turn = live()?;
        let who = turn.device(location.get()?.id)?;
        let Access { loads, stores } = turn.hardware.memory.pools.get(pool)?.access;
        flags.set(match (loads >> who & 1, stores >> who & 1) {
            (_, 1) => 3,
            (1, _) => 1,
            _ => 0,
        })
    }

    11_020 cuMemAllocAsync(to: Out<u64>, bytes: usize, stream: u64) {
        allocate(&to, bytes, None, stream)
    }

    11_020 cuMemAllocFromPoolAsync(to: Out<u64>, bytes: usize, pool: u64, stream: u64) {
        allocate(&to, bytes, Some(pool), stream)
    }

    11_020 cuMemFreeAsync(base: u64, stream: u64) {
        let mut turn = live()?;
        let stream = turn.stream(stream)?;
        turn.captures.forbid_of(stream)?;
        let known = turn.hardware.memory.ranges.at(base).map(|found| found.kind);
        match known {
            Some(Kind::Pooled(_)) => turn.submit(stream, Vec::new(), Task::Free(base)).map(|_| ()),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}
