//! A machine with devices: its memory, what is launched on it, and how a run goes on and ends.

use crate::interface::{self as raw, Counts, KernelFunction, Patience, Raw, RawOptions};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ffi::{CStr, CString};
use std::ptr::NonNull;

/// How a machine is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Everything that is drawn comes from it.
    pub seed: u64,
    /// At most 32.
    pub devices: u32,
    /// Blocks that a device has at a time; others wait until one of these ends.
    pub resident_blocks: u32,
    /// Without it every store lands at once and every load is fresh: only the order is drawn.
    pub is_weak: bool,
    /// A run that is longer has failed.
    pub most_switches: u64,
}

impl Options {
    /// One device, with room for 64 blocks.
    pub fn new(seed: u64) -> Options {
        Options {
            seed,
            devices: 1,
            resident_blocks: 64,
            is_weak: true,
            most_switches: 100_000_000,
        }
    }
}

/// A kernel that can be launched.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    name: &'static CStr,
    function: KernelFunction,
    launch_bytes: usize,
}

impl Kernel {
    /// # Safety
    /// `function` is defined by `KOLO_KERNEL` over device.h, and its structure has `launch_bytes`
    /// bytes (`NAME_launch_bytes`). It keeps to its shared memory and locals but for what it does
    /// through device.h, and its frames fit the 64 KB of a fiber's stack.
    pub const unsafe fn new(
        name: &'static CStr,
        function: KernelFunction,
        launch_bytes: usize,
    ) -> Kernel {
        Kernel {
            name,
            function,
            launch_bytes,
        }
    }

    /// As failures name it.
    pub fn name(&self) -> &'static CStr {
        self.name
    }

    /// Bytes of its structure.
    pub fn launch_bytes(&self) -> usize {
        self.launch_bytes
    }
}

/// The devices that may load from a range and store to it: device `d` has bit `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Who may load.
    pub loads: u32,
    /// Who may store.
    pub stores: u32,
}

impl Access {
    /// Every device.
    pub const ALL: Access = Access {
        loads: u32::MAX,
        stores: u32::MAX,
    };
    /// Every device, but none may store.
    pub const READ_ONLY: Access = Access {
        loads: u32::MAX,
        stores: 0,
    };

    /// One device.
    pub const fn only(device: u32) -> Access {
        Access {
            loads: 1 << device,
            stores: 1 << device,
        }
    }
}

/// A range of addresses that kernels may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range(u32);

/// A range with memory that the machine allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    range: Range,
    at: u64,
    bytes: usize,
}

impl Memory {
    /// The range, to change who may use it.
    pub fn range(self) -> Range {
        self.range
    }

    /// The address of its first byte, as kernels see it: a multiple of 256.
    pub fn at(self) -> u64 {
        self.at
    }

    /// Its length.
    pub fn bytes(self) -> usize {
        self.bytes
    }
}

/// A launched grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid(u32);

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It can go on.
    Running,
    /// For long nothing has changed: all that run wait, perhaps for the caller.
    Waiting,
    /// All grids have ended, and everything that they stored has landed.
    Over,
}

/// Why a run failed. The machine does nothing more after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed that makes it happen again.
    pub seed: u64,
    /// Who did what, and where everybody stood.
    pub text: String,
    /// A kernel has used memory as it must not.
    pub is_access: bool,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seed {}: {}", self.seed, self.text)
    }
}

impl std::error::Error for Failure {}

/// How long nothing may change before a run counts as stuck, or as waiting for the caller: in
/// switches, and in switches for each thread that lives, or that is ready.
const STUCK: Patience = patience(50_000, 2_000, 0);
const WAITING: Patience = patience(2_000, 50, 0);
/// For who has something better to do than to let threads look again.
const SOON: Patience = patience(500, 0, 2);

const fn patience(base: u64, each: u64, ready: u64) -> Patience {
    Patience { base, each, ready }
}

const ALIGNMENT: usize = 256;

/// Devices, their memory and the grids on them.
pub struct Machine {
    raw: NonNull<Raw>,
    seed: u64,
    owned: Vec<(Range, NonNull<u8>, Layout)>,
}

// SAFETY: a machine keeps nothing of the thread that made it: whoever runs it next sets what the
// fibers of that thread find, and its fibers hold no thread's data across a switch.
unsafe impl Send for Machine {}

impl Machine {
    /// A machine without memory and grids.
    ///
    /// # Panics
    /// Without devices, with more than 32, or without room for a block.
    pub fn new(options: Options) -> Machine {
        assert!((1..=32).contains(&options.devices) && options.resident_blocks > 0);
        let given = RawOptions {
            seed: options.seed,
            most_switches: options.most_switches,
            devices: options.devices,
            resident_blocks: options.resident_blocks,
            is_weak: options.is_weak.into(),
        };
        // SAFETY: the structure is the one that C++ reads, and it copies it.
        let raw = unsafe { raw::kolo_host_new(&raw const given) };
        Machine {
            raw: NonNull::new(raw).expect("C++ ends the process when memory is short"),
            seed: options.seed,
            owned: Vec::new(),
        }
    }

