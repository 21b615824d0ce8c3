//! A sum over two devices by a ring, in memory of the driver.

use super::alone::ok;
use super::call::{Call, Draft, Sizes};
use super::world::{PAGE, allocate, function, holding, launch, mapped, read, write};
use cudarc::driver::sys::{CUcontext, CUdeviceptr, CUfunction, CUstream};
use kolo::algo::REGISTRY;
use kolo::dtype::{DataType, ReduceOp};
use kolo::exec::cuda::{DeviceLaunch, Image, names};
use kolo::plan::{Algorithm, Collective, Direction, Link, Program, Protocol, Window};
use kolo::wire::gpu::{self, DeviceEnd};

/// Byte of which a receive buffer is full before.
const POISON: u8 = 0x5a;

/// A call of two ranks with data of its own.
pub fn call(seed: u64, protocol: Protocol, count: usize) -> Call {
    call_of(2, seed, protocol, count)
}

/// A sum over one rank, which waits for nobody.
pub fn alone() -> (Call, Part) {
    let call = call_of(1, 1, Protocol::Simple, 100);
    let part = prepare(&call, 0, &|link, _| panic!("one rank has {link:?}"));
    (call, part)
}

fn call_of(ranks: u32, seed: u64, protocol: Protocol, count: usize) -> Call {
    let is_ring = |entry: &&kolo::algo::Entry| {
        entry.collective == Collective::AllReduce && entry.algorithm == Algorithm::Ring
    };
    let draft = Draft {
        entry: REGISTRY.iter().find(is_ring).expect("a ring"),
        ranks,
        root: 0,
        channels: 1,
        protocol,
        dtype: DataType::Int32,
        op: Some(ReduceOp::Sum),
        sizes: Sizes {
            slot_bytes: 2048,
            steps: (2, 1),
            grid: (2, 96),
            count,
        },
        in_place: false,
        shift: 0,
        seed,
    };
    draft.call().expect("one piece fits")
}

