//! Speed of the kernels of `kolo::dtype`, beside memcpy in the same run.
//!
//! `cargo bench --bench reduce` prints, for every instruction set of this machine, data type and
//! shape, the bytes read and written per second (GB/s, 10^9): median of five runs and the spread
//! (least to greatest). Ratios to memcpy of the same buffers count, not absolute numbers. Last
//! come calls of a few elements, in nanoseconds. Words after `--` choose lines that contain them
//! all, for example `cargo bench --bench reduce -- avx2 double`.

use kolo::base::clock;
use kolo::dtype::{self, DataType, FoldFn, FoldParams, Isa, ReduceOp};
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

const RUNS: usize = 5;
/// Two ranges: one that stays in a core's caches, one that does not.
const RANGES: [(&str, usize); 2] = [("256 KiB", 256 << 10), ("64 MiB", 64 << 20)];

/// Page-aligned enough and never zero pages: every byte is written first.
struct Buffer(Vec<u64>);

impl Buffer {
    fn new(bytes: usize, seed: u64) -> Buffer {
        // 1.0 in float and double, moderate numbers elsewhere: no subnormal or NaN slow paths.
        Buffer(vec![0x3ff0_0000_3f80_0000 + seed; bytes / 8])
    }

    fn pointer(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Median, least and greatest of [`RUNS`] runs of `work`, in seconds per call.
fn measure(least: Duration, mut work: impl FnMut()) -> [f64; 3] {
    work();
    let mut seconds: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = clock::now();
            let mut calls = 0u32;
            while calls == 0 || start.elapsed() < least {
                work();
                calls += 1;
            }
            start.elapsed().as_secs_f64() / f64::from(calls)
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    [seconds[RUNS / 2], seconds[0], seconds[RUNS - 1]]
}

fn wanted(line: &str) -> bool {
    std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .all(|word| line.contains(&word))
}

fn print(line: &str, range: &str, bytes: usize, seconds: [f64; 3], memcpy: f64) {
    let [median, least, greatest] = seconds.map(|s| bytes as f64 / s / 1e9);
    println!(
        "{line:<44} {range:>8} {median:8.2} GB/s ({greatest:.2} - {least:.2})  {:5.2} x memcpy",
        median / memcpy
    );
}

/// The parameters that make an operation do its work.
fn params(op: ReduceOp, dtype: DataType, stream: bool) -> FoldParams {
    FoldParams {
        pre_scale_mask: u64::from(op == ReduceOp::PreMulSum),
        scalar: match dtype {
            DataType::Float32 => 1f64.to_bits().rotate_left(32).into(),
            _ => 0x3ff0_0000_3c00_0001u128,
        }
        .to_ne_bytes(),
        divisor: NonZeroU32::new(2).filter(|_| op == ReduceOp::Avg),
        stream_mask: if stream { u64::MAX } else { 0 },
        ..FoldParams::default()
    }
}

struct Bench {
    buffers: Vec<Buffer>,
    bytes: usize,
    range: &'static str,
    memcpy: f64,
}

impl Bench {
    fn new(range: &'static str, bytes: usize) -> Bench {
        let mut buffers: Vec<Buffer> = (0..5).map(|seed| Buffer::new(bytes, seed)).collect();
        let (from, to) = (buffers[0].pointer(), buffers[1].pointer());
        let seconds = measure(Duration::from_millis(30), || {
            // SAFETY: two distinct buffers of `bytes` bytes.
            unsafe { to.copy_from_nonoverlapping(black_box(from), bytes) };
            black_box(to);
        });
        let memcpy = 2.0 * bytes as f64 / seconds[0] / 1e9;
        print("memcpy", range, 2 * bytes, seconds, memcpy);
        Bench {
            buffers,
            bytes,
            range,
            memcpy,
        }
    }

    /// Buffers `0..srcs` are sources, the last `dsts` ones destinations.
    fn run(&mut self, line: &str, kernel: FoldFn, shape: (usize, usize), params: &FoldParams) {
        let line = format!("{line} {}x{}", shape.0, shape.1);
        if !wanted(&line) {
            return;
        }
        let pointers: Vec<*mut u8> = self.buffers.iter_mut().map(Buffer::pointer).collect();
        let srcs: Vec<*const u8> = pointers[..shape.0].iter().map(|p| p.cast_const()).collect();
        let dsts = &pointers[pointers.len() - shape.1..];
        let element = line
            .split(' ')
            .nth(1)
            .and_then(DataType::from_name)
            .map_or(1, DataType::size_bytes);
        let count = self.bytes / element;
        let seconds = measure(Duration::from_millis(20), || {
            // SAFETY: five distinct buffers of `bytes` bytes, at most five used.
            unsafe { kernel(black_box(&srcs), black_box(dsts), count, params) };
        });
        print(
            &line,
            self.range,
            (shape.0 + shape.1) * self.bytes,
            seconds,
            self.memcpy,
        );
    }
}

fn ranges() {
    for (range, bytes) in RANGES {
        let mut bench = Bench::new(range, bytes);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let name = isa.name();
            let copy = dtype::copy_of(isa).expect("available");
            for stream in [false, true] {
                let line = format!("{name} copy{}", if stream { " stream" } else { "" });
                let params = params(ReduceOp::Sum, DataType::Uint8, stream);
                bench.run(&line, copy, (1, 1), &params);
                bench.run(&line, copy, (1, 2), &params);
            }
            for dtype in DataType::ALL {
                for op in dtype.operations() {
                    let kernel = dtype::fold_of(isa, dtype, op).expect("available");
                    let line = format!("{name} {dtype} {op}");
                    bench.run(&line, kernel, (2, 1), &params(op, dtype, false));
                    if matches!(op, ReduceOp::Sum) && dtype.size_bytes() >= 4 {
                        bench.run(&line, kernel, (2, 2), &params(op, dtype, false));
                        bench.run(&line, kernel, (4, 1), &params(op, dtype, false));
                        let line = format!("{line} stream");
                        bench.run(&line, kernel, (2, 1), &params(op, dtype, true));
                        bench.run(&line, kernel, (2, 2), &params(op, dtype, true));
                    }
                }
            }
        }
    }
}

/// Calls of a few elements: what a small all-reduce pays.
fn small() {
    let mut buffers: Vec<Buffer> = (0..4).map(|seed| Buffer::new(1024, seed)).collect();
    let pointers: Vec<*mut u8> = buffers.iter_mut().map(Buffer::pointer).collect();
    let dsts = [pointers[3]];
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        for dtype in [
            DataType::Float64,
            DataType::Int64,
            DataType::Float32,
            DataType::Int8,
        ] {
            let kernel = dtype::fold_of(isa, dtype, ReduceOp::Sum).expect("available");
            for (nsrcs, count) in [
                (2, 1),
                (2, 2),
                (2, 5),
                (2, 8),
                (2, 15),
                (2, 40),
                (3, 1),
                (3, 5),
            ] {
                let line = format!("{} {dtype} sum {nsrcs}x1 of {count}", isa.name());
                if !wanted(&line) {
                    continue;
                }
                let srcs: Vec<*const u8> =
                    pointers[..nsrcs].iter().map(|p| p.cast_const()).collect();
                let params = FoldParams::default();
                let seconds = measure(Duration::from_millis(5), || {
                    for _ in 0..1000 {
                        // SAFETY: four distinct buffers of 1024 bytes.
                        unsafe {
                            black_box(kernel)(black_box(&srcs), black_box(&dsts), count, &params)
                        };
                    }
                });
                let [median, least, greatest] = seconds.map(|s| s * 1e6);
                println!("{line:<44} {median:8.2} ns ({least:.2} - {greatest:.2})");
            }
        }
    }
}

fn main() {
    println!("chosen here: {}", dtype::isa_name());
    ranges();
    small();
}
