//! Every collective gives on devices what it gives on the host.

use super::drawn;
use super::ranks::{DEVICES, POISON, Rank, ranks};
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, RedOp};
use kolo::dtype::{DataType, ReduceOp};

/// Collectives with buffers of one size on each side.
pub const COLLECTIVES: [Collective; 11] = [
    Collective::AllReduce,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::AllToAll,
    Collective::Gather,
    Collective::Scatter,
    Collective::Scan,
    Collective::Exscan,
    Collective::Barrier,
];

/// The seed of everything that is drawn; `KOLO_TEST_SEED` draws it again.
pub fn seed() -> u64 {
    let seed = std::env::var("KOLO_TEST_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("KOLO_TEST_SEED={seed}");
    seed
}

/// Elements whose sums and products are exact in every type: 1, 2 or -1, or 0 and 1 where there is
/// no sign and little room.
fn elements(dtype: DataType, count: usize, random: &mut fastrand::Rng) -> Vec<u8> {
    let small = [0u8, 1, 1, 2];
    let one = |random: &mut fastrand::Rng| -> Vec<u8> {
        let value = small[random.usize(..4)];
        match dtype {
            DataType::Float64 => f64::from(value).to_le_bytes().to_vec(),
            DataType::Float32 => f32::from(value).to_le_bytes().to_vec(),
            // 0, 1 and 2 in the narrow formats.
            DataType::Float16 => [0u16, 0x3c00, 0x4000][usize::from(value)]
                .to_le_bytes()
                .to_vec(),
            DataType::Bfloat16 => [0u16, 0x3f80, 0x4000][usize::from(value)]
                .to_le_bytes()
                .to_vec(),
            DataType::Float8e4m3 => vec![[0u8, 0x38, 0x40][usize::from(value)]],
            // Sums above 8 are not exact in it: no 2 among them.
            DataType::Float8e5m2 => vec![[0u8, 0x3c, 0x3c][usize::from(value)]],
            _ => {
                let mut bytes = vec![0; dtype.size_bytes()];
                bytes[0] = value;
                bytes
            }
        }
    };
    (0..count).flat_map(|_| one(random)).collect()
}

/// One call, as all ranks know it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    collective: Collective,
    dtype: DataType,
    op: RedOp,
    count: usize,
    root: u32,
    in_place: bool,
    seed: u64,
}

pub fn draw(collective: Collective, nranks: u32, random: &mut fastrand::Rng) -> Case {
    let dtype = DataType::NCCL[random.usize(..12)];
    let ops = [RedOp::SUM, RedOp::PROD, RedOp::MAX, RedOp::MIN, RedOp::AVG];
    let op = match collective.is_scan() {
        true => ops[random.usize(..4)],
        false => ops[random.usize(..5)],
    };
    // Around the borders of lines, slots and channels.
    let counts = [1, 2, 7, 64, 1000, 5000, 20_000];
    Case {
        collective,
        dtype,
        op,
        count: counts[random.usize(..7)] + random.usize(..3),
        root: random.u32(..nranks),
        in_place: random.bool(),
        seed: random.u64(..),
    }
}

impl Case {
    fn input(&self, rank: u32, blocks: u32) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(self.seed ^ u64::from(rank + 1) << 40);
        elements(self.dtype, self.count * blocks as usize, &mut random)
    }

    /// Bytes of the buffers of a rank.
    fn bytes(&self, rank: u32, nranks: u32) -> (usize, usize) {
        let (sent, received) = self.collective.blocks((rank, self.root, nranks));
        let block = self.count * self.dtype.size_bytes();
        (sent as usize * block, received as usize * block)
    }

    fn call(&self, send: *const u8, recv: *mut u8) -> Call {
        Call {
            collective: self.collective,
            send,
            recv,
            count: match self.collective {
                Collective::Barrier => 0,
                _ => self.count,
            },
            dtype: self.dtype,
            op: self.op,
            peer: self.root,
        }
    }

    /// Where the send buffer lies in the receive buffer, or the other way round.
    fn place(&self, rank: &Rank) -> Option<(usize, usize)> {
        let block = rank.number() as usize * self.count * self.dtype.size_bytes();
        match self.collective {
            _ if !self.in_place => None,
            Collective::AllReduce | Collective::Scan => Some((0, 0)),
            Collective::AllGather => Some((block, 0)),
            Collective::ReduceScatter => Some((0, block)),
            _ => None,
        }
    }

    /// Runs it on the host and on the device, and compares.
    pub fn check(&self, rank: &Rank) {
        let nranks = rank.comm.nranks();
        let (sent, received) = self.bytes(rank.number(), nranks);
        let blocks = self.collective.blocks((rank.number(), self.root, nranks)).0;
        let input = self.input(rank.number(), blocks);
        assert_eq!(input.len(), sent);
        let mut wanted = vec![POISON; received];
        let on_host = self.call(input.as_ptr(), wanted.as_mut_ptr());
        rank.on_host(&on_host)
            .unwrap_or_else(|error| panic!("{self:?} on the host: {error}"));
        let (got, kept) = match self.place(rank) {
            None => {
                let (send, recv) = (rank.buffer(&input), rank.poisoned(received));
                let call = self.call(send.at(0), recv.at(0));
                rank.put(&call)
                    .unwrap_or_else(|error| panic!("{self:?}: {error}"));
                (rank.read(&recv), Some(rank.read(&send)))
            }
            Some((out, into)) => {
                let mut whole = vec![POISON; sent.max(received)];
                whole[out..out + sent].copy_from_slice(&input);
                let buffer = rank.buffer(&whole);
                let call = self.call(buffer.at(out), buffer.at(into));
                rank.put(&call)
                    .unwrap_or_else(|error| panic!("{self:?}: {error}"));
                (rank.read(&buffer)[into..into + received].to_vec(), None)
            }
        };
        let element = self.dtype.size_bytes();
        if let Some(at) = (0..received).find(|&at| got[at] != wanted[at]) {
            let of = at / element * element;
            panic!(
                "{self:?}, rank {}, element {} of {}: {:02x?}, and the host has {:02x?}",
                rank.number(),
                at / element,
                received / element,
                &got[of..of + element],
                &wanted[of..of + element]
            );
        }
        assert!(
            kept.is_none_or(|kept| kept == input),
            "{self:?} has changed its send buffer"
        );
    }
}

