//! The kernels of `tests/litmus`, and small helpers to run them.

use kolo_kernels_host::{
    Access, Counts, Failure, Kernel, KernelFunction, Machine, Memory, Options,
};
use std::ffi::c_void;

macro_rules! kernels {
    ($($name:ident $bytes:ident $kernel:ident $text:literal),* $(,)?) => {
        unsafe extern "C" {
            $(
                fn $name(launch: *const c_void);
                static $bytes: u32;
            )*
        }
        $(
            pub fn $kernel() -> Kernel {
                let function: KernelFunction = $name;
                // SAFETY: KOLO_KERNEL defines both, and litmus kernels keep to device.h.
                unsafe { Kernel::new($text, function, $bytes as usize) }
            }
        )*
    };
}

kernels! {
    litmus_message litmus_message_launch_bytes message c"message",
    litmus_pipe litmus_pipe_launch_bytes pipe c"pipe",
    litmus_dekker litmus_dekker_launch_bytes dekker c"dekker",
    litmus_count litmus_count_launch_bytes count c"count",
    litmus_answer litmus_answer_launch_bytes answer c"answer",
    litmus_torn litmus_torn_launch_bytes torn c"torn",
    litmus_after litmus_after_launch_bytes after c"after",
    litmus_votes litmus_votes_launch_bytes votes c"votes",
    litmus_two_buffers litmus_two_buffers_launch_bytes two_buffers c"two_buffers",
    litmus_slip litmus_slip_launch_bytes slip c"slip",
    litmus_touch litmus_touch_launch_bytes touch c"touch",
    litmus_widths litmus_widths_launch_bytes widths c"widths",
    litmus_meet litmus_meet_launch_bytes meet c"meet",
    litmus_garbage litmus_garbage_launch_bytes garbage c"garbage",
}

/// A launch structure: all of them are words of 8 bytes.
pub fn launch(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Words of memory.
pub fn words(machine: &Machine, memory: Memory) -> Vec<u64> {
    let bytes = machine.read(memory, 0, memory.bytes());
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
    bytes.chunks(8).map(word).collect()
}

/// Memory for so many words, zeroed, for all devices.
pub fn zeros(machine: &mut Machine, name: &str, count: usize) -> Memory {
    machine.allocate(name, 8 * count, 0, Access::ALL)
}

/// Runs one grid on device 0.
pub fn run(
    machine: &mut Machine,
    kernel: Kernel,
    blocks: u32,
    threads: u32,
    words: &[u64],
) -> Result<Counts, Failure> {
    machine.launch(0, &kernel, blocks, threads, &launch(words))?;
    machine.run()
}

/// How many of `seeds` seeds `is_wrong` says yes to.
pub fn wrong(seeds: u64, is_wrong: impl Fn(Options) -> bool) -> u64 {
    let seeds = 0..seeds;
    seeds.filter(|&seed| is_wrong(Options::new(seed))).count() as u64
}
