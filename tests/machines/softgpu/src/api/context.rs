//! Contexts: primary ones, others, and the stack of each thread.

use super::entry::{driver, enter, live, outside, present};
use crate::abi::Out;
use crate::context;
use crate::error::{Answer, Code};
use crate::state::Turn;
use std::ffi::c_void;

/// The flags that there are: `CU_CTX_FLAGS_MASK`.
const FLAGS: u32 = 0xff;
/// `CU_CTX_MAP_HOST`: always on.
const MAP_HOST: u32 = 8;

fn create(to: &Out<u64>, flags: u32, device: i32) -> Answer {
    let mut turn = live()?;
    let device = turn.device(device)?;
    if flags & !FLAGS != 0 || !to.is_asked() {
        return Err(Code::INVALID_VALUE);
    }
    let made = turn.new_context(device, flags, false);
    context::push(made);
    to.set(made)
}

/// Waits for the work of a context, and destroys what belongs to it.
fn end(turn: &mut Turn, handle: u64) {
    let points = turn.streams.ends_of_context(handle);
    // If the devices have failed, there is nothing to wait for.
    let _ = turn.wait(&points);
    turn.end_context(handle);
}

driver! {
    7_000 cuDevicePrimaryCtxRetain(to: Out<u64>, device: i32) {
        let mut turn = live()?;
        let device = turn.device(device)?;
        if !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        to.set(turn.retain_primary(device))
    }

    11_000 cuDevicePrimaryCtxRelease_v2(device: i32) {
        let mut turn = enter()?;
        let device = turn.device(device)?;
        let primary = &mut turn.primaries[device as usize];
        if primary.users == 0 {
            return Err(Code::INVALID_CONTEXT);
        }
        primary.users -= 1;
        let (handle, users) = (primary.handle, primary.users);
        if users == 0 {
            end(&mut turn, handle);
        }
        turn.failed.map_or(Ok(()), Err)
    }

    11_000 cuDevicePrimaryCtxReset_v2(device: i32) {
        let mut turn = enter()?;
        let device = turn.device(device)?;
        let primary = turn.primaries[device as usize];
        if primary.handle != 0 {
            end(&mut turn, primary.handle);
            // Whoever has retained it goes on with what is made anew.
            if let Ok(context) = turn.contexts.get_mut(primary.handle) {
                context.is_dead = primary.users == 0;
            }
        }
        turn.failed.map_or(Ok(()), Err)
    }

    7_000 cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) {
        let turn = present()?;
        let device = turn.device(device)?;
        let primary = turn.primaries[device as usize];
        flags.set(primary.flags)?;
        active.set(i32::from(primary.users > 0))
    }

    11_000 cuDevicePrimaryCtxSetFlags_v2(device: i32, flags: u32) {
        let mut turn = present()?;
        let device = turn.device(device)?;
        if flags & !FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        turn.primaries[device as usize].flags = flags;
        Ok(())
    }

    3_020 cuCtxCreate_v2(to: Out<u64>, flags: u32, device: i32) {
        create(&to, flags, device)
    }

    11_040 cuCtxCreate_v3(
        to: Out<u64>,
        affinities: *const c_void,
        count: i32,
        flags: u32,
        device: i32,
    ) {
        if !affinities.is_null() || count != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        create(&to, flags, device)
    }

    12_050 cuCtxCreate_v4(to: Out<u64>, parameters: *const c_void, flags: u32, device: i32) {
        if !parameters.is_null() {
            return Err(Code::NOT_SUPPORTED);
        }
        create(&to, flags, device)
    }

    4_000 cuCtxDestroy_v2(handle: u64) {
        let mut turn = enter()?;
        if turn.context(handle)?.is_primary {
            return Err(Code::INVALID_CONTEXT);
        }
        end(&mut turn, handle);
        if context::current() == handle {
            context::pop()?;
        }
        turn.failed.map_or(Ok(()), Err)
    }

    4_000 cuCtxPushCurrent_v2(handle: u64) {
        let turn = enter()?;
        turn.context(handle)?;
        context::push(handle);
        Ok(())
    }

    4_000 cuCtxPopCurrent_v2(to: Out<u64>) {
        let _turn = enter()?;
        to.set_if_asked(context::pop()?);
        Ok(())
    }

    4_000 cuCtxSetCurrent(handle: u64) {
        let turn = enter()?;
        if handle != 0 {
            turn.context(handle)?;
        }
        context::set_current(handle);
        Ok(())
    }

    4_000 cuCtxGetCurrent(to: Out<u64>) {
        let _turn = enter()?;
        to.set(context::current())
    }

    2_000 cuCtxGetDevice(device: Out<i32>) {
        let turn = enter()?;
        device.set(turn.current()?.1 as i32)
    }

    13_000 cuCtxGetDevice_v2(device: Out<i32>, handle: u64) {
        let turn = enter()?;
        let handle = if handle == 0 { context::current() } else { handle };
        device.set(turn.context(handle)?.device as i32)
    }

    7_000 cuCtxGetFlags(flags: Out<u32>) {
        let turn = enter()?;
        let (handle, _) = turn.current()?;
        flags.set(turn.context(handle)?.flags | MAP_HOST)
    }

    12_010 cuCtxSetFlags(flags: u32) {
        let mut turn = enter()?;
        let (handle, _) = turn.current()?;
        if flags & !FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        turn.contexts.get_mut(handle)?.flags = flags;
        Ok(())
    }

    12_000 cuCtxGetId(handle: u64, id: Out<u64>) {
        let turn = enter()?;
        let handle = if handle == 0 { context::current() } else { handle };
        id.set(turn.context(handle)?.id)
    }

    2_000 cuCtxSynchronize() {
        let mut turn = outside()?;
        let (_, device) = turn.current()?;
        turn.wait_for_device(device)
    }

    13_000 cuCtxSynchronize_v2(handle: u64) {
        let mut turn = outside()?;
        let handle = if handle == 0 { context::current() } else { handle };
        let device = turn.context(handle)?.device;
        turn.wait_for_device(device)
    }

    3_010 cuCtxSetLimit(limit: i32, value: usize) {
        let mut turn = enter()?;
        let (handle, _) = turn.current()?;
        if !(0..=6).contains(&limit) {
            return Err(Code::UNSUPPORTED_LIMIT);
        }
        let limits = &mut turn.contexts.get_mut(handle)?.limits;
        limits.retain(|known| known.0 != limit);
        limits.push((limit, value));
        Ok(())
    }

    3_010 cuCtxGetLimit(value: Out<usize>, limit: i32) {
        let turn = enter()?;
        let (handle, _) = turn.current()?;
        if !(0..=6).contains(&limit) {
            return Err(Code::UNSUPPORTED_LIMIT);
        }
        let limits = &turn.context(handle)?.limits;
        let known = limits.iter().find(|known| known.0 == limit);
        value.set(known.map_or(1024, |known| known.1))
    }

    3_020 cuCtxGetCacheConfig(config: Out<i32>) {
        let turn = enter()?;
        turn.current()?;
        config.set(0)
    }

    3_020 cuCtxSetCacheConfig(_config: i32) {
        enter()?.current().map(|_| ())
    }

    3_020 cuCtxGetApiVersion(handle: u64, version: Out<u32>) {
        let turn = enter()?;
        let handle = if handle == 0 { context::current() } else { handle };
        turn.context(handle)?;
        version.set(3_020)
    }

    5_050 cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) {
        let turn = enter()?;
        turn.current()?;
        least.set_if_asked(0);
        greatest.set_if_asked(-5);
        Ok(())
    }
}
