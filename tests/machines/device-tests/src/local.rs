//! A launch without connections, which adds two halves of a buffer: the interpreter alone.

use crate::report::{Failure, hold};
use kolo::cuda::{
    Context, DeviceMemory, Function, OwnStream, PinnedMemory, copy_from_device, copy_to_device,
};
use kolo::exec::cuda::{DeviceLaunch, Image, fit};
use kolo::plan::window::Binding;
use kolo::plan::{
    Algorithm, Collective, Emitter, Layout, Operand, Plan, Program, Protocol, Shape, Window,
};
use std::sync::Arc;

/// Slots of a chunk and of a slice, as communicators have them.
const STEPS: (u32, u32) = (4, 2);

/// Bytes of a slice of slots of so many bytes.
pub const fn slice_bytes(slot_bytes: usize) -> usize {
    STEPS.1 as usize * slot_bytes
}

/// A launch that adds two halves of a buffer: a plan without connections.
pub struct Fold<'a> {
    context: &'a Context,
    stream: &'a OwnStream,
    memory: &'a DeviceMemory,
    bytes: usize,
    blocks: u32,
    launch: DeviceLaunch,
    // What the launch names.
    _image: DeviceMemory,
    _abort: PinnedMemory,
}

/// A plan that adds two halves, with a lane for each block.
fn plan(lanes: u32) -> Plan {
    let shape = Shape {
        collective: Collective::AllReduce,
        algorithm: Algorithm::Local,
        rank: 0,
        nranks: 1,
        root: 0,
        channels: lanes as u16,
    };
    let mut e = Emitter::new(shape, 2, Layout::Blocks);
    for lane in 0..lanes {
        let halves = [Operand::INPUT, Operand::INPUT.at(1)];
        e.lane(lane as u16).fold(&halves, 0);
    }
    e.finish()
}

impl Fold<'_> {
    /// The launch of so many blocks and bytes of each half, in slots of so many bytes.
    ///
    /// # Errors
    /// The plan is refused; the driver's.
    pub fn new<'a>(
        context: &'a Arc<Context>,
        stream: &'a OwnStream,
        memory: &'a DeviceMemory,
        blocks: u32,
        bytes: usize,
        slot_bytes: usize,
    ) -> Result<Fold<'a>, Failure> {
        let plan = plan(blocks);
        let geometry = fit::geometry(Protocol::Simple, slot_bytes, STEPS, (1, 4))?;
        let window = |lane: u32| {
            let binding = Binding {
                count: bytes / 4,
                element_bytes: 4,
                input_blocks: 2,
                output_blocks: 1,
                lane,
                lanes: blocks,
                pieces: 1,
            };
            Window::bind(Layout::Blocks, plan.chunks, &geometry, &binding)
        };
        let windows: Vec<Window> = (0..blocks).map(window).collect();
        let image = Image::new(&Program::lower(&plan)?, &windows);
        let place = DeviceMemory::new(context, "an image", image.bytes().len(), &[])?;
        // SAFETY: the memory is new and that long.
        unsafe { copy_to_device(context, place.address(), image.bytes(), stream.id()) }?;
        let abort = PinnedMemory::new(8)?;
        let mut launch = DeviceLaunch::new(&image, STEPS.1);
        launch.image = if launch.is_inline() {
            0
        } else {
            place.address()
        };
        launch.input = memory.address();
        launch.output = memory.address() + 2 * bytes as u64;
        launch.abort = abort.address();
        Ok(Fold {
            context,
            stream,
            memory,
            bytes,
            blocks,
            launch,
            _image: place,
            _abort: abort,
        })
    }

    /// Puts it on the stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch(&self, kernel: &Function, threads: u32) -> Result<(), Failure> {
        let (parameter, on) = (self.launch.as_bytes(), self.stream.id());
        // SAFETY: the launch is made for this kernel, and what it names lives as long as this.
        Ok(unsafe { kernel.launch(self.blocks, threads, parameter, on) }?)
    }

    /// Adds known numbers, and holds each sum against what it must be.
    ///
    /// # Errors
    /// The driver's; a sum is wrong.
    pub fn check(&self, kernel: &Function, threads: u32) -> Result<(), Failure> {
        // Sums of numbers below 2^23 are exact.
        let element = |at: usize| (at % 8_388_593) as f32;
        let count = self.bytes / 4;
        let mut input = vec![0xa5; 3 * self.bytes];
        let places = input.as_chunks_mut::<4>().0.iter_mut();
        for (at, place) in places.take(2 * count).enumerate() {
            *place = element(at).to_le_bytes();
        }
        let at = self.memory.address();
        // SAFETY: the memory has three times that many bytes, and no kernel uses it now.
        unsafe { copy_to_device(self.context, at, &input, self.stream.id()) }?;
        self.launch(kernel, threads)?;
        let mut sums = vec![0; self.bytes];
        let (from, on) = (self.launch.output, self.stream.id());
        // SAFETY: as above.
        unsafe { copy_from_device(self.context, &mut sums, from, on) }?;
        let sums = sums.as_chunks::<4>().0.iter();
        let wrong = (0..)
            .zip(sums)
            .find(|(at, sum)| f32::from_le_bytes(**sum) != element(*at) + element(at + count));
        hold(wrong.is_none(), || {
            format!("with {} blocks a sum is wrong: {wrong:?}", self.blocks)
        })
    }
}
