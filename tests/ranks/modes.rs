//! Threads with other floating-point modes than the default ones: all ranks get the same bits all
//! the same, and the program keeps its modes and flags.

use super::support::ranks;
use kolo::algo::{Entry, REGISTRY};
use kolo::comm::RawCalls;
use kolo::comm::{Call, Communicator, RedOp};
use kolo::dtype::{DataType, ReduceOp};
use kolo::plan::Collective;
use std::sync::Mutex;

/// Modes of the vector arithmetic and flags of this thread.
#[cfg(target_arch = "x86_64")]
mod control {
    use std::arch::asm;

    /// Subnormal numbers are flushed to zero, as results and as inputs; rounding upwards; both.
    pub const MODES: [u64; 4] = [0, 0x8040, 0x4000, 0xc040];

    pub fn read() -> u64 {
        let mut word = 0_u32;
        // SAFETY: writes the word.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack)) };
        u64::from(word)
    }

    /// Adds modes to the default ones.
    pub fn set(modes: u64) {
        let word = 0x1f80 | modes as u32;
        // SAFETY: no reserved bit is set, and no trap is on.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod control {
    use std::arch::asm;

    pub const MODES: [u64; 4] = [0, 1 << 24, 1 << 22, 1 << 24 | 1 << 22];

    pub fn read() -> u64 {
        let (modes, flags): (u64, u64);
        // SAFETY: reads two registers.
        unsafe { asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) modes, out(reg) flags) };
        modes << 32 | flags
    }

    pub fn set(modes: u64) {
        // SAFETY: no trap is on.
        unsafe { asm!("msr fpcr, {}", "msr fpsr, xzr", in(reg) modes) };
    }
}

const RANKS: u32 = 4;

/// Bytes that are numbers of any size, half of them subnormal or small, with a few odd ones.
fn input(rank: u32, dtype: DataType, count: usize, seed: u64) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(seed * 64 + u64::from(rank));
    let size = dtype.size_bytes();
    let mut words = vec![0_u64; count * size / 8 + 2];
    // SAFETY: the words are initialised bytes.
    let bytes: &mut [u8] =
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), count * size) };
    random.fill(bytes);
    let part = match size {
        16 => 8,
        size => size,
    };
    for part in bytes.chunks_exact_mut(part) {
        let top = part.len() - 1;
        match random.u8(..4) {
            // No bit of the exponent is set, or only its last ones.
            0 | 1 => {
                part[top] &= 0x80;
                if top > 0 {
                    part[top - 1] &= random.u8(..) & 0x1f;
                }
            }
            // Near to 1.
            2 if top > 0 => part[top] = 0x3f,
            _ => {}
        }
    }
    words
}

/// Results of every rank after a call of each type and operation.
fn results(entry: &Entry, modes: [u64; 4], settings: &[(&str, &str)], seed: u64) -> Vec<Vec<u8>> {
    let all = Mutex::new(vec![Vec::new(); RANKS as usize]);
    ranks(RANKS, settings, |comm| {
        let mut found = Vec::new();
        let handles = (0..16)
            .filter_map(|number| ReduceOp::from_number(number).map(|op| (op, RedOp(number))));
        for (op, handle) in handles {
            for dtype in DataType::ALL
                .into_iter()
                .filter(|&dtype| op.combines(dtype))
            {
                if entry.collective.is_scan() && op == ReduceOp::Avg {
                    continue;
                }
                let counts: &[usize] = match op {
                    ReduceOp::Sum => &[1, 37, 3001],
                    _ => &[1, 37],
                };
                for &count in counts {
                    one(
                        comm,
                        entry.collective,
                        (dtype, handle),
                        (count, seed),
                        modes,
                        &mut found,
                    );
                }
            }
        }
        for dtype in [DataType::Float32, DataType::Float64, DataType::Float16] {
            scaled(comm, entry.collective, dtype, seed, modes, &mut found);
        }
        all.lock().unwrap()[comm.rank() as usize] = found;
    });
    all.into_inner().unwrap()
}

