//! Ranks as threads: each on a device, with a stream and two areas of device memory of its own.
//!
//! With fewer devices than ranks, ranks share devices.

use crate::report::{self, Failure, hold};
use kolo::base::Error;
use kolo::bootstrap::ThreadsBootstrap;
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Call, CommConfig, CommDevice, Communicator, Stream};
use kolo::cuda::{Context, DeviceMemory, Driver, OwnStream, copy_from_device, copy_to_device};
use std::sync::Arc;

/// Byte in memory that nobody has written.
pub const POISON: u8 = kolo::dtype::known::POISON;
/// How many queues a process has to a device: streams that share one may wait for each other, and
/// so would ranks that share a device.
pub const QUEUES: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
/// Poisoned bytes on each side of what a call may use.
const EDGE: usize = 256;

/// How a step runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The name of the step.
    pub step: String,
    /// A selection of small calls, as a GPU made of software needs it.
    pub is_small: bool,
}

/// A rank on its device.
pub struct Rank {
    pub comm: Communicator,
    pub context: Arc<Context>,
    pub stream: OwnStream,
}

/// Device memory of one rank, used by one call after the other.
pub struct Area {
    memory: DeviceMemory,
}

impl Rank {
    fn join(
        member: ThreadsBootstrap,
        device: u32,
        settings: &[(&str, &str)],
    ) -> Result<Rank, Error> {
        let settings = settings.iter();
        let config = CommConfig {
            device: CommDevice::Cuda(device),
            overrides: settings
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
            ..CommConfig::default()
        };
        let comm = Communicator::init_bootstrap(Box::new(member), &config)?;
        Rank::of(comm, device)
    }

    /// The rank of a communicator on this device.
    ///
    /// # Errors
    /// The driver's.
    pub fn of(comm: Communicator, device: u32) -> Result<Rank, Error> {
        let context = Context::of(device)?;
        let stream = OwnStream::new(&context)?;
        Ok(Rank {
            comm,
            context,
            stream,
        })
    }

    /// This rank's number.
    pub fn number(&self) -> u32 {
        self.comm.rank()
    }

    /// Device memory for buffers of so many bytes.
    ///
    /// # Errors
    /// The device has too little.
    pub fn area(&self, bytes: usize) -> Result<Area, Error> {
        let memory = DeviceMemory::new(&self.context, "a buffer", bytes + 2 * EDGE, &[])?;
        Ok(Area { memory })
    }

    /// Fills an area: this content, and poison on both sides.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// The content is longer than the area.
    pub fn load(&self, area: &Area, content: &[u8]) -> Result<(), Error> {
        let whole = content.len() + 2 * EDGE;
        assert!(whole <= area.memory.bytes(), "the area is too small");
        let mut all = vec![POISON; whole];
        all[EDGE..EDGE + content.len()].copy_from_slice(content);
        // SAFETY: the memory is that long, and calls that used it have ended.
        unsafe { copy_to_device(&self.context, area.memory.address(), &all, self.stream.id()) }
    }

    /// Reads an area once the stream has come so far.
    ///
    /// # Errors
    /// The driver's; a byte beside the `bytes` was written.
    pub fn fetch(&self, area: &Area, bytes: usize) -> Result<Vec<u8>, Failure> {
        let mut all = vec![0; bytes + 2 * EDGE];
        let at = area.memory.address();
        // SAFETY: the memory is that long; calls before it are on the same stream.
        unsafe { copy_from_device(&self.context, &mut all, at, self.stream.id()) }?;
        let mut edges = all[..EDGE].iter().chain(&all[EDGE + bytes..]);
        let is_poison = edges.all(|&byte| byte == POISON);
        hold(is_poison, || "bytes beside a buffer were written".into())?;
        Ok(all[EDGE..EDGE + bytes].to_vec())
    }

    /// Puts a call on the stream.
    ///
    /// # Errors
    /// The call is refused.
    pub fn put(&self, call: &Call) -> Result<(), Error> {
        let on = Stream::of_device(self.stream.id().0);
        // SAFETY: areas live until the rank has ended, which waits for its stream.
        unsafe { self.comm.enqueue(call, Some(&on)) }
    }

    /// Holds the steps that devices counted against those that were planned.
    ///
    /// # Errors
    /// They differ, or none was planned; the failure of a kernel.
    pub fn has_done_its_steps(&self) -> Result<(), Failure> {
        self.stream.synchronize()?;
        let (done, planned) = self.comm.step_counts()?;
        hold(planned > 0 && done == planned, || {
            format!("rank {} has done {done} steps of {planned}", self.number())
        })
    }
}

impl Area {
    /// Its address on the device, `offset` bytes into what calls may use.
    pub fn at(&self, offset: usize) -> *mut u8 {
        (self.memory.address() + (EDGE + offset) as u64) as usize as *mut u8
    }
}

/// The device of a rank.
///
/// # Errors
/// There is no driver, or no device.
pub fn device_of(rank: u32) -> Result<u32, Error> {
    // The first device's context tells what is wrong where there is none.
    Context::of(0)?;
    Ok(rank % Driver::get()?.devices()?.max(1))
}

/// Runs `body` as each of `count` ranks; what they give, in their order. The first that fails ends
/// the process with the step's line: the others may wait for it for ever.
pub fn ranks<T: Send>(
    setup: &Setup,
    count: u32,
    settings: &[(&str, &str)],
    body: impl Fn(&Rank) -> Result<T, Failure> + Sync,
) -> Vec<T> {
    let run = |member: ThreadsBootstrap, number: u32| -> Result<T, Failure> {
        let rank = Rank::join(member, device_of(number)?, settings)?;
        let given = body(&rank)?;
        rank.comm.destroy()?;
        Ok(given)
    };
    let or_end = |number: u32, given: Result<T, Failure>| {
        given.unwrap_or_else(|Failure(why)| {
            let why = format!("rank {number} of {count}, {settings:?}: {why}");
            report::end(&setup.step, &Err(Failure(why)))
        })
    };
    let (run, or_end) = (&run, &or_end);
    std::thread::scope(|scope| {
        let members = ThreadsBootstrap::group(count).into_iter();
        let threads: Vec<_> = (0..)
            .zip(members)
            .map(|(number, member)| scope.spawn(move || or_end(number, run(member, number))))
            .collect();
        // A panic has ended the process: see `main`.
        threads
            .into_iter()
            .flat_map(|thread| thread.join())
            .collect()
    })
}
