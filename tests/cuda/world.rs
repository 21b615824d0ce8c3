//! Ranks on devices that make one collective after the other, with nothing of kolo's but plans,
//! kernels and room `cuda`.

use kolo::cuda::{
    Context, DeviceKernels, DeviceMemory, OwnStream, PinnedMemory, copy_from_device,
    copy_to_device, fill_async,
};
use kolo::dtype::{DataType, ReduceOp};
use kolo::exec::cuda::{DeviceLaunch, Image, fit, names};
use kolo::plan::pairs::pairs_only;
use kolo::plan::window::Binding;
use kolo::plan::{
    Algorithm, Collective, Direction, Link, Nodes, Plan, Program, Protocol, Shape, Window,
};
use kolo::wire::gpu::{self, DeviceEnd};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

const SLOT_BYTES: usize = 1024;
/// Slots of a chunk and of a slice.
const STEPS: (u32, u32) = (4, 2);
const BLOCKS: u32 = 2;
const THREADS: u32 = 96;
const MEMORY: usize = 4 << 20;

/// The file that the software GPU loads.
pub fn kernels_file() -> PathBuf {
    kolo::config::Settings::load(&[])
        .and_then(|settings| settings.kernels())
        .expect("KOLO_KERNELS_FILE is set")
}

/// A rank: a device, with memory of which it takes one piece after the other.
pub struct Rank {
    pub context: Arc<Context>,
    pub stream: OwnStream,
    kernels: DeviceKernels,
    memory: DeviceMemory,
    taken: u64,
}

impl Rank {
    fn take(&mut self, bytes: usize) -> u64 {
        let at = self.taken;
        self.taken = (at + bytes as u64).next_multiple_of(256);
        assert!(self.taken <= self.memory.bytes() as u64, "memory is short");
        self.memory.address() + at
    }

    pub fn put(&self, address: u64, content: &[u8]) {
        // SAFETY: the piece was taken for as many bytes, and no kernel uses it now.
        unsafe { copy_to_device(&self.context, address, content, self.stream.id()) }.unwrap();
    }

    fn hold(&mut self, content: &[u8]) -> u64 {
        let at = self.take(content.len());
        self.put(at, content);
        at
    }

    pub fn get(&self, address: u64, bytes: usize) -> Vec<u8> {
        let mut content = vec![0; bytes];
        // SAFETY: the piece was taken for as many bytes.
        unsafe { copy_from_device(&self.context, &mut content, address, self.stream.id()) }
            .unwrap();
        content
    }
}

/// Ranks with connections between them.
pub struct World {
    pub ranks: Vec<Rank>,
    /// The ends of writer and reader.
    connections: BTreeMap<Link, [u64; 2]>,
    abort: PinnedMemory,
    calls: u32,
}

/// A sum over all ranks, ready to be launched.
pub struct Call {
    launches: Vec<DeviceLaunch>,
    outputs: Vec<u64>,
    count: usize,
    number: u32,
}

/// Element that a rank gives to a call.
fn element(rank: usize, at: usize, call: u32) -> f32 {
    ((rank * 31 + at * 7 + call as usize * 13) % 100) as f32 + rank as f32 / 4.0
}

impl World {
    pub fn new(ranks: u32) -> World {
        let contexts: Vec<_> = (0..ranks).map(|rank| Context::of(rank).unwrap()).collect();
        let name = kernel_name();
        let rank = |context: &Arc<Context>| {
            let names = [name.clone()];
            let memory = DeviceMemory::new(context, "a test", MEMORY, &contexts).unwrap();
            let stream = OwnStream::new(context).unwrap();
            // SAFETY: the memory is new.
            unsafe { fill_async(context, memory.address(), 0, MEMORY, stream.id()) }.unwrap();
            Rank {
                context: context.clone(),
                stream,
                kernels: DeviceKernels::load(context, &kernels_file(), &names).unwrap(),
                memory,
                taken: 0,
            }
        };
        World {
            ranks: contexts.iter().map(rank).collect(),
            connections: BTreeMap::new(),
            abort: PinnedMemory::new(8).unwrap(),
            calls: 0,
        }
    }

