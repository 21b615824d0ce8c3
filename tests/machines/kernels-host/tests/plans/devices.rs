//! Devices with connections between them, and calls that run on them.

use super::call::Call;
use super::host::POISON;
use kolo::exec::cuda::{DeviceLaunch, Image};
use kolo::plan::{ConnectionUse, Direction, Link, Program, Protocol, Window};
use kolo::wire::gpu::{self, DeviceEnd};
use std::collections::BTreeMap;

/// Memory that begins where a large access may.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
struct Line([u8; 128]);

/// An allocation of a device.
pub struct Block {
    lines: Box<[Line]>,
    bytes: usize,
    pub device: u32,
    /// Other devices that may use it, a bit each.
    pub also: u32,
    pub name: &'static str,
}

impl Block {
    pub fn new(device: u32, name: &'static str, bytes: usize) -> Block {
        Block {
            lines: vec![Line([0; 128]); bytes.div_ceil(128).max(1)].into_boxed_slice(),
            bytes,
            device,
            also: 0,
            name,
        }
    }

    fn also_for(self, also: u32) -> Block {
        Block { also, ..self }
    }

    pub fn holding(device: u32, name: &'static str, content: &[u8]) -> Block {
        let mut block = Block::new(device, name, content.len());
        block.write(0, content);
        block
    }

    pub fn address(&self) -> u64 {
        self.lines.as_ptr().addr() as u64
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn write(&mut self, at: usize, content: &[u8]) {
        assert!(at + content.len() <= self.bytes);
        // SAFETY: the lines hold `bytes` bytes, and nothing runs on the device now.
        unsafe {
            let to = self.lines.as_mut_ptr().cast::<u8>().add(at);
            content.as_ptr().copy_to_nonoverlapping(to, content.len());
        }
    }

    pub fn read(&self) -> Vec<u8> {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast::<u8>(), self.bytes) }.to_vec()
    }

    fn u64_at(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.read()[at..at + 8].try_into().expect("8 bytes"))
    }

    fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.read()[at..at + 4].try_into().expect("4 bytes"))
    }
}

/// A connection: by its link and how it says that tokens are there.
type Key = (Link, u8);

/// One connection, made when it is first used.
struct Connection {
    reader: Block,
    writer: Block,
    slot_bytes: usize,
    /// The ends, in memory of the writing and of the reading device.
    ends: [Block; 2],
}

impl Connection {
    fn new(link: Link, slot_bytes: usize, (position, is_counted): (u64, bool)) -> Connection {
        let Link::Pair { writer, reader, .. } = link else {
            panic!("{link:?} is no pair");
        };
        let bytes = gpu::reader_bytes(slot_bytes);
        let mut there = Block::new(reader, "a reader's slots", bytes).also_for(1 << writer);
        let mut here =
            Block::new(writer, "a writer's head", gpu::WRITER_BYTES).also_for(1 << reader);
        there.write(0, &position.to_le_bytes());
        here.write(0, &position.to_le_bytes());
        let end = DeviceEnd {
            tail: there.address(),
            head: here.address(),
            area: there.address() + gpu::AREA_AT as u64,
            sizes: there.address() + gpu::SIZES_AT as u64,
            slot_bytes: slot_bytes as u32,
            counted: is_counted.into(),
            ..DeviceEnd::at(position)
        };
        let ends = [writer, reader].map(|device| Block::holding(device, "an end", bytes_of(&end)));
        Connection {
            reader: there,
            writer: here,
            slot_bytes,
            ends,
        }
    }
}

impl Connection {
    /// See [`World::with_stale_lines`].
    fn leave_lines(&mut self, first: u64) {
        let border = first.next_multiple_of(gpu::WIPE_EVERY);
        for position in border + 8..border + 16 {
            let flag = (position % u64::from(u32::MAX)) as u32 + 1;
            let line: Vec<u8> = [0x7fc1_2345, flag, 0x7fc1_2345, flag]
                .into_iter()
                .flat_map(u32::to_le_bytes)
                .collect();
            let slot = gpu::AREA_AT + (position % 8) as usize * self.slot_bytes;
            for at in (slot..slot + self.slot_bytes).step_by(16) {
                self.reader.write(at, &line);
            }
        }
    }

