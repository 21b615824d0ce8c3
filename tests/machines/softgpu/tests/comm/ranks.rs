//! Ranks as threads, each with a device of the software GPU and a stream of its own.

use kolo::base::Result;
use kolo::bootstrap::ThreadsBootstrap;
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, CommConfig, CommDevice, Communicator, RedOp, Stream};
use kolo::cuda::{Context, DeviceMemory, OwnStream, copy_from_device, copy_to_device};
use kolo::dtype::DataType;
use std::path::PathBuf;
use std::sync::{Arc, Once};

/// Devices of the software GPU in these tests.
pub const DEVICES: u32 = 8;
/// Blocks that each runs at a time, where a test sets no other number: enough for the communicators
/// of all tests that run side by side.
const BLOCKS: u32 = 64;
/// Variable that sets them.
pub const BLOCKS_SET: &str = "KOLO_SOFTGPU_BLOCKS";
/// Byte in memory that nobody has written.
pub const POISON: u8 = 0x5a;

/// The library of the software GPU, beside this program.
pub fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a program");
    program.with_file_name("libkolo_softgpu.so")
}

/// Makes the software GPU the driver of this process.
pub fn software_gpu() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let library = library();
        // Other processes write the same at the same time: each gives its own file the name.
        let kernels = library.with_file_name("kolo_kernels.softgpu");
        let own = library.with_file_name(format!("kolo_kernels.{}", std::process::id()));
        std::fs::write(&own, kolo_softgpu::image()).expect("the image");
        std::fs::rename(&own, &kernels).expect("its name");
        let set = |name: &str, value: &str| {
            // SAFETY: every test of this program comes here first, and nobody else reads the
            // environment before.
            unsafe { std::env::set_var(name, value) };
        };
        set("KOLO_CUDA_LIBRARY", library.to_str().expect("a path"));
        set("KOLO_KERNELS_FILE", kernels.to_str().expect("a path"));
        set("KOLO_SOFTGPU_DEVICES", &DEVICES.to_string());
        if std::env::var_os(BLOCKS_SET).is_none() {
            set(BLOCKS_SET, &BLOCKS.to_string());
        }
        set("KOLO_NTHREADS", "64");
        set("KOLO_MAX_NCHANNELS", "4");
    });
}

/// An all-reduce of words.
pub fn sum(send: *const u8, recv: *mut u8, count: usize) -> Call {
    Call {
        collective: Collective::AllReduce,
        send,
        recv,
        count,
        dtype: DataType::Uint64,
        op: RedOp::SUM,
        peer: 0,
    }
}

/// A rank on its device.
pub struct Rank {
    pub comm: Communicator,
    pub context: Arc<Context>,
    pub stream: OwnStream,
}

/// A buffer on a device, with poison around what a call may use.
pub struct Buffer {
    memory: DeviceMemory,
    bytes: usize,
}

/// Poison on each side.
const EDGE: usize = 256;

