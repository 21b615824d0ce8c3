//! Questions about addresses.

use super::entry::{driver, live};
use crate::abi::{In, Out};
use crate::error::Code;
use crate::memory::pointer;

driver! {
    4_000 cuPointerGetAttribute(to: Out<u8>, attribute: i32, at: u64) {
        let turn = live()?;
        turn.current()?;
        pointer::tell(&turn.hardware.memory.ranges, at, attribute, &to)
    }

    7_000 cuPointerGetAttributes(
        count: u32,
        attributes: In<i32>,
        to: In<*mut u8>,
        at: u64,
    ) {
        let turn = live()?;
        turn.current()?;
        let attributes = attributes.list(count as usize)?;
        let places = to.list(count as usize)?;
        for (attribute, place) in attributes.into_iter().zip(places) {
            pointer::tell_or_nothing(&turn.hardware.memory.ranges, at, attribute, &Out::at(place))?;
        }
        Ok(())
    }

    6_000 cuPointerSetAttribute(_value: In<u32>, attribute: i32, at: u64) {
        let turn = live()?;
        // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: copies here are never late for who waits for them.
        match attribute == 6 && turn.hardware.memory.ranges.find(at).is_some() {
            true => Ok(()),
            false => Err(Code::INVALID_VALUE),
        }
    }
}
