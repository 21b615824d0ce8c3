//! The second seam: engines whose device runs launches by itself, in the order of a stream.
//!
//! Such an engine has nothing to pass: an order becomes a launch on the caller's stream, and the
//! call returns. So it stands beside [`super::DeviceEngine`], which calling threads drive: a
//! communicator of a device has both, because what its ranks tell each other (a split, a check)
//! lies in memory of the host. A device is a variant here; nothing in `comm` but the room where
//! engines are made names one.

use super::CommDevice;
use super::combine::Combine;
use super::cuda::{CudaEngine, DeviceMessage};
use super::order::{LaunchOrder, Planner};
use crate::base::{Error, Result};
pub use crate::cuda::StreamId as DeviceStream;
use crate::plan::Direction;
use std::fmt;

/// The engine that carries out plans on the device of one rank.
pub enum StreamEngine {
    /// On a CUDA device.
    Cuda(CudaEngine),
}

/// A message of a group on a device.
#[derive(Clone, Copy, Debug)]
pub struct StreamMessage {
    /// The other rank, or this one.
    pub peer: u32,
    /// Which way it goes.
    pub direction: Direction,
    /// Its memory: read where it is sent, written where it is received.
    pub place: *mut u8,
    /// Its size.
    pub bytes: usize,
}

impl StreamEngine {
    /// The device that it drives.
    pub fn device(&self) -> CommDevice {
        let StreamEngine::Cuda(engine) = self;
        CommDevice::Cuda(engine.device())
    }

    /// Whether the device can use a buffer of a call.
    ///
    /// # Errors
    /// `InvalidArgument`: it cannot.
    pub fn admits(&self, name: &str, address: *const u8) -> Result<()> {
        let StreamEngine::Cuda(engine) = self;
        engine.check_buffer(name, address)
    }

    /// Whether calls can go to a stream.
    ///
    /// # Errors
    /// `InvalidArgument`: it belongs to another device. It cannot be used now.
    pub fn admits_stream(&self, stream: DeviceStream) -> Result<()> {
        let StreamEngine::Cuda(engine) = self;
        engine.check_stream(stream)
    }

    /// The collective of this number goes to a stream.
    ///
    /// # Errors
    /// `InvalidUsage`: it would wait there for another rank's, which waits for it.
    pub fn take_stream(&self, number: u64, stream: DeviceStream) -> Result<()> {
        let StreamEngine::Cuda(engine) = self;
        engine.take_stream(number, stream)
    }

    /// Whether a kernel combines elements so.
    ///
    /// # Errors
    /// `InvalidUsage`: none does.
    pub fn can_combine(&self, combine: &Combine) -> Result<()> {
        let StreamEngine::Cuda(engine) = self;
        engine.can_combine(combine)
    }

    /// Whether there is a kernel for a call, and in how many rounds it passes its data.
    ///
    /// # Errors
    /// `InvalidUsage`: no kernel combines such elements; a token cannot hold them. A connection
    /// cannot be made.
    pub fn rounds(&mut self, order: &LaunchOrder, planner: Planner<'_>) -> Result<u64> {
        let StreamEngine::Cuda(engine) = self;
        engine.rounds(order, planner)
    }

    /// Puts one launch on a stream. Returns how many steps it has.
    ///
    /// # Errors
    /// As [`StreamEngine::rounds`]; the device refuses.
    ///
    /// # Safety
    /// The buffers hold what the order says, and nobody else touches them until the stream has
    /// passed the launch.
    pub unsafe fn launch(
        &mut self,
        order: &LaunchOrder,
        planner: Planner<'_>,
        stream: DeviceStream,
    ) -> Result<u64> {
        let StreamEngine::Cuda(engine) = self;
        // SAFETY: passed on.
        unsafe { engine.launch(order, planner, stream) }
    }

    /// Puts messages, which move together, on a stream. Returns how many steps they have.
    ///
    /// # Errors
    /// As [`StreamEngine::launch`].
    ///
    /// # Safety
    /// As [`StreamEngine::launch`], for the places.
    pub unsafe fn exchange(
        &mut self,
        messages: &[StreamMessage],
        stream: DeviceStream,
    ) -> Result<u64> {
        let StreamEngine::Cuda(engine) = self;
        let message = |it: &StreamMessage| DeviceMessage {
            peer: it.peer,
            direction: it.direction,
            address: it.place as u64,
            bytes: it.bytes,
        };
        let messages: Vec<DeviceMessage> = messages.iter().map(message).collect();
        // SAFETY: passed on.
        unsafe { engine.exchange(&messages, stream) }
    }

    /// Copies on a stream.
    ///
    /// # Errors
    /// The device refuses.
    ///
    /// # Safety
    /// As [`StreamEngine::launch`].
    pub unsafe fn copy(
        &mut self,
        from: *const u8,
        to: *mut u8,
        bytes: usize,
        stream: DeviceStream,
    ) -> Result<()> {
        let StreamEngine::Cuda(engine) = self;
        // SAFETY: passed on.
        unsafe { engine.copy(from as u64, to as u64, bytes, stream) }
    }

    /// Lets all that is put on stream `later` from now on wait for all that is on `earlier` now.
    ///
    /// # Errors
    /// The device refuses.
    pub fn join(&mut self, earlier: DeviceStream, later: DeviceStream) -> Result<()> {
        let StreamEngine::Cuda(engine) = self;
        engine.join(earlier, later)
    }

    /// Whether all launches have ended.
    ///
    /// # Errors
    /// A fault of the device, which stays.
    pub fn is_quiet(&mut self) -> Result<bool> {
        let StreamEngine::Cuda(engine) = self;
        engine.is_quiet()
    }

    /// Whether messages under way wait for a rank, with what it has counted so far.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn waits_for(&self, peer: u32) -> Result<Option<u64>> {
        let StreamEngine::Cuda(engine) = self;
        engine.waits_for(peer)
    }

    /// Steps of all launches that have ended.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn steps_executed(&self) -> Result<u64> {
        let StreamEngine::Cuda(engine) = self;
        engine.steps_executed()
    }
}

impl fmt::Debug for StreamEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.device())
    }
}

/// An error unless the process can drive the device.
///
/// # Errors
/// No driver, or no such device, with what to do.
pub fn drives(device: CommDevice) -> Result<()> {
    let CommDevice::Cuda(number) = device else {
        return Ok(());
    };
    let there = crate::cuda::Driver::get()?.devices()?;
    match number < there {
        true => Ok(()),
        false => Err(Error::usage(
            format!("CUDA device {number}, and this process sees {there}"),
            "give a number from 0 on, below that of the devices in CUDA_VISIBLE_DEVICES",
        )),
    }
}
