//! Copies and fills, by addresses of any kind.

use super::entry::{driver, live, outside};
use crate::error::{Answer, Code};
use crate::memory::bytes as bytes_of;
use crate::state::Turn;
use crate::stream::NULL;
use crate::task::{Copy, Fill, Source, Task};
use std::sync::Arc;

/// Sides of a copy that must be memory that devices know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sides {
    Any,
    To,
    From,
    Both,
}

fn check(turn: &Turn, (to, from): (u64, u64), bytes: u64, sides: Sides) -> Answer {
    turn.current()?;
    let memory = &turn.hardware.memory;
    let is_known = |at| memory.ranges.find(at).is_some();
    let (to_known, from_known) = match sides {
        Sides::Any => (true, true),
        Sides::To => (is_known(to), true),
        Sides::From => (true, is_known(from)),
        Sides::Both => (is_known(to), is_known(from)),
    };
    let is_there = bytes_of::is_there(&memory.ranges, to, bytes)
        && bytes_of::is_there(&memory.ranges, from, bytes);
    match to_known && from_known && is_there {
        true => Ok(()),
        false => Err(Code::INVALID_VALUE),
    }
}

/// Behind all work of the device, and waited for.
fn now((to, from): (u64, u64), bytes: usize, sides: Sides) -> Answer {
    let mut turn = outside()?;
    let bytes = bytes as u64;
    if bytes == 0 {
        return turn.current().map(|_| ());
    }
    check(&turn, (to, from), bytes, sides)?;
    let task = Task::Copy(Copy {
        to,
        from: Source::At(from),
        bytes,
        done: 0,
    });
    now_on_legacy(&mut turn, task)
}

fn now_on_legacy(turn: &mut Turn, task: Task) -> Answer {
    let (_, device) = turn.current()?;
    let stream = turn.stream(NULL)?;
    let before = turn.streams.ends_of_device(device);
    let point = turn.submit(stream, before, task)?;
    turn.wait(&[point])
}

/// In the order of a stream. What can be paged is read at the call, and waited for where it is
/// written: meanwhile no other thread launches on the device.
fn later((to, from): (u64, u64), bytes: usize, sides: Sides, stream: u64) -> Answer {
    let mut turn = live()?;
    let stream = turn.stream(stream)?;
    let bytes = bytes as u64;
    if bytes == 0 {
        return Ok(());
    }
    check(&turn, (to, from), bytes, sides)?;
    // A node of a graph reads and writes when it is launched.
    let is_captured = turn.captures.of(stream).is_some();
    let source = match bytes_of::is_plain(&turn.hardware.memory.ranges, from, bytes) && !is_captured
    {
        false => Source::At(from),
        true => {
            let mut kept = vec![0; bytes as usize];
            bytes_of::read(&turn.hardware.memory.ranges, from, &mut kept)
                .map_err(|_| Code::INVALID_VALUE)?;
            Source::Kept(Arc::from(kept))
        }
    };
    let waits = bytes_of::is_plain(&turn.hardware.memory.ranges, to, bytes) && !is_captured;
    let task = Task::Copy(Copy {
        to,
        from: source,
        bytes,
        done: 0,
    });
    let point = turn.submit(stream, Vec::new(), task)?;
    match waits {
        true => turn.wait_within(&[point]),
        false => Ok(()),
    }
}

fn fill(to: u64, (pattern, width): (u32, usize), count: usize) -> Answer<(Turn, Option<Task>)> {
    let turn = live()?;
    turn.current()?;
    let bytes = count.checked_mul(width).ok_or(Code::INVALID_VALUE)? as u64;
    if bytes == 0 {
        return Ok((turn, None));
    }
    let is_good = to.is_multiple_of(width as u64)
        && turn.hardware.memory.ranges.find(to).is_some()
        && bytes_of::is_there(&turn.hardware.memory.ranges, to, bytes);
    if !is_good {
        return Err(Code::INVALID_VALUE);
    }
    let task = Task::Fill(Fill {
        to,
        pattern,
        width,
        bytes,
        done: 0,
    });
    Ok((turn, Some(task)))
}

fn fill_now(to: u64, pattern: (u32, usize), count: usize) -> Answer {
    match fill(to, pattern, count)? {
        (_, None) => Ok(()),
        (mut turn, Some(task)) => {
            turn.captures.forbid()?;
            now_on_legacy(&mut turn, task)
        }
    }
}

fn fill_later(to: u64, pattern: (u32, usize), count: usize, stream: u64) -> Answer {
    let (mut turn, task) = fill(to, pattern, count)?;
    let stream = turn.stream(stream)?;
    match task {
        None => Ok(()),
        Some(task) => turn.submit(stream, Vec::new(), task).map(|_| ()),
    }
}

driver! {
    4_000 cuMemcpy(to: u64, from: u64, bytes: usize) {
        now((to, from), bytes, Sides::Any)
    }

    3_020 cuMemcpyHtoD_v2(to: u64, from: u64, bytes: usize) {
        now((to, from), bytes, Sides::To)
    }

    3_020 cuMemcpyDtoH_v2(to: u64, from: u64, bytes: usize) {
        now((to, from), bytes, Sides::From)
    }

    3_020 cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) {
        now((to, from), bytes, Sides::Both)
    }

    4_000 cuMemcpyPeer(to: u64, to_context: u64, from: u64, from_context: u64, bytes: usize) {
        let turn = live()?;
        turn.context(to_context)?;
        turn.context(from_context)?;
        drop(turn);
        now((to, from), bytes, Sides::Both)
    }

    4_000 cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: u64) {
        later((to, from), bytes, Sides::Any, stream)
    }

    3_020 cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64) {
        later((to, from), bytes, Sides::To, stream)
    }

    3_020 cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: usize, stream: u64) {
        later((to, from), bytes, Sides::From, stream)
    }

    3_020 cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64) {
        later((to, from), bytes, Sides::Both, stream)
    }

    4_000 cuMemcpyPeerAsync(
        to: u64,
        to_context: u64,
        from: u64,
        from_context: u64,
        bytes: usize,
        stream: u64,
    ) {
        let turn = live()?;
        turn.context(to_context)?;
        turn.context(from_context)?;
        drop(turn);
        later((to, from), bytes, Sides::Both, stream)
    }

    3_020 cuMemsetD8_v2(to: u64, value: u8, count: usize) {
        fill_now(to, (value.into(), 1), count)
    }

    3_020 cuMemsetD16_v2(to: u64, value: u16, count: usize) {
        fill_now(to, (value.into(), 2), count)
    }

    3_020 cuMemsetD32_v2(to: u64, value: u32, count: usize) {
        fill_now(to, (value, 4), count)
    }

    3_020 cuMemsetD8Async(to: u64, value: u8, count: usize, stream: u64) {
        fill_later(to, (value.into(), 1), count, stream)
    }

    3_020 cuMemsetD16Async(to: u64, value: u16, count: usize, stream: u64) {
        fill_later(to, (value.into(), 2), count, stream)
    }

    3_020 cuMemsetD32Async(to: u64, value: u32, count: usize, stream: u64) {
        fill_later(to, (value, 4), count, stream)
    }
}