/// Data that both ranks receive.
pub fn sums(call: &Call) -> Vec<u8> {
    let numbers = |bytes: &[u8]| -> Vec<i32> {
        let words = bytes.chunks_exact(4);
        words
            .map(|word| i32::from_le_bytes(word.try_into().expect("4 bytes")))
            .collect()
    };
    let inputs = (0..call.ranks()).map(|rank| numbers(&call.input(rank)));
    let add = |a: Vec<i32>, b: Vec<i32>| a.iter().zip(b).map(|(a, b)| a.wrapping_add(b)).collect();
    let sum = inputs.reduce(add).expect("a rank");
    sum.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A device of the ring, with its own stream or the default one.
pub struct Rank {
    pub context: CUcontext,
    pub stream: CUstream,
    device: i32,
}

impl Rank {
    pub fn new(device: i32, context: CUcontext, stream: CUstream) -> Rank {
        Rank {
            context,
            stream,
            device,
        }
    }

    pub fn select(&self) {
        ok!(cuCtxSetCurrent(self.context));
    }
}

/// Addresses of the two ends of each connection between the ranks.
pub struct Ring {
    /// Of the writer and of the reader, by who writes.
    ends: [[CUdeviceptr; 2]; 2],
}

/// Memory that a rank reads or writes, and the other rank, too.
pub struct Shared {
    pub slots: CUdeviceptr,
    pub head: CUdeviceptr,
}

fn bytes_of(end: &DeviceEnd) -> &[u8] {
    // SAFETY: the fields of an end fill it.
    unsafe { std::slice::from_raw_parts((&raw const *end).cast(), size_of::<DeviceEnd>()) }
}

impl Ring {
    /// Connections both ways, in virtual memory that both devices may use.
    pub fn new(ranks: &[Rank; 2], slot_bytes: usize) -> Ring {
        let ends = [0, 1].map(|writer: usize| {
            let reader = 1 - writer;
            let users = [ranks[0].device, ranks[1].device];
            let slots = mapped(ranks[reader].device, PAGE, &users);
            let head = mapped(ranks[writer].device, PAGE, &users);
            let shared = Shared { slots, head };
            ranks[reader].select();
            write(slots, &vec![0; gpu::reader_bytes(slot_bytes)]);
            write(head, &[0; gpu::WRITER_BYTES]);
            [writer, reader].map(|rank| {
                ranks[rank].select();
                end(&shared, slot_bytes)
            })
        });
        Ring { ends }
    }

    /// Prepares the launch of one rank.
    pub fn prepare(&self, call: &Call, rank: usize, who: &Rank) -> Part {
        who.select();
        let ends = |link: Link, direction: Direction| {
            let Link::Pair { writer, .. } = link else {
                panic!("{link:?} is no pair");
            };
            self.ends[writer as usize][usize::from(direction == Direction::Recv)]
        };
        prepare(call, rank, &ends)
    }
}

/// An end of a connection, in memory of the current device.
pub fn end(shared: &Shared, slot_bytes: usize) -> CUdeviceptr {
    let end = DeviceEnd {
        tail: shared.slots,
        head: shared.head,
        area: shared.slots + gpu::AREA_AT as u64,
        sizes: shared.slots + gpu::SIZES_AT as u64,
        slot_bytes: slot_bytes as u32,
        ..DeviceEnd::at(0)
    };
    holding(bytes_of(&end))
}

/// The launch of a rank, and where its results go.
pub struct Part {
    pub output: CUdeviceptr,
    pub steps: CUdeviceptr,
    function: CUfunction,
    grid: (u32, u32),
    launch: DeviceLaunch,
}

impl Part {
    /// The word that ends it.
    pub fn set_abort(&mut self, abort: CUdeviceptr) {
        self.launch.abort = abort;
    }

    pub fn set_function(&mut self, function: CUfunction) {
        self.function = function;
    }

    /// Results go elsewhere.
    pub fn set_output(&mut self, output: CUdeviceptr) {
        self.output = output;
        self.launch.output = output;
    }

    pub fn launch(&self, who: &Rank) {
        who.select();
        assert_eq!(self.launch_on(who.stream), 0, "a launch");
    }

    pub fn launch_on(&self, stream: CUstream) -> i32 {
        launch(self.function, self.grid, stream, self.launch.as_bytes())
    }
}

/// Prepares the launch of a rank in the current context.
pub fn prepare(call: &Call, rank: usize, ends: &dyn Fn(Link, Direction) -> CUdeviceptr) -> Part {
    let plan = &call.pairs[rank];
    let program = Program::lower(plan).expect("a program");
    let windows: Vec<Window> = (0..plan.lanes.len())
        .map(|lane| call.window(plan, lane))
        .collect();
    let image = Image::new(&program, &windows);
    let list: Vec<u8> = plan
        .connections
        .iter()
        .flat_map(|used| ends(used.link, used.direction).to_le_bytes())
        .collect();
    let (blocks, _) = call.sizes.grid;
    let output = holding(&vec![POISON; call.output_bytes()]);
    let steps = holding(&vec![0; 8 * blocks as usize]);
    let mut launch = DeviceLaunch::new(&image, call.sizes.steps.1);
    assert!(launch.is_inline(), "a small image");
    launch.connections = holding(&list);
    launch.input = holding(&call.input(rank));
    launch.output = output;
    launch.abort = holding(&[0; 8]);
    launch.steps = steps;
    launch.scratch = allocate(256);
    let name = names::kernel(call.protocol, call.dtype, call.op).expect("a kernel");
    Part {
        output,
        steps,
        function: function(&name),
        grid: call.sizes.grid,
        launch,
    }
}

/// Holds a rank's result against the sums and the plan's steps. All work has ended.
pub fn judge(call: &Call, rank: usize, part: &Part) {
    assert_eq!(
        read(part.output, call.output_bytes()),
        sums(call),
        "rank {rank}"
    );
    let blocks = call.sizes.grid.0 as usize;
    let counts = read(part.steps, 8 * blocks);
    let counts = counts.chunks_exact(8);
    let steps: u64 = counts
        .map(|c| u64::from_le_bytes(c.try_into().expect("8 bytes")))
        .sum();
    assert_eq!(steps, call.steps(rank), "steps of rank {rank}");
}
