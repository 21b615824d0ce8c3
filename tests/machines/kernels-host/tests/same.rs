//! Tests that kernels and host compute alike what each computes for itself: places of fields,
//! windows, and the bits of every type and operation.

use kolo::dtype::{self, DataType, FoldParams, ReduceOp};
use kolo::exec::cuda::{layout, names};
use kolo::plan::window::Binding;
use kolo::plan::{Geometry, Layout, ListId, PACKED, Space, Step, StepOp, Window};
use kolo_kernels_host::{kernels, probe};
use std::num::NonZeroU32;

#[test]
fn both_sides_find_each_field_at_the_same_place() {
    assert_eq!(probe::layout_hash(), layout::hash());
}

/// The first hash of each number in the kernels' names.
const LAYOUT: (&str, u64) = ("kolo2_", 4_624_342_841_465_847_297);

#[test]
fn a_new_layout_has_a_new_number() {
    let (start, hash) = LAYOUT;
    assert!(names::all().iter().all(|name| name.starts_with(start)));
    assert_eq!(
        layout::hash(),
        hash,
        "the layout has changed: count the number in the names up (kernels.cu, host/table.cpp, \
         check_sass.py, src/exec/cuda/names.rs), and write the new hash here"
    );
}

/// The host asks for kernels by names that are there, and there are no others.
#[test]
fn every_kernel_has_its_name() {
    let mut there: Vec<String> = kernels().map(|(name, _)| name.to_string()).collect();
    there.sort();
    assert_eq!(names::all(), there);
    assert_eq!(names::fold(DataType::Complex64, Some(ReduceOp::Sum)), None);
}

fn random_window(random: &mut fastrand::Rng) -> (Window, u32) {
    let slice_steps = [1, 2, 4][random.usize(0..3)];
    let geometry = Geometry {
        slots: 8,
        slot_bytes: 16 << random.u32(0..16),
        chunk_steps: slice_steps * random.u32(1..=2),
        slice_steps,
    };
    let chunks = random.u32(1..70);
    let lanes = random.u32(1..5);
    // Counts have 64 bits.
    let most = 1 << random.u32(0..44);
    let binding = Binding {
        count: random.usize(0..most),
        element_bytes: [1, 2, 4, 8][random.usize(0..4)],
        input_blocks: [1, chunks][random.usize(0..2)],
        output_blocks: [1, chunks][random.usize(0..2)],
        lane: random.u32(0..lanes),
        lanes,
        pieces: random.u32(1..6),
    };
    let layout = [Layout::Split, Layout::Blocks][random.usize(0..2)];
    (Window::bind(layout, chunks, &geometry, &binding), chunks)
}

/// A million slices, in random windows.
#[test]
fn windows_are_cut_alike() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for case in 0..50_000 {
        let (window, chunks) = random_window(&mut random);
        assert_eq!(
            probe::scratch_stride(&window),
            window.scratch_stride() as u64
        );
        for _ in 0..20 {
            let chunk = random.u32(0..chunks);
            let round = random.u64(0..window.rounds() + 1);
            let slice = random.u32(0..window.slices());
            let place = random.u32(0..9);
            let input = window.region(Space::Input, chunk, round, slice);
            let output = window.region(Space::Output, chunk, round, slice);
            let scratch = window.scratch_region(place, chunk, round, slice);
            let theirs = [-1, -2, i64::from(place)]
                .map(|place| probe::region(&window, place, chunk, round, slice));
            let ours = [input, output, scratch].map(|r| (r.offset as u64, r.count as u64));
            assert_eq!(
                theirs, ours,
                "seed {seed}, case {case}: {window:?}, chunk {chunk}"
            );
        }
    }
}

#[test]
fn chunks_are_numbered_alike() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for case in 0..200_000 {
        let chunks = random.u32(1..200);
        let step = Step {
            op: StepOp::Copy,
            flags: [0, PACKED][random.usize(0..2)],
            srcs: ListId(0),
            dsts: ListId(0),
            chunks: random.u16(1..9),
            chunk: random.u32(0..chunks),
            repeat: random.u16(1..100),
            stride: random.i16(..),
        };
        let number = random.u32(0..u32::from(step.repeat));
        let (token, piece) = match step.is_packed() {
            true => (0, number),
            false => (number as u16, 0),
        };
        let ours = step.piece_at(token, piece, chunks);
        assert_eq!(
            probe::chunk(&step, number, chunks),
            ours,
            "seed {seed}, case {case}: {step:?}"
        );
    }
    assert_eq!(probe::modulo(-1, 5), 4);
    assert_eq!(probe::modulo(-5, 5), 0);
}