    fn connect(&mut self, link: Link) -> [u64; 2] {
        let Link::Pair { writer, reader, .. } = link else {
            panic!("{link:?} is no pair");
        };
        let (writer, reader) = (writer as usize, reader as usize);
        let there = self.ranks[reader].take(gpu::reader_bytes(SLOT_BYTES));
        let end = DeviceEnd {
            tail: there,
            head: self.ranks[writer].take(gpu::WRITER_BYTES),
            area: there + gpu::AREA_AT as u64,
            sizes: there + gpu::SIZES_AT as u64,
            slot_bytes: SLOT_BYTES as u32,
            ..DeviceEnd::at(0)
        };
        // SAFETY: the fields of an end fill it.
        let bytes = unsafe {
            std::slice::from_raw_parts((&raw const end).cast::<u8>(), size_of::<DeviceEnd>())
        };
        [writer, reader].map(|rank| self.ranks[rank].hold(bytes))
    }

    /// The next sum, of so many elements.
    pub fn sum(&mut self, count: usize) -> Call {
        self.calls += 1;
        let mut call = Call {
            launches: Vec::new(),
            outputs: Vec::new(),
            count,
            number: self.calls,
        };
        for rank in 0..self.ranks.len() {
            self.prepare(&mut call, rank);
        }
        call
    }

    fn prepare(&mut self, call: &mut Call, rank: usize) {
        let plan = pairs_only(&plan(rank as u32, self.ranks.len() as u32));
        let grid = fit::LaunchGrid {
            blocks: BLOCKS,
            threads: THREADS,
        };
        fit::check_grid(&plan, grid).unwrap();
        let windows: Vec<Window> = (0..plan.lanes.len())
            .map(|lane| window(&plan, lane, call.count))
            .collect();
        let image = Image::new(&Program::lower(&plan).unwrap(), &windows);
        let mut ends = Vec::new();
        for used in &plan.connections {
            if !self.connections.contains_key(&used.link) {
                let made = self.connect(used.link);
                self.connections.insert(used.link, made);
            }
            let end = self.connections[&used.link][usize::from(used.direction == Direction::Recv)];
            ends.extend(end.to_le_bytes());
        }
        let here = &mut self.ranks[rank];
        let input: Vec<u8> = (0..call.count)
            .flat_map(|at| element(rank, at, call.number).to_le_bytes())
            .collect();
        let mut launch = DeviceLaunch::new(&image, STEPS.1);
        assert!(launch.is_inline() && plan.scratch == 0, "a small plan");
        launch.connections = here.hold(&ends);
        launch.input = here.hold(&input);
        launch.output = here.hold(&vec![0xa5; input.len()]);
        launch.steps = here.take(8 * BLOCKS as usize);
        launch.abort = self.abort.address();
        call.outputs.push(launch.output);
        call.launches.push(launch);
    }

    /// Gives the rank's part to its stream.
    pub fn launch(&self, call: &Call, rank: usize) {
        let here = &self.ranks[rank];
        let kernel = here.kernels.get(&kernel_name()).unwrap();
        let parameter = call.launches[rank].as_bytes();
        // SAFETY: the launch is made for this kernel; its memory lives as long as the world.
        unsafe { kernel.launch(BLOCKS, THREADS, parameter, here.stream.id()) }.unwrap();
    }

    /// Waits for all ranks, and holds each element against the sum.
    pub fn check(&self, call: &Call) {
        let ranks = self.ranks.len();
        for (rank, here) in self.ranks.iter().enumerate() {
            here.stream.synchronize().unwrap();
            let got = here.get(call.outputs[rank], 4 * call.count);
            for (at, got) in got.chunks_exact(4).enumerate() {
                let got = f32::from_le_bytes(got.try_into().unwrap());
                let wanted: f32 = (0..ranks).map(|from| element(from, at, call.number)).sum();
                assert_eq!(got, wanted, "rank {rank}, element {at}");
            }
        }
    }
}

fn kernel_name() -> String {
    let op = Some(ReduceOp::Sum);
    names::kernel(Protocol::Simple, DataType::Float32, op).expect("there is one")
}

fn plan(rank: u32, nranks: u32) -> Plan {
    let shape = Shape {
        collective: Collective::AllReduce,
        algorithm: Algorithm::Ring,
        rank,
        nranks,
        root: 0,
        channels: 2,
    };
    kolo::algo::plan(&shape, &Nodes::one(nranks)).unwrap()
}

fn window(plan: &Plan, lane: usize, count: usize) -> Window {
    let geometry = fit::geometry(Protocol::Simple, SLOT_BYTES, STEPS, (plan.pieces, 4)).unwrap();
    let binding = Binding {
        count,
        element_bytes: 4,
        input_blocks: 1,
        output_blocks: 1,
        lane: u32::from(plan.lanes[lane].channel),
        lanes: plan.channels(),
        pieces: plan.pieces,
    };
    Window::bind(plan.layout, plan.chunks, &geometry, &binding)
}
