//! The blocks that a device runs at a time, and which communicators of this process have them.
//!
//! **Problem.** Kernels of a communicator wait for each other, and keep their blocks meanwhile.
//! Where kernels of two communicators do not fit a device together, and do not begin in the same
//! order on all devices, each may have the place that the other waits for: for ever.
//!
//! **Idea.** Each rank has a *share* of its device as long as a kernel of it may run, and no launch
//! of it has more blocks. The shares of a device are together no more than it runs, so whatever is
//! in flight fits, in whichever order it comes; blocks pass several lanes in turn, so few are
//! enough. A communicator takes at most a quarter of what the others have left, or what the lanes
//! of its messages need: the first ones have all that they can use, later ones less.
//!
//! Other processes on the device have ledgers of their own.

use super::launch::MAX_LANES;
use crate::cuda;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Blocks of a launch, at most, however many fit.
pub const MOST_BLOCKS: u32 = 64;
/// A communicator leaves the others this many times what it takes.
const PARTS: u32 = 4;

/// A rank's demand for blocks of its device.
#[derive(Clone, Copy, Debug)]
pub struct BlockDemand {
    /// The device, by the number that this process gives it.
    pub device: u32,
    /// The communicator.
    pub name: u128,
    /// Blocks of the communicator's size that the device runs at a time.
    pub resident: u32,
    /// Ranks of the communicator on the device.
    pub ranks: u32,
    /// Blocks that the rank can use: see [`useful`].
    pub useful: u32,
    /// Blocks without which no launch holds messages to and from all ranks: see [`least`].
    pub least: u32,
}

/// Blocks that one rank has on its device, until this is dropped: when its engine is gone, and all
/// graphs with its calls.
#[derive(Debug)]
pub struct BlockShare {
    /// Tells it from all others.
    number: u64,
    blocks: u32,
}

/// A share, as the ledger has it.
struct BlockEntry {
    number: u64,
    demand: BlockDemand,
    blocks: u32,
    /// There was no block left for it.
    is_beyond: bool,
}

struct BlockLedger {
    entries: Vec<BlockEntry>,
    taken: u64,
}

static LEDGER: Mutex<BlockLedger> = Mutex::new(BlockLedger {
    entries: Vec::new(),
    taken: 0,
});

fn ledger() -> MutexGuard<'static, BlockLedger> {
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks that launches with so many channels use at full speed, where there are so many ranks:
/// plans of collectives have one lane or two for each channel, and blocks must hold the lanes of
/// messages to and from all ranks.
pub fn useful(nranks: u32, channels: u16) -> u32 {
    let lanes = 2 * u32::from(channels);
    lanes.max(least(nranks, channels)).clamp(1, MOST_BLOCKS)
}

/// Blocks that hold the lanes of messages to and from so many ranks.
pub fn least(nranks: u32, channels: u16) -> u32 {
    let lanes = 2 * u64::from(nranks) * u64::from(channels);
    lanes.div_ceil(MAX_LANES as u64).min(MOST_BLOCKS.into()) as u32
}

/// Blocks of a device that ranks of this process have.
pub fn held(device: u32) -> u32 {
    let ledger = ledger();
    ledger.on(device).map(|entry| entry.blocks).sum()
}

impl BlockLedger {
    fn on(&self, device: u32) -> impl Iterator<Item = &BlockEntry> {
        let entries = self.entries.iter();
        entries.filter(move |entry| entry.demand.device == device)
    }

    /// Blocks for a rank, none if the others have all; and how many the device runs.
    ///
    /// Where blocks have different numbers of threads, each counts as one of the largest: wherever
    /// fewer of these are than a multiprocessor holds, a block of any size fits beside them.
    fn free_for(&self, demand: &BlockDemand) -> (u32, u32) {
        let residents = self.on(demand.device).map(|entry| entry.demand.resident);
        let resident = residents.min().unwrap_or(u32::MAX).min(demand.resident);
        let sum = |of_others: bool| -> u32 {
            let held = self.on(demand.device);
            let held = held.filter(|it| !of_others || it.demand.name != demand.name);
            held.map(|entry| entry.blocks).sum()
        };
        let left = resident.saturating_sub(sum(false));
        let free = resident.saturating_sub(sum(true));
        let part = free / (PARTS * demand.ranks.max(1));
        (
            demand.useful.min(part.max(demand.least).max(1)).min(left),
            resident,
        )
    }