    /// Allocates memory, filled with `fill`. The name is for failures.
    ///
    /// # Panics
    /// If no byte is asked for, or the name has a zero in it.
    pub fn allocate(&mut self, name: &str, bytes: usize, fill: u8, access: Access) -> Memory {
        assert!(bytes > 0, "`{name}` is empty");
        // The last word may reach further than the range.
        let size = bytes.next_multiple_of(8);
        let layout = Layout::from_size_align(size, ALIGNMENT).expect("a size");
        // SAFETY: the size is not 0.
        let memory = unsafe { alloc(layout) };
        let Some(memory) = NonNull::new(memory) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the memory has so many bytes, and nobody else knows it.
        unsafe { memory.write_bytes(fill, size) };
        let at = memory.as_ptr() as u64;
        // SAFETY: the memory is given back only after its range is gone.
        let range = unsafe { self.register(name, at, memory.as_ptr(), bytes, access) };
        let range = range.expect("no other range lies in new memory");
        self.owned.push((range, memory, layout));
        Memory { range, at, bytes }
    }

    /// Lets kernels use `bytes` at `base`; they lie at `home`. None if a range lies there already,
    /// or `home` is not as far from a multiple of 16 as `base` is.
    ///
    /// # Panics
    /// If the name has a zero in it.
    ///
    /// # Safety
    /// The memory, up to the next multiple of 8 at both ends, stays until the range is unregistered
    /// or the machine dropped, and while a run goes on nobody else uses it but by atomics.
    pub unsafe fn register(
        &mut self,
        name: &str,
        base: u64,
        home: *mut u8,
        bytes: usize,
        access: Access,
    ) -> Option<Range> {
        let name = CString::new(name).expect("a name has no zero");
        let (loads, stores) = (access.loads, access.stores);
        // SAFETY: the machine lives, the name is copied, and the caller vouches for the memory.
        let id = unsafe {
            raw::kolo_host_add_range(
                self.raw.as_ptr(),
                base,
                bytes as u64,
                home,
                loads,
                stores,
                name.as_ptr(),
            )
        };
        (id != 0).then_some(Range(id))
    }

    /// Takes a range away.
    ///
    /// # Errors
    /// If a kernel's store to it has not landed yet: then the range stays.
    pub fn unregister(&mut self, range: Range) -> Result<(), Failure> {
        // SAFETY: the machine lives.
        let removed = unsafe { raw::kolo_host_remove_range(self.raw.as_ptr(), range.0) };
        if removed == 0 {
            return Err(Failure {
                seed: self.seed,
                text: format!("a store to range {} is under way: it cannot go", range.0),
                is_access: true,
            });
        }
        Ok(())
    }

    /// Gives allocated memory back.
    ///
    /// # Errors
    /// As [`Machine::unregister`].
    pub fn free(&mut self, memory: Memory) -> Result<(), Failure> {
        self.unregister(memory.range)?;
        let is_it = |(range, _, _): &(Range, NonNull<u8>, Layout)| *range == memory.range;
        if let Some(at) = self.owned.iter().position(is_it) {
            let (_, memory, layout) = self.owned.swap_remove(at);
            // SAFETY: it was allocated so, and no range names it any more.
            unsafe { dealloc(memory.as_ptr(), layout) };
        }
        Ok(())
    }

    /// Changes who may use a range.
    pub fn allow(&mut self, range: Range, access: Access) {
        // SAFETY: the machine lives; an id that it does not know changes nothing.
        unsafe {
            raw::kolo_host_allow(self.raw.as_ptr(), range.0, access.loads, access.stores);
        }
    }

    /// Stores as the host does: kernels see it from now on, but weak loads may be late as ever.
    ///
    /// # Panics
    /// Beyond the memory, or after it was freed.
    pub fn write(&mut self, memory: Memory, offset: usize, bytes: &[u8]) {
        let stored = self.store(memory.range, offset, bytes);
        assert!(stored, "beyond the memory, or after it was freed");
    }

    /// Writes to any range; false beyond it, or after it was unregistered.
    pub fn store(&mut self, range: Range, offset: usize, bytes: &[u8]) -> bool {
        // SAFETY: the machine lives, and looks at the bounds of the range.
        let stored = unsafe {
            raw::kolo_host_store(
                self.raw.as_ptr(),
                range.0,
                offset as u64,
                bytes.as_ptr(),
                bytes.len() as u64,
            )
        };
        stored != 0
    }

