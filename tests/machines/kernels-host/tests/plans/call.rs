//! One call of all ranks: what is computed, of which data, in which sizes.

use kolo::algo::Entry;
use kolo::dtype::{self, DataType, FoldParams, ReduceOp};
use kolo::exec::cuda::fit;
use kolo::exec::host::Kernel;
use kolo::plan::pairs::pairs_only;
use kolo::plan::window::Binding;
use kolo::plan::{Geometry, Nodes, Plan, Protocol, Shape, Window};
use std::num::NonZeroU32;

/// Sizes that a call is drawn with.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// From one slot to the next.
    pub slot_bytes: usize,
    /// Slots of a chunk and of a slice.
    pub steps: (u32, u32),
    /// Blocks of a grid, and threads of a block.
    pub grid: (u32, u32),
    /// Elements of the data or of a block.
    pub count: usize,
}

/// A call before its plans are made.
#[derive(Clone)]
pub struct Draft {
    pub entry: &'static Entry,
    pub ranks: u32,
    pub root: u32,
    pub channels: u16,
    pub protocol: Protocol,
    pub dtype: DataType,
    /// `None`: the collective folds nothing.
    pub op: Option<ReduceOp>,
    pub sizes: Sizes,
    pub in_place: bool,
    /// The beginning of each buffer, in elements behind a multiple of 16 bytes.
    pub shift: usize,
    pub seed: u64,
}

/// One call, the same on all ranks.
#[derive(Clone)]
pub struct Call {
    draft: Draft,
    /// As the algorithm made them.
    pub plans: Vec<Plan>,
    /// These plans with pairs only.
    pub pairs: Vec<Plan>,
    pub geometry: Geometry,
}

impl std::ops::Deref for Call {
    type Target = Draft;

    fn deref(&self) -> &Draft {
        &self.draft
    }
}

impl Draft {
    /// The call; `None` where its tokens do not fit the slots.
    pub fn call(self) -> Option<Call> {
        let nodes = Nodes::one(self.ranks);
        let plan = |rank| {
            let shape = Shape {
                collective: self.entry.collective,
                algorithm: self.entry.algorithm,
                rank,
                nranks: self.ranks,
                root: self.root,
                channels: self.channels,
            };
            (self.entry.plan)(&shape, &nodes)
        };
        let plans: Vec<Plan> = (0..self.ranks).map(plan).collect();
        let pairs: Vec<Plan> = plans.iter().map(pairs_only).collect();
        for plan in &pairs {
            fit::check(plan).expect("few operands");
            let (blocks, threads) = self.sizes.grid;
            let grid = fit::LaunchGrid { blocks, threads };
            fit::check_grid(plan, grid).expect("a grid that can be");
        }
        let element_bytes = self.dtype.size_bytes();
        let Sizes {
            slot_bytes, steps, ..
        } = self.sizes;
        let pieces = plans.iter().map(|plan| plan.pieces).max().unwrap_or(1);
        let fitting = (pieces, element_bytes);
        let geometry = fit::geometry(self.protocol, slot_bytes, steps, fitting).ok()?;
        let mut call = Call {
            draft: self,
            plans,
            pairs,
            geometry,
        };
        // Some algorithms pass their data in one round.
        let most = u64::from(call.entry.most_rounds);
        while most > 0 && call.rounds() > most {
            call.draft.sizes.count /= 2;
        }
        Some(call)
    }
}

impl Call {
    pub fn ranks(&self) -> usize {
        self.plans.len()
    }

    pub fn element_bytes(&self) -> usize {
        self.dtype.size_bytes()
    }

    /// Blocks of the input and of the output.
    pub fn blocks(&self) -> (u32, u32) {
        let (ranks, collective) = (self.ranks() as u32, self.entry.collective);
        (
            collective.input_blocks(ranks),
            collective.output_blocks(ranks),
        )
    }

    pub fn output_bytes(&self) -> usize {
        self.sizes.count * self.blocks().1 as usize * self.element_bytes()
    }

    /// The window of a lane, which both engines run with.
    pub fn window(&self, plan: &Plan, lane: usize) -> Window {
        let (input_blocks, output_blocks) = self.blocks();
        let binding = Binding {
            count: self.sizes.count,
            element_bytes: self.element_bytes(),
            input_blocks,
            output_blocks,
            lane: u32::from(plan.lanes[lane].channel),
            lanes: plan.channels(),
            pieces: plan.pieces,
        };
        Window::bind(plan.layout, plan.chunks, &self.geometry, &binding)
    }

