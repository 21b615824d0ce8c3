//! Streams.

use super::entry::{driver, enter, live};
use crate::abi::Out;
use crate::error::{Answer, Code};
use crate::host_thread::HostCall;
use crate::stream::Manner;
use crate::task::Task;
use std::ffi::c_void;

/// `CU_STREAM_NON_BLOCKING`, the only flag.
const NON_BLOCKING: u32 = 1;

fn create(to: &Out<u64>, flags: u32, priority: i32) -> Answer {
    let mut turn = live()?;
    let context = turn.current()?;
    if flags & !NON_BLOCKING != 0 || !to.is_asked() {
        return Err(Code::INVALID_VALUE);
    }
    let manner = match flags {
        NON_BLOCKING => Manner::NonBlocking,
        _ => Manner::Blocking,
    };
    // Priorities outside of the range are brought into it.
    to.set(turn.streams.create(context, manner, priority.clamp(-5, 0)))
}

driver! {
    2_000 cuStreamCreate(to: Out<u64>, flags: u32) {
        create(&to, flags, 0)
    }

    5_050 cuStreamCreateWithPriority(to: Out<u64>, flags: u32, priority: i32) {
        create(&to, flags, priority)
    }

    4_000 cuStreamDestroy_v2(stream: u64) {
        let mut turn = enter()?;
        if stream <= 2 {
            return Err(Code::INVALID_HANDLE);
        }
        let stream = turn.stream(stream)?;
        turn.captures.drop_stream(stream);
        turn.streams.destroy(stream)?;
        turn.failed.map_or(Ok(()), Err)
    }

    2_000 cuStreamQuery(stream: u64) {
        let mut turn = live()?;
        let stream = turn.stream(stream)?;
        turn.captures.forbid_of(stream)?;
        turn.captures.forbid()?;
        turn.forbid_implicit(stream)?;
        match turn.streams.end(stream) {
            None => Ok(()),
            Some(_) => Err(Code::NOT_READY),
        }
    }

    2_000 cuStreamSynchronize(stream: u64) {
        let mut turn = live()?;
        let stream = turn.stream(stream)?;
        turn.captures.forbid_of(stream)?;
        turn.captures.forbid()?;
        turn.forbid_implicit(stream)?;
        let end = turn.streams.end(stream);
        turn.wait(end.as_slice())
    }

    3_020 cuStreamWaitEvent(stream: u64, event: u64, flags: u32) {
        let mut turn = live()?;
        let stream = turn.stream(stream)?;
        if flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        let known = turn.hardware.events.get(event)?;
        let (record, captured) = (known.record.as_ref(), known.captured.clone());
        match (record.map(|record| record.point), captured) {
            (_, Some(place)) => {
                let state = &mut *turn.state;
                state.captures.join(&state.streams, stream, place)
            }
            // An event that was never recorded holds nobody.
            (None, None) => Ok(()),
            (Some(point), None) => {
                turn.captures.forbid_outside_event(stream)?;
                turn.submit(stream, vec![point], Task::Mark).map(|_| ())
            }
        }
    }

    9_020 cuStreamGetCtx(stream: u64, to: Out<u64>) {
        let mut turn = live()?;
        let stream = turn.stream(stream)?;
        to.set(turn.streams.get(stream)?.context)
    }

    13_000 cuStreamGetDevice(stream: u64, to: Out<i32>) {
        let mut turn = live()?;
        let stream = turn.stream(stream)?;
        to.set(turn.streams.get(stream)?.device as i32)
    }

    5_050 cuStreamGetFlags(stream: u64, to: Out<u32>) {
        let mut turn = live()?;
        let stream = turn.stream(stream)?;
        turn.captures.forbid_of(stream)?;
        to.set(u32::from(turn.streams.get(stream)?.manner == Manner::NonBlocking))
    }

    5_050 cuStreamGetPriority(stream: u64, to: Out<i32>) {
        let mut turn = live()?;
        let stream = turn.stream(stream)?;
        to.set(turn.streams.get(stream)?.priority)
    }

    12_000 cuStreamGetId(stream: u64, to: Out<u64>) {
        let mut turn = live()?;
        let stream = turn.stream(stream)?;
        to.set(turn.streams.get(stream)?.id)
    }

    10_000 cuLaunchHostFunc(
        stream: u64,
        function: Option<extern "C" fn(*mut c_void)>,
        data: *mut c_void,
    ) {
        let mut turn = live()?;
        let stream = turn.stream(stream)?;
        let function = function.ok_or(Code::INVALID_VALUE)?;
        let call = HostCall::Function(function, data.expose_provenance() as u64);
        turn.submit(stream, Vec::new(), Task::Host(call, None)).map(|_| ())
    }

    5_000 cuStreamAddCallback(
        stream: u64,
        function: Option<extern "C" fn(u64, i32, *mut c_void)>,
        data: *mut c_void,
        flags: u32,
    ) {
        let mut turn = live()?;
        let given = stream;
        let stream = turn.stream(stream)?;
        let function = function.ok_or(Code::INVALID_VALUE)?;
        turn.captures.forbid_of(stream)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let call = HostCall::Callback(function, given, data.expose_provenance() as u64);
        turn.submit(stream, Vec::new(), Task::Host(call, None)).map(|_| ())
    }
}