    /// Reads what has landed in memory.
    ///
    /// # Panics
    /// Beyond the memory, or after it was freed.
    pub fn read(&self, memory: Memory, offset: usize, bytes: usize) -> Vec<u8> {
        assert!(
            offset
                .checked_add(bytes)
                .is_some_and(|end| end <= memory.bytes)
        );
        let is_it = |(range, _, _): &&(Range, NonNull<u8>, Layout)| *range == memory.range;
        let (_, home, _) = self.owned.iter().find(is_it).expect("it was freed");
        let mut copy = vec![0; bytes];
        // SAFETY: the bytes lie in the allocation, and no kernel runs while this is borrowed.
        unsafe {
            home.as_ptr()
                .add(offset)
                .copy_to_nonoverlapping(copy.as_mut_ptr(), bytes);
        }
        copy
    }

    /// Launches `blocks` blocks of `threads` threads. All grids run at once, but blocks of a device
    /// begin in the order of their launches.
    ///
    /// # Errors
    /// If such a grid cannot be; the machine does nothing more then.
    ///
    /// # Panics
    /// If `launch` has not the bytes of the kernel's structure.
    pub fn launch(
        &mut self,
        device: u32,
        kernel: &Kernel,
        blocks: u32,
        threads: u32,
        launch: &[u8],
    ) -> Result<Grid, Failure> {
        assert_eq!(launch.len(), kernel.launch_bytes, "{:?}", kernel.name);
        // SAFETY: the machine lives and copies the launch, whose size is the kernel's.
        let grid = unsafe {
            raw::kolo_host_launch(
                self.raw.as_ptr(),
                device,
                kernel.function,
                kernel.name.as_ptr(),
                blocks,
                threads,
                launch.as_ptr().cast(),
                launch.len() as u64,
            )
        };
        match grid {
            0 => Err(self.failure()),
            id => Ok(Grid(id)),
        }
    }

    /// Whether all blocks of a grid have ended, and all that they stored has landed.
    pub fn is_over(&self, grid: Grid) -> bool {
        // SAFETY: the machine lives.
        unsafe { raw::kolo_host_is_over(self.raw.as_ptr(), grid.0) != 0 }
    }

    /// Runs all grids until they have ended.
    ///
    /// # Errors
    /// If a kernel did what it must not, or nothing goes on.
    pub fn run(&mut self) -> Result<Counts, Failure> {
        match self.go_on(u64::MAX, &STUCK)? {
            State::Over => Ok(self.counts()),
            State::Running | State::Waiting => {
                // SAFETY: the machine lives, and no fiber runs.
                unsafe { raw::kolo_host_fail_stuck(self.raw.as_ptr()) };
                Err(self.failure())
            }
        }
    }

    /// Runs all grids for so many switches at most, so that the caller can do in between what a
    /// host or a peer would do meanwhile.
    ///
    /// # Errors
    /// If a kernel did what it must not, or all threads wait for each other.
    pub fn run_some(&mut self, switches: u64) -> Result<State, Failure> {
        self.go_on(switches, &WAITING)
    }

    /// Runs as [`Machine::run_some`] does, but says much sooner that all wait: for callers that
    /// then sleep until somebody else, perhaps another process, has written what the kernels wait
    /// for.
    ///
    /// # Errors
    /// As [`Machine::run_some`].
    pub fn run_until_idle(&mut self, switches: u64) -> Result<State, Failure> {
        self.go_on(switches, &SOON)
    }

    fn go_on(&mut self, switches: u64, patience: &Patience) -> Result<State, Failure> {
        // SAFETY: the machine lives; its kernels keep to what `Kernel::new` was promised.
        let outcome = unsafe { raw::kolo_host_run(self.raw.as_ptr(), switches, patience) };
        match outcome {
            raw::FAILED => Err(self.failure()),
            raw::GOES_ON => Ok(State::Running),
            raw::OVER => Ok(State::Over),
            _ => Ok(State::Waiting),
        }
    }

    /// Counts of what has happened so far.
    pub fn counts(&self) -> Counts {
        // SAFETY: the machine lives, and keeps its counts.
        unsafe { *raw::kolo_host_counts(self.raw.as_ptr()) }
    }

    fn failure(&self) -> Failure {
        // SAFETY: the text ends with a zero, and stays until the machine does something.
        let text = unsafe { CStr::from_ptr(raw::kolo_host_failure(self.raw.as_ptr())) };
        Failure {
            seed: self.seed,
            text: text.to_string_lossy().into_owned(),
            // SAFETY: the machine lives.
            is_access: unsafe { raw::kolo_host_failed_access(self.raw.as_ptr()) } != 0,
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: nobody uses the machine any more; its memory is given back after it.
        unsafe {
            raw::kolo_host_drop(self.raw.as_ptr());
            for (_, memory, layout) in self.owned.drain(..) {
                dealloc(memory.as_ptr(), layout);
            }
        }
    }
}