#[test]
fn every_collective_gives_on_devices_what_it_gives_on_the_host() {
    let seed = seed();
    for nranks in [1, 2, 3, 5, DEVICES] {
        let devices: Vec<u32> = (0..nranks).collect();
        ranks(&devices, &[], |rank| {
            let mut random = fastrand::Rng::with_seed(seed ^ u64::from(nranks));
            for collective in COLLECTIVES {
                for _ in 0..2 {
                    draw(collective, nranks, &mut random).check(rank);
                }
            }
            if nranks > 1 {
                rank.has_done_its_steps();
            }
        });
    }
}

#[test]
fn every_type_and_operation_is_reduced() {
    let seed = seed();
    ranks(&[0, 1, 2], &[], |rank| {
        let mut random = fastrand::Rng::with_seed(seed);
        for dtype in DataType::NCCL {
            for op in [RedOp::SUM, RedOp::PROD, RedOp::MAX, RedOp::MIN, RedOp::AVG] {
                let case = Case {
                    dtype,
                    op,
                    count: 300 + random.usize(..3),
                    ..draw(Collective::AllReduce, 3, &mut random)
                };
                case.check(rank);
            }
        }
        assert_eq!(ReduceOp::NCCL.len(), 6, "and one that is made");
        rank.has_done_its_steps();
    });
}

/// Each rank's factor is its own, and is taken when the call is made.
#[test]
fn a_pre_multiplied_sum_takes_its_factor_at_the_call() {
    for nranks in [1, 3] {
        let devices: Vec<u32> = (0..nranks).collect();
        ranks(&devices, &[], |rank| {
            let factor = f64::from(rank.number() + 2);
            let op = rank
                .comm
                .pre_mul_sum(&factor.to_le_bytes(), DataType::Float64);
            let op = op.expect("an operation");
            let data: Vec<f64> = (0..500)
                .map(|i| f64::from(i + 1000 * rank.number()))
                .collect();
            let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
            let (send, recv) = (rank.buffer(&bytes), rank.poisoned(bytes.len()));
            let call = Call {
                collective: Collective::AllReduce,
                send: send.at(0),
                recv: recv.at(0),
                count: 500,
                dtype: DataType::Float64,
                op,
                peer: 0,
            };
            rank.put(&call).expect("a call");
            rank.comm.destroy_op(op).expect("it was taken");
            let got = rank.read(&recv);
            for (i, got) in got.chunks_exact(8).enumerate() {
                let wanted: f64 = (0..nranks)
                    .map(|r| f64::from(r + 2) * f64::from(i as u32 + 1000 * r))
                    .sum();
                assert_eq!(f64::from_le_bytes(got.try_into().expect("8 bytes")), wanted);
            }
        });
    }
}

/// Every protocol and a choice of algorithms, named by settings.
#[test]
fn protocols_and_algorithms_that_are_named_run() {
    let seed = seed();
    let of = |proto| ["ring", "tree", "oneshot", "rd", "pat"].map(|algo| (proto, algo));
    let all = ["simple", "ll", "ll128"].map(|proto| of(proto).to_vec());
    for (proto, algo) in drawn::of_each("named", all, 2) {
        let settings = [("proto", proto), ("algo", algo)];
        ranks(&[2, 0, 5, 1], &settings, |rank| {
            let mut random = fastrand::Rng::with_seed(seed);
            for collective in COLLECTIVES {
                draw(collective, 4, &mut random).check(rank);
            }
            rank.has_done_its_steps();
        });
    }
}

/// Ranks that share a device, and ranks that have one each, together.
#[test]
fn several_ranks_share_a_device() {
    let seed = seed();
    ranks(&[0, 0, 1, 1, 0], &[], |rank| {
        let mut random = fastrand::Rng::with_seed(seed);
        for collective in COLLECTIVES {
            draw(collective, 5, &mut random).check(rank);
        }
        rank.has_done_its_steps();
    });
}