impl Rank {
    /// Joins the others with this device.
    pub fn join(member: ThreadsBootstrap, device: u32, overrides: &[(&str, &str)]) -> Result<Rank> {
        let overrides = overrides.iter();
        let config = CommConfig {
            device: CommDevice::Cuda(device),
            overrides: overrides
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .collect(),
            ..CommConfig::default()
        };
        let comm = Communicator::init_bootstrap(Box::new(member), &config)?;
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

    /// The stream as calls take it.
    pub fn on(&self) -> Stream {
        Stream::of_device(self.stream.id().0)
    }

    /// Device memory with this content.
    pub fn buffer(&self, content: &[u8]) -> Buffer {
        let whole = content.len() + 2 * EDGE;
        let memory = DeviceMemory::new(&self.context, "a buffer of a test", whole, &[]);
        let buffer = Buffer {
            memory: memory.expect("device memory"),
            bytes: content.len(),
        };
        let mut all = vec![POISON; whole];
        all[EDGE..EDGE + content.len()].copy_from_slice(content);
        let at = buffer.memory.address();
        // SAFETY: the memory is that long, and no call uses it yet.
        unsafe { copy_to_device(&self.context, at, &all, self.stream.id()) }.expect("a copy");
        self.stream.synchronize().expect("copied");
        buffer
    }

    /// Poisoned device memory.
    pub fn poisoned(&self, bytes: usize) -> Buffer {
        self.buffer(&vec![POISON; bytes])
    }

    /// Reads a buffer when the stream has come so far; nothing beside it was written.
    pub fn read(&self, buffer: &Buffer) -> Vec<u8> {
        let mut all = vec![0; buffer.bytes + 2 * EDGE];
        let at = buffer.memory.address();
        // SAFETY: the memory is that long; calls before it are on the same stream.
        unsafe { copy_from_device(&self.context, &mut all, at, self.stream.id()) }.expect("a copy");
        self.stream.synchronize().expect("the stream ends");
        let edges = all[..EDGE].iter().chain(&all[EDGE + buffer.bytes..]);
        assert!(
            edges.clone().all(|&byte| byte == POISON),
            "written beside a buffer"
        );
        all[EDGE..EDGE + buffer.bytes].to_vec()
    }

    /// Puts a call on the stream.
    pub fn put(&self, call: &Call) -> Result<()> {
        // SAFETY: the buffers of a test live until it has read them.
        unsafe { self.comm.enqueue(call, Some(&self.on())) }
    }

    /// Puts a call on a stream of the device, which another rank may have made.
    pub fn put_on(&self, call: &Call, stream: u64) -> Result<()> {
        // SAFETY: the buffers of a test live until it has read them.
        unsafe { self.comm.enqueue(call, Some(&Stream::of_device(stream))) }
    }

    /// Runs a call in memory of the host.
    pub fn on_host(&self, call: &Call) -> Result<()> {
        // SAFETY: the buffers of a test live through the call.
        unsafe { self.comm.enqueue(call, None) }
    }

    /// Every step that was planned was done.
    pub fn has_done_its_steps(&self) {
        let (done, planned) = self.comm.step_counts().expect("counts");
        assert!(planned > 0, "steps were planned");
        assert_eq!(done, planned, "rank {}", self.number());
    }
}

impl Buffer {
    /// Its address on the device, `offset` bytes into it.
    pub fn at(&self, offset: usize) -> *mut u8 {
        (self.memory.address() + (EDGE + offset) as u64) as *mut u8
    }
}

/// Runs `body` as each rank of `devices.len()`, on these devices.
pub fn ranks(devices: &[u32], overrides: &[(&str, &str)], body: impl Fn(&Rank) + Sync) {
    on_nodes(devices.len(), devices, overrides, body);
}

/// Runs ranks on nodes of so many ranks, which reach each other over the loopback only.
pub fn on_nodes(
    per_node: usize,
    devices: &[u32],
    overrides: &[(&str, &str)],
    body: impl Fn(&Rank) + Sync,
) {
    software_gpu();
    let members = ThreadsBootstrap::group(devices.len() as u32).into_iter();
    std::thread::scope(|scope| {
        let body = &body;
        let run = |(at, (member, &device)): (usize, (ThreadsBootstrap, &u32))| {
            scope.spawn(move || {
                let node = format!("node{}", at / per_node);
                let mut all = overrides.to_vec();
                if per_node < devices.len() {
                    all.extend([("hostid", &*node), ("socket_ifname", "=lo")]);
                }
                let rank = Rank::join(member, device, &all).expect("a communicator");
                body(&rank);
                let is_alive = rank.comm.async_error().is_ok();
                let ended = rank.comm.destroy();
                assert!(!is_alive || ended.is_ok(), "a clean end: {ended:?}");
            })
        };
        let threads: Vec<_> = members.zip(devices).enumerate().map(run).collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
}