    /// How many other communicators have blocks of the device, the first time that there is none
    /// for this one.
    fn is_first_beyond(&self, demand: &BlockDemand) -> Option<usize> {
        let is_own = |entry: &&BlockEntry| entry.demand.name == demand.name;
        if self.on(demand.device).filter(is_own).any(|it| it.is_beyond) {
            return None;
        }
        let others = self.on(demand.device).filter(|it| !is_own(it));
        let mut names: Vec<u128> = others.map(|entry| entry.demand.name).collect();
        names.sort_unstable();
        names.dedup();
        Some(names.len())
    }
}

impl BlockShare {
    /// Blocks for a rank. Where others have all, it gets one nevertheless, and a warning says so
    /// once.
    pub fn take(demand: &BlockDemand) -> BlockShare {
        // Graphs that are gone have shares until somebody looks.
        cuda::drop_unused();
        let mut ledger = ledger();
        let (blocks, resident) = ledger.free_for(demand);
        let is_beyond = blocks == 0;
        let blocks = blocks.max(1);
        let others = match is_beyond {
            true => ledger.is_first_beyond(demand),
            false => None,
        };
        ledger.taken += 1;
        let number = ledger.taken;
        ledger.entries.push(BlockEntry {
            number,
            demand: *demand,
            blocks,
            is_beyond,
        });
        drop(ledger);
        if let Some(others) = others {
            tracing::warn!(
                "kolo: CUDA device {} runs {resident} blocks at a time, and {others} other \
                 communicators of this process have them all. This one takes a block more, so its \
                 calls may wait for theirs for ever, and theirs for its. Destroy communicators, \
                 and graphs with calls of them, or lower KOLO_MAX_NCHANNELS or KOLO_NTHREADS; \
                 else make the calls of different communicators on one stream, in the same order \
                 on all ranks",
                demand.device
            );
        }
        BlockShare { number, blocks }
    }

    /// Most blocks of a launch.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }
}

