//! Handles for communicators that are made or begun.

use crate::comms::COMMS;
use crate::seat::Seat;
use crate::types::koloComm_t;
use kolo_core::base::Result;
use kolo_core::comm::{Communicator, Starting};
use std::ffi::c_int;

/// Gives a communicator a handle.
pub(crate) fn adopt(communicator: Communicator, no_rank: c_int) -> Result<koloComm_t> {
    Ok(COMMS.insert(Seat::filled(communicator, no_rank))? as koloComm_t)
}

/// A handle of a communicator that was begun, which ends unless the program is told of it.
pub(crate) struct Begun(koloComm_t);

impl Begun {
    /// Gives a start a handle.
    pub(crate) fn new(start: Starting) -> Result<Begun> {
        Ok(Begun(COMMS.insert(Seat::of(start))? as koloComm_t))
    }

    /// The program has it now.
    pub(crate) fn hand_over(mut self) -> koloComm_t {
        std::mem::replace(&mut self.0, std::ptr::null_mut())
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // It is there: nobody else knows it.
            let _ = COMMS.remove(self.0 as usize);
        }
    }
}