    fn blocks(&self) -> [&Block; 4] {
        [&self.reader, &self.writer, &self.ends[0], &self.ends[1]]
    }
}

fn bytes_of(end: &DeviceEnd) -> &[u8] {
    // SAFETY: the fields of an end fill it.
    unsafe { std::slice::from_raw_parts((&raw const *end).cast(), size_of::<DeviceEnd>()) }
}

/// All devices of a communicator: device r is rank r's.
pub struct World {
    connections: BTreeMap<Key, Connection>,
    /// Where new connections begin to count.
    first: u64,
    /// Lines of new connections show flags that will come.
    has_stale_lines: bool,
    /// Ranks of a node, between which tokens are counted in every protocol; 0: one node.
    per_node: u32,
}

/// A call of one rank on its device.
pub struct Prepared {
    pub launch: DeviceLaunch,
    pub output: Block,
    /// Whatever else the launch names.
    pub others: Vec<Block>,
    steps: Block,
}

impl World {
    /// Without connections yet; they will begin to count at `first`.
    pub fn new(first: u64) -> World {
        World {
            connections: BTreeMap::new(),
            first,
            has_stale_lines: false,
            per_node: 0,
        }
    }

    /// Of nodes of so many ranks.
    pub fn with_nodes_of(self, per_node: u32) -> World {
        World { per_node, ..self }
    }

    /// Lines of LL show the flags that slots will have behind the next multiple of 2^30, as tokens
    /// of 2^32 - 1 slots before would have left them; but not those of the first slots there, which
    /// a reader awaits before the writer has wiped them.
    pub fn with_stale_lines(self) -> World {
        World {
            has_stale_lines: true,
            ..self
        }
    }