impl Drop for BlockShare {
    fn drop(&mut self) {
        ledger().entries.retain(|entry| entry.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Devices of these tests: each has its own, as they run side by side.
    const DRAWN: u32 = 1000;

    fn demand(device: u32, name: u128, resident: u32, ranks: u32) -> BlockDemand {
        let useful = useful(8, 8);
        BlockDemand {
            device,
            name,
            resident,
            ranks,
            useful,
            least: least(8, 8),
        }
    }

    #[test]
    fn the_first_have_what_they_use_and_later_ones_less() {
        for (device, resident, wanted) in [
            (1, 16, &[4, 3, 2, 1, 1, 1, 1, 1, 1, 1][..]),
            (2, 64, &[16, 12, 9, 6, 5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1]),
            (
                3,
                132,
                &[&[16; 5], &[13, 9, 7, 5, 4, 3, 2, 2][..], &[1; 7]].concat(),
            ),
        ] {
            let take = |name| BlockShare::take(&demand(device, name, resident, 1));
            let shares: Vec<BlockShare> = (0..wanted.len() as u128).map(take).collect();
            let blocks: Vec<u32> = shares.iter().map(BlockShare::blocks).collect();
            assert_eq!(blocks, wanted, "{resident}");
            assert_eq!(held(device), resident, "nothing is left");
            drop(shares);
            assert_eq!(held(device), 0);
        }
    }

    #[test]
    fn ranks_of_a_device_share_what_others_leave() {
        let shares: Vec<BlockShare> = (0..3)
            .map(|_| BlockShare::take(&demand(10, 1, 64, 3)))
            .collect();
        assert!(shares.iter().all(|share| share.blocks() == 5));
        // Without a block left, one more is taken.
        let full: Vec<BlockShare> = (0..2)
            .map(|name| BlockShare::take(&demand(11, name, 1, 1)))
            .collect();
        assert!(full.iter().all(|share| share.blocks() == 1));
        assert_eq!(held(11), 2);
    }

    /// On a device that is nearly full a rank has what its messages need, if so much is left.
    #[test]
    fn a_share_holds_the_lanes_of_messages() {
        let taken = |name, least, useful| {
            let mut demand = demand(12, name, 8, 1);
            (demand.least, demand.useful) = (least, useful);
            BlockShare::take(&demand)
        };
        let shares = [
            taken(1, 1, 1),
            taken(2, 4, 16),
            taken(3, 1, 16),
            taken(4, 5, 16),
        ];
        assert_eq!(shares.map(|share| share.blocks()), [1, 4, 1, 2]);
    }

    #[test]
    fn useful_blocks_hold_all_lanes() {
        assert_eq!([useful(8, 8), useful(2, 1), useful(8, 32)], [16, 2, 64]);
        assert_eq!(useful(1, 0), 1);
        for nranks in [2, 100, 700, 1024] {
            let lanes = 2 * nranks as usize * 8;
            assert!(lanes <= useful(nranks, 8) as usize * MAX_LANES, "{nranks}");
        }
        assert_eq!(useful(u32::MAX, u16::MAX), MOST_BLOCKS);
    }

    /// Blocks of few threads leave room for large ones, and large ones are counted for them.
    #[test]
    fn blocks_of_different_sizes_count_as_the_largest() {
        let small = BlockShare::take(&demand(20, 1, 64, 1));
        let large = BlockShare::take(&demand(20, 2, 20, 1));
        assert_eq!((small.blocks(), large.blocks()), (16, 1));
        let others: Vec<BlockShare> = (3..6)
            .map(|name| BlockShare::take(&demand(20, name, 64, 1)))
            .collect();
        assert!(others.iter().all(|share| share.blocks() == 1));
        assert_eq!(held(20), 20);
    }

    /// Whatever comes and goes: as long as nobody had to take a block beyond, all fit.
    #[test]
    fn shares_that_are_drawn_fit_their_device() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut beyond = 0;
        for device in DRAWN..DRAWN + 60 {
            let resident = random.u32(1..100);
            let mut living: Vec<(BlockShare, bool)> = Vec::new();
            for name in 0..80 {
                if !living.is_empty() && random.u32(..5) < 2 {
                    living.swap_remove(random.usize(..living.len()));
                    continue;
                }
                let mut asked = demand(device, name / 3, resident, random.u32(1..4));
                asked.useful = random.u32(1..=MOST_BLOCKS);
                let before = held(device);
                let share = BlockShare::take(&asked);
                assert!((1..=asked.useful).contains(&share.blocks()));
                let is_beyond = before >= resident;
                beyond += u32::from(is_beyond);
                assert!(!is_beyond || share.blocks() == 1);
                living.push((share, is_beyond));
                let all: u32 = living.iter().map(|(share, _)| share.blocks()).sum();
                assert_eq!(held(device), all);
                if living.iter().all(|(_, is_beyond)| !is_beyond) {
                    assert!(all <= resident, "{all} of {resident}");
                }
            }
        }
        assert!(beyond > 0, "some devices were full");
    }

    /// Threads that take at once, with as many blocks as there are threads: each finds its own.
    #[test]
    fn threads_that_take_at_once_fit_together() {
        let device = DRAWN + 100;
        for _ in 0..50 {
            let (threads, resident) = (8, 8);
            let barrier = std::sync::Barrier::new(threads);
            let most = Mutex::new(HashMap::new());
            std::thread::scope(|scope| {
                for name in 0..threads {
                    let (barrier, most) = (&barrier, &most);
                    scope.spawn(move || {
                        let asked = demand(device, (name / 2) as u128, resident, 2);
                        barrier.wait();
                        let share = BlockShare::take(&asked);
                        barrier.wait();
                        most.lock().expect("whole").insert(name, held(device));
                        assert_eq!(share.blocks(), 1);
                        barrier.wait();
                    });
                }
            });
            let most = most.lock().expect("whole");
            assert!(most.values().all(|&held| held == resident), "{most:?}");
            assert_eq!(held(device), 0);
        }
    }
}