/// A sum of contributions that are multiplied first.
fn scaled(
    comm: &Communicator,
    collective: Collective,
    dtype: DataType,
    seed: u64,
    modes: [u64; 4],
    found: &mut Vec<u8>,
) {
    let factor = input(comm.rank(), dtype, 8, seed + 1);
    // SAFETY: the words hold eight elements.
    let factor = unsafe { std::slice::from_raw_parts(factor.as_ptr().cast(), dtype.size_bytes()) };
    let handle = comm.pre_mul_sum(factor, dtype).expect("an operation");
    one(comm, collective, (dtype, handle), (37, seed), modes, found);
    comm.destroy_op(handle).expect("known");
}

/// One call, with this rank's modes.
fn one(
    comm: &Communicator,
    collective: Collective,
    (dtype, op): (DataType, RedOp),
    (count, seed): (usize, u64),
    modes: [u64; 4],
    found: &mut Vec<u8>,
) {
    let blocks = match collective {
        Collective::ReduceScatter => RANKS as usize,
        _ => 1,
    };
    let send = input(comm.rank(), dtype, count * blocks, seed);
    let bytes = count * dtype.size_bytes();
    let mut recv = vec![0x5a5a_5a5a_5a5a_5a5a_u64; bytes / 8 + 2];
    let call = Call {
        collective,
        send: send.as_ptr().cast(),
        recv: recv.as_mut_ptr().cast(),
        count,
        dtype,
        op,
        peer: 1,
    };
    control::set(modes[comm.rank() as usize]);
    let before = control::read();
    // SAFETY: the buffers hold the blocks of the call and outlive it.
    let ended = unsafe { comm.enqueue(&call, None) };
    let after = control::read();
    control::set(0);
    ended.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        after, before,
        "modes and flags after {collective:?} of {dtype:?}, {op:?}"
    );
    // SAFETY: the words hold so many bytes.
    found.extend(unsafe { std::slice::from_raw_parts(recv.as_ptr().cast::<u8>(), bytes) });
}

fn alike(entry: &Entry, settings: &[(&str, &str)]) {
    let seed = 16;
    let usual = results(entry, [0; 4], settings, seed);
    let odd = results(entry, control::MODES, settings, seed);
    for (rank, (usual, odd)) in usual.iter().zip(&odd).enumerate() {
        let different = usual.iter().zip(odd).filter(|(a, b)| a != b).count();
        let (name, algorithm) = (entry.collective.name(), entry.algorithm.name());
        assert_eq!(
            different, 0,
            "bytes of rank {rank}: {name} by {algorithm}, seed {seed}"
        );
        assert_eq!(usual.len(), odd.len());
    }
}

#[test]
fn bits_do_not_depend_on_the_modes_of_threads() {
    let known = |entry: &&Entry| {
        let mut words = kolo::config::Algo::WORDS.iter();
        words.any(|word| word.text == entry.algorithm.name())
    };
    let folds = |entry: &&Entry| entry.collective.reduces() && known(entry);
    for entry in REGISTRY.iter().filter(folds) {
        alike(
            entry,
            &[("algo", entry.algorithm.name()), ("buffsize", "64K")],
        );
    }
    // What runs unless something is forced, read where it lies or not.
    for collective in [
        Collective::AllReduce,
        Collective::Reduce,
        Collective::ReduceScatter,
    ] {
        if let Some(entry) = REGISTRY.iter().find(|entry| entry.collective == collective) {
            alike(entry, &[]);
            alike(entry, &[("direct", "0")]);
        }
    }
}

/// Exact sums are computed in integers, and in the default modes where not.
#[test]
fn exact_sums_do_not_depend_on_them_either() {
    let results = |modes: [u64; 4]| {
        let all = Mutex::new(vec![Vec::new(); RANKS as usize]);
        ranks(RANKS, &[], |comm| {
            let mut found = Vec::new();
            for dtype in [DataType::Float32, DataType::Float64] {
                for count in [1, 37, 5003] {
                    let what = (dtype, RedOp::SUM_EXACT);
                    one(
                        comm,
                        Collective::AllReduce,
                        what,
                        (count, 3),
                        modes,
                        &mut found,
                    );
                }
            }
            all.lock().unwrap()[comm.rank() as usize] = found;
        });
        all.into_inner().unwrap()
    };
    assert!(results([0; 4]) == results(control::MODES), "seed 3");
}
