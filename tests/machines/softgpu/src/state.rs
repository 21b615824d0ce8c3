//! Everything that the process' devices are, behind one lock, and who holds it when.
//!
//! Callers and the worker (worker.rs) take turns: the worker gives the lock to whoever waits after
//! each short run of the machine, so no call waits longer than that.

use crate::context::{self, Context, Primary};
use crate::device::{self, Device};
use crate::error::{Answer, Code};
use crate::event::Point;
use crate::fault::Faults;
use crate::graph::capture::Captures;
use crate::graph::object::Objects;
use crate::hardware::Hardware;
use crate::host_thread;
use crate::memory::pool::Pool;
use crate::memory::{Memory, Trouble};
use crate::module::Modules;
use crate::places::Joint;
use crate::progress::{Failed, Step};
use crate::settings::{self, Settings};
use crate::stream::Streams;
use crate::table::Table;
use crate::task::{Task, TaskExecutable, TaskGraph};
use kolo_kernels_host::{Machine, Options};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::OnceLock;

/// All devices of this process, and what uses them.
pub struct State {
    pub settings: Settings,
    pub hardware: Hardware,
    pub devices: Vec<Device>,
    pub primaries: Vec<Primary>,
    pub contexts: Table<Context>,
    pub streams: Streams,
    pub modules: Modules,
    pub captures: Captures,
    pub graphs: Table<TaskGraph>,
    pub executables: Table<TaskExecutable>,
    pub objects: Objects,
    /// Devices of whose contexts a call holds the lock.
    pub held: Vec<u32>,
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

/// The thread that is the hardware, with the lock, and what tells of work and of what has ended.
pub type Worker = fn(&Mutex<State>, &Condvar, &Condvar);

/// `cuInit`.
///
/// # Errors
/// A variable is wrong, no device is visible, or a thread or addresses are missing.
pub fn init(worker: Worker) -> Answer {
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
    host_thread::tells(wake_worker);
    let run = move || worker(&driver.state, &driver.work, &driver.ended);
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
fn wake_worker() {
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
    /// The context of this thread, and its device.
    ///
    /// # Errors
    /// There is none, or it was destroyed.
    pub fn current(&self) -> Answer<(u64, u32)> {
        let handle = context::current();
        Ok((handle, self.context(handle)?.device))
    }

    /// The stream of a handle.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn stream(&mut self, handle: u64) -> Answer<u64> {
        let current = self.current();
        self.state.streams.resolve(handle, current)
    }

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

    /// Waits likewise inside of a call that holds the lock of the current context: whoever launches
    /// on its device waits for the end of that call.
    ///
    /// # Errors
    /// As above; no context is current.
    pub fn wait_within(&mut self, points: &[Point]) -> Answer {
        let (_, device) = self.current()?;
        self.state.held.push(device);
        let passed = self.wait(points);
        let held = &mut self.state.held;
        if let Some(at) = held.iter().position(|one| *one == device) {
            held.swap_remove(at);
        }
        self.driver.ended.notify_all();
        passed
    }

    /// Waits until no call holds the lock of a context of this device.
    ///
    /// # Errors
    /// The devices have failed.
    pub fn wait_for_lock(&mut self, device: u32) -> Answer {
        while self.state.held.contains(&device) {
            if let Some(code) = self.state.failed {
                return Err(code);
            }
            self.driver.ended.wait(&mut self.state);
        }
        Ok(())
    }

    /// Puts a task at the end of a stream, or into the graph that the stream is captured for: then
    /// the point is one that has been passed.
    ///
    /// # Errors
    /// There is no such stream, or a capture forbids it.
    pub fn submit(&mut self, stream: u64, after: Vec<Point>, task: Task) -> Answer<Point> {
        self.state.forbid_implicit(stream)?;
        let state = &mut *self.state;
        let Some(task) = state.captures.take(&mut state.graphs, stream, task)? else {
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
            hardware: Hardware {
                machine,
                memory,
                events: Table::new(Code::INVALID_HANDLE),
                faults,
                has_grids: false,
            },
            devices,
            contexts: Table::new(Code::INVALID_CONTEXT),
            streams: Streams::default(),
            modules: Modules::new(),
            captures: Captures::default(),
            graphs: Table::new(Code::INVALID_VALUE),
            executables: Table::new(Code::INVALID_VALUE),
            objects: Objects::new(),
            held: Vec::new(),
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

    /// # Errors
    /// A task on this default stream would wait for one that is in a capture.
    pub fn forbid_implicit(&mut self, stream: u64) -> Answer {
        self.captures.forbid_implicit(&self.streams, stream)
    }

    pub fn new_context(&mut self, device: u32, flags: u32, is_primary: bool) -> u64 {
        let id = self.hardware.memory.ranges.new_id();
        self.contexts.add(Context {
            device,
            flags,
            is_primary,
            is_dead: false,
            id,
            limits: Vec::new(),
        })
    }

    /// A context that can be used.
    ///
    /// # Errors
    /// There is none of this handle, or it was destroyed.
    pub fn context(&self, handle: u64) -> Answer<&Context> {
        let context = self.contexts.get(handle)?;
        match context.is_dead {
            true => Err(Code::CONTEXT_IS_DESTROYED),
            false => Ok(context),
        }
    }

    /// The primary context of a device, made if nobody uses it yet.
    pub fn retain_primary(&mut self, device: u32) -> u64 {
        let primary = self.primaries[device as usize];
        let handle = match primary.handle {
            0 => self.new_context(device, primary.flags, true),
            handle => {
                if let Ok(context) = self.contexts.get_mut(handle) {
                    context.is_dead = false;
                }
                handle
            }
        };
        let primary = &mut self.primaries[device as usize];
        primary.handle = handle;
        primary.users += 1;
        handle
    }

    /// Destroys what belongs to a context. Its memory goes, too.
    pub fn end_context(&mut self, handle: u64) {
        if let Ok(context) = self.contexts.get_mut(handle) {
            context.is_dead = true;
        }
        for stream in self.streams.of_context(handle) {
            self.captures.drop_stream(stream);
        }
        self.streams.drop_context(handle);
        self.hardware.events.retain(|event| event.context != handle);
        self.modules.drop_context(handle);
        let device = self.contexts.get(handle).map(|context| context.device);
        let Hardware {
            memory, machine, ..
        } = &mut self.hardware;
        if let Ok(device) = device {
            let mut living = self.contexts.iter().filter(|(_, other)| !other.is_dead);
            if living.all(|(_, other)| other.device != device) {
                memory.peers.forget(&mut memory.ranges, machine, device);
            }
        }
        if let Err(failure) = memory.drop_context(machine, handle) {
            self.fail(&failure);
        }
    }

    /// Begins what can begin, and goes on with what has begun; whether anything changed.
    pub fn go_on(&mut self) -> Result<bool, Failed> {
        let mut moved = false;
        if self.failed.is_some() {
            return Ok(false);
        }
        for stream in self.streams.handles() {
            moved |= self.go_on_with(stream)?;
        }
        Ok(moved)
    }

    fn go_on_with(&mut self, stream: u64) -> Result<bool, Failed> {
        let Some(mut item) = self.streams.take(stream) else {
            return Ok(false);
        };
        let here = Point {
            stream,
            ticket: item.ticket,
        };
        let step = item.task.step(&mut self.hardware, here)?;
        match step {
            Step::Ended => self.streams.has_ended(stream, item.ticket),
            Step::Moved | Step::Waits => self.streams.put_back(stream, item),
        }
        Ok(step != Step::Waits)
    }
}