    fn rounds(&self) -> u64 {
        let of = |plan: &Plan| {
            let lanes = 0..plan.lanes.len();
            let rounds = lanes.map(|lane| self.window(plan, lane).rounds());
            rounds.max().unwrap_or(1)
        };
        self.plans.iter().map(of).max().unwrap_or(1)
    }

    /// Steps that a rank executes.
    pub fn steps(&self, rank: usize) -> u64 {
        let plan = &self.plans[rank];
        let lanes = 0..plan.lanes.len();
        let of = |lane| plan.lane_steps_per_round(lane) * self.window(plan, lane).rounds();
        lanes.map(of).sum()
    }

    /// How the host folds it.
    pub fn kernel(&self) -> Kernel {
        let op = self.op.unwrap_or(ReduceOp::Sum);
        let fold = match self.op {
            None => dtype::copy(),
            Some(op) => dtype::fold(self.dtype, op).expect("the type has the operation"),
        };
        Kernel {
            fold,
            copy: dtype::copy(),
            element_bytes: self.element_bytes(),
            params: FoldParams {
                scalar: self.scalar(),
                ..FoldParams::default()
            },
            pre_scaled: op == ReduceOp::PreMulSum,
            divisor: self.divisor(),
            owner: None,
        }
    }

    pub fn divisor(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.ranks() as u32).filter(|_| self.op == Some(ReduceOp::Avg))
    }

    /// The factor of a pre-multiplied sum, in the first bytes.
    pub fn scalar(&self) -> [u8; 16] {
        let mut scalar = [0; 16];
        if self.op == Some(ReduceOp::PreMulSum) {
            let element = self.element(&mut fastrand::Rng::with_seed(!self.seed));
            scalar[..element.len()].copy_from_slice(&element);
        }
        scalar
    }

    /// The send buffer of a rank: elements that differ by rank, place and call.
    pub fn input(&self, rank: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(self.seed ^ (rank as u64 + 1) << 40);
        let elements = self.sizes.count * self.blocks().0 as usize;
        (0..elements)
            .flat_map(|_| self.element(&mut random))
            .collect()
    }

    /// A random element: numbers of similar size, whose sums round, and now and then any bits, so
    /// infinities, NaN and subnormal numbers too.
    fn element(&self, random: &mut fastrand::Rng) -> Vec<u8> {
        let usual = random.u32(0..8) != 0;
        let bits = match self.dtype {
            DataType::Float32 if usual => u64::from((random.f32() * 200.0 - 100.0).to_bits()),
            DataType::Float64 if usual => (random.f64() * 200.0 - 100.0).to_bits(),
            // Exponents around that of 1.
            DataType::Float16 if usual => {
                u64::from(random.u16(..) & 0x83ff | random.u16(12..19) << 10)
            }
            DataType::Bfloat16 if usual => {
                u64::from(random.u16(..) & 0x807f | random.u16(124..131) << 7)
            }
            _ => random.u64(..),
        };
        bits.to_le_bytes()[..self.element_bytes()].to_vec()
    }

    /// First words of a failure: the call with its sizes.
    pub fn text(&self) -> String {
        let Sizes {
            slot_bytes,
            steps,
            grid,
            count,
        } = self.sizes;
        format!(
            "seed {}: {} by {} on {} ranks, root {}, {} channels, {} {:?} {:?}, {count} elements, \
             slots of {slot_bytes} bytes, chunks of {steps:?}, grid {grid:?}, in place {}, \
             shift {}",
            self.seed,
            self.entry.collective.name(),
            self.entry.algorithm.name(),
            self.ranks(),
            self.root,
            self.channels,
            self.protocol.name(),
            self.dtype,
            self.op,
            self.in_place,
            self.shift,
        )
    }

    /// Where a rank's own block lies in its receive buffer, for calls in place: the offset of the
    /// send buffer. `None`: the call has no such form.
    pub fn in_place_offset(&self, rank: usize) -> Option<usize> {
        use kolo::plan::Collective;
        match self.entry.collective {
            Collective::AllReduce | Collective::Reduce | Collective::Broadcast => Some(0),
            Collective::AllGather => Some(rank * self.sizes.count * self.element_bytes()),
            _ => None,
        }
    }
}
