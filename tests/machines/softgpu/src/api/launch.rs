//! Launches.

use super::entry::{driver, live};
use crate::abi::{In, LaunchConfig};
use crate::device::MOST_THREADS;
use crate::error::{Answer, Code};
use crate::task::{Launch, Task};
use std::ffi::c_void;
use std::sync::Arc;

/// A grid: blocks and threads, each by x, y and z.
struct Shape {
    blocks: [u32; 3],
    threads: [u32; 3],
    shared_bytes: u32,
}

impl Shape {
    /// Blocks of a grid and threads of a block.
    fn check(&self) -> Answer<(u32, u32)> {
        let [blocks, by, bz] = self.blocks;
        let [threads, ty, tz] = self.threads;
        // The kernels are made for one dimension and whole warps, and take no shared memory.
        let is_flat = [by, bz, ty, tz] == [1; 4] && self.shared_bytes == 0;
        if !is_flat || blocks == 0 || threads == 0 || !threads.is_multiple_of(32) {
            return Err(Code::INVALID_VALUE);
        }
        match threads <= MOST_THREADS {
            true => Ok((blocks, threads)),
            false => Err(Code::LAUNCH_OUT_OF_RESOURCES),
        }
    }
}

/// `parameters` points to a list of pointers, one for each parameter: the kernels have one.
fn launch(
    function: u64,
    shape: &Shape,
    stream: u64,
    (parameters, extra): (In<In<u8>>, *const c_void),
    is_cooperative: bool,
) -> Answer {
    let mut turn = live()?;
    let current = turn.current();
    let function = turn.modules.get(function, current)?;
    let stream = turn.stream(stream)?;
    if turn.streams.get(stream)?.context != function.context {
        return Err(Code::INVALID_HANDLE);
    }
    let (blocks, threads) = shape.check()?;
    if is_cooperative && blocks > turn.settings.blocks {
        return Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    // The other way to pass parameters is not modelled.
    if !extra.is_null() {
        return Err(Code::NOT_SUPPORTED);
    }
    turn.wait_for_lock(function.device)?;
    let (_, kernel) = turn.modules.kernel(function);
    let bytes = parameters.get()?.list(kernel.launch_bytes())?;
    let task = Task::Launch(Launch {
        device: function.device,
        kernel,
        blocks,
        threads,
        bytes: Arc::from(bytes),
        grid: None,
    });
    turn.submit(stream, Vec::new(), task).map(|_| ())
}

driver! {
    4_000 cuLaunchKernel(
        function: u64,
        blocks_x: u32,
        blocks_y: u32,
        blocks_z: u32,
        threads_x: u32,
        threads_y: u32,
        threads_z: u32,
        shared_bytes: u32,
        stream: u64,
        parameters: In<In<u8>>,
        extra: *const c_void,
    ) {
        let shape = Shape {
            blocks: [blocks_x, blocks_y, blocks_z],
            threads: [threads_x, threads_y, threads_z],
            shared_bytes,
        };
        launch(function, &shape, stream, (parameters, extra), false)
    }

    9_000 cuLaunchCooperativeKernel(
        function: u64,
        blocks_x: u32,
        blocks_y: u32,
        blocks_z: u32,
        threads_x: u32,
        threads_y: u32,
        threads_z: u32,
        shared_bytes: u32,
        stream: u64,
        parameters: In<In<u8>>,
    ) {
        let shape = Shape {
            blocks: [blocks_x, blocks_y, blocks_z],
            threads: [threads_x, threads_y, threads_z],
            shared_bytes,
        };
        launch(function, &shape, stream, (parameters, std::ptr::null()), true)
    }

    11_060 cuLaunchKernelEx(
        config: In<LaunchConfig>,
        function: u64,
        parameters: In<In<u8>>,
        extra: *const c_void,
    ) {
        let config = config.get()?;
        // Attributes ask for clusters and the like.
        if config.attribute_count != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let shape = Shape {
            blocks: config.grid,
            threads: config.block,
            shared_bytes: config.shared_bytes,
        };
        launch(function, &shape, config.stream, (parameters, extra), false)
    }
}
