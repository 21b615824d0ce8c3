//! Where a rank's buffers lie: in memory of the host, or of a GPU of its own.
//!
//! Data are made and compared on the host. A buffer on a device has a twin there: what is written
//! into the twin is pushed to the device before calls, and fetched from it after them.

use super::memory::{Buffer, BufferKind};
use super::options::PerfArgs;
use crate::world::World;
use kolo::base::{Error, Result};
use kolo::comm::{Communicator, Stream};
use kolo::cuda::{
    Context, DeviceGraph, DeviceMemory, Driver, OwnStream, copy_from_device, copy_to_device,
};
use kolo::topo;
use serde_json::{Value, json};
use std::sync::Arc;

/// The GPU of a rank, and the stream that its calls go on.
pub struct RankDevice {
    context: Arc<Context>,
    stream: OwnStream,
}

impl RankDevice {
    /// The GPU of this number, with a stream of its own.
    ///
    /// # Errors
    /// No such GPU.
    pub fn new(number: u32) -> Result<RankDevice> {
        let context = Context::of(number)?;
        let stream = OwnStream::new(&context)?;
        Ok(RankDevice { context, stream })
    }

    /// The stream, which stays as long as this.
    pub fn stream(&self) -> &OwnStream {
        &self.stream
    }

    /// The stream as calls of kolo take it.
    pub fn calls(&self) -> Stream {
        Stream::of_device(self.stream.id().0)
    }

    /// The calls on the stream that `body` makes, to be replayed.
    ///
    /// # Errors
    /// Those of `body`; the driver's.
    pub fn capture(&self, body: impl FnOnce() -> Result<()>) -> Result<DeviceGraph> {
        DeviceGraph::capture(&self.context, self.stream.id(), body)
    }
}

/// A buffer, full of poison at first.
pub struct PlacedBuffer {
    home: Buffer,
    there: Option<DeviceMemory>,
}

impl PlacedBuffer {
    /// On the device, if there is one, or else on the host, of this kind.
    ///
    /// # Errors
    /// No memory.
    pub fn new(
        bytes: usize,
        kind: BufferKind,
        (comm, on): (&Communicator, Option<&RankDevice>),
    ) -> Result<PlacedBuffer> {
        let there = |on: &RankDevice| DeviceMemory::new(&on.context, "a buffer", bytes, &[]);
        let kind = if on.is_none() {
            kind
        } else {
            BufferKind::Private
        };
        let mut buffer = PlacedBuffer {
            home: Buffer::new(bytes, kind)?,
            there: on.map(there).transpose()?,
        };
        buffer.home.register_with(comm)?;
        buffer.push(on, 0, bytes)?;
        Ok(buffer)
    }

    /// Where calls find it.
    pub fn place(&self) -> *mut u8 {
        match &self.there {
            Some(there) => there.address() as usize as *mut u8,
            None => self.home.place(),
        }
    }

    /// The host's copy of a part of it.
    pub fn bytes(&mut self, from: usize, length: usize) -> &mut [u8] {
        self.home.bytes(from, length)
    }

    /// Brings what the host has written to where calls find it.
    ///
    /// # Errors
    /// The driver's.
    pub fn push(&self, on: Option<&RankDevice>, from: usize, length: usize) -> Result<()> {
        let (Some(on), Some(there)) = (on, &self.there) else {
            return Ok(());
        };
        let source = self.home.seen(from, length);
        let to = there.address() + from as u64;
        // SAFETY: the memory is as long as its twin, and no call is on its way.
        unsafe { copy_to_device(&on.context, to, source, on.stream.id()) }
    }

    /// Brings what calls have left to the host.
    ///
    /// # Errors
    /// The driver's; the failure of a call.
    pub fn fetch(&mut self, on: Option<&RankDevice>, from: usize, length: usize) -> Result<()> {
        let (Some(on), Some(there)) = (on, &self.there) else {
            return Ok(());
        };
        let at = there.address() + from as u64;
        let target = self.home.bytes(from, length);
        // SAFETY: the memory is as long as its twin.
        unsafe { copy_from_device(&on.context, target, at, on.stream.id()) }
    }
}

/// The GPU of each rank of this process, or nothing on host memory. Processes of a host that see
/// the same GPUs share them out; with more ranks than GPUs, ranks share GPUs. All processes call
/// it.
///
/// # Errors
/// No driver, no GPU; a process that has ended.
pub fn of_ranks(args: &PerfArgs, world: &World) -> Result<Vec<Option<u32>>> {
    let ranks = args.per_process();
    if !args.on_gpus() {
        return Ok(vec![None; ranks as usize]);
    }
    let hosts = world.all_say(&topo::host_name())?;
    let count = count()?;
    let first = args.form.device.unwrap_or_else(|| {
        let process = world.process() as usize;
        let before = hosts[..process].iter();
        before.filter(|host| **host == hosts[process]).count() as u32 * ranks
    });
    Ok((first..first + ranks)
        .map(|number| Some(number % count))
        .collect())
}

/// Describes a rank's GPU.
///
/// # Errors
/// No such GPU.
pub fn described(number: u32) -> Result<Value> {
    let context = Context::of(number)?;
    let uuid = context.uuid().map(|byte| format!("{byte:02x}")).concat();
    let name: String = context.name().chars().take(60).collect();
    Ok(json!({
        "number": number, "uuid": uuid, "pci": context.pci(), "name": name,
        "memory": context.memory()?.0,
    }))
}

/// Words before the table where there are GPUs and host memory is measured: whoever knows
/// nccl-tests expects those.
pub fn left_out(args: &PerfArgs) -> Option<String> {
    let gpus = if args.on_gpus() {
        0
    } else {
        count().unwrap_or(0)
    };
    let many = if gpus == 1 {
        "1 GPU".to_string()
    } else {
        format!("{gpus} GPUs")
    };
    (gpus > 0).then(|| {
        format!("Host memory is measured: `--device cuda` measures that of the {many} seen here")
    })
}

/// How many GPUs this process sees, which are some.
///
/// # Errors
/// No driver, no GPU.
pub fn count() -> Result<u32> {
    match Driver::get()?.devices()? {
        0 => Err(Error::usage(
            "this process sees no GPU",
            "see `nvidia-smi -L`, and what the job was given: `echo $CUDA_VISIBLE_DEVICES`",
        )),
        count => Ok(count),
    }
}