    /// Everything that stays from call to call.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.connections.values().flat_map(Connection::blocks)
    }

    /// Both ends of each connection have come to the same position, and everything is emptied.
    ///
    /// # Errors
    /// A connection where it is not so.
    pub fn is_quiet(&self) -> Result<(), String> {
        for ((link, _), connection) in &self.connections {
            let position = std::mem::offset_of!(DeviceEnd, position);
            let [there, here] = [0, 1].map(|end| connection.ends[end].u64_at(position));
            let head = connection.writer.u64_at(0);
            if (there, there) != (here, head) {
                return Err(format!(
                    "{link:?}: the writer stands at {there}, the reader at {here}, with its head \
                     at {head}"
                ));
            }
        }
        Ok(())
    }

    /// Sizes that the writer gave for each slot of a connection.
    pub fn sizes(&self, link: Link, protocol: Protocol) -> Vec<u32> {
        let connection = &self.connections[&(link, protocol as u8)];
        let size = |slot: usize| connection.reader.u32_at(gpu::SIZES_AT + 4 * slot);
        (0..gpu::SLOTS as usize).map(size).collect()
    }

    fn end(&mut self, used: &ConnectionUse, call: &Call) -> u64 {
        let key = (used.link, call.protocol as u8);
        let (slot_bytes, first) = (call.sizes.slot_bytes, self.first);
        let is_stale = self.has_stale_lines;
        let is_counted = match (used.link, self.per_node) {
            (_, 0) => false,
            (Link::Pair { writer, reader, .. }, each) => writer / each != reader / each,
            (link, _) => panic!("{link:?} is no pair"),
        };
        let made = || {
            let mut made = Connection::new(used.link, slot_bytes, (first, is_counted));
            if is_stale {
                made.leave_lines(first);
            }
            made
        };
        let connection = self.connections.entry(key).or_insert_with(made);
        assert_eq!(connection.slot_bytes, slot_bytes, "slots do not change");
        connection.ends[usize::from(used.direction == Direction::Recv)].address()
    }

    /// The launch of one rank.
    pub fn prepare(&mut self, call: &Call, rank: usize, abort: u64) -> Prepared {
        let device = rank as u32;
        let plan = &call.pairs[rank];
        let program = Program::lower(plan).expect("a program");
        let windows: Vec<Window> = (0..plan.lanes.len())
            .map(|lane| call.window(plan, lane))
            .collect();
        let image = Image::new(&program, &windows);
        let ends: Vec<u8> = plan
            .connections
            .iter()
            .flat_map(|used| self.end(used, call).to_le_bytes())
            .collect();
        let ends = Block::holding(device, "addresses of ends", &ends);
        let (blocks, _) = call.sizes.grid;
        let steps = Block::new(device, "counts of steps", 8 * blocks as usize);
        let stride = windows
            .iter()
            .map(Window::scratch_stride)
            .max()
            .unwrap_or(0);
        let scratch_bytes = stride * plan.scratch as usize * call.element_bytes();
        let scratch_bytes = scratch_bytes.next_multiple_of(128);
        let scratch = vec![POISON; scratch_bytes * plan.lanes.len()];
        let scratch = Block::holding(device, "scratch", &scratch);
        let (input, output) = buffers(call, rank);
        let mut launch = DeviceLaunch::new(&image, call.sizes.steps.1);
        launch.connections = ends.address();
        launch.output = output.address() + (call.shift * call.element_bytes()) as u64;
        launch.input = match &input {
            Ok(block) => block.address() + (call.shift * call.element_bytes()) as u64,
            Err(offset) => launch.output + *offset as u64,
        };
        launch.scratch = scratch.address();
        launch.scratch_bytes = scratch_bytes as u64;
        launch.abort = abort;
        launch.steps = steps.address();
        let scalar = call.scalar();
        launch.scalar = u64::from_le_bytes(scalar[..8].try_into().expect("8 bytes"));
        launch.divisor = call.divisor().map_or(0, |divisor| divisor.get());
        launch.pre_scaled = u32::from(call.kernel().pre_scaled);
        let mut others = vec![ends, scratch];
        others.extend(input.ok());
        if !launch.is_inline() {
            let there = Block::holding(device, "an image", image.bytes());
            launch.image = there.address();
            others.push(there);
        }
        Prepared {
            launch,
            output,
            others,
            steps,
        }
    }
}

/// The buffers of a rank: the send buffer lies in the receive buffer where the call is in place, at
/// this offset. Both have exactly the size that the call needs.
fn buffers(call: &Call, rank: usize) -> (Result<Block, usize>, Block) {
    let device = rank as u32;
    let before = call.shift * call.element_bytes();
    let mut output = Block::holding(
        device,
        "a receive buffer",
        &vec![POISON; before + call.output_bytes()],
    );
    let input = call.input(rank);
    match call.in_place_offset(rank).filter(|_| call.in_place) {
        Some(offset) => {
            output.write(before + offset, &input);
            (Err(offset), output)
        }
        None => {
            let mut block = Block::new(device, "a send buffer", before + input.len());
            block.write(before, &input);
            (Ok(block), output)
        }
    }
}

impl Prepared {
    /// The receive buffer.
    pub fn received(&self, call: &Call) -> Vec<u8> {
        self.output
            .read()
            .split_off(call.shift * call.element_bytes())
    }

    /// Whether nothing was stored where the launch must not store.
    pub fn has_kept(&self, call: &Call, rank: usize) -> bool {
        let before = call.shift * call.element_bytes();
        let edge = &self.output.read()[..before];
        let input = self
            .others
            .iter()
            .find(|block| block.name == "a send buffer");
        let same = |block: &Block| block.read()[before..] == call.input(rank);
        edge.iter().all(|&byte| byte == POISON) && input.is_none_or(same)
    }

    /// Steps that all blocks did.
    pub fn steps(&self) -> u64 {
        (0..self.steps.len() / 8)
            .map(|block| self.steps.u64_at(8 * block))
            .sum()
    }

    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.others.iter().chain([&self.output, &self.steps])
    }
}
