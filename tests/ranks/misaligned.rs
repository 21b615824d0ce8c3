//! Buffers whose addresses are no multiples of anything, as packed records have them.

use super::support::ranks;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, Communicator, RedOp};
use kolo::dtype::DataType;

/// `values` as bytes, `shift` bytes into memory that begins at a multiple of 64.
struct Shifted {
    memory: Vec<[u64; 8]>,
    shift: usize,
}

impl Shifted {
    fn new(bytes: &[u8], shift: usize) -> Shifted {
        let mut memory = vec![[u64::MAX; 8]; bytes.len() / 64 + 2];
        // SAFETY: there is room for the bytes and a line more.
        unsafe {
            let start = memory.as_mut_ptr().cast::<u8>().add(shift);
            start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Shifted { memory, shift }
    }

    fn place(&mut self) -> *mut u8 {
        self.memory
            .as_mut_ptr()
            .cast::<u8>()
            .wrapping_add(self.shift)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        // SAFETY: inside of the memory.
        unsafe { std::slice::from_raw_parts(self.place(), length) }.to_vec()
    }
}

/// Small whole numbers in the type, which every sum of a few ranks holds exactly.
fn bytes_of(dtype: DataType, count: usize, value: impl Fn(usize) -> u8) -> Vec<u8> {
    let element = |at: usize| match dtype {
        DataType::Float64 => f64::from(value(at)).to_ne_bytes().to_vec(),
        DataType::Float32 => f32::from(value(at)).to_ne_bytes().to_vec(),
        DataType::Int64 => i64::from(value(at)).to_ne_bytes().to_vec(),
        _ => u32::from(value(at)).to_ne_bytes().to_vec(),
    };
    (0..count).flat_map(element).collect()
}

fn check(comm: &Communicator, dtype: DataType, count: usize, shifts: [usize; 2]) {
    let (rank, n) = (comm.rank() as usize, comm.nranks() as usize);
    let value = |rank: usize, at: usize| ((rank * 7 + at) % 13) as u8;
    let bytes = count * dtype.size_bytes();
    let mut send = Shifted::new(&bytes_of(dtype, count, |at| value(rank, at)), shifts[0]);
    for collective in [Collective::AllReduce, Collective::AllGather] {
        let blocks = if collective == Collective::AllGather {
            n
        } else {
            1
        };
        let mut recv = Shifted::new(&vec![0xa5; blocks * bytes], shifts[1]);
        let call = Call {
            collective,
            send: send.place(),
            recv: recv.place(),
            count,
            dtype,
            op: RedOp::SUM,
            peer: 0,
        };
        // SAFETY: the buffers hold what the call says, and live until it has ended.
        unsafe { comm.enqueue(&call, None) }.unwrap();
        let expected = match collective {
            Collective::AllGather => (0..n)
                .flat_map(|from| bytes_of(dtype, count, |at| value(from, at)))
                .collect(),
            _ => bytes_of(dtype, count, |at| (0..n).map(|from| value(from, at)).sum()),
        };
        let found = recv.bytes(blocks * bytes);
        assert!(
            found == expected,
            "{collective:?} of {count} {dtype}, {shifts:?}"
        );
        let behind = recv.place().wrapping_add(blocks * bytes);
        // SAFETY: inside of the memory.
        let behind = unsafe { *behind };
        assert_eq!(behind, 0xff, "nothing is written behind the end");
    }
}

#[test]
fn buffers_may_lie_anywhere() {
    let types = [
        DataType::Float64,
        DataType::Float32,
        DataType::Int64,
        DataType::Uint32,
    ];
    ranks(3, &[], |comm| {
        for dtype in types {
            for count in [1, 100, 3_000, 20_000, 150_001] {
                for shifts in [[1, 0], [0, 3], [5, 2]] {
                    check(comm, dtype, count, shifts);
                }
            }
        }
    });
}
