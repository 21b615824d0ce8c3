//! Events.

use super::entry::{driver, enter, live, outside};
use crate::abi::Out;
use crate::error::{Answer, Code};
use crate::event::{BETWEEN_PROCESSES, Event, FLAGS, Point, Record, WITHOUT_TIMES};
use crate::state::Turn;

use crate::task::Task;
use std::time::Instant;

fn record(event: u64, stream: u64) -> Answer {
    let mut turn = live()?;
    let stream = turn.stream(stream)?;
    if turn.hardware.events.get(event)?.context != turn.streams.get(stream)?.context {
        return Err(Code::INVALID_HANDLE);
    }
    let captured = turn.captures.place(stream)?;
    let record = match &captured {
        Some(_) => None,
        None => Some(Record {
            point: turn.submit(stream, Vec::new(), Task::Record(event))?,
            passed: None,
        }),
    };
    let event = turn.hardware.events.get_mut(event)?;
    (event.record, event.captured) = (record, captured);
    Ok(())
}

/// Where an event was recorded, for calls that no capture allows.
fn point(turn: &mut Turn, event: u64) -> Answer<Option<Point>> {
    let known = turn.hardware.events.get(event)?;
    if let Some(place) = &known.captured {
        let capture = place.capture;
        turn.captures.invalidate(capture);
        return Err(Code::CAPTURED_EVENT);
    }
    Ok(known.record.as_ref().map(|record| record.point))
}

/// When an event was passed.
fn passed(turn: &Turn, event: u64) -> Answer<Instant> {
    let event = turn.hardware.events.get(event)?;
    let record = event.record.as_ref().filter(|_| event.has_times);
    record
        .ok_or(Code::INVALID_HANDLE)?
        .passed
        .ok_or(Code::NOT_READY)
}

fn elapsed(to: &Out<f32>, first: u64, second: u64) -> Answer {
    let turn = live()?;
    let (first, second) = (passed(&turn, first)?, passed(&turn, second)?);
    let between = match second.checked_duration_since(first) {
        Some(later) => later.as_secs_f64(),
        None => -first.duration_since(second).as_secs_f64(),
    };
    to.set((between * 1e3) as f32)
}

driver! {
    2_000 cuEventCreate(to: Out<u64>, flags: u32) {
        let mut turn = live()?;
        let (context, _) = turn.current()?;
        if flags & !FLAGS != 0 || !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        if flags & BETWEEN_PROCESSES != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let has_times = flags & WITHOUT_TIMES == 0;
        to.set(turn.hardware.events.add(Event { context, has_times, record: None, captured: None }))
    }

    4_000 cuEventDestroy_v2(event: u64) {
        let mut turn = enter()?;
        turn.hardware.events.remove(event)?;
        turn.failed.map_or(Ok(()), Err)
    }

    2_000 cuEventRecord(event: u64, stream: u64) {
        record(event, stream)
    }

    11_010 cuEventRecordWithFlags(event: u64, stream: u64, flags: u32) {
        match flags {
            0 | 1 => record(event, stream),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    2_000 cuEventQuery(event: u64) {
        let mut turn = outside()?;
        let point = point(&mut turn, event)?;
        match point.is_none_or(|point| turn.streams.is_past(point)) {
            true => Ok(()),
            false => Err(Code::NOT_READY),
        }
    }

    2_000 cuEventSynchronize(event: u64) {
        let mut turn = outside()?;
        let point = point(&mut turn, event)?;
        turn.wait(point.as_slice())
    }

    2_000 cuEventElapsedTime(to: Out<f32>, first: u64, second: u64) {
        elapsed(&to, first, second)
    }

    12_080 cuEventElapsedTime_v2(to: Out<f32>, first: u64, second: u64) {
        elapsed(&to, first, second)
    }
}