/// The number of this run; `KOLO_TEST_SEED` plays one again.
fn seed() -> u64 {
    let seed = std::env::var("KOLO_TEST_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or(2026);
    println!("KOLO_TEST_SEED={seed}");
    seed
}

/// Every type and operation, on all codes of 8 bits against each other, and on random words with
/// many special numbers.
#[test]
fn every_type_and_operation_gives_the_bits_of_the_host() {
    let mut random = fastrand::Rng::with_seed(seed());
    let mut folded = 0;
    let known: Vec<String> = probe::names().collect();
    for dtype in DataType::NCCL {
        for op in ReduceOp::NCCL {
            let name = names::fold(dtype, Some(op)).expect("a kernel");
            let index = known.iter().position(|one| *one == name).expect("a fold");
            for (srcs, words) in [(2, 8192), (3, 4096), (1, 64)] {
                let data: Vec<u64> = match (dtype.size_bytes(), srcs) {
                    (1, 2) => all_pairs(),
                    _ => (0..srcs * words)
                        .map(|_| word(dtype, &mut random))
                        .collect(),
                };
                let words = data.len() / srcs;
                let scalar = element_of(word(dtype, &mut random), dtype);
                compare(
                    &name,
                    index as u32,
                    (dtype, op),
                    (&data, srcs, words),
                    scalar,
                );
                folded += 1;
            }
        }
    }
    assert_eq!(folded, 12 * 6 * 3, "12 types, 6 operations");
}

/// Every half and every bfloat16, with numbers at each border of the two and some that are drawn.
#[test]
fn every_code_of_16_bits_gives_the_bits_of_the_host() {
    let mut random = fastrand::Rng::with_seed(seed());
    let known: Vec<String> = probe::names().collect();
    let borders = [
        0, 1, 0x3ff, 0x400, 0x401, 0x7f, 0x80, 0x3800, 0x3c00, 0x3c01, 0x3f80, 0x3f81,
    ];
    let ends = [
        0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x7f7f, 0x7f80, 0x7f81, 0x7fc0, 0x7fff,
    ];
    for dtype in [DataType::Float16, DataType::Bfloat16] {
        for op in ReduceOp::NCCL {
            let name = names::fold(dtype, Some(op)).expect("a kernel");
            let index = known.iter().position(|one| *one == name).expect("a fold");
            let drawn = std::array::from_fn::<u16, 8, _>(|_| random.u16(..));
            for other in borders.into_iter().chain(ends).chain(drawn) {
                let other = other ^ u16::from(random.bool()) << 15;
                let codes = (0..16_384u64)
                    .map(|word| (0..4).fold(0, |all, k| all | (4 * word + k) << (16 * k)));
                let others = std::iter::repeat_n(u64::from(other) * 0x1_0001_0001_0001, 16_384);
                let data: Vec<u64> = codes.chain(others).collect();
                let scalar = element_of(word(dtype, &mut random), dtype);
                let sources = (&data[..], 2, 16_384);
                compare(&name, index as u32, (dtype, op), sources, scalar);
            }
        }
    }
}

/// All codes of 8 bits with all others: 8 pairs in a word.
fn all_pairs() -> Vec<u64> {
    let words = 65_536 / 8;
    let of = |source: usize| {
        (0..words).map(move |word| {
            let pair = |k: usize| word * 8 + k;
            let byte = |k: usize| match source {
                0 => (pair(k) >> 8) as u8,
                _ => pair(k) as u8,
            };
            u64::from_le_bytes(std::array::from_fn(byte))
        })
    };
    of(0).chain(of(1)).collect()
}

fn word(dtype: DataType, random: &mut fastrand::Rng) -> u64 {
    let bytes = dtype.size_bytes();
    let element = |random: &mut fastrand::Rng| -> u64 {
        let (mantissa, width) = match dtype {
            DataType::Float16 => (10, 16),
            DataType::Bfloat16 => (7, 16),
            DataType::Float32 => (23, 32),
            DataType::Float64 => (52, 64),
            _ => return random.u64(..),
        };
        let sign = u64::from(random.bool()) << (width - 1);
        let low = random.u64(..) & ((1 << mantissa) - 1);
        let top = (1u64 << (width - 1 - mantissa)) - 1;
        sign | match random.u32(0..8) {
            0 => low,                         // subnormal or zero
            1 => top << mantissa,             // infinity
            2 => top << mantissa | low,       // NaN, as a rule
            3 => (top - 1) << mantissa | low, // about to overflow
            4 => 0,
            _ => (random.u64(..) & top) << mantissa | low,
        }
    };
    (0..8 / bytes).fold(0, |word, k| {
        word | element_of(element(random), dtype) << (8 * bytes * k)
    })
}

fn element_of(word: u64, dtype: DataType) -> u64 {
    match dtype.size_bytes() {
        8 => word,
        bytes => word & ((1 << (8 * bytes)) - 1),
    }
}

fn compare(
    name: &str,
    index: u32,
    (dtype, op): (DataType, ReduceOp),
    (data, srcs, words): (&[u64], usize, usize),
    scalar: u64,
) {
    let scaled = match op {
        ReduceOp::PreMulSum => 0b101 & ((1 << srcs) - 1),
        _ => 0,
    };
    let divisor = NonZeroU32::new(7).filter(|_| op == ReduceOp::Avg);
    let theirs = probe::fold(index, (data, srcs), scaled, scalar, divisor);
    let mut ours = vec![0u64; words];
    let mut first = [0; 16];
    first[..8].copy_from_slice(&scalar.to_le_bytes());
    let params = FoldParams {
        pre_scale_mask: scaled,
        scalar: first,
        divisor,
        ..FoldParams::default()
    };
    let fold = dtype::fold(dtype, op).expect("the type has the operation");
    let sources: Vec<*const u8> = (0..srcs)
        .map(|s| data[s * words..].as_ptr().cast())
        .collect();
    let count = words * 8 / dtype.size_bytes();
    // SAFETY: each source and the result hold `words` words.
    unsafe { fold(&sources, &[ours.as_mut_ptr().cast()], count, &params) };
    for (at, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
        let from: Vec<String> = (0..srcs)
            .map(|s| format!("{:016x}", data[s * words + at]))
            .collect();
        assert_eq!(
            theirs, ours,
            "{name} as {op:?} of {from:?}: {theirs:016x}, {ours:016x}"
        );
    }
}
