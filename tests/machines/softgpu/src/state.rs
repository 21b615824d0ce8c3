//! Everything that the process' devices are, behind one lock, and who holds it when.
//!
//! Callers and the worker (worker.rs) take turns: the worker gives the lock to whoever waits after
//! each short run of the machine, so no call waits longer than that.

use crate::context::{Context, Primary};
use crate::device::{self, Device};
use crate::error::{Answer, Code};
use crate::event::Event;
use crate::fault::Faults;
use crate::graph::capture::Captures;
use crate::graph::object::Objects;
use crate::graph::{Executable, Graph};
use crate::memory::pool::Pool;
use crate::memory::{Memory, Trouble};
use crate::module::Modules;
use crate::places::Joint;
use crate::settings::{self, Settings};
use crate::stream::{Point, Streams};
use crate::table::Table;
use crate::task::{Failed, Task};
use crate::worker;
use kolo_kernels_host::{Machine, Options};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::OnceLock;

/// All devices of this process, and what uses them.
pub struct State {
    pub settings: Settings,
    pub machine: Machine,
    pub devices: Vec<Device>,
    pub primaries: Vec<Primary>,
    pub contexts: Table<Context>,
    pub streams: Streams,
    pub events: Table<Event>,
    pub modules: Modules,
    pub memory: Memory,
    pub faults: Faults,
    pub captures: Captures,
    pub graphs: Table<Graph>,
    pub executables: Table<Executable>,
    pub objects: Objects,
    /// Grids may be on the machine.
    pub has_grids: bool,
    /// Code that every call gives from now on.
    pub failed: Option<Code>,
}

struct Driver {
    state: Mutex<State>,
    /// There may be work.
    work: Condvar,
    /// Something has ended.
    ended: Condvar,
    /// A child of this process has no worker.
    process: u32,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

/// `cuInit`.
///
/// # Errors
/// A variable is wrong, no device is visible, or a thread or addresses are missing.
pub fn init() -> Answer {
    static ONCE: Mutex<()> = Mutex::new(());
    let _one = ONCE.lock();
    if let Some(driver) = DRIVER.get() {
        return match driver.process == std::process::id() {
            true => Ok(()),
            false => Err(Code::NOT_INITIALIZED),
        };
    }
    let driver = Driver {
        state: Mutex::new(State::new(settings::read()?)?),
        work: Condvar::new(),
        ended: Condvar::new(),
        process: std::process::id(),
    };
    let driver = DRIVER.get_or_init(|| driver);
    let run = move || worker::run(&driver.state, &driver.work, &driver.ended);
    let thread = std::thread::Builder::new().name("softgpu".into());
    thread
        .spawn(run)
        .map(|_| ())
        .map_err(|_| Code::OPERATING_SYSTEM)
}

/// The lock, for one call.
pub struct Turn {
    driver: &'static Driver,
    pub state: MutexGuard<'static, State>,
}

/// # Errors
/// `cuInit` was not called in this process.
pub fn enter() -> Answer<Turn> {
    let driver = DRIVER
        .get()
        .filter(|driver| driver.process == std::process::id());
    let driver = driver.ok_or(Code::NOT_INITIALIZED)?;
    Ok(Turn {
        driver,
        state: driver.state.lock(),
    })
}

/// Tells the worker that a function of the host has returned.
pub fn wake_worker() {
    if let Some(driver) = DRIVER.get() {
        let _state = driver.state.lock();
        driver.work.notify_all();
    }
}

impl std::ops::Deref for Turn {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl std::ops::DerefMut for Turn {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Turn {
    /// Waits until all points have been passed.
    ///
    /// # Errors
    /// The devices have failed, before or meanwhile.
    pub fn wait(&mut self, points: &[Point]) -> Answer {
        loop {
            if let Some(code) = self.state.failed {
                return Err(code);
            }
            if points
                .iter()
                .all(|point| self.state.streams.is_past(*point))
            {
                return Ok(());
            }
            self.driver.ended.wait(&mut self.state);
        }
    }

    /// Puts a task at the end of a stream, or into the graph that the stream is captured for: then
    /// the point is one that has been passed.
    ///
    /// # Errors
    /// There is no such stream, or a capture forbids it.
    pub fn submit(&mut self, stream: u64, after: Vec<Point>, task: Task) -> Answer<Point> {
        self.state.forbid_implicit(stream)?;
        let Some(task) = self.state.capture(stream, task)? else {
            return Ok(Point {
                stream: 0,
                ticket: 0,
            });
        };
        let point = self.state.streams.submit(stream, after, task)?;
        self.driver.work.notify_all();
        Ok(point)
    }

    /// Waits for all work of a device that was issued before.
    ///
    /// # Errors
    /// The devices have failed.
    pub fn wait_for_device(&mut self, device: u32) -> Answer {
        let points = self.state.streams.ends_of_device(device);
        self.wait(&points)
    }

    /// The code of a trouble; a failure ends the work of all devices.
    pub fn code(&mut self, trouble: Trouble) -> Code {
        match trouble {
            Trouble::Code(code) => code,
            Trouble::Failure(failure) => {
                let code = self.state.fail(&failure.into());
                self.driver.ended.notify_all();
                code
            }
        }
    }
}

impl State {
    fn new(settings: Settings) -> Answer<State> {
        let faults = Faults::read(&settings.fault)?;
        let mut devices = device::visible(&settings);
        if devices.is_empty() {
            return Err(Code::NO_DEVICE);
        }
        let machine = Machine::new(Options {
            devices: devices.len() as u32,
            resident_blocks: settings.blocks,
            is_weak: settings.is_weak,
            most_switches: u64::MAX,
            ..Options::new(settings.seed)
        });
        let mut memory = Memory::new(devices.len(), settings.memory)?;
        for (ordinal, device) in devices.iter_mut().enumerate() {
            device.default_pool = memory.pools.add(Pool::new(ordinal as u32, true));
            device.pool = device.default_pool;
        }
        Ok(State {
            primaries: vec![Primary::default(); devices.len()],
            machine,
            devices,
            contexts: Table::new(Code::INVALID_CONTEXT),
            streams: Streams::default(),
            events: Table::new(Code::INVALID_HANDLE),
            modules: Modules::new(),
            memory,
            faults,
            captures: Captures::default(),
            graphs: Table::new(Code::INVALID_VALUE),
            executables: Table::new(Code::INVALID_VALUE),
            objects: Objects::new(),
            has_grids: false,
            failed: None,
            settings,
        })
    }

    /// A device by its number in this process.
    ///
    /// # Errors
    /// There is none.
    pub fn device(&self, ordinal: i32) -> Answer<u32> {
        let known = usize::try_from(ordinal).is_ok_and(|at| at < self.devices.len());
        match known {
            true => Ok(ordinal as u32),
            false => Err(Code::INVALID_DEVICE),
        }
    }

    /// Whether a device may use the memory of another one.
    pub fn reaches(&self, device: u32, other: u32) -> bool {
        self.settings.has_peers && self.joint(device, other) != Joint::Processors
    }

    /// Finds the link between two devices.
    pub fn joint(&self, device: u32, other: u32) -> Joint {
        let place = |at: u32| &self.devices[at as usize].place;
        place(device).joint(place(other))
    }

    /// Ends the work of all devices, and says why, once.
    pub fn fail(&mut self, failed: &Failed) -> Code {
        if self.failed.is_none() {
            eprintln!("kolo software GPU: {}", failed.text);
            self.failed = Some(failed.code);
        }
        self.failed.unwrap_or(failed.code)
    }
}
